"""Objects that ``paimon_scan`` leaves in DuckDB, and orders in which it may be called."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
import pytest

import morrow
from morrow.engine.errors import ColumnNotFound, CorruptFile, InvalidArgument, Unsupported
from morrow.engine.format import types as t
from morrow.engine.format.types import parse_atomic
from morrow.engine.io.store import FileStore
from morrow.engine.plan.scan_plan import ScanPlan
from morrow.engine.structs import replace
from morrow.readers.execution import duckdb_relation, execute, strategy
from morrow.readers.execution.datasets import PaimonDataset
from morrow.readers.execution.duckdb_relation import (
    MAX_HANDOFFS,
    make_relation,
    view_reader,
    view_schema,
    view_table,
)
from tests.support.table_factory import TableFactory


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Make a table with the ids 1 to 3."""
    table = TableFactory(tmp_path / "t", [("id", "INT")], ["id"])
    table.write_file(pa.table({"id": [1, 2, 3]}))
    table.commit()
    return str(table.path)


def other(path: str, name: str, count: int) -> str:
    table = TableFactory(Path(path).parent / name, [("id", "INT")], ["id"])
    table.write_file(pa.table({"id": range(count)}))
    table.commit()
    return str(table.path)


def test_a_relation_over_what_is_handed_over(path: str) -> None:
    with duckdb.connect() as connection:
        assert make_relation(morrow.open(path).dataset(), connection).filter("id > 1").count("*").fetchall() == [(2,)]
        assert make_relation(pa.table({"x": [1]}), connection).fetchall() == [(1,)]


def test_many_queries_leave_a_bounded_number_of_databases(path: str) -> None:
    with duckdb.connect() as connection:
        morrow.duckdb.install(connection)
        for _ in range(300):
            connection.execute("SELECT count(*) FROM paimon_scan(?)", [path])
            assert connection.fetchall() == [(3,)]
        kept = connection.sql("FROM duckdb_databases() WHERE database_name LIKE 'morrow%'").fetchall()
    assert len(kept) <= MAX_HANDOFFS + 1


def test_several_queries_in_one_transaction(path: str) -> None:
    second = other(path, "u", 5)
    with duckdb.connect() as connection:
        morrow.duckdb.install(connection)
        connection.execute("BEGIN")
        connection.execute(f"CREATE TABLE copied AS FROM paimon_scan('{path}')")
        connection.execute(f"INSERT INTO copied FROM paimon_scan('{second}')")
        assert connection.sql(f"SELECT count(*) FROM paimon_scan('{path}')").fetchall() == [(3,)]
        connection.execute("COMMIT")
        assert connection.sql("SELECT count(*) FROM copied").fetchall() == [(8,)]


def test_cursors_in_several_threads(path: str) -> None:
    paths = [other(path, f"t{n}", n + 1) for n in range(4)]
    with duckdb.connect() as connection:
        morrow.duckdb.install(connection)

        def count(n: int) -> int:
            with connection.cursor() as cursor:
                found = cursor.execute("SELECT count(*) FROM paimon_scan(?)", [paths[n % 4]]).fetchone()
            assert found is not None
            return int(found[0])

        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(count, range(40))) == [n % 4 + 1 for n in range(40)]


def test_the_current_database_of_the_caller_stays(path: str) -> None:
    with duckdb.connect() as connection:
        morrow.duckdb.install(connection)
        connection.execute("CREATE TABLE mine (x INT)")
        connection.execute(f"FROM paimon_scan('{path}')").fetchall()
        assert connection.sql("SELECT current_database(), current_schema()").fetchall() == [("memory", "main")]
        assert connection.sql("SELECT count(*) FROM mine").fetchall() == [(0,)]


def test_installing_twice(path: str) -> None:
    with duckdb.connect() as connection:
        for _ in range(2):
            morrow.duckdb.install(connection)
            assert connection.sql(f"SELECT count(*) FROM paimon_scan('{path}')").fetchall() == [(3,)]


def test_two_connections_do_not_meet(path: str) -> None:
    with duckdb.connect() as first, duckdb.connect() as second:
        morrow.duckdb.install(first)
        with pytest.raises(duckdb.CatalogException, match="paimon_scan"):
            second.sql(f"FROM paimon_scan('{path}')")


# --- a database file: the macro is temporary and leaves the file unchanged ---


def test_a_database_file_does_not_keep_the_macro(tmp_path: Path, path: str) -> None:
    file = str(tmp_path / "x.duckdb")
    with duckdb.connect(file) as connection:
        morrow.duckdb.install(connection)
        connection.execute(f"CREATE VIEW orders AS FROM paimon_scan('{path}')")
        assert connection.sql("SELECT count(*) FROM orders").fetchall() == [(3,)]
    with duckdb.connect(file) as connection:
        with pytest.raises(duckdb.CatalogException, match="paimon_scan"):
            connection.sql("FROM orders").fetchall()
        morrow.duckdb.install(connection)
        assert connection.sql("SELECT count(*) FROM orders").fetchall() == [(3,)]


def test_a_database_file_may_be_read_only(tmp_path: Path, path: str) -> None:
    file = str(tmp_path / "x.duckdb")
    duckdb.connect(file).close()
    with duckdb.connect(file, read_only=True) as connection:
        morrow.duckdb.install(connection)
        assert connection.sql(f"SELECT count(*) FROM paimon_scan('{path}')").fetchall() == [(3,)]


def test_each_cursor_of_a_database_file_installs_its_own(tmp_path: Path, path: str) -> None:
    with duckdb.connect(str(tmp_path / "x.duckdb")) as connection:
        morrow.duckdb.install(connection)
        with connection.cursor() as cursor:
            morrow.duckdb.install(cursor)
            assert cursor.sql(f"SELECT count(*) FROM paimon_scan('{path}')").fetchall() == [(3,)]


def test_a_closed_database_file_can_be_opened_by_another_process(tmp_path: Path, path: str) -> None:
    file = str(tmp_path / "x.duckdb")
    with duckdb.connect(file) as connection:
        morrow.duckdb.install(connection)
        connection.sql(f"FROM paimon_scan('{path}')").fetchall()
    assert run(f"import duckdb; duckdb.connect({file!r}).execute('CREATE TABLE t (x INT)')") == ""


# --- the end of the process ---


@pytest.mark.parametrize("ending", ["con.close()", "del con", "pass"], ids=["closed", "deleted", "left open"])
def test_the_process_ends_without_a_word(path: str, ending: str) -> None:
    code = f"""
        import duckdb, morrow
        con = duckdb.connect(":memory:")
        morrow.duckdb.install(con)
        assert con.sql("SELECT count(*) FROM paimon_scan({path!r})").fetchall() == [(3,)]
        {ending}
    """
    assert run(code.replace('"SELECT', "'''SELECT").replace(')")', ")''')")) == ""


def run(code: str) -> str:
    """Run `code` in a new Python process, which must succeed, and return its output."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


# Rows are handed to DuckDB as an Arrow stream of views.

NOON = dt.datetime(2024, 2, 29, 12, 0, 0, 123456)
VALUES: dict[str, list[Any]] = {
    "BOOLEAN": [True, None, False],
    "TINYINT": [-128, None, 127],
    "SMALLINT": [-32768, None, 32767],
    "INT": [-(2**31), None, 2**31 - 1],
    "BIGINT": [-(2**63), None, 2**63 - 1],
    "FLOAT": [1.5, None, float("-inf")],
    "DOUBLE": [0.1, None, float("inf")],
    "DECIMAL(9, 2)": [Decimal("-1234567.89"), None, Decimal("0.01")],
    "DECIMAL(38, 10)": [Decimal("-1234567890123456789012345678.0123456789"), None, Decimal("0E-10")],
    "CHAR(3)": ["abc", None, "xyz"],
    "STRING": ["", None, "longer than the twelve bytes that a view holds itself, with \0 and \N{SNOWMAN}"],
    "BYTES": [b"", None, b"\0\xff" * 10],
    "DATE": [dt.date(1, 1, 1), None, dt.date(9999, 12, 31)],
    "TIME(3)": [dt.time(23, 59, 59, 999000), None, dt.time(0)],
    "TIMESTAMP(0)": [NOON.replace(microsecond=0), None, dt.datetime(1, 1, 1)],
    "TIMESTAMP(3)": [NOON.replace(microsecond=123000), None, dt.datetime(1, 1, 1)],
    "TIMESTAMP(6)": [NOON, None, dt.datetime(9999, 12, 31)],
    "TIMESTAMP(3) WITH LOCAL TIME ZONE": [NOON.replace(microsecond=123000, tzinfo=dt.UTC), None, None],
    "TIMESTAMP(6) WITH LOCAL TIME ZONE": [NOON.replace(tzinfo=dt.UTC), None, None],
}
"""Type -> values of a column, including a null."""

NESTED: dict[t.DataType, list[Any]] = {
    t.ArrayType(element=t.VarCharType()): [["a", None], None, []],
    t.MapType(key=t.VarCharType(nullable=False), value=t.IntType()): [[("k", 1)], None, []],
    t.RowType(fields=(t.DataField(100, "a", t.VarCharType()), t.DataField(101, "b", t.VarBinaryType()))): [
        {"a": "x", "b": b"y"},
        None,
        {"a": None, "b": b""},
    ],
}
COLUMNS = [(parse_atomic(text), values) for text, values in VALUES.items()] + list(NESTED.items())


@pytest.fixture(scope="module")
def every_type(tmp_path_factory: pytest.TempPathFactory) -> morrow.Table:
    """Make columns c0, c1, ... of all types with three rows."""
    fields = [t.DataField(i, f"c{i}", kind) for i, (kind, _) in enumerate(COLUMNS)]
    rows = [pa.array(values, kind.arrow()) for kind, values in COLUMNS]
    table = TableFactory(tmp_path_factory.mktemp("types") / "t", fields, options={"bucket": "-1"})
    table.write_file(pa.Table.from_arrays(rows, schema=t.to_arrow_schema(fields)))
    table.commit()
    return morrow.open(table.path)


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        yield connection


def planned(table: morrow.Table, **scan: Any) -> tuple[ScanPlan, FileStore]:
    made = table.scan(**scan)
    return made.plan, made._metadata.store


def handed(table: morrow.Table) -> PaimonDataset:
    """Wrap the table in a dataset that knows its plans, as `Scan` does."""

    def plan(columns: Any, filter: pc.Expression | None) -> tuple[ScanPlan, FileStore]:
        narrowed = table.scan().narrowed(columns, filter)
        return narrowed.plan, narrowed._metadata.store

    return PaimonDataset(
        table.schema, lambda columns, filter: execute.open_batch_reader(*plan(columns, filter)), plan=plan
    )


# --- the layout ---


def test_text_and_bytes_are_views_and_all_else_is_plain(every_type: morrow.Table) -> None:
    found = view_reader(*planned(every_type)).schema
    for (kind, _), field, plain in zip(COLUMNS, found, every_type.schema, strict=True):
        view = {pa.string(): pa.string_view(), pa.binary(): pa.binary_view()}.get(kind.arrow(), kind.arrow())
        assert field == plain.with_type(view)


def test_the_stream_has_the_rows_of_the_table(every_type: morrow.Table) -> None:
    found = view_reader(*planned(every_type)).read_all()
    assert found.to_pylist() == every_type.scan().to_arrow().to_pylist()


def test_columns_in_any_order(every_type: morrow.Table) -> None:
    names = ["c10", "c0", "c9", "c4"]
    found = view_reader(*planned(every_type, columns=names)).read_all()
    assert found.column_names == names
    assert found.to_pylist() == every_type.scan(columns=names).to_arrow().to_pylist()


def test_text_is_not_copied() -> None:
    frame = pl.DataFrame({"s": ["long enough to lie outside of its view"] * 10})
    fields = [t.DataField(0, "s", t.VarCharType())]
    viewed = view_table(frame, fields, view_schema(fields))["s"].chunk(0)
    own = frame["s"].to_arrow(compat_level=pl.CompatLevel.newest())
    assert [b and b.address for b in viewed.buffers()] == [b and b.address for b in own.buffers()]


# --- DuckDB ---


def test_duckdb_reads_views_as_the_types_that_were_declared(
    every_type: morrow.Table, con: duckdb.DuckDBPyConnection
) -> None:
    plain = every_type.scan().to_arrow()
    found = make_relation(handed(every_type), con)
    expected = con.from_arrow(plain)
    assert found.types == expected.types
    assert found.to_arrow_table().to_pylist() == expected.to_arrow_table().to_pylist()


def test_duckdb_pushes_columns_and_filters(
    every_type: morrow.Table, con: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(strategy, "MAX_DUCKDB_FILES", 0)
    asked: list[tuple[Any, str]] = []
    source = handed(every_type)
    plan = source.plan
    assert plan is not None

    def recorded(columns: Any, filter: pc.Expression | None) -> tuple[ScanPlan, FileStore]:
        asked.append((columns, str(filter)))
        return plan(columns, filter)

    source.plan = recorded
    assert make_relation(source, con).filter("c9 = 'abc'").project("c3").fetchall() == [(-(2**31),)]
    columns, condition = asked[-1]
    assert set(columns) <= {"c3", "c9"}
    assert "c9" in condition


def test_duckdb_counts_without_columns(every_type: morrow.Table, con: duckdb.DuckDBPyConnection) -> None:
    assert make_relation(handed(every_type), con).count("*").fetchall() == [(3,)]


def test_a_dataset_without_plans_is_read_plainly(every_type: morrow.Table, con: duckdb.DuckDBPyConnection) -> None:
    source = PaimonDataset(every_type.schema, lambda columns, _: every_type.scan(columns=columns).to_reader())
    assert make_relation(source, con).project("c10").fetchall() == [(text,) for text in VALUES["STRING"]]


# --- streaming ---


@pytest.fixture
def parts(tmp_path: Path) -> morrow.Table:
    """Make twenty partitions of one row each, with n from 0 to 19 and a label."""
    columns = [("p", "INT"), ("n", "INT"), ("label", "STRING")]
    table = TableFactory(tmp_path / "t", columns, partition_keys=["p"], options={"bucket": "-1"})
    for n in range(20):
        rows = pa.table({"p": pa.array([n], pa.int32()), "n": pa.array([n], pa.int32()), "label": [f"label {n}"]})
        table.write_file(rows, partition={"p": n})
    table.commit()
    return morrow.open(table.path)


@pytest.mark.parametrize(("most_sections", "most_rows", "groups"), [(64, 100, 1), (7, 100, 3), (64, 5, 4), (64, 1, 20)])
def test_sections_are_read_in_groups(
    parts: morrow.Table, monkeypatch: pytest.MonkeyPatch, most_sections: int, most_rows: int, groups: int
) -> None:
    monkeypatch.setattr(execute, "MAX_GROUP_SECTIONS", most_sections)
    monkeypatch.setattr(execute, "MAX_GROUP_ROWS", most_rows)
    plan, store = planned(parts)
    assert len(list(execute.group_sections(plan.sections))) == groups
    rows = view_reader(plan, store).read_all().to_pylist()
    assert sorted(row["n"] for row in rows) == list(range(20))
    assert all(row == {"p": row["n"], "n": row["n"], "label": f"label {row['n']}"} for row in rows)


def test_rows_are_held_against_the_manifests(parts: morrow.Table) -> None:
    plan, store = planned(parts)
    first, *others = plan.sections
    (file,) = first.files
    lying = msgspec.structs.replace(first, files=(msgspec.structs.replace(file, row_count=2),))
    with pytest.raises(CorruptFile, match="has 1 rows where metadata says 2"):
        view_reader(replace(plan, sections=(lying, *others)), store).read_all()


def test_a_limit_ends_the_stream(parts: morrow.Table) -> None:
    assert view_reader(*planned(parts, limit=7)).read_all().num_rows == 7


def test_a_filter_is_tested_on_every_row(parts: morrow.Table) -> None:
    rows = view_reader(*planned(parts, filter="n >= 5 AND label <> 'label 9' AND n % 2 = 1")).read_all()
    assert sorted(rows["n"].to_pylist()) == [5, 7, 11, 13, 15, 17, 19]


def test_batches_of_few_columns_hold_more_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execute, "DEFAULT_BATCH_ROWS", 100)
    monkeypatch.setattr(execute, "MAX_SINGLE_BATCH_BYTES", 0)
    monkeypatch.setattr(duckdb_relation, "MAX_BATCH_VALUES", 1000)
    table = TableFactory(tmp_path / "t", [("n", "INT"), ("s", "STRING")], options={"bucket": "-1"})
    table.write_file(pa.table({"n": pa.array(range(2000), pa.int32()), "s": ["text"] * 2000}))
    table.commit()
    opened = morrow.open(table.path)

    def longest(*columns: str) -> int:
        return max(batch.num_rows for batch in view_reader(*planned(opened, columns=columns)))

    assert longest("n") == 1000
    assert longest("s") == 125
    assert longest("n", "s") == 111


def test_empty_maps_behind_others_are_handed_over(tmp_path: Path, con: duckdb.DuckDBPyConnection) -> None:
    # Merged rows are slices, and for a slice of nested text Polars may give views without their buffer.
    schema = pa.schema([pa.field("k", pa.int64(), False), pa.field("m", pa.map_(pa.string(), pa.int32()))])
    table = morrow.Catalog(tmp_path).create_table(
        "db.t",
        schema=schema,
        primary_keys="k",
        options={"bucket": 1, "write-only": True, "merge-engine": "partial-update"},
    )
    for rows in ([(1, None), (2, None)], [(1, [("k", 1)]), (2, [])]):
        table.append(pa.Table.from_pylist([{"k": k, "m": m} for k, m in rows], schema=schema))

    assert table.scan(filter="k = 2").to_duckdb(con).fetchall() == [(2, {})]


# A table as a pyarrow Dataset, used by pyarrow itself, DuckDB and Polars.

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int32()), "v": ["a", "b", "c"]})
Asked = list[tuple[Sequence[str] | None, str | None]]


@pytest.fixture
def table(tmp_path: Path) -> morrow.Table:
    factory = TableFactory(tmp_path / "t", [("id", "INT"), ("v", "STRING")], ["id"])
    factory.write_file(pa.table({"id": [1, 2, 3], "v": ["a", "old", "c"]}))
    factory.commit()
    factory.write_file(pa.table({"id": [2], "v": ["b"]}))
    factory.commit()
    return morrow.open(factory.path)


@pytest.fixture
def recorded(table: morrow.Table) -> tuple[PaimonDataset, Asked]:
    """Return the dataset and a list of the reads that its host requests."""
    asked: Asked = []

    def read(columns: Sequence[str] | None, filter: pc.Expression | None) -> pa.RecordBatchReader:
        asked.append((columns, None if filter is None else str(filter)))
        return table.scan().narrowed(columns, filter).to_reader()

    return PaimonDataset(table.scan().schema, read), asked


# --- pyarrow ---


def test_the_methods_of_pyarrow(table: morrow.Table) -> None:
    dataset = table.dataset()
    assert isinstance(dataset, pads.Dataset)
    assert dataset.schema.equals(table.schema)
    assert dataset.to_table().sort_by("id").to_pydict() == ROWS.to_pydict()
    assert dataset.to_table(columns=["v"], filter=pc.field("id") == 2).to_pydict() == {"v": ["b"]}
    assert dataset.count_rows() == 3
    assert dataset.count_rows(filter=pc.field("id") > 1) == 2
    assert dataset.head(2).num_rows == 2
    assert sum(batch.num_rows for batch in dataset.to_batches(columns=["id"])) == 3


def test_columns_may_be_expressions(table: morrow.Table) -> None:
    found = table.dataset().to_table(columns={"twice": pc.field("id") * 2}, filter=pc.field("v") == "c")
    assert found.to_pydict() == {"twice": [6]}


def test_it_can_be_read_again_and_again(table: morrow.Table) -> None:
    dataset = table.dataset()
    assert dataset.to_table().sort_by("id") == dataset.to_table().sort_by("id")


def test_its_snapshot_stays_the_one_it_was_made_with(table: morrow.Table) -> None:
    assert table.dataset(snapshot=1).to_table(filter=pc.field("id") == 2)["v"].to_pylist() == ["old"]


def test_an_unknown_column(table: morrow.Table) -> None:
    with pytest.raises(ColumnNotFound, match="w"):
        table.dataset().to_table(columns=["w"])


def test_a_scan_with_a_limit_takes_no_filter(table: morrow.Table) -> None:
    dataset = table.scan(limit=1).dataset()
    assert dataset.to_table().num_rows == 1
    with pytest.raises(InvalidArgument, match="limit"):
        dataset.to_table(filter=pc.field("id") > 1)


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("filter", [pc.field("id") > 1]),
        ("join", [ROWS, "id"]),
        ("join_asof", [ROWS, "id", "id", 1]),
        ("replace_schema", [ROWS.schema]),
        ("sort_by", ["id"]),
    ],
)
def test_methods_that_need_arrows_own_files_are_refused(table: morrow.Table, method: str, arguments: list[Any]) -> None:
    with pytest.raises(Unsupported, match="to_table"):
        getattr(table.dataset(), method)(*arguments)


def test_there_is_no_partition_expression(table: morrow.Table) -> None:
    with pytest.raises(Unsupported):
        _ = table.dataset().partition_expression


# --- pushdown by hosts ---


def test_duckdb_pushes_columns_and_filters_dataset(recorded: tuple[PaimonDataset, Asked]) -> None:
    dataset, asked = recorded
    with duckdb.connect() as connection:
        connection.register("t", dataset)
        assert connection.sql("SELECT v FROM t WHERE id = 2").fetchall() == [("b",)]
    columns, condition = asked[-1]
    assert columns is not None
    assert set(columns) <= {"id", "v"}
    assert condition is not None
    assert "id == 2" in condition


def test_duckdb_counts(recorded: tuple[PaimonDataset, Asked]) -> None:
    dataset, _ = recorded
    with duckdb.connect() as connection:
        connection.register("t", dataset)
        assert connection.sql("SELECT count(*) FROM t").fetchall() == [(3,)]
        assert connection.sql("SELECT count(*) FROM t WHERE v < 'c'").fetchall() == [(2,)]


def test_polars_pushes_columns_and_filters(recorded: tuple[PaimonDataset, Asked]) -> None:
    dataset, asked = recorded
    frame = pl.scan_pyarrow_dataset(dataset).filter(pl.col("id") > 1).select("id")
    assert sorted(frame.collect()["id"]) == [2, 3]
    columns, condition = asked[-1]
    assert columns == ["id"]
    assert condition is not None
    assert "id > 1" in condition


def test_polars_counts(recorded: tuple[PaimonDataset, Asked]) -> None:
    dataset, _ = recorded
    assert pl.scan_pyarrow_dataset(dataset).select(pl.len()).collect().item() == 3


def test_it_says_what_it_is(table: morrow.Table) -> None:
    assert repr(table.dataset()) == "PaimonDataset(id, v)"
