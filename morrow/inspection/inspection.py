"""All pictures of a table on one page."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from morrow.doctor.examination import examine
from morrow.doctor.report import Report, verdict
from morrow.doctor.subject import Subject
from morrow.engine.errors import InvalidArgument, MorrowError, StorageError
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.plan.filter import FilterLike
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.telling import one_line, shown, without_secrets
from morrow.engine.wording import age_text, moment_text, plural, size_text
from morrow.html.elements import Safe, element, joined
from morrow.html.page import framed, page, section
from morrow.html.tables import facts, table
from morrow.inspection.files import LiveFiles, live_files, total
from morrow.inspection.shares import ages, partitions
from morrow.inspection.timeline import timeline
from morrow.inspection.trees import trees
from morrow.inspection.work import amplification, compaction, pruning

FRAME_PIXELS = 900
MOST_FINDINGS = 30


@dataclass(frozen=True)
class Inspection:
    """A page about a table, made once: what its newest snapshot was when `Table.inspect` was called.

    Shows itself in notebooks; ``save("report.html")`` writes it.
    """

    metadata: TableMetadata
    where: FilterLike = None

    @cached_property
    def report(self) -> Report:
        """The doctor's findings."""
        return examine(self.metadata)

    @cached_property
    def html(self) -> str:
        """The page: one document that needs nothing from anywhere."""
        name = self.metadata.root.rstrip("/").rsplit("/", 1)[-1]
        return page(f"{name} inspected", self._content(name))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the page; the file appears when it is complete. Raises `InvalidArgument` where it cannot be made."""
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
        return framed(self.html, FRAME_PIXELS)

    def __str__(self) -> str:
        files, newest = self._files.frame, self._subject.snapshot
        state = "nothing was committed" if newest is None else f"snapshot {newest.id} of {_when(newest)}"
        lines = [
            f"{self.metadata.where}: {state}",
            f"  {plural(files.height, 'file')}, {size_text(total(files, 'size'))}, "
            f"{plural(total(files, 'rows'), 'stored row')}, {plural(total(files, 'dead'), 'dead row')}",
            f"  {verdict(self.report)}",
            '  save("report.html") writes the page',
        ]
        return "\n".join(map(shown, lines))

    __repr__ = __str__

    @cached_property
    def _subject(self) -> Subject:
        return Subject(self.metadata)

    @cached_property
    def _files(self) -> LiveFiles:
        return live_files(self.metadata, self._subject.snapshot)

    @cached_property
    def _snapshots(self) -> tuple[Snapshot, ...]:
        return tuple(self.metadata.snapshots())

    def _content(self, name: str) -> list[Safe]:
        where, keys = self.metadata.where, self.metadata.latest_schema().partition_keys
        return [
            element("h1", name),
            element("p", where, class_="dim"),
            _section("The table", lambda: _head(self)),
            _section("Health", lambda: _health(self.report)),
            _section("Snapshots", lambda: timeline(self.metadata, self._snapshots)),
            _section("Merge trees" if self._keyed else "Files by bucket", lambda: trees(self._files, where)),
            element(
                "div",
                _section("Partitions by size", lambda: partitions(self._files.frame, keys)),
                _section("Files by age", lambda: ages(self._files.frame)),
                _section("Costs", lambda: amplification(self.metadata, self._files.frame, self._snapshots)),
                _section("What a read opens", lambda: pruning(self.metadata, self.where)),
                class_="two",
            ),
            _section("The next compaction", lambda: compaction(self._subject)),
            element("p", f"Made {moment_text(dt.datetime.now(dt.UTC))}, from metadata alone.", class_="note"),
        ]

    @property
    def _keyed(self) -> bool:
        return bool(self.metadata.latest_schema().primary_keys)


def _section(title: str, content: Callable[[], Safe]) -> Safe:
    """Returns a section; in place of one that cannot be made, what is wrong: a damaged table is looked at, too."""
    try:
        made = content()
    except StorageError:
        raise
    except MorrowError as error:
        made = element("p", str(error), class_="error")
    return section(title, made)


def _head(inspection: Inspection) -> Safe:
    schema, newest = inspection.metadata.latest_schema(), inspection._subject.snapshot
    files = inspection._files.frame
    return facts(
        (
            ("primary key", ", ".join(schema.primary_keys) or "none: an append table"),
            ("partitioned by", ", ".join(schema.partition_keys) or "nothing"),
            (
                "snapshot",
                "none" if newest is None else f"{newest.id}, {newest.operation or newest.commit_kind}, {_when(newest)}",
            ),
            (
                "stored",
                ", ".join(
                    (
                        plural(files.height, "file"),
                        size_text(total(files, "size")),
                        plural(total(files, "rows"), "row"),
                    )
                ),
            ),
            ("columns", ", ".join(f"{field.name} {field.type}" for field in schema.fields[:40])),
            (
                "options",
                ", ".join(f"{key} = {one_line(value)}" for key, value in without_secrets(schema.options).items())
                or "none",
            ),
        )
    )


def _when(snapshot: Snapshot) -> str:
    return f"{snapshot.time.isoformat(sep=' ', timespec='seconds')} ({age_text(snapshot.time)})"


def _health(report: Report) -> Safe:
    told = verdict(report)
    if not report.findings:
        return element("p", told, class_="well")
    rows = [
        (element("span", each.severity, class_=each.severity.value), each.where, each.what, each.remedy)
        for each in report.findings[:MOST_FINDINGS]
    ]
    more = len(report.findings) - len(rows)
    note = element("p", f"+ {plural(more, 'more finding')}", class_="note") if more > 0 else ""
    return joined(element("p", told), table(("severity", "where", "what", "what to do"), rows), note)
