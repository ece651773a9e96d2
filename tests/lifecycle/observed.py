"""Everything readable in a table: the rows of each snapshot, tag and branch, and the changes of each snapshot."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

import morrow
from morrow.engine.format.paths import MAIN_BRANCH
from morrow.engine.options.declarations import ChangelogProducer
from morrow.engine.plan.changelogs import list_living_changelog_ids
from morrow.tables.table import Table
from tests.support.table_files import fingerprint

COLUMNS = ("id", "dt", "v")
"""The columns to compare, which have other names in the tables; tables may get more columns."""

Row: TypeAlias = tuple[int, str, int]
Rows: TypeAlias = tuple[Row, ...]
Changes: TypeAlias = tuple[tuple[object, ...], ...]


@dataclass
class Line:
    """The content of main or another branch. Rows are sorted."""

    newest: Rows = ()
    snapshots: dict[int, Rows] = field(default_factory=dict)
    changes: dict[int, Changes] = field(default_factory=dict)
    """By snapshot id, including expired snapshots that live on as changelogs."""
    tags: dict[str, tuple[int, Rows]] = field(default_factory=dict)
    """The id of the tagged snapshot, and its rows."""


State: TypeAlias = dict[str, Line]
"""By branch."""


_observed: dict[str, State] = {}
"""Results for tables that were read before, by fingerprint: many interruptions leave the same bytes as others."""


def observe(path: str) -> State:
    """Read the whole table through the public API, without caches."""
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
    """Read the changes that a stream gets from one snapshot, row kinds first; only its changelog may be left."""
    found = next(table.stream(snapshot, columns=names_in(table), wait=0), None)
    if found is None or found.snapshot_id != snapshot:
        return ()
    return tuple(sorted(found.to_polars().rows()))


def has_changelog(table: Table) -> bool:
    """Return whether snapshots have changes to read."""
    producer = table.options.get("changelog-producer", ChangelogProducer.NONE)
    return producer != ChangelogProducer.NONE or is_decoupled(table)


def changelog_ids(table: Table) -> list[int]:
    """List the ids of expired snapshots that live on as changelogs, and of the snapshots that will do so."""
    metadata = table._metadata
    return [*list_living_changelog_ids(metadata), *(metadata.snapshot_ids() if is_decoupled(table) else ())]


def is_decoupled(table: Table) -> bool:
    """Return whether changelogs outlive snapshots."""
    return "changelog.num-retained.max" in table.options
