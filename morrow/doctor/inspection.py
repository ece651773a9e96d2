"""The page that `Table.inspect` shows: all charts of a table, drawn from metadata alone.

It also shows what the next compaction would do, what reads and writes cost, and how a filter prunes.
"""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import polars as pl

from morrow.doctor.charts import (
    LiveFiles,
    build_age_chart,
    build_bars,
    build_partition_chart,
    build_timeline,
    build_trees,
    read_live_files,
    sum_column,
)
from morrow.doctor.examination import examine
from morrow.doctor.report import Report, Subject, summarize_findings
from morrow.engine.errors import InvalidArgument, MorrowError, StorageError, Unsupported
from morrow.engine.format.manifest_entries import ADD
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.plan.filter import FilterLike
from morrow.engine.plan.manifests import list_delta_manifests, read_manifest_entries
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.scan_plan import ScanPlan, SectionKind
from morrow.engine.redaction import clean_text, escape_to_line, hide_secrets
from morrow.engine.units import format_age, format_count, format_moment, format_size
from morrow.html import (
    Safe,
    build_element,
    build_facts,
    build_page,
    build_section,
    build_table,
    join_markup,
    wrap_in_frame,
)
from morrow.scans.table_scan import make_scan
from morrow.writers.operations.compaction import PlannedCompaction, plan_compactions

FRAME_PIXELS = 900
MAX_FINDINGS = 30


@dataclass(frozen=True)
class Inspection:
    """A page about the snapshot of a table that was newest when `Table.inspect` was called.

    Notebooks display it; ``save("report.html")`` writes it.
    """

    metadata: TableMetadata
    where: FilterLike = None

    @cached_property
    def report(self) -> Report:
        """The doctor's findings."""
        return examine(self.metadata)

    @cached_property
    def html(self) -> str:
        """The page: one self-contained document."""
        name = self.metadata.root.rstrip("/").rsplit("/", 1)[-1]
        return build_page(f"{name} inspected", self._content(name))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page to a file atomically. Raises `InvalidArgument` if the file cannot be created."""
        target = Path(path)
        draft = target.with_name(f".{target.name}.{os.getpid()}.part")
        text = self.html
        try:
            draft.write_text(text, encoding="utf-8")
            draft.replace(target)
        except OSError as error:
            hint = "name a file in a folder that can be written"
            raise InvalidArgument(f"{target}: {error.strerror}; {hint}") from error
        finally:
            draft.unlink(missing_ok=True)

    def _repr_html_(self) -> str:
        return wrap_in_frame(self.html, FRAME_PIXELS)

    def __str__(self) -> str:
        files, newest = self._files.frame, self._subject.snapshot
        state = "nothing was committed" if newest is None else f"snapshot {newest.id} of {_format_time(newest)}"
        lines = [
            f"{self.metadata.where}: {state}",
            f"  {format_count(files.height, 'file')}, {format_size(sum_column(files, 'size'))}, "
            f"{format_count(sum_column(files, 'rows'), 'stored row')}, "
            f"{format_count(sum_column(files, 'dead'), 'dead row')}",
            f"  {summarize_findings(self.report)}",
            '  save("report.html") writes the page',
        ]
        return "\n".join(map(clean_text, lines))

    __repr__ = __str__

    @cached_property
    def _subject(self) -> Subject:
        return Subject(self.metadata)

    @cached_property
    def _files(self) -> LiveFiles:
        return read_live_files(self.metadata, self._subject.snapshot)

    @cached_property
    def _snapshots(self) -> tuple[Snapshot, ...]:
        return tuple(self.metadata.snapshots())

    def _content(self, name: str) -> list[Safe]:
        where, keys = self.metadata.where, self.metadata.latest_schema().partition_keys
        return [
            build_element("h1", name),
            build_element("p", where, class_="dim"),
            _try_section("The table", lambda: _build_head(self)),
            _try_section("Health", lambda: _build_health(self.report)),
            _try_section("Snapshots", lambda: build_timeline(self.metadata, self._snapshots)),
            _try_section("Merge trees" if self._keyed else "Files by bucket", lambda: build_trees(self._files, where)),
            build_element(
                "div",
                _try_section("Partitions by size", lambda: build_partition_chart(self._files.frame, keys)),
                _try_section("Files by age", lambda: build_age_chart(self._files.frame)),
                _try_section(
                    "Costs", lambda: describe_amplification(self.metadata, self._files.frame, self._snapshots)
                ),
                _try_section("What a read opens", lambda: describe_pruning(self.metadata, self.where)),
                class_="two",
            ),
            _try_section("The next compaction", lambda: describe_compaction(self._subject)),
            build_element("p", f"Made {format_moment(dt.datetime.now(dt.UTC))}, from metadata alone.", class_="note"),
        ]

    @property
    def _keyed(self) -> bool:
        return bool(self.metadata.latest_schema().primary_keys)


def _try_section(title: str, content: Callable[[], Safe]) -> Safe:
    """Return a section, or its error if it cannot be built, so that damaged tables can be inspected."""
    try:
        made = content()
    except StorageError:
        raise
    except MorrowError as error:
        made = build_element("p", str(error), class_="error")
    return build_section(title, made)


def _build_head(inspection: Inspection) -> Safe:
    schema, newest = inspection.metadata.latest_schema(), inspection._subject.snapshot
    files = inspection._files.frame
    return build_facts(
        (
            ("primary key", ", ".join(schema.primary_keys) or "none: an append table"),
            ("partitioned by", ", ".join(schema.partition_keys) or "nothing"),
            (
                "snapshot",
                "none"
                if newest is None
                else f"{newest.id}, {newest.operation or newest.commit_kind}, {_format_time(newest)}",
            ),
            (
                "stored",
                ", ".join(
                    (
                        format_count(files.height, "file"),
                        format_size(sum_column(files, "size")),
                        format_count(sum_column(files, "rows"), "row"),
                    )
                ),
            ),
            ("columns", ", ".join(f"{field.name} {field.type}" for field in schema.fields[:40])),
            (
                "options",
                ", ".join(f"{key} = {escape_to_line(value)}" for key, value in hide_secrets(schema.options).items())
                or "none",
            ),
        )
    )


def _format_time(snapshot: Snapshot) -> str:
    return f"{snapshot.time.isoformat(sep=' ', timespec='seconds')} ({format_age(snapshot.time)})"


def _build_health(report: Report) -> Safe:
    told = summarize_findings(report)
    if not report.findings:
        return build_element("p", told, class_="well")
    rows = [
        (build_element("span", each.severity, class_=each.severity.value), each.where, each.what, each.remedy)
        for each in report.findings[:MAX_FINDINGS]
    ]
    more = len(report.findings) - len(rows)
    note = build_element("p", f"+ {format_count(more, 'more finding')}", class_="note") if more > 0 else ""
    return join_markup(build_element("p", told), build_table(("severity", "where", "what", "what to do"), rows), note)


MAX_PARTS = 10
MAX_COMMITS = 200
"""Maximum snapshots, the newest ones, whose writes are counted."""
WRITTEN, COMPACTED = 0, 1


def describe_compaction(subject: Subject) -> Safe:
    """Describe what `Table.compact` would do first, with and without ``full``."""
    if subject.snapshot is None:
        return build_element("p", "Nothing was committed.")
    try:
        found = {
            "Table.compact()": list(plan_compactions(subject.target, subject.states)),
            "Table.compact(full=True)": list(plan_compactions(subject.target, subject.states, full=True)),
        }
    except Unsupported as error:
        return build_element("p", str(error))
    return join_markup(*(_describe_planned(subject, call, planned) for call, planned in found.items()))


def _describe_planned(subject: Subject, call: str, planned: Sequence[PlannedCompaction]) -> Safe:
    if not planned:
        return build_element("p", build_element("code", call), " finds nothing worth doing.")
    files, size = sum(len(each.files) for each in planned), sum(each.size for each in planned)
    told = f" begins with {format_count(files, 'file')}, {format_size(size)}, in {format_count(len(planned), 'step')}."
    largest = sorted(planned, key=lambda each: -each.size)[:MAX_PARTS]
    rows = [
        (
            subject.place(each.place),
            len(each.files),
            format_size(each.size),
            "" if each.output_level is None else each.output_level,
        )
        for each in largest
    ]
    more = len(planned) - len(rows)
    note = build_element("p", f"+ {format_count(more, 'smaller step')}", class_="note") if more > 0 else ""
    headers = ("where", "files", "size", "to level")
    return join_markup(
        build_element("p", build_element("code", call), told), build_table(headers, rows, numbers=headers[1:]), note
    )


def describe_pruning(metadata: TableMetadata, where: FilterLike) -> Safe:
    """Describe which files a read with this condition opens, and why it skips the others."""
    plan = make_scan(metadata, filter=where).plan
    whole = make_scan(metadata).plan if where is not None else plan
    rows = [("all files", float(len(whole.files)), _describe_plan(whole))]
    steps = [(step.name, float(step.kept), f"{step.kept:,} of {step.of:,} kept") for step in plan.steps]
    rows += [step for step in steps if step[0].startswith("files")]
    rows.append(("read", float(len(plan.files)), _describe_plan(plan)))
    asked = "every row" if where is None else where if isinstance(where, str) else str(where)
    others = [f"{name}: {told}" for name, _, told in steps if not name.startswith("files")]
    note = build_element("p", "; ".join(others), class_="note")
    return join_markup(
        build_element("p", "A read of ", build_element("code", asked), ":"),
        build_bars(rows, "files that are left"),
        note,
    )


def _describe_plan(plan: ScanPlan) -> str:
    files = [file for part in plan.parts for file in part.files]
    return f"{format_count(len(files), 'file')}, {format_size(sum(file.size for file in files))}"


def describe_amplification(metadata: TableMetadata, frame: pl.DataFrame, snapshots: Sequence[Snapshot]) -> Safe:
    """Describe the read and write amplification."""
    written = _sum_written_bytes(metadata, snapshots[-MAX_COMMITS:])
    appended, compacted = written.get(WRITTEN, 0), written.get(COMPACTED, 0)
    stored, dead = sum_column(frame, "rows"), sum_column(frame, "dead")
    plan = make_scan(metadata).plan
    merged = [s for part in plan.parts for s in part.sections if s.kind is SectionKind.MERGE]
    size = sum(section.size for section in merged)
    whole = sum_column(frame, "size") or 1
    count = min(len(snapshots), MAX_COMMITS)
    return build_facts(
        (
            ("bytes of live files", format_size(sum_column(frame, "size"))),
            (
                "read: merged",
                f"{format_size(size)} ({size / whole:.0%}) in {format_count(len(merged), 'section')} of "
                "overlapping files",
            ),
            ("read: dead rows", f"{dead:,} of {stored:,} stored rows ({dead / stored:.0%})" if stored else None),
            ("write: by commits", f"{format_size(appended)} in the newest {format_count(count, 'snapshot')}"),
            ("write: by compaction", f"{format_size(compacted)}"),
            ("write amplification", f"{(appended + compacted) / appended:.2f}" if appended else None),
        )
    )


def _sum_written_bytes(metadata: TableMetadata, snapshots: Iterable[Snapshot]) -> dict[int, int]:
    """Return the bytes of the files that snapshots added, by source (`WRITTEN`, `COMPACTED`)."""
    added = [
        entries.filter(pl.col("_KIND") == ADD).select(
            "_FILE_NAME", "_FILE_SIZE", pl.col("_FILE_SOURCE").fill_null(WRITTEN)
        )
        for snapshot in snapshots
        for entries in read_manifest_entries(metadata, list_delta_manifests(metadata, snapshot))
    ]
    if not added:
        return {}
    once = pl.concat(added).unique("_FILE_NAME")  # a file that moves to another level is added again
    return dict(once.group_by("_FILE_SOURCE").agg(pl.col("_FILE_SIZE").sum()).iter_rows())
