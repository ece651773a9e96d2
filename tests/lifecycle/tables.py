"""The kinds of tables for random lives, and random rows for them.

Their columns are named ``id``, ``dt`` and ``v`` here; in the tables they may have any names (`names_in`).
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
"""Values of a partition that expires and one that does not."""
PARTITIONS = (OLD, NEW)


@dataclass(frozen=True)
class Kind:
    """A kind of table: options, with or without a primary key and partitions."""

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
        """Return the identity of a row; in append tables each row has a different `v`."""
        if not self.keyed:
            return row
        return (row[1], row[0]) if self.partitioned else row[0]

    def merged(self, rows: Iterable[Row]) -> Rows:
        """Compute the rows after these writes: the last row of each key."""
        return tuple(sorted({self.key(row): row for row in rows}.values()))

    def create(self, path: Path, names: Sequence[str] = COLUMNS) -> Table:
        """Create an empty table at ``<warehouse>/<database>.db/<table>`` with these column names."""
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
"""Snapshots expire automatically, and changelogs later."""

INDEX_FILES = {"file-index.bloom-filter.columns": "id", "file-index.in-manifest-threshold": "1 b"}
"""Each data file has a separate index file."""

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
    """Build a frame of rows to write, with nulls in columns added later."""
    known = pl.DataFrame(rows, schema=dict(zip(names_in(table), TYPES, strict=True)), orient="row")
    return known.with_columns(pl.lit(None).alias(name) for name in table.schema.names[known.width :])


def remove_all_orphans(table: Table) -> None:
    """Remove all unneeded files, however young, as nothing else is writing."""
    for folder in Path(table.path).glob("branch/creating-*"):
        os.utime(folder, (0, 0))  # as if a day had passed
    time.sleep(0.002)  # until all files are at least a millisecond old
    table.remove_orphan_files(dt.timedelta(0), dry_run=False)
