"""Questions of analysts: conditions of every kind, groups, the top rows and metadata, against scans that merge nothing.

The table is merge-on-read: 4 buckets of 4 million rows, with three updates of 100,000 rows on top. DuckDB's
`read_parquet` reads the same files. Polars' scan of them, and pypaimon-rust, answer the conditions that they can.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import morrow
import morrow.variant
from bench import tables
from bench.compare import Bound, compare, timed
from bench.conftest import Peers
from bench.data import Ids

SECTION, BASELINE = "Questions", "DuckDB read_parquet, no merge"
ROWS, BUCKETS, UPDATES, UPDATE_ROWS = 4_000_000, 4, 3, 100_000
SCHEMA = {
    "id": "BIGINT NOT NULL",
    "i": "INT",
    "b": "DOUBLE",
    "f": "FLOAT",
    "s": "STRING",
    "c": "STRING",
    "dt": "DATE",
    "st": "ROW<x INT, y STRING>",
}
OPTIONS = {"bucket": BUCKETS, "write-only": True}


@dataclass(frozen=True)
class Question:
    """A condition and the bounds of its ratio, as `scan(filter=)` and in SQL."""

    condition: str
    scan: float
    sql: float


CONDITIONS = (
    Question("b BETWEEN 1000 AND 5000", 2, 2),
    Question("f BETWEEN 1000 AND 5000", 2, 2),
    Question("s = 'k0000001'", 2, 2),
    Question("s LIKE 'k00000%'", 2, 2),
    Question("s IN ('k0000001', 'k0399999')", 2, 2),
    Question("abs(i) = 100", 1.5, 1.5),
    Question("st.x = 100", 1.5, 1.5),
    Question("i + 1 = 101", 2, 2),
    Question("year(dt) = 2001", 1.5, 1.5),
)
POLARS_CONDITIONS = ("b BETWEEN 1000 AND 5000", "s = 'k0000001'", "i + 1 = 101")
AGGREGATES = {
    "groups with count and sum": ("SELECT c, count(*), sum(i) FROM {} GROUP BY c", 2),
    "top 10 by a value": ("SELECT id, b FROM {} ORDER BY b DESC LIMIT 10", 2.5),
    "count(DISTINCT c)": ("SELECT count(DISTINCT c) FROM {}", 2.5),
    "count, min and max of the key": ("SELECT count(*), min(id), max(id) FROM {}", 1.5),
}


def make_rows(ids: Ids, seed: int) -> pl.DataFrame:
    """Return one row per id: values at random, dates that ascend with the id, texts of 400,000 kinds."""
    random = np.random.default_rng(seed)
    count = len(ids)
    x = pl.Series("x", random.integers(0, 100_000, count, dtype=np.int32))
    return pl.DataFrame({"id": ids}).select(
        "id",
        i=pl.Series(random.integers(-100_000, 100_000, count, dtype=np.int32)),
        b=pl.Series(random.random(count) * 10_000_000),
        f=pl.Series((random.random(count) * 10_000_000).astype(np.float32)),
        s=pl.format("k{}", pl.Series(random.integers(0, 400_000, count)).cast(pl.String).str.zfill(7)),
        c=pl.format("city {}", pl.Series(random.integers(0, 1_000, count))),
        dt=pl.lit(dt.date(1990, 1, 1)) + pl.duration(days=pl.col("id") // 400),
        st=pl.struct(x, pl.format("y{}", x).alias("y")),
    )


@pytest.fixture(scope="module")
def table(request: pytest.FixtureRequest) -> morrow.Table:
    """Return the table, written by Morrow to bench/.data if it is not there."""
    quick = request.config.getoption("--quick")
    home = tables.HOME / ("quick" if quick else "full") / "questions"
    rows, update_rows = (
        (ROWS // tables.QUICK_DIVISOR, UPDATE_ROWS // tables.QUICK_DIVISOR) if quick else (ROWS, UPDATE_ROWS)
    )
    if (path := home / "db.db" / "t").exists():
        return morrow.open(path)
    catalog = morrow.Catalog(home)
    made = catalog.create_table("db.t", SCHEMA, primary_keys=["id"], options=OPTIONS)
    made.upsert(make_rows(np.arange(rows, dtype=np.int64), 0))
    made.compact(full=True)
    for number in range(UPDATES):
        keys = np.sort(np.random.default_rng(number).choice(rows, update_rows, replace=False)).astype(np.int64)
        made.upsert(make_rows(keys, 100 + number))
    return made


@pytest.fixture(scope="module")
def files(table: morrow.Table) -> str:
    """Return the relation of the data files of the newest snapshot in DuckDB, which merges nothing."""
    return f"read_parquet({list_files(table)})"


def list_files(table: morrow.Table) -> list[str]:
    return table.system("files").to_polars()["file_path"].to_list()


COLUMNS = ", ".join(SCHEMA)


def read_arrow(relation: duckdb.DuckDBPyRelation) -> pa.Table:
    return relation.to_arrow_table()


@pytest.fixture(scope="module")
def catalog(table: morrow.Table) -> morrow.Catalog:
    return morrow.Catalog(table.path.rpartition("/db.db/")[0])


@pytest.mark.parametrize("question", CONDITIONS, ids=lambda each: each.condition)
def test_a_condition(benchmark: BenchmarkFixture, table: morrow.Table, files: str, question: Question) -> None:
    plain = duckdb.connect()
    query = f"SELECT {COLUMNS} FROM {files} WHERE {question.condition}"
    compare(
        benchmark,
        SECTION,
        f"scan, {question.condition}",
        lambda: table.scan(filter=question.condition).to_arrow(),
        baseline=(BASELINE, timed(lambda: read_arrow(plain.sql(query)))),
        bound=Bound(question.scan),
    )


@pytest.mark.parametrize("question", CONDITIONS, ids=lambda each: each.condition)
def test_a_condition_in_sql(
    benchmark: BenchmarkFixture, catalog: morrow.Catalog, files: str, question: Question
) -> None:
    query = f"SELECT {COLUMNS} FROM {{}} WHERE {question.condition}"
    compare_query(benchmark, catalog, files, f"SQL, {question.condition}", query, question.sql)


@pytest.mark.parametrize("name", AGGREGATES)
def test_an_aggregate(benchmark: BenchmarkFixture, catalog: morrow.Catalog, files: str, name: str) -> None:
    query, bound = AGGREGATES[name]
    compare_query(benchmark, catalog, files, f"SQL, {name}", query, bound)


def compare_query(
    benchmark: BenchmarkFixture, catalog: morrow.Catalog, files: str, what: str, query: str, bound: float
) -> None:
    plain = duckdb.connect()
    compare(
        benchmark,
        SECTION,
        what,
        lambda: read_arrow(catalog.sql(query.format("db.t"))),
        baseline=(BASELINE, timed(lambda: read_arrow(plain.sql(query.format(files))))),
        bound=Bound(bound),
    )


@pytest.mark.parametrize("question", POLARS_CONDITIONS)
def test_a_condition_by_polars(benchmark: BenchmarkFixture, table: morrow.Table, question: str) -> None:
    """Compare with Polars' own scan of the files, for conditions that it takes."""
    plain = pl.scan_parquet(list_files(table)).select(*SCHEMA).filter(pl.sql_expr(question))
    compare(
        benchmark,
        f"{SECTION}, Polars",
        f"scan, {question}",
        lambda: table.scan(filter=question).to_polars(),
        baseline=("Polars scan, no merge", timed(plain.collect)),
    )


PARTS = {"age": "> 97", "rank": "BETWEEN 5000 AND 5100", "name": "= 'user 77'"}
"""Members of variants, and conditions on them."""
PART_TYPES = {"age": "INT", "rank": "BIGINT", "name": "STRING"}
VARIANTS, MIN_VARIANTS = 1_000_000, 100_000


@pytest.fixture(scope="module")
def variants(request: pytest.FixtureRequest) -> morrow.Table:
    """Return a table whose variants are shredded into typed columns, written to bench/.data if it is not there."""
    quick = request.config.getoption("--quick")
    home = tables.HOME / ("quick" if quick else "full") / "variants"
    if (path := home / "db.db" / "t").exists():
        return morrow.open(path)
    options = {"variant.inferShreddingSchema": True}
    made = morrow.Catalog(home).create_table("db.t", "id INT, v VARIANT", options=options)
    count = MIN_VARIANTS if quick else VARIANTS
    texts = [f'{{"age": {i % 100}, "name": "user {i}", "rank": {i}, "tags": ["a", "b"]}}' for i in range(count)]
    ids = pa.array(np.arange(count, dtype=np.int32))
    made.append(pa.table({"id": ids, "v": morrow.variant.parse_json(texts)}))
    return made


@pytest.mark.parametrize("name", PARTS)
def test_a_part_of_variants(benchmark: BenchmarkFixture, variants: morrow.Table, name: str) -> None:
    """Compare with DuckDB's scan of the typed column, which knows the layout of the file."""
    plain = duckdb.connect()
    query = f"SELECT id FROM read_parquet({list_files(variants)}) WHERE v.typed_value.{name}.typed_value {PARTS[name]}"
    compare(
        benchmark,
        f"{SECTION}, parts of variants",
        f"scan, v:{name}::{PART_TYPES[name]} {PARTS[name]}",
        lambda: variants.scan(["id"], filter=f"v:{name}::{PART_TYPES[name]} {PARTS[name]}").to_arrow(),
        baseline=("DuckDB read_parquet, the typed column", timed(lambda: read_arrow(plain.sql(query)))),
        bound=Bound(4),
    )


def test_a_part_of_whole_variants(benchmark: BenchmarkFixture, variants: morrow.Table) -> None:
    """Compare with a condition that is tested on whole variants, since it is not one on parts alone."""
    compare(
        benchmark,
        f"{SECTION}, parts of variants",
        "scan, v:age::INT > 97, by its column",
        lambda: variants.scan(["id"], filter="v:age::INT > 97").to_arrow(),
        baseline=(
            "coalesce(v:age::INT, 0) > 97, on whole variants",
            timed(lambda: variants.scan(["id"], filter="coalesce(v:age::INT, 0) > 97").to_arrow()),
        ),
        bound=Bound(20, faster=True),
        rounds=3,
    )


@pytest.mark.peers
@pytest.mark.parametrize("name", AGGREGATES)
def test_an_aggregate_by_rust(
    benchmark: BenchmarkFixture, catalog: morrow.Catalog, table: morrow.Table, peer: Peers, name: str
) -> None:
    query, rust = AGGREGATES[name][0], peer("pypaimon-rust")
    warehouse = table.path.rpartition("/db.db/")[0]
    compare(
        benchmark,
        f"{SECTION}, pypaimon-rust",
        f"SQL, {name}",
        lambda: read_arrow(catalog.sql(query.format("db.t"))),
        baseline=("pypaimon-rust 0.4.0", lambda: rust.clock(warehouse, "sql", query.format("paimon.db.t"))),
        rounds=3,
    )
