"""The kinds of tables for histories, and the rows that each holds at the beginning.

A row has four columns: ``id``; ``p``, which is ``id % PARTITIONS`` and the partition column if the table has one;
``n``, the number of writes to the row; and ``log``, the comma-separated tokens of the operations that wrote it, in
order. An operation that reads and writes appends its token, so a row shows the state from which it was made. In the
table, the columns have hostile names drawn from a seed.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field

import polars as pl

import morrow
from morrow.tables.table import Table
from tests.support.hostile_names import drawn_names, in_avro, in_options, renamed_options

SCHEMA = {"id": "INT NOT NULL", "p": "INT NOT NULL", "n": "BIGINT", "log": "STRING"}
TYPES = (pl.Int32, pl.Int32, pl.Int64, pl.String)
PARTITIONS = 2
KEYS = 8
"""Ids 0 to 7 exist at the beginning."""
FIRST = "0"
"""The token of the rows that exist at the beginning."""

Row = tuple[int, int, int, str]
State = Mapping[int, Row]
"""Maps ids to rows. Ids are unique even in append tables, as no id is appended twice."""

NO_WAITING = {"commit.min-retry-wait": "0 ms", "commit.max-retry-wait": "1 ms", "commit.max-retries": "1000"}


@dataclass(frozen=True)
class Kind:
    """A kind of table: merge engine and options, with or without a primary key and partitions."""

    keyed: bool = True
    options: Mapping[str, str] = field(default_factory=dict)
    partitioned: bool = False
    waits_for_compaction: bool = False
    """Whether reads see rows only after their compaction, so the snapshot that adds them does not show them yet."""

    @property
    def engine(self) -> str:
        return self.options.get("merge-engine", "deduplicate")

    def create(self, warehouse: str, seed: int, storage_options: Mapping[str, str] | None = None) -> Table:
        """Create a table ``db.t`` with the first rows and column names drawn from the seed."""
        usable = in_avro if self.options.get("file.format") == "avro" else in_options
        names = drawn_names(SCHEMA, random.Random(f"{self.options} {seed}"), usable)
        keys = (["p", "id"] if self.partitioned else ["id"]) if self.keyed else []
        table = morrow.Catalog(warehouse, storage_options=storage_options).create_table(
            "db.t",
            schema={names[column]: kind for column, kind in SCHEMA.items()},
            primary_keys=[names[key] for key in keys],
            partition_keys=[names["p"]] if self.partitioned else [],
            options={**NO_WAITING, **renamed_options(self.options, names.__getitem__)},
        )
        table.append(frame(table, FIRST_ROWS))
        return table


def row(id: int, token: str) -> Row:
    """Build a row written for the first time."""
    return (id, id % PARTITIONS, 1, token)


def frame(table: Table, rows: list[Row]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=dict(zip(table.schema.names, TYPES, strict=True)), orient="row")


FIRST_ROWS = [row(id, FIRST) for id in range(KEYS)]
VECTORS = {"deletion-vectors.enabled": "true"}
ONE_BUCKET = {"bucket": "1"}
TRACKING = {"row-tracking.enabled": "true"}

KINDS: Mapping[str, Kind] = {
    "keyed": Kind(options={"bucket": "2"}),
    "partitioned": Kind(options=ONE_BUCKET, partitioned=True),
    "write-only": Kind(options={**ONE_BUCKET, "write-only": "true"}),
    "lookup": Kind(options={**ONE_BUCKET, "changelog-producer": "lookup"}, waits_for_compaction=True),
    "vectors": Kind(options={**ONE_BUCKET, **VECTORS}, waits_for_compaction=True),
    "vectors in two buckets": Kind(options={"bucket": "2", **VECTORS}, waits_for_compaction=True),
    "dynamic": Kind(options={"bucket": "-1", "dynamic-bucket.target-row-num": "5"}),
    "partial-update": Kind(
        options={**ONE_BUCKET, "merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"}
    ),
    "aggregation": Kind(
        options={
            **ONE_BUCKET,
            "merge-engine": "aggregation",
            "fields.n.aggregate-function": "sum",
            "fields.log.aggregate-function": "listagg",
        }
    ),
    "first-row": Kind(
        options={**ONE_BUCKET, "merge-engine": "first-row"},
        waits_for_compaction=True,
    ),
    "orc": Kind(options={**ONE_BUCKET, "file.format": "orc"}),
    "avro": Kind(options={**ONE_BUCKET, "file.format": "avro"}),
    "append": Kind(keyed=False, options={"bucket": "-1"}, partitioned=True),
    "append with vectors": Kind(keyed=False, options={"bucket": "-1", **VECTORS}),
    "row tracking": Kind(keyed=False, options=TRACKING, partitioned=True),
    "data evolution": Kind(keyed=False, options={**TRACKING, **VECTORS, "data-evolution.enabled": "true"}),
}
