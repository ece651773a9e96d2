"""Random tables of every kind, made from a seed by Morrow's own writers and read through all faces."""

from __future__ import annotations

import datetime as dt
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pyarrow as pa

import morrow
from morrow.engine.format.types import to_arrow_schema
from morrow.engine.structs import replace
from morrow.tables.table import Table
from tests.support.hostile_names import drawn_names, in_avro
from tests.support.value_pools import POOLS

ROW_ID = "rid"
"""A column without nulls in every table; in tables with a primary key it is the key's first column."""
REALS = [float("nan"), float("inf"), float("-inf"), 0.0, -0.0, 1.0, -1.5, 0.25]
NESTED: Mapping[str, list[Any]] = {
    "ROW<x INT, y STRING>": [{"x": 1, "y": "a"}, {"x": None, "y": None}, {"x": 2, "y": "it's"}],
    "ROW<x INT NOT NULL, y STRING NOT NULL>": [{"x": 1, "y": "a"}, {"x": 2, "y": ""}],
    "ARRAY<INT>": [[], [1], [1, None, 3]],
    "ARRAY<ROW<x INT, y STRING>>": [[], [{"x": 1, "y": "a"}], [{"x": None, "y": "b"}, {"x": 3, "y": None}]],
    "MAP<STRING, INT>": [[], [("k", 1)], [("k", None), ("l", 2)]],
    "MULTISET<STRING>": [[], [("a", 1)], [("a", 2), ("b", 1)]],
}
SIMPLE: Mapping[str, list[Any]] = {
    **{name: pool for name, pool in POOLS.items() if not name.startswith("TIMESTAMP")},
    "FLOAT": REALS,
    "DOUBLE": REALS,
    "DECIMAL(38, 0)": [Decimal("9" * 38), Decimal("-" + "9" * 38), Decimal(0), Decimal(5)],
    "TIMESTAMP(3)": [dt.datetime(1970, 1, 1), dt.datetime(2024, 2, 29, 12, 30, 15, 123000)],
    "TIMESTAMP(6)": [dt.datetime(1970, 1, 1), dt.datetime(2024, 2, 29, 12, 30, 15, 123456)],
    "TIMESTAMP(9)": [dt.datetime(1970, 1, 1), dt.datetime(2024, 2, 29, 12, 30, 15, 123456)],
    "TIMESTAMP(6) WITH LOCAL TIME ZONE": POOLS["TIMESTAMP(6) WITH LOCAL TIME ZONE"],
}
POOLS_OF: Mapping[str, list[Any]] = {**SIMPLE, **NESTED}
PARTITION_TYPES = ("INT", "STRING", "DATE", "BOOLEAN", "DOUBLE")
WIDER = {"TINYINT": "INT", "SMALLINT": "BIGINT", "INT": "BIGINT", "FLOAT": "DOUBLE", "VARCHAR(10)": "STRING"}
FORMATS = ("parquet", "parquet", "parquet", "orc", "avro")
ENGINES = ("deduplicate", "deduplicate", "partial-update", "aggregation", "first-row")
ADDED = "added later"
MEMBER = re.compile(r"\b[xy]\b")
"""Names of members in the types of `NESTED`."""


@dataclass(frozen=True)
class Column:
    """A column of a random table: its type in `POOLS_OF`, and the names of the type's members ``x`` and ``y``."""

    name: str
    type: str
    members: Mapping[str, str] = field(default_factory=lambda: {"x": "x", "y": "y"})

    @property
    def sql_type(self) -> str:
        quoted = {plain: "`" + name.replace("`", "``") + "`" for plain, name in self.members.items()}
        return MEMBER.sub(lambda found: quoted[found[0]], self.type)

    @property
    def pool(self) -> Sequence[Any]:
        return [self._named(value) for value in POOLS_OF[self.type]]

    def _named(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {self.members[plain]: member for plain, member in value.items()}
        return [self._named(item) for item in value] if isinstance(value, list) else value


@dataclass
class RandomTable:
    """A table and its current columns without `ROW_ID`."""

    table: Table
    columns: list[Column]
    partition: Column | None
    engine: str | None
    """The merge engine, or None for append tables."""


def make(warehouse: str, chance: random.Random, names: Sequence[str]) -> RandomTable:
    """Make a table ``db.t`` with a few commits, whose columns take their names from `names`.

    Raises:
        MorrowError: the drawn table is not valid, for example because its format lacks a type.
    """
    drawn = {name.lower(): name for name in chance.sample(list(names), chance.randrange(1, 6))}
    options = _options(chance, engine := chance.choice(ENGINES) if chance.random() < 0.6 else None)
    members = drawn_names("xy", chance, in_avro if options["file.format"] == "avro" else bool)
    columns = [
        Column(name, chance.choice(list(NESTED if chance.random() < 0.3 else SIMPLE)), members)
        for name in drawn.values()  # DuckDB, which computes expected rows, does not distinguish A from a
    ]
    partition = Column("part", chance.choice(PARTITION_TYPES)) if chance.random() < 0.4 else None
    all_columns = [*columns, partition] if partition else columns
    table = morrow.Catalog(warehouse).create_table(
        "db.t",
        schema={ROW_ID: "INT NOT NULL", **{c.name: _sql_type(c, partition) for c in all_columns}},
        primary_keys=[] if engine is None else [ROW_ID, *([partition.name] if partition else [])],
        partition_keys=[partition.name] if partition else [],
        options=options,
    )
    made = RandomTable(table, columns, partition, engine)
    for number in range(chance.randrange(1, 5)):
        if number and chance.random() < 0.3:
            _evolve(made, chance)
        _write(made, chance)
    waiting = {"deletion-vectors.enabled", "write-only"} <= options.keys()  # rows become readable by a compaction
    if chance.random() < 0.3 or waiting:
        table.compact(full=chance.random() < 0.5)
    return made


def _sql_type(column: Column, partition: Column | None) -> str:
    return f"{column.sql_type}{' NOT NULL' if column is partition else ''}"


def _options(chance: random.Random, engine: str | None) -> dict[str, str]:
    options = {"file.format": chance.choice(FORMATS), "bucket": "-1"}
    if chance.random() < 0.3:
        options["deletion-vectors.enabled"] = "true"
    if engine is None:
        return options
    options["bucket"] = chance.choice(("1", "2", "-1"))
    if engine != "deduplicate":
        options["merge-engine"] = engine
    if engine == "first-row":
        options.pop("deletion-vectors.enabled", None)
    if chance.random() < 0.3:
        options["write-only"] = "true"
    return options


def _evolve(made: RandomTable, chance: random.Random) -> None:
    """Add, rename, widen or drop a column."""
    act = chance.randrange(4)
    column = chance.choice(made.columns)
    at = made.columns.index(column)
    if act == 0 and all(c.name != ADDED for c in made.columns):
        made.columns.append(Column(ADDED, chance.choice(list(SIMPLE))))
        made.table.alter.add_column(ADDED, made.columns[-1].type)
    elif act == 1:
        made.columns[at] = replace(column, name=f"{column.name} again")
        made.table.alter.rename_column(column.name, made.columns[at].name)
    elif act == 2 and column.type in WIDER:
        made.columns[at] = Column(column.name, WIDER[column.type])
        made.table.alter.set_type(column.name, WIDER[column.type])
    elif act == 3 and len(made.columns) > 1:
        made.columns.remove(column)
        made.table.alter.drop_column(column.name)


def _write(made: RandomTable, chance: random.Random) -> None:
    table = made.table
    fields = table._newest.fields
    count = chance.randrange(1, 12)
    first = 100 * len(table.snapshots())
    ids = chance.sample(range(20), count) if made.engine else range(first, first + count)
    pools = {c.name: c.pool for c in (*made.columns, *([made.partition] if made.partition else []))}
    values: dict[str, list[Any]] = {ROW_ID: list(ids)}
    for name, pool in pools.items():
        if made.partition and name == made.partition.name:
            values[name] = [pool[id % len(pool)] for id in ids]  # so that `ROW_ID` is unique across partitions
        else:
            values[name] = [None if chance.random() < 0.25 else chance.choice(pool) for _ in ids]
    schema = to_arrow_schema(fields)
    rows = pa.table([pa.array(values[f.name], f.type) for f in schema], schema=schema)
    kinds = None
    if made.engine == "deduplicate":
        kinds = [chance.choice(("+I", "+I", "+U", "-D")) for _ in ids]
    table.append(rows, kinds=kinds)
