"""Random queries over random tables return the same rows as Spark's queries over Parquet files of these tables.

Morrow answers some parts of such queries itself: aggregates, limits, filters and the used columns, even if there are
none. A failure names its seed and its query.
"""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import morrow
import morrow.spark
from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.spark.catalogs.questions import Place
from morrow.spark.expressions import quote_name
from morrow.spark.statements.execution import run
from morrow.spark.statements.queries import Session
from morrow.spark.views import Access
from tests.faces.tables import NESTED, ROW_ID, Column, RandomTable, make
from tests.support.profile import IS_LONG
from tests.support.spark_rows import handed_over, lines_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TABLES, QUERIES = (300, 20) if IS_LONG else (1, 10)
"""Per test, and per table; `make test` compares as many queries as it can in two seconds."""
FIRST_SEED = random.SystemRandom().randrange(10**6) if IS_LONG else 0
NAMES = (*"abcdefg" * 3, "p.q", "Ü x", "count")
WHOLE = ("TINYINT", "SMALLINT", "INT")
REAL = ("FLOAT", "DOUBLE")
UNORDERED = ("MAP<STRING, INT>", "MULTISET<STRING>")
"""Types that Spark cannot compare or group by."""

Made = Callable[[str], "DataFrame"]
"""Makes the DataFrame of a query that contains ``{t}`` for the table."""


@dataclass(frozen=True)
class Queries:
    """Random queries over the columns of a table."""

    columns: Sequence[Column]
    chance: random.Random

    def query(self) -> str:
        """Write a query with the same rows in any plan."""
        relation = self.relation()
        other = self.relation()
        number = self.chance.randrange(4)
        forms = [
            relation,
            f"SELECT count(*) FROM ({relation})",
            f"SELECT 'x' AS x FROM ({relation})",
            f"SELECT 1 AS one WHERE {self.negation()}EXISTS ({relation})",
            f"SELECT {ROW_ID} FROM {{t}} WHERE {self.negation()}EXISTS ({relation})",
            f"SELECT count(*) FROM ({relation}) CROSS JOIN ({other})",
            f"SELECT 1 AS one FROM ({relation}) CROSS JOIN ({other})",
            f"SELECT (SELECT count(*) FROM ({relation})) AS n, (SELECT count(*) FROM ({other})) AS m",
            f"SELECT {ROW_ID}, (SELECT count(*) FROM ({relation})) AS n FROM {{t}} WHERE {self.condition()}",
            f"SELECT count(*) FROM (SELECT * FROM ({relation}) LIMIT {number})",
            f"SELECT count(*) FROM (SELECT 1 FROM ({relation}) LIMIT {number} OFFSET 1)",
            f"SELECT count(*) FROM (SELECT 1 FROM ({relation}) UNION ALL SELECT 2 FROM ({other}))",
            f"SELECT 1 AS one FROM ({relation}) UNION SELECT 1 FROM ({other})",
            f"SELECT * FROM {{t}} WHERE {self.condition()} ORDER BY {ROW_ID} {self.order()} LIMIT {number}",
            f"SELECT {ROW_ID} FROM {{t}} WHERE {ROW_ID} IN (SELECT max({ROW_ID}) FROM {{t}} WHERE {self.condition()})",
            f"SELECT 1 AS one FROM {{t}} a JOIN {{t}} b ON a.{ROW_ID} = b.{ROW_ID}",
        ]
        return self.chance.choice(forms)

    def relation(self) -> str:
        """Write a subquery of rows, distinct rows, an aggregate of all rows, or grouped aggregates."""
        source = f"{{t}} WHERE {self.condition()}" if self.chance.random() < 0.6 else "{t}"
        names = ", ".join(quote_name(name) for name in self.comparable())
        aggregates = ", ".join(f"{self.aggregate()} AS s{i}" for i in range(self.chance.randrange(1, 4)))
        number = self.chance.randrange(3)
        forms = [
            f"SELECT {names} FROM {source}",
            f"SELECT DISTINCT {names} FROM {source}",
            f"SELECT {names} FROM {source} GROUP BY {names}",
            f"SELECT {names}, {aggregates} FROM {source} GROUP BY {names}",
            f"SELECT {aggregates} FROM {source} GROUP BY {names} HAVING count(*) > {number}",
            *[f"SELECT {aggregates} FROM {source}"] * 4,
            f"SELECT {aggregates} FROM {source} HAVING count(*) > {number}",
            f"SELECT {aggregates} FROM (SELECT * FROM {source} ORDER BY {ROW_ID} {self.order()} LIMIT {number})",
        ]
        return self.chance.choice(forms)

    def comparable(self) -> list[str]:
        """Draw comparable columns, possibly with the partition and the row id."""
        able = [ROW_ID, *(column.name for column in self.columns if column.type not in UNORDERED)]
        return self.chance.sample(able, self.chance.randrange(1, len(able) + 1))

    def aggregate(self) -> str:
        column = self.chance.choice([*self.columns, Column(ROW_ID, "INT")])
        name = quote_name(column.name)
        forms = ["count(*)", "count(1)", f"count({name})", f"count(*) FILTER (WHERE {self.condition()})"]
        if column.type not in UNORDERED:
            forms += [f"min({name})", f"max({name})"] * 2 + [f"count(DISTINCT {name})"]
        if column.type in WHOLE:
            forms += [f"sum({name})", f"avg({name})"]
        return self.chance.choice(forms)

    def condition(self) -> str:
        column = self.chance.choice([*self.columns, Column(ROW_ID, "INT")])
        name = quote_name(column.name)
        forms = [
            f"{name} IS NULL",
            f"{name} IS NOT NULL",
            f"{ROW_ID} < 0",
            "false",
            f"{ROW_ID} > 5",
            f"{ROW_ID} % 2 = 0",
        ]
        if column.type not in NESTED and column.pool:
            value, more = (literal(self.chance.choice(column.pool), column.type) for _ in range(2))
            sign = self.chance.choice(("=", "<>", "<", ">=", "<=>"))
            forms += [f"{name} {sign} {value}"] * 4 + [f"{name} IN ({value}, {more})", f"NOT {name} IN ({value}, NULL)"]
        first = self.chance.choice(forms)
        return (
            f"({first} {self.chance.choice(('AND', 'OR'))} {self.condition()})" if self.chance.random() < 0.3 else first
        )

    def negation(self) -> str:
        return self.chance.choice(("", "NOT "))

    def order(self) -> str:
        return self.chance.choice(("ASC", "DESC"))


def literal(value: Any, kind: str) -> str:
    """Format a column's value as a Spark SQL literal."""
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if isinstance(value, dt.datetime):
        return f"TIMESTAMP_LTZ'{value.isoformat()}'" if value.tzinfo else f"TIMESTAMP_NTZ'{value.isoformat()}'"
    if isinstance(value, str):
        escaped = "".join(f"\\u{ord(char):04x}" if char in "'\\\0" else char for char in value)
        return f"'{escaped}'"
    if isinstance(value, (float, Decimal)):
        return f"CAST('{value}' AS {kind})"
    if isinstance(value, (dt.date, dt.time)):
        return f"{kind.partition('(')[0]}'{value.isoformat()}'"
    return str(value)


def _faces(spark: SparkSession, warehouse: Path, table: morrow.Table, snapshot: int | None) -> Mapping[str, Made]:
    """Return Spark's ways to read a table of ``db``, as of its newest or another snapshot."""
    session = Session(spark, {"pm": Place(spark, "pm", morrow.Catalog(warehouse), Access())})
    name = f"{Path(table.path).name}_{snapshot or 'newest'}"
    options = {} if snapshot is None else {"scan.snapshot-id": str(snapshot)}
    morrow.spark.read(spark, table.path, snapshot=snapshot).createOrReplaceTempView(f"pushed_read_{name}")
    spark.read.format("morrow").options(**options).load(table.path).createOrReplaceTempView(f"pushed_loaded_{name}")
    known = f"pm.db.{Path(table.path).name}" + ("" if snapshot is None else f" VERSION AS OF {snapshot}")
    return {
        "catalog": lambda query: spark.sql(query.format(t=known)),
        "read": lambda query: spark.sql(query.format(t=f"pushed_read_{name}")),
        "load": lambda query: spark.sql(query.format(t=f"pushed_loaded_{name}")),
        "morrow.spark.sql": lambda query: run(session, query.format(t=known)),
    }


def _never_written(made: RandomTable, warehouse: Path) -> morrow.Table:
    """Create ``db.never``, a table with the same columns and no snapshot."""
    fields = {field.name: str(field.type) for field in made.table.scan().fields}
    return morrow.Catalog(warehouse).create_table("db.never", schema=fields)


def _columns_in(scan: morrow.Scan, made: RandomTable) -> list[Column]:
    """Return the newest columns that a scan also has, since an old snapshot may have others."""
    newest = {field.name: field.type for field in made.table.scan().fields}
    shared = {field.name for field in scan.fields if newest.get(field.name) == field.type}
    columns = [*made.columns, *([made.partition] if made.partition else [])]
    return [column for column in columns if column.name in shared]


def _held(spark: SparkSession, scan: morrow.Scan, folder: Path) -> str:
    """Write the rows of a scan to Parquet with Spark, and return the name of a view of them."""
    handed_over(scan, spark).coalesce(1).write.parquet(str(folder))
    spark.read.parquet(str(folder)).createOrReplaceTempView(f"held_{folder.name}")
    return f"held_{folder.name}"


@pytest.mark.parametrize("part", range(3))
def test_queries_over_random_tables(spark: SparkSession, tmp_path: Path, part: int) -> None:
    for seed in range(FIRST_SEED + part * TABLES, FIRST_SEED + (part + 1) * TABLES):
        _compare(spark, tmp_path / str(seed), seed)


def _compare(spark: SparkSession, folder: Path, seed: int) -> None:
    chance, warehouse = random.Random(seed), folder / "warehouse"
    try:
        made = make(str(warehouse), chance, NAMES)
        old = chance.choice(made.table.snapshots()).id
        scans = {
            "newest": (made.table, None, made.table.scan()),
            **({"old": (made.table, old, made.table.scan(snapshot=old))} if chance.random() < 0.5 else {}),
        }
        if len(scans) == 1:
            never = _never_written(made, warehouse)
            scans["never"] = never, None, never.scan()
        held = {name: _held(spark, scan, folder / name) for name, (_, _, scan) in scans.items()}
    except (InvalidArgument, Unsupported):
        return
    morrow.spark.catalog(spark, "pm", warehouse=warehouse)
    queries = {name: Queries(_columns_in(scan, made), chance) for name, (_, _, scan) in scans.items()}
    states: list[tuple[Queries, str, Made, str]] = [
        (queries[name], f"{name} by {way}", face, held[name])
        for name, (table, snapshot, _) in scans.items()
        for way, face in _faces(spark, warehouse, table, snapshot).items()
    ]
    drawn = [(asking.query(), *state) for asking, *state in (chance.choice(states) for _ in range(QUERIES))]
    asked = [made for query, _, face, view in drawn for made in (face(query), spark.sql(query.format(t=view)))]
    lines = lines_of(asked)
    for (query, name, *_), found, expected in zip(drawn, lines[::2], lines[1::2], strict=True):
        if isinstance(found, Exception) and isinstance(expected, Exception):
            continue
        assert found == expected, f"seed {seed}, {name}: {query}"
