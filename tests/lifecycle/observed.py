"""Everything that can be read of a table: the rows of each snapshot, tag and branch, and what each snapshot changed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

import morrow
from morrow.engine.format.paths import MAIN_BRANCH
from morrow.engine.options.kinds import ChangelogProducer
from morrow.engine.plan.changelogs import list_living_changelog_ids
from morrow.tables.table import Table
from tests.support.table_files import fingerprint

COLUMNS = ("id", "dt", "v")
"""What is compared, by whatever names tables have for it; they may have got more columns since."""

Row: TypeAlias = tuple[int, str, int]
Rows: TypeAlias = tuple[Row, ...]
Changes: TypeAlias = tuple[tuple[object, ...], ...]


@dataclass
class Line:
    """Main or a branch: what is read of it. Rows are sorted."""

    newest: Rows = ()
    snapshots: dict[int, Rows] = field(default_factory=dict)
    changes: dict[int, Changes] = field(default_factory=dict)
    """By snapshot, also of those that live on as changelogs."""
    tags: dict[str, tuple[int, Rows]] = field(default_factory=dict)
    """The id of the tagged snapshot, and its rows."""


State: TypeAlias = dict[str, Line]
"""By branch."""


_observed: dict[str, State] = {}
"""What tables held that were read already, by their bytes: after many an interruption they are those of another one."""


def observe(path: str) -> State:
    """Read the whole table through the public face, of which nothing is remembered."""
    bytes_of_it = fingerprint(path)
    if bytes_of_it not in _observed:
        morrow.clear_caches()
        table = morrow.open(path)
        branches = (MAIN_BRANCH, *table.branches())
        _observed[bytes_of_it] = {branch: observe_line(table.on_branch(branch)) for branch in branches}
    return _observed[bytes_of_it]


def observe_line(table: Table) -> Line:
    ids = [snapshot.id for snapshot in table.snapshots()]
    with_changes = sorted({*ids, *changelog_ids(table)}) if has_changelog(table) else []
    return Line(
        newest=rows(table),
        snapshots={i: rows(table, snapshot=i) for i in ids},
        changes={i: changes(table, i) for i in with_changes},
        tags={tag.name: (tag.snapshot.id, rows(table, tag=tag.name)) for tag in table.tags.list()},
    )


def names_in(table: Table) -> list[str]:
    """Return the table's names for `COLUMNS`."""
    return table.schema.names[: len(COLUMNS)]


def rows(table: Table, **scan: object) -> Rows:
    """Read all rows of a scan, sorted."""
    return tuple(sorted(table.scan(names_in(table), **scan).to_polars().rows()))  # type: ignore[arg-type]  # a scan's own names


def changes(table: Table, snapshot: int) -> Changes:
    """Read what a stream gets of one snapshot, row kinds first; it may have expired, if its changelog lives."""
    found = next(table.stream(snapshot, columns=names_in(table), wait=0), None)
    if found is None or found.snapshot_id != snapshot:
        return ()
    return tuple(sorted(found.to_polars().rows()))


def has_changelog(table: Table) -> bool:
    """Tell whether snapshots say what they changed."""
    producer = table.options.get("changelog-producer", ChangelogProducer.NONE)
    return producer != ChangelogProducer.NONE or is_decoupled(table)


def changelog_ids(table: Table) -> list[int]:
    """Snapshots that have expired and live on as changelogs; some of them are only about to become such."""
    metadata = table._metadata
    return [*list_living_changelog_ids(metadata), *(metadata.snapshot_ids() if is_decoupled(table) else ())]


def is_decoupled(table: Table) -> bool:
    """Tell whether changelogs outlive snapshots."""
    return "changelog.num-retained.max" in table.options
