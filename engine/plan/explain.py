"""A plan as text: the files that will be read, and why others are skipped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from morrow.engine.plan.predicate import ALWAYS, conjuncts
from morrow.engine.plan.scan_plan import ScanPlan, Section, SectionKind
from morrow.engine.wording import moment_text, plural, size_text

MOST_SECTIONS = 10
MOST_COLUMNS = 40


def explain(plan: ScanPlan) -> str:
    """Formats the plan, one fact a line."""
    return "\n".join(line for part in plan.parts for line in _lines(part))


def _lines(plan: ScanPlan) -> Iterator[str]:
    yield f"Scan of {plan.table}"
    if plan.snapshot is None:
        yield "  snapshot   none: the table has no committed data"
        return
    read = plan.snapshot
    yield f"  snapshot   {read.id} ({read.commit_kind}, {moment_text(read.time)}), schema {plan.schema.id}"
    more = f", ... and {len(plan.columns) - MOST_COLUMNS:,} more" if len(plan.columns) > MOST_COLUMNS else ""
    yield f"  columns    {', '.join(plan.columns[:MOST_COLUMNS]) or '(none)'}{more}"
    yield from _filter_lines(plan)
    if plan.limit is not None:
        yield f"  limit      {plan.limit}"
    merge = str(plan.merge or "none: an append table")
    yield f"  merge      {merge}".replace("\n", "\n" + " " * 11)
    for step in plan.steps:
        yield f"  pruned     {step.name}: kept {step.kept:,} of {step.of:,}"
    files = plan.files
    size, rows = sum(f.size for f in files), sum(f.row_count for f in files)
    yield f"  files      {plural(len(files), 'file')}, {size_text(size)}, {plural(rows, 'row')} stored"
    yield f"  masks      {_masks(plan)}"
    yield f"  sections   {_kinds(plan)}"
    for section in plan.sections[:MOST_SECTIONS]:
        yield f"    {_section(plan, section)}"
    if len(plan.sections) > MOST_SECTIONS:
        yield f"    ... and {len(plan.sections) - MOST_SECTIONS:,} more"


def _filter_lines(plan: ScanPlan) -> Iterator[str]:
    if plan.filter.predicate == ALWAYS and not plan.filter.residuals:
        yield "  filter     none"
        return
    if plan.filter.predicate != ALWAYS:
        for part in conjuncts(plan.filter.predicate):
            yield f"  pushed     {part}"
    for residual in plan.filter.residuals:
        yield f"  after      {residual.text} ({residual.kind} expression on the rows read)"


def _masks(plan: ScanPlan) -> str:
    vectors = sum(file.deletion is not None for file in plan.files)
    merged = sum(len(s.files) for s in plan.sections if s.kind is SectionKind.MERGE)
    dead = [f.deletion.cardinality for f in plan.files if f.deletion is not None]
    known = "" if None in dead else f" ({plural(sum(d for d in dead if d is not None), 'dead row')})"
    return (
        f"{plural(vectors, 'deletion vector')}{known if vectors else ''}, {plural(merged, 'file')} masked by their keys"
    )


def _kinds(plan: ScanPlan) -> str:
    counts = Counter(section.kind for section in plan.sections)
    return ", ".join(f"{counts[kind]:,} {kind.value}" for kind in SectionKind if counts[kind]) or "none"


def _section(plan: ScanPlan, section: Section) -> str:
    values = ", ".join(f"{k}={v!s}" for k, v in zip(plan.schema.partition_keys, section.partition, strict=True))
    where = f"{values}, bucket {section.bucket}" if values else f"bucket {section.bucket}"
    levels = ",".join(map(str, sorted({file.level for file in section.files})))
    formats = ",".join(sorted({file.format for file in section.files}))
    files, rows = plural(len(section.files), f"{formats} file"), plural(section.row_count, "row")
    return f"{section.kind.value:6} {where}: {files} at level {levels}, {rows}, {size_text(section.size)}"
