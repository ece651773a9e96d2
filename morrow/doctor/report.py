"""The findings of an examination as values, text and HTML, and the table under examination.

`Subject` caches metadata that several checks need.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import TypeAlias

from morrow.engine.format.paths import MAIN_BRANCH
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.roots import Line, Root, RootKind
from morrow.engine.redaction import clean_text, escape_to_line
from morrow.engine.units import format_count
from morrow.writers.buckets.routers import BucketState
from morrow.writers.files.data_files import Placement
from morrow.writers.operations.compaction import read_bucket_states
from morrow.writers.target import WriteTarget

MAX_FINDINGS = 50
"""Maximum findings of one check that are printed; the others are counted."""


class Severity(StrEnum):
    """The severity of a finding."""

    ERROR = "error"
    """Rows are lost or wrong, or reads of some snapshot fail."""
    WARNING = "warning"
    """Rows are complete, but something else is wrong."""
    ADVICE = "advice"
    """Nothing is wrong, but reads or writes cost more than necessary."""


@dataclass(frozen=True)
class Finding:
    """A finding of `check`: `where` is a path, bucket, hint or option, `remedy` says what to do.

    `fix` names the fix that ``morrow doctor --fix`` applies; empty if an automatic fix is not safe.
    """

    severity: Severity
    check: str
    where: str
    what: str
    remedy: str
    fix: str = ""

    def __str__(self) -> str:
        return clean_text(
            f"{self.severity}: {escape_to_line(self.where)}: {escape_to_line(self.what)}; {escape_to_line(self.remedy)}"
        )


@dataclass(frozen=True)
class Report:
    """The result of an examination: `findings` by severity, and a summary of each of the `checks`."""

    table: str
    snapshot: int | None
    findings: tuple[Finding, ...]
    checks: tuple[tuple[str, str], ...]

    @property
    def healthy(self) -> bool:
        """Whether the findings are only advice, without errors and warnings."""
        return all(each.severity is Severity.ADVICE for each in self.findings)

    @property
    def errors(self) -> tuple[Finding, ...]:
        """The findings of lost or wrong rows, and of unreadable snapshots."""
        return tuple(each for each in self.findings if each.severity is Severity.ERROR)

    def __bool__(self) -> bool:
        return self.healthy

    def __str__(self) -> str:
        return "\n".join(_render_lines(self))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from morrow.html import build_element, build_table, escape_text

        rows = [(f.severity, f.where, f.what, f.remedy) for f in self.findings]
        found = build_table(("severity", "where", "what", "what to do"), rows) if rows else ""
        return (
            build_element("p", build_element("b", escape_text(self.table)), " ", escape_text(summarize_findings(self)))
            + found
        )


def summarize_findings(report: Report) -> str:
    """Return ``healthy``, or ``2 errors, 1 warning``."""
    counts = Counter(each.severity for each in report.findings)
    told = [
        f"{counts[kind]} {kind}" if kind is Severity.ADVICE else format_count(counts[kind], kind) for kind in counts
    ]
    return ", ".join(told) or "healthy: nothing was found"


def _render_lines(report: Report) -> Iterator[str]:
    state = "no snapshot" if report.snapshot is None else f"snapshot {report.snapshot}"
    yield clean_text(f"{escape_to_line(report.table)}, {state}: {summarize_findings(report)}")
    for name, told in report.checks:
        yield f"  {name:12} {told}"
    counts: Counter[str] = Counter()
    for finding in report.findings:
        counts[finding.check] += 1
        if counts[finding.check] > MAX_FINDINGS:
            continue
        yield ""
        yield clean_text(f"{finding.severity.value}: {escape_to_line(finding.where)}")
        yield clean_text(f"  {escape_to_line(finding.what)}")
        yield clean_text(f"  {escape_to_line(finding.remedy)}")
    left = {check: count - MAX_FINDINGS for check, count in counts.items() if count > MAX_FINDINGS}
    yield from (f"... and {format_count(count, 'more finding')} about {check}" for check, count in left.items())


@dataclass(frozen=True)
class Subject:
    """The examined table. With `data` its rows are read, too."""

    metadata: TableMetadata
    data: bool = False

    @cached_property
    def snapshot(self) -> Snapshot | None:
        """The snapshot that was newest when the examination began."""
        return self.metadata.latest_snapshot()

    @cached_property
    def target(self) -> WriteTarget:
        return WriteTarget.of(self.metadata)

    @cached_property
    def states(self) -> Mapping[Placement, BucketState]:
        """The files of all buckets in the newest snapshot."""
        return read_bucket_states(self.target, self.snapshot)

    @cached_property
    def branches(self) -> tuple[TableMetadata, ...]:
        """The branch of the table, or all branches if it is main."""
        if self.metadata.branch != MAIN_BRANCH:
            return (self.metadata,)
        return (self.metadata, *map(self.metadata.at_branch, self.metadata.branch_names()))

    def place(self, place: Placement) -> str:
        """Return ``dt=2024-05-14, bucket 3``."""
        target = self.target
        values = zip(target.schema.partition_keys, target.partition_values(place.partition))
        return ", ".join([*(f"{name}={value!s}" for name, value in values), f"bucket {place.bucket}"])

    def relative(self, path: str) -> str:
        """Return the path relative to the table's folder; paths outside are unchanged."""
        root = f"{self.metadata.root}/"
        return path.removeprefix(root) if path.startswith(root) else self.metadata.store.url(path)


Check: TypeAlias = Callable[[Subject], Generator[Finding, None, str]]
"""A generator function that yields findings and returns a short summary of the check."""


def describe_root(root: Root) -> str:
    """Return ``snapshot 3``, ``tag v1``, ``changelog 2 of branch dev``."""
    branch = "" if root.metadata.branch == MAIN_BRANCH else f" of branch {root.metadata.branch}"
    return f"tag {root.name}{branch}" if root.kind == RootKind.TAG else f"{root.kind} {root.id}{branch}"


def is_there(root: Root) -> bool:
    """Return whether a root still exists. If it was removed meanwhile, its files may be missing."""
    if root.kind == RootKind.SNAPSHOT:
        return root.id in root.metadata.living_snapshot_ids()
    if root.kind == RootKind.TAG:
        return root.name in root.metadata.tag_names()
    return root.id in Line.of(root.metadata).changelog_ids
