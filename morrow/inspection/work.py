"""What is to do and what it costs: the next compaction, read and write amplification, how a filter prunes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import polars as pl

from morrow.doctor.subject import Subject
from morrow.engine.errors import Unsupported
from morrow.engine.format.manifest_columns import ADD
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.plan.filter import FilterLike
from morrow.engine.plan.manifests import delta_manifests_of, manifest_entries
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.scan_plan import ScanPlan, SectionKind
from morrow.engine.wording import plural, size_text
from morrow.html.elements import Safe, element, joined
from morrow.html.tables import facts, table
from morrow.inspection.files import total
from morrow.inspection.shares import bars
from morrow.scans.making import make_scan
from morrow.writers.operations.planned import PlannedCompaction, planned_compactions

MOST_TOLD = 10
MOST_COMMITS = 200
"""The newest snapshots whose writes are counted."""
WRITTEN, COMPACTED = 0, 1


def compaction(subject: Subject) -> Safe:
    """Returns what `Table.compact` would do first, with and without ``full``: the choices of the writers."""
    if subject.snapshot is None:
        return element("p", "Nothing was committed.")
    try:
        found = {
            "Table.compact()": list(planned_compactions(subject.target, subject.states)),
            "Table.compact(full=True)": list(planned_compactions(subject.target, subject.states, full=True)),
        }
    except Unsupported as error:
        return element("p", str(error))
    return joined(*(_planned(subject, call, planned) for call, planned in found.items()))


def _planned(subject: Subject, call: str, planned: Sequence[PlannedCompaction]) -> Safe:
    if not planned:
        return element("p", element("code", call), " finds nothing worth doing.")
    files, size = sum(len(each.files) for each in planned), sum(each.size for each in planned)
    told = f" begins with {plural(files, 'file')}, {size_text(size)}, in {plural(len(planned), 'step')}."
    largest = sorted(planned, key=lambda each: -each.size)[:MOST_TOLD]
    rows = [
        (
            subject.place(each.place),
            len(each.files),
            size_text(each.size),
            "" if each.output_level is None else each.output_level,
        )
        for each in largest
    ]
    more = len(planned) - len(rows)
    note = element("p", f"+ {plural(more, 'smaller step')}", class_="note") if more > 0 else ""
    headers = ("where", "files", "size", "to level")
    return joined(element("p", element("code", call), told), table(headers, rows, numbers=headers[1:]), note)


def pruning(metadata: TableMetadata, where: FilterLike) -> Safe:
    """Returns what a read with this condition opens, and what kept it from the rest."""
    plan = make_scan(metadata, filter=where).plan
    whole = make_scan(metadata).plan if where is not None else plan
    rows = [("all files", float(len(whole.files)), _told(whole))]
    steps = [(step.name, float(step.kept), f"{step.kept:,} of {step.of:,} kept") for step in plan.steps]
    rows += [step for step in steps if step[0].startswith("files")]
    rows.append(("read", float(len(plan.files)), _told(plan)))
    asked = "every row" if where is None else where if isinstance(where, str) else str(where)
    others = [f"{name}: {told}" for name, _, told in steps if not name.startswith("files")]
    note = element("p", "; ".join(others), class_="note")
    return joined(element("p", "A read of ", element("code", asked), ":"), bars(rows, "files that are left"), note)


def _told(plan: ScanPlan) -> str:
    files = [file for part in plan.parts for file in part.files]
    return f"{plural(len(files), 'file')}, {size_text(sum(file.size for file in files))}"


def amplification(metadata: TableMetadata, frame: pl.DataFrame, snapshots: Sequence[Snapshot]) -> Safe:
    """Returns what reads and writes cost beyond the rows themselves."""
    written = _written(metadata, snapshots[-MOST_COMMITS:])
    appended, compacted = written.get(WRITTEN, 0), written.get(COMPACTED, 0)
    stored, dead = total(frame, "rows"), total(frame, "dead")
    plan = make_scan(metadata).plan
    merged = [s for part in plan.parts for s in part.sections if s.kind is SectionKind.MERGE]
    size = sum(section.size for section in merged)
    whole = total(frame, "size") or 1
    count = min(len(snapshots), MOST_COMMITS)
    return facts(
        (
            ("bytes of live files", size_text(total(frame, "size"))),
            (
                "read: merged",
                f"{size_text(size)} ({size / whole:.0%}) in {plural(len(merged), 'section')} of overlapping files",
            ),
            ("read: dead rows", f"{dead:,} of {stored:,} stored rows ({dead / stored:.0%})" if stored else None),
            ("write: by commits", f"{size_text(appended)} in the newest {plural(count, 'snapshot')}"),
            ("write: by compaction", f"{size_text(compacted)}"),
            ("write amplification", f"{(appended + compacted) / appended:.2f}" if appended else None),
        )
    )


def _written(metadata: TableMetadata, snapshots: Iterable[Snapshot]) -> dict[int, int]:
    """Returns the bytes of the files that snapshots added, by source (`WRITTEN`, `COMPACTED`)."""
    added = [
        entries.filter(pl.col("_KIND") == ADD).select(
            "_FILE_NAME", "_FILE_SIZE", pl.col("_FILE_SOURCE").fill_null(WRITTEN)
        )
        for snapshot in snapshots
        for entries in manifest_entries(metadata, delta_manifests_of(metadata, snapshot))
    ]
    if not added:
        return {}
    once = pl.concat(added).unique("_FILE_NAME")  # a file that moves to another level is added again
    return dict(once.group_by("_FILE_SOURCE").agg(pl.col("_FILE_SIZE").sum()).iter_rows())
