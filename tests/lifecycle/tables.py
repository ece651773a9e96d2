"""The kinds of tables whose lives are tried out, and random rows for them.

Their columns are called ``id``, ``dt`` and ``v`` here; in a table they may have any names (`names_in`).
"""

from __future__ import annotations

import datetime as dt
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

import morrow
from morrow.tables.table import Table
from tests.lifecycle.observed import COLUMNS, Row, Rows, names_in
from tests.support.hostile_names import renamed_options

SQL_TYPES = ("INT NOT NULL", "STRING NOT NULL", "BIGINT")
TYPES = (pl.Int32, pl.String, pl.Int64)
OLD, NEW = "2001-02-03", "2999-12-31"
"""Partitions: of one that expires and one that does not."""
PARTITIONS = (OLD, NEW)


@dataclass(frozen=True)
class Kind:
    """What a table is: with a primary key or not, partitioned or not, with which options."""

    keyed: bool
    options: Mapping[str, str] = field(default_factory=dict)
    partitioned: bool = False

    @property
    def expires(self) -> bool:
        """Whether commits remove old snapshots."""
        return "snapshot.num-retained.max" in self.options

    @property
    def decoupled(self) -> bool:
        """Whether changelogs outlive snapshots."""
        return "changelog.num-retained.max" in self.options

    @property
    def has_changes(self) -> bool:
        return self.decoupled or "changelog-producer" in self.options

    @property
    def primary_keys(self) -> list[str]:
        if not self.keyed:
            return []
        return ["dt", "id"] if self.partitioned else ["id"]

    def key(self, row: Row) -> object:
        """Return what tells a row from others; rows of append tables have a `v` of their own."""
        if not self.keyed:
            return row
        return (row[1], row[0]) if self.partitioned else row[0]

    def merged(self, rows: Iterable[Row]) -> Rows:
        """Compute what the table holds after these writes: the last row of each key."""
        return tuple(sorted({self.key(row): row for row in rows}.values()))

    def create(self, path: Path, names: Sequence[str] = COLUMNS) -> Table:
        """Make an empty table at ``<warehouse>/<database>.db/<table>`` whose columns have these names."""
        catalog = morrow.Catalog(path.parents[1])
        named = dict(zip(COLUMNS, names, strict=True))
        return catalog.create_table(
            f"{path.parent.stem}.{path.name}",
            schema=dict(zip(names, SQL_TYPES, strict=True)),
            primary_keys=[named[key] for key in self.primary_keys],
            partition_keys=[named["dt"]] if self.partitioned else [],
            options=renamed_options(self.options, named.__getitem__),
        )


DECOUPLED = {
    "snapshot.num-retained.min": "1",
    "snapshot.num-retained.max": "3",
    "changelog.num-retained.min": "1",
    "changelog.num-retained.max": "6",
}
"""Snapshots expire by themselves, changelogs later."""

INDEX_FILES = {"file-index.bloom-filter.columns": "id", "file-index.in-manifest-threshold": "1 b"}
"""Each data file has an index in a file of its own."""

KINDS: Mapping[str, Kind] = {
    "append": Kind(False, {"bucket": "-1", **INDEX_FILES}),
    "append with vectors": Kind(False, {"bucket": "-1", "deletion-vectors.enabled": "true"}, partitioned=True),
    "keyed": Kind(True, {"bucket": "2"}, partitioned=True),
    "vectors": Kind(True, {"bucket": "1", "deletion-vectors.enabled": "true", "changelog-producer": "lookup"}),
    "dynamic": Kind(True, {"bucket": "-1", "dynamic-bucket.target-row-num": "4"}, partitioned=True),
    "decoupled": Kind(True, {"bucket": "1", "changelog-producer": "input", **DECOUPLED}),
    "decoupled without producer": Kind(True, {"bucket": "1", **DECOUPLED}),
    "expiring": Kind(True, {"bucket": "1", "snapshot.num-retained.min": "1", "snapshot.num-retained.max": "3"}),
}


def frame(table: Table, rows: Sequence[Row]) -> pl.DataFrame:
    """Rows to write; columns that the table has got since it was made are null."""
    known = pl.DataFrame(rows, schema=dict(zip(names_in(table), TYPES, strict=True)), orient="row")
    return known.with_columns(pl.lit(None).alias(name) for name in table.schema.names[known.width :])


def remove_all_orphans(table: Table) -> None:
    """Remove what nothing needs, however young it is: nobody else is writing."""
    for folder in Path(table.path).glob("branch/creating-*"):
        os.utime(folder, (0, 0))  # a day has passed
    time.sleep(0.002)  # what is there has been changed in an earlier millisecond
    table.remove_orphan_files(dt.timedelta(0), dry_run=False)
