"""Conditions of queries that the scan of a table tests before DuckDB does."""

from __future__ import annotations

import datetime as dt
import math
import random
from collections.abc import Iterator
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pytest

import morrow
from morrow.catalogs.catalog import Catalog
from morrow.engine.plan.predicate import ALWAYS
from morrow.queries import query
from morrow.queries.rewriting import find_condition, find_used_columns

SCHEMA = (
    "id BIGINT NOT NULL, i INT, f DOUBLE, s STRING, day DATE, ts TIMESTAMP(9), zoned TIMESTAMP_LTZ(6), r ROW<i INT>"
)
NUMBERS = [None, math.nan, math.inf, -0.0, 1.5, 100.0]
TEXTS = [None, "", "a", "ab", "abc", "abd", "a%", "\U0010ffff", "A"]
ROWS = 90


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    """Make ``d.t``, whose rows are merged from three upserts of overlapping keys."""
    found = morrow.Catalog(tmp_path_factory.mktemp("warehouse"))
    table = found.create_table("d.t", schema=SCHEMA, primary_keys=["id"], options={"bucket": 1})
    seed = random.Random(7)
    for first in range(3):
        days = [dt.date(2000 + seed.randrange(4), seed.randint(1, 12), seed.choice((1, 15))) for _ in range(ROWS)]
        table.upsert(
            pa.table(
                {
                    "id": pa.array([first * 10 + row for row in range(ROWS)], pa.int64()),
                    "i": pa.array([seed.choice((None, -3, 0, 2, 5)) for _ in days], pa.int32()),
                    "f": pa.array([seed.choice(NUMBERS) for _ in days], pa.float64()),
                    "s": pa.array([seed.choice(TEXTS) for _ in days], pa.string()),
                    "day": pa.array(days, pa.date32()),
                    "ts": pa.array([dt.datetime.combine(day, dt.time(5)) for day in days], pa.timestamp("ns")),
                    "zoned": pa.array([dt.datetime.combine(day, dt.time(), dt.UTC) for day in days]),
                    "r": pa.array([{"i": seed.randrange(3)} for _ in days], pa.struct({"i": pa.int32()})),
                }
            )
        )
    return found


@pytest.fixture
def connection(catalog: Catalog) -> Iterator[duckdb.DuckDBPyConnection]:
    """Connect to DuckDB with the rows of ``d.t`` as the plain table ``plain``."""
    with duckdb.connect() as made:
        made.register("plain", catalog.table("d.t").scan().to_arrow())
        yield made


def narrow(catalog: Catalog, text: str, connection: duckdb.DuckDBPyConnection, **parameters: object) -> str:
    """Return the predicate that the scan of the first table gets."""
    fields = catalog.table("d.t").scan().dataset().fields
    table = next(query.parse_query(text).find_all(query.exp.Table))
    found = find_condition(table, fields, parameters, connection)
    return "" if found == ALWAYS else str(found)


@pytest.mark.parametrize(
    ("condition", "predicate"),
    [
        ("f BETWEEN 1 AND 2", "f >= 1.0 AND f <= 2.0"),
        ("t.f > 1 AND abs(i) = 2", "f > 1.0 AND i IN (-2, 2)"),
        ("i + 1 = 3", "i = 2"),
        ("2 - i < 3", "i > -1"),
        ("s LIKE 'ab%c_'", "s STARTS WITH 'ab'"),
        ("year(day) = 2001", "day >= DATE '2001-01-01' AND day < DATE '2002-01-01'"),
        (
            "CAST(ts AS DATE) = DATE '2001-05-01'",
            "ts >= TIMESTAMP '2001-05-01 00:00:00' AND ts < TIMESTAMP '2001-05-02 00:00:00'",
        ),
        ("i = $number", "i = 5"),
        ("i + 1 = 3 OR i IS NULL", "i = 2 OR i IS NULL"),
        ("i + 1 = 3 OR length(s) = 1", ""),
        ("r.i = 1", ""),
        ("i = (SELECT 1)", ""),
        ("zoned > TIMESTAMP '2001-01-01 00:00:00'", ""),
        ("nothing = 1", ""),
        ("CAST(ts AS VARCHAR) = 'nan' OR i + 1 = 3", ""),
    ],
)
def test_a_scan_gets_what_follows_from_the_condition(
    catalog: Catalog, connection: duckdb.DuckDBPyConnection, condition: str, predicate: str
) -> None:
    assert narrow(catalog, f"SELECT id FROM d.t AS t WHERE {condition}", connection, number=5) == predicate


@pytest.mark.parametrize(
    "text",
    [
        "SELECT f + 1 AS f FROM d.t WHERE f > 1",
        "SELECT a FROM d.t AS t(a, i) WHERE i > 1",
        "SELECT * FROM d.t, (SELECT 1 AS one) WHERE f > 1",
        "SELECT * FROM d.t LEFT JOIN plain USING (id) WHERE plain.f > 1",
        "SELECT * FROM d.t TABLESAMPLE 10% WHERE f > 1",
    ],
)
def test_a_scan_gets_no_condition_of_other_rows(
    catalog: Catalog, connection: duckdb.DuckDBPyConnection, text: str
) -> None:
    assert narrow(catalog, text, connection) == ""


def test_a_scan_gets_no_condition_that_the_session_decides(
    catalog: Catalog, connection: duckdb.DuckDBPyConnection
) -> None:
    connection.execute("SET default_collation = 'nocase'")
    assert narrow(catalog, "SELECT id FROM d.t WHERE s = 'a'", connection) == ""
    connection.execute("RESET default_collation")
    connection.execute("CREATE MACRO abs(x) AS x + 1")
    assert narrow(catalog, "SELECT id FROM d.t WHERE abs(i) = 3", connection) == ""


def write_condition(seed: random.Random, depth: int = 2) -> str:
    """Return a random condition on the columns of ``d.t``."""
    if depth and seed.random() < 0.6:
        joint = seed.choice(("AND", "OR"))
        text = f"({write_condition(seed, depth - 1)} {joint} {write_condition(seed, depth - 1)})"
        return text if seed.random() < 0.8 else f"NOT {text}"
    compare = seed.choice(("=", "<>", "<", "<=", ">", ">="))
    day = f"{seed.choice(('DATE', 'TIMESTAMP'))} '200{seed.randrange(4)}-0{seed.randint(1, 9)}-01'"
    number = seed.choice(("1.5", "0", "1e300", "'nan'::DOUBLE"))
    integer = seed.choice(("i + 1", "1 + i", "i - 2", "2 - i", "-i", "abs(i)", "i * 2"))
    like = seed.choice(("LIKE", "NOT LIKE", "ILIKE"))
    unit, column = seed.choice(("year", "month", "day", "week")), seed.choice(("day", "ts"))
    return seed.choice(
        (
            f"f {compare} {number}",
            f"{integer} {compare} {seed.randint(-4, 6)}",
            f"s {like} '{seed.choice(('a%', 'ab_', '%b', 'a%c', '', '%', '_%'))}'",
            f"s {seed.choice(('IN', 'NOT IN'))} ('ab', 'abd')",
            f"year({column}) {compare} {seed.randint(1999, 2004)}",
            f"date_trunc('{unit}', {column}) {compare} {day}",
            f"CAST(ts AS DATE) {compare} {day}",
            f"abs(i) BETWEEN {seed.randint(-1, 3)} AND 4",
            f"year({column}) IN (2000, 2003)",
            "r.i = 1",
        )
    )


def test_conditions_keep_the_rows_that_duckdb_keeps(catalog: Catalog, connection: duckdb.DuckDBPyConnection) -> None:
    seed, table = random.Random(11), catalog.table("d.t")
    for _ in range(40):
        condition = write_condition(seed)
        wanted = connection.sql(f"SELECT id FROM plain WHERE {condition} ORDER BY id").fetchall()
        found = catalog.sql(f"SELECT id FROM d.t WHERE {condition} ORDER BY id", connection=connection).fetchall()
        assert found == wanted, condition
        assert table.scan(columns=["id"], filter=condition).to_polars().sort("id").rows() == wanted, condition


def test_only_matching_rows_leave_the_scan(
    catalog: Catalog, connection: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned: list[str] = []
    narrowed = morrow.Scan.narrowed

    def record(self: morrow.Scan, *arguments: object) -> morrow.Scan:
        planned.append(str(self.request.filter))
        return narrowed(self, *arguments)  # type: ignore[arg-type]  # as Scan.narrowed takes them

    monkeypatch.setattr(morrow.Scan, "narrowed", record)
    catalog.sql("SELECT count(*) FROM d.t WHERE f BETWEEN 1 AND 2", connection=connection).fetchall()
    assert planned[-1] == "(f >= 1.0 AND f <= 2.0)"


@pytest.mark.parametrize(
    ("text", "reads_files"),
    [
        ("SELECT id FROM d.u WHERE r.i = 1", True),
        ("SELECT id FROM (SELECT * FROM d.u) WHERE f BETWEEN 1 AND 2", True),
        ("SELECT max(u.f) FROM d.u JOIN plain USING (id)", True),
        ("SELECT id FROM d.u WHERE id = 5", False),
        ("SELECT max(f) FROM d.u", False),
        ("SELECT max(r.i) FROM d.u", True),
        ("SELECT s, count(*) FROM d.u GROUP BY s", True),
        ("SELECT count(DISTINCT s) FROM d.u", True),
        ("SELECT DISTINCT s FROM d.u", True),
        ("SELECT id % 2, count(*) FROM d.u GROUP BY 1", False),
        ("SELECT * FROM d.u ORDER BY f LIMIT 9", True),
        ("SELECT id, f FROM d.u ORDER BY f LIMIT 9", False),
    ],
)
def test_duckdb_reads_files_under_masks_if_it_decodes_less(
    tmp_path: Path, connection: duckdb.DuckDBPyConnection, text: str, reads_files: bool
) -> None:
    catalog = morrow.Catalog(tmp_path)
    table = catalog.create_table(
        "d.u", schema="id BIGINT NOT NULL, f DOUBLE, r ROW<i INT>, s STRING", primary_keys=["id"], options={"bucket": 1}
    )
    for number in (1, 2):
        table.upsert([{"id": number, "f": 1.5, "r": {"i": number}, "s": "a"}, {"id": 5, "f": 0.5, "r": {"i": 1}}])
    found = catalog.sql(text, connection=connection)
    assert ("READ_PARQUET" in found.explain()) is reads_files
    connection.register("u", table.scan().to_arrow())
    assert sorted(map(repr, found.fetchall())) == sorted(map(repr, connection.sql(text.replace("d.u", "u")).fetchall()))


AGGREGATES = (
    "SELECT count(*) FROM {}",
    "SELECT COUNT(*) AS n, min(id), max(ID) FROM {}",
    'SELECT min(i), MAX(i), count(i), min("day"), max(day) low FROM {} AS x',
    "SELECT min(f), max(f), count(f), min(s), max(s) FROM {}",
    "SELECT n + 1 FROM (SELECT count(*) AS n FROM {})",
    "SELECT min(id) FROM {} WHERE id > 3",
    "SELECT count(DISTINCT i), min(id) FROM {}",
    "SELECT count(*) FILTER (i > 0), max(id, 2) FROM {}",
    "SELECT min(y) FROM {} AS x(y)",
    "SELECT count(*) FROM {} HAVING count(*) > 1000",
)
KINDS: dict[str, dict[str, object]] = {
    "append": {},
    "keys": {"bucket": 1},
    "vectors": {"bucket": 1, "deletion-vectors.enabled": True},
    "partial-update": {"bucket": 1, "merge-engine": "partial-update", "partial-update.remove-record-on-delete": True},
    "data evolution": {"row-tracking.enabled": True, "data-evolution.enabled": True, "deletion-vectors.enabled": True},
}


@pytest.mark.parametrize("deleted", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_aggregates_from_metadata_are_those_of_the_rows(tmp_path: Path, kind: str, deleted: bool) -> None:
    options = KINDS[kind]
    found = morrow.Catalog(tmp_path)
    columns = "id BIGINT NOT NULL, i INT, f DOUBLE, s STRING, day DATE"
    table = found.create_table("d.t", columns, primary_keys=["id"] if "bucket" in options else [], options=options)
    seed = random.Random(3)
    for first in range(3):
        rows = {
            "id": pa.array([first * 5 + row for row in range(20)], pa.int64()),
            "i": pa.array([seed.choice((None, -3, 7)) for _ in range(20)], pa.int32()),
            "f": pa.array([seed.choice(NUMBERS) for _ in range(20)], pa.float64()),
            "s": [seed.choice(TEXTS) for _ in range(20)],
            "day": [dt.date(2000 + seed.randrange(9), 1, 1) for _ in range(20)],
        }
        (table.upsert if "bucket" in options else table.append)(pa.table(rows))
    if deleted:
        table.delete("id < 3 OR id > 27")

    with duckdb.connect() as connection:
        connection.register("plain", found.table("d.t").scan().to_arrow())
        for text in AGGREGATES:
            try:
                expected = describe(connection.sql(text.format("plain")))
            except duckdb.Error:
                continue
            assert (text, describe(found.sql(text.format("d.t")))) == (text, expected)


def describe(relation: duckdb.DuckDBPyRelation) -> tuple[object, ...]:
    return relation.columns, list(map(str, relation.types)), repr(relation.fetchall())


def test_counts_and_bounds_of_keys_read_no_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = morrow.Catalog(tmp_path)
    table = found.create_table("d.t", "id BIGINT NOT NULL, i INT", primary_keys=["id"], options={"bucket": 1})
    for first in (0, 5):
        table.upsert(pl.DataFrame({"id": range(first, first + 10), "i": range(10)}, schema_overrides={"i": pl.Int32}))
    monkeypatch.setattr(query, "make_variable", None)  # would hand rows over

    assert found.sql("SELECT count(*), min(id), max(id) FROM d.t").fetchall() == [(15, 0, 14)]


@pytest.mark.parametrize(
    ("text", "used"),
    [
        ("SELECT ID FROM d.t WHERE t.f > 1 AND length(S) = 2", ["id", "f", "s"]),
        ("SELECT r.i FROM d.t AS x ORDER BY x.day", ["i", "day", "r"]),
        ("SELECT d.t.r.i FROM d.t", ["i", "r"]),
        ("SELECT i AS j, count(*) FROM d.t GROUP BY j HAVING j > 0 ORDER BY ALL", ["i"]),
        (
            "WITH c AS (SELECT id, i FROM d.t) SELECT c.id FROM c WHERE i = 1 AND EXISTS (SELECT 1 FROM c AS e)",
            ["id", "i"],
        ),
        ("SELECT a FROM (SELECT id AS a, f FROM d.t) WHERE f > 0", ["id", "f"]),
        ("SELECT sum(i) OVER w FROM d.t WINDOW w AS (PARTITION BY s) QUALIFY f > 0", ["i", "f", "s"]),
        ("SELECT DISTINCT ON (s) length(s) FROM d.t", ["s"]),
        # These may read other columns than those that they name.
        ("SELECT * FROM d.t", None),
        ("SELECT t.* FROM d.t", None),
        ("SELECT x FROM (SELECT * FROM d.t)", None),
        ("FROM d.t", None),
        ("SELECT COLUMNS('i.*') FROM d.t", None),
        ("SELECT #2 FROM d.t", None),
        ("SELECT t FROM d.t", None),
        ("SELECT struct_extract(x, 'id') FROM d.t AS x", None),
        ("SELECT a FROM d.t AS x(a)", None),
        ("SELECT id FROM d.t AS x NATURAL JOIN (SELECT 1 AS i)", None),
        ("SELECT x.id FROM d.t AS x JOIN d.t AS y USING (id)", None),
        ("SUMMARIZE SELECT id FROM d.t", None),
        # DuckDB suggests columns that are there.
        ("SELECT idd FROM d.t", None),
        ("SELECT count(*) FROM d.t", None),
    ],
)
def test_queries_read_the_columns_that_they_name(
    catalog: Catalog, connection: duckdb.DuckDBPyConnection, text: str, used: list[str] | None
) -> None:
    names = [field.name for field in catalog.table("d.t").scan().fields]
    assert find_used_columns(query.parse_query(text), names) == (used and [name for name in names if name in used])

    connection.sql("CREATE SCHEMA d")
    connection.sql("CREATE TABLE d.t AS FROM plain")
    try:
        expected = connection.sql(text).to_arrow_table()
    except duckdb.Error:
        with pytest.raises(morrow.MorrowError):
            catalog.sql(text).to_arrow_table()
        return
    rows = catalog.sql(text).to_arrow_table()
    assert (rows.schema.names, rows.num_rows) == (expected.schema.names, expected.num_rows)
    if used:
        assert sorted(map(str, rows.to_pylist())) == sorted(map(str, expected.to_pylist()))
