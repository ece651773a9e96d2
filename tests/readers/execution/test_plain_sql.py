"""Reads as SQL for a plain DuckDB: ``Scan.to_sql`` and ``engine="duckdb"``."""

from __future__ import annotations

import datetime as dt
import math
import os
import subprocess
import sys
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

import morrow
from morrow.engine.errors import CorruptFile, FileMissing, InvalidArgument, Unsupported
from morrow.readers.execution import strategy
from morrow.readers.execution.plain_sql import read_filtered_rows
from tests.support.canonical import assert_same_lines, counted, normal_rows, rows_of
from tests.support.golden import Read, reads
from tests.support.one_duckdb import one_duckdb
from tests.support.written import new_table

GOLDEN = [read for read in reads() if read.error is None and read.id == "latest" and str(read).startswith("public/")]
UNSAID = (
    *("files of the format", "whose columns lie in several files", "the merge of", "the type ", "stored as"),
    *("versions of keys in the order of", "columns that no file holds"),
)
"""Reasons why a read cannot be expressed in SQL."""


def tried() -> list[Read]:
    """Return every fourth golden table, and all of them in the long profile."""
    return GOLDEN if os.environ.get("HYPOTHESIS_PROFILE") == "long" else GOLDEN[::4]


@pytest.mark.golden
def test_golden_tables_have_javas_rows(golden_root: Path) -> None:
    said = 0
    for read in tried():
        scan = morrow.open(str(read.table(golden_root))).scan(**read.scan)
        try:
            text = scan.to_sql()
        except Unsupported as error:
            assert any(reason in str(error) for reason in UNSAID), error
            continue
        said += 1
        fields = read.fields(golden_root)
        expected = counted(normal_rows(read.rows(golden_root), fields), fields, read.set_columns)
        rows = one_duckdb().sql(text).to_arrow_table().cast(scan.schema)
        assert_same_lines(rows_of(rows, fields), expected, fields, read.set_columns)
    assert said > 0.6 * len(tried())


@pytest.fixture
def table(tmp_path: Path) -> morrow.Table:
    """Make a table with two partitions with hostile names, older files, and deleted keys."""
    catalog = morrow.Catalog(tmp_path / "it's [w]*")
    name = "v'\""
    schema = {"k": "BIGINT", "p q": "STRING", name: "INT"}
    table = catalog.create_table('db.o"d`d', schema=schema, primary_keys=["k", "p q"], partition_keys=["p q"])
    for start in (0, 2):
        parts = ["a=b/c", "it's", "a=b/c", "it's"]
        table.upsert({"k": list(range(start, start + 4)), "p q": parts, name: pa.array([start] * 4, pa.int32())})
    table.alter.rename_column(name, "w")
    table.alter.set_type("w", "BIGINT")
    table.delete("k = 3")
    return table


def test_a_plain_duckdb_gives_the_rows(table: morrow.Table) -> None:
    texts = []
    for scan in (
        table.scan(),
        table.scan(["w"], "k > 2 AND \"p q\" LIKE 'a%'"),
        table.scan(["p q"], "abs(w - 1) = 1"),
        table.scan(filter="k = 1000"),
    ):
        texts.append(scan.to_sql())
        assert lines(duckdb.sql(texts[-1]).to_arrow_table()) == lines(scan.to_arrow())
    program = "import sys, duckdb; print(duckdb.sql(sys.stdin.read()).fetchall(), 'morrow' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], input=texts[1], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["[(2,)]", "False"]


def lines(rows: pa.Table) -> list[str]:
    return sorted(map(str, rows.to_pylist()))


def test_the_engine_duckdb(table: morrow.Table) -> None:
    for arguments in ({}, {"columns": ["w", "k"], "filter": "w > 0"}, {"limit": 2}):
        ours, theirs = table.scan(**arguments), table.scan(**arguments, engine="duckdb")
        assert theirs.to_arrow().schema == ours.schema
        assert theirs.count() == ours.count() == theirs.to_polars().height
        if "limit" not in arguments:
            assert lines(theirs.to_arrow()) == lines(ours.to_arrow())
    with pytest.raises(InvalidArgument, match="engine is"):
        table.scan(engine="spark")  # type: ignore[arg-type]  # not an engine
    with pytest.raises(Unsupported, match="a LazyFrame"):
        table.scan(engine="duckdb").lazy()


def test_the_engine_duckdb_names_files_that_are_lost_or_damaged(tmp_path: Path) -> None:
    table = new_table(tmp_path, "id BIGINT")
    for number in (1, 2):
        table.append({"id": [number]})
    paths = sorted(map(Path, table.system("files").to_polars()["file_path"]))
    whole = paths[1].read_bytes()
    for error, data in ((CorruptFile, b"PAR1" + bytes(len(whole) - 8) + b"PAR1"), (FileMissing, None)):
        if data is None:
            paths[1].unlink()
        else:
            paths[1].write_bytes(data)
        with pytest.raises(error, match=paths[1].name):
            table.scan(engine="duckdb").to_arrow()


def test_above_level_0_a_key_counts_once(tmp_path: Path) -> None:
    """A lookup compaction leaves older sums of a key in higher levels, so only one of its rows above level 0 counts."""
    options = {"bucket": 1, "merge-engine": "aggregation", "fields._level.aggregate-function": "sum"}
    catalog = morrow.Catalog(tmp_path)
    schema = "k INT NOT NULL, _level INT"
    table = catalog.create_table(
        "db.t", schema=schema, primary_keys=["k"], options={**options, "changelog-producer": "lookup"}
    )
    levels: list[int] = []
    for rows in (20_000, *[10] * 9):
        table.upsert({"k": pa.array(range(rows), pa.int32()), "_level": pa.array([1] * rows, pa.int32())})
        levels = table.system("files").to_arrow()["level"].to_pylist()
        if len(levels) > 1:
            break
    assert levels == [5, 4]
    rows = table.scan().to_arrow().sort_by("k")
    assert rows["_level"][0].as_py() > 2 and rows["_level"][500].as_py() == 1
    assert lines(duckdb.sql(table.scan().to_sql()).to_arrow_table()) == lines(rows)


def test_many_dead_positions_and_what_sql_cannot_say(tmp_path: Path) -> None:
    catalog = morrow.Catalog(tmp_path)
    options = {"deletion-vectors.enabled": True, "bucket": -1}
    table = catalog.create_table("db.t", schema="k INT, t TIMESTAMP(9)", options=options)
    table.append({"k": pa.array(range(10_000), pa.int32())})
    for condition in ("k % 7 = 0", "k < 3000"):
        table.delete(condition)
        text = table.scan(["k"]).to_sql()
        assert duckdb.sql(text).to_arrow_table().sort_by("k") == table.scan(["k"]).to_arrow().sort_by("k")
    with pytest.raises(Unsupported, match=r"TIMESTAMP\(9\)"):
        table.scan().to_sql()
    import polars as pl

    with pytest.raises(Unsupported, match="as SQL"):
        table.scan(["k"], pl.col("k").cast(pl.String).str.contains("1")).to_sql()


REALS = """
    id INT, d DOUBLE, f FLOAT, l ARRAY<DOUBLE>, m MAP<STRING, DOUBLE>, r ROW<d DOUBLE>,
    deep ARRAY<ROW<l ARRAY<FLOAT>>>
"""
ON_REALS = (
    "d > 9",
    "d < 9",
    "isnan(f)",
    "f = 0",
    "NOT d BETWEEN 0 AND 2",
    "isnan(l[1])",
    "l[1] < 9",
    "isnan(m['k'])",
    "r.d > 9",
    "deep[1].l[1] > 9",
    "isnan((SELECT max(d) FROM rows))",
)


@pytest.mark.parametrize("engine", ["deduplicate", "first-row", "partial-update", "aggregation"])
@pytest.mark.parametrize(
    ("kind", "value"), [("DOUBLE", -0.0), ("FLOAT", -0.0), ("ARRAY<DOUBLE>", [-0.0]), ("ROW<x FLOAT>", {"x": -0.0})]
)
def test_zeros_keep_their_sign(tmp_path: Path, engine: str, kind: str, value: object) -> None:
    """DuckDB's arg_max, which picks the newest row, treats -0.0 as 0.0 except in a plain DOUBLE column."""
    options = {"bucket": 1, "merge-engine": engine}
    table = morrow.Catalog(tmp_path).create_table("db.t", f"k INT, v {kind}", primary_keys="k", options=options)
    kinds = {field.name: field.type for field in table.schema}
    for _ in range(2):
        table.upsert(pa.table({"k": pa.array([1], kinds["k"]), "v": pa.array([value], kinds["v"])}))
    if kind != "DOUBLE" and engine in ("partial-update", "aggregation"):
        with pytest.raises(Unsupported, match=r"the merge of v.*DuckDB takes 0\.0 and -0\.0 for one"):
            table.scan().to_sql()
        return
    rows = duckdb.connect().sql(table.scan().to_sql()).to_arrow_table()
    assert str(rows.to_pylist()) == str(table.to_arrow().to_pylist()) == str([{"k": 1, "v": value}])


def test_statistics_without_nan_are_not_believed(tmp_path: Path) -> None:
    """Parquet's statistics omit NaN, so DuckDB would skip rows and compute wrong extremes."""
    table = morrow.Catalog(tmp_path).create_table("db.t", schema=REALS)
    reals = [float("nan"), 1.0, -0.0]
    table.append(
        [
            {"id": i, "d": x, "f": x, "l": [x], "m": {"k": x}, "r": {"d": x}, "deep": [{"l": [x]}]}
            for i, x in enumerate(reals)
        ]
    )
    rows = table.scan().to_arrow()
    with duckdb.connect() as connection:
        told = connection.from_arrow(rows)
        sources = {
            "own": table.scan().to_duckdb(connection),
            "text": connection.sql(table.scan().to_sql()),
        }
        for condition in ON_REALS:
            query = f"SELECT id FROM rows WHERE {condition} ORDER BY id"
            right = told.query("rows", query).fetchall()
            for name, source in sources.items():
                assert (name, condition, source.query("rows", query).fetchall()) == (name, condition, right)
    for condition in ON_REALS[:5]:
        assert table.scan(filter=condition, engine="duckdb").count() == table.count(condition)


ON_ONE_TEXT = (
    "s IS NULL",
    "s IS DISTINCT FROM 'a'",
    "coalesce(s, 'q') = 'q'",
    "s = 'a'",
    "b IS NULL",
    "r.s IS NULL",
    "r.deep.s IS DISTINCT FROM 'a'",
    "l[1] IS NULL",
)


@pytest.mark.parametrize("keys", [(), ("id",)])
def test_one_text_among_nulls_is_not_null(tmp_path: Path, keys: tuple[str, ...]) -> None:
    """DuckDB 2.0 finds a text among nulls to be null in pages without a dictionary, which files of a few rows have."""
    schema = "id INT, s STRING, b BYTES, r ROW<s STRING, deep ROW<s CHAR(1) NOT NULL>>, l ARRAY<STRING>"
    options = {"bucket": 1} if keys else {}
    table = morrow.Catalog(tmp_path).create_table("db.t", schema=schema, primary_keys=keys, options=options)
    nothing = {"s": None, "b": None, "r": None, "l": None}
    texts = {"s": "a", "b": b"a", "r": {"s": "a", "deep": {"s": "a"}}, "l": ["a"]}
    table.append([{"id": i, **(texts if i == 2 else nothing)} for i in range(1, 4)])
    with duckdb.connect() as connection:
        sources = [table.scan().to_duckdb(connection), connection.sql(table.scan().to_sql())]
        for condition in ON_ONE_TEXT:
            ids = [2] if condition == "s = 'a'" else [1, 3]
            found = [source.filter(condition).project("id").order("id").fetchall() for source in sources]
            assert (condition, found) == (condition, [[(i,) for i in ids]] * 2)
            assert table.scan(["id"], condition, engine="duckdb").count() == len(ids) == table.count(condition)


CONDITIONS = (
    "abs(i) = 2",
    "st.x = 1",
    "s LIKE '%2'",
    "f * 2 > 3",
    "isnan(f) OR signbit(f)",
    "upper(c) = 'A'",
    "year(day) = 2001 AND i % 2 = 0",
    "hour(zoned) = 5",
    "i IS NULL AND length(s) = 1",
    "CAST(s AS INT) > 5",
)
"""Conditions that are not predicates. The last fails on text of rows that were replaced."""


@pytest.mark.parametrize("engine", ["deduplicate", "partial-update", "vectors", "append"])
def test_duckdb_tests_conditions_before_masks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str) -> None:
    columns = "i INT, s STRING, f DOUBLE, c CHAR(3), day DATE, zoned TIMESTAMP_LTZ(3), st ROW<x INT>"
    options = {"bucket": 1, "merge-engine": engine} if engine in ("deduplicate", "partial-update") else {}
    options |= {"deletion-vectors.enabled": True} if engine == "vectors" else {}
    keys = ["id"] if options else []
    table = morrow.Catalog(tmp_path).create_table(
        "db.t",
        schema=f"id INT NOT NULL, {columns}",
        primary_keys=keys,
        options={"bucket": 1, **options} if keys else {},
    )
    days = [dt.date(2001, 1, 1), None, dt.date(1999, 12, 31), dt.date(2001, 12, 31)]
    for first, texts in ((0, ["12", "8", "acb", "b"]), (2, ["7", None, "3", "9"])):
        table.append(
            {
                "id": pa.array(range(first, first + 4), pa.int32()),
                "i": pa.array([-2, None, 2, 3], pa.int32()),
                "s": texts,
                "f": [math.nan, -0.0, None, 1.75],
                "c": ["a", None, "a  ", "b"],
                "day": days,
                "zoned": [None if day is None else dt.datetime.combine(day, dt.time(5), dt.UTC) for day in days],
                "st": [{"x": 1}, None, {"x": None}, {"x": 2}],
            }
        )
    if engine == "vectors":
        table.delete("id = 0")
    rows = table.scan().to_arrow()
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("plain", rows)
        for condition in CONDITIONS:
            slow = [scan_ids(table, condition)]
            with monkeypatch.context() as patch:
                patch.setattr(strategy, "MIN_FILTERED_ROWS", 0)
                fast = [scan_ids(table, condition), scan_ids(table, condition, lazy=True)]
                assert "filtered by DuckDB before the mask" in table.scan(filter=condition).explain()
            if not condition.startswith(("hour", "CAST")):  # SQL cannot express the first, and the second fails
                plan = table.scan(filter=condition).plan
                assert read_filtered_rows(plan, table.scan().store, math.inf) is not None
            try:
                query = f"SELECT id FROM plain WHERE {condition} ORDER BY id"
                expected: object = [id for (id,) in connection.sql(query).fetchall()]
            except duckdb.Error:
                expected = InvalidArgument
            assert (condition, slow, fast) == (condition, [expected], [expected] * 2)


def scan_ids(table: morrow.Table, condition: str, *, lazy: bool = False) -> object:
    """Return the sorted ids of a scan with a condition, or the class of its error."""
    scan = table.scan(["id"], condition)
    try:
        return sorted((scan.lazy().collect() if lazy else scan.to_polars())["id"].to_list())
    except InvalidArgument as error:
        return type(error)


def test_rows_beyond_the_memory_limit_are_scanned(tmp_path: Path) -> None:
    table = morrow.Catalog(tmp_path).create_table("db.t", schema="id INT")
    table.append({"id": range(100)})
    scan = table.scan(filter="id % 2 = 0")
    assert read_filtered_rows(scan.plan, scan.store, 10) is None
    found = read_filtered_rows(scan.plan, scan.store, math.inf)
    assert found is not None
    assert found[0]["id"].to_list() == [*range(0, 100, 2)]
