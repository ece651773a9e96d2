"""Rows as an Arrow stream of views, and what DuckDB makes of it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import morrow
from morrow.engine.errors import CorruptFile
from morrow.engine.format import types as t
from morrow.engine.format.type_text import parse_atomic
from morrow.engine.io.store import FileStore
from morrow.engine.plan.scan_plan import ScanPlan
from morrow.engine.values import replace
from morrow.readers.execution import duckdb_own, duckdb_stream, execute
from morrow.readers.execution.dataset import PaimonDataset
from morrow.readers.execution.duckdb_relation import relation
from morrow.readers.execution.duckdb_stream import view_reader, view_schema, view_table
from tests.support.table_factory import TableFactory

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
"""Type -> values of a column; one of them is null."""

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
    """Columns c0, c1, ... of all types, three rows."""
    fields = [t.DataField(i, f"c{i}", kind) for i, (kind, _) in enumerate(COLUMNS)]
    rows = [pa.array(values, kind.arrow()) for kind, values in COLUMNS]
    table = TableFactory(tmp_path_factory.mktemp("types") / "t", fields, options={"bucket": "-1"})
    table.write_file(pa.Table.from_arrays(rows, schema=t.arrow_schema(fields)))
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
    """Hands the table over as a dataset that knows its plans, as `Scan` makes it."""

    def plan(columns: Any, filter: pc.Expression | None) -> tuple[ScanPlan, FileStore]:
        narrowed = table.scan().narrowed(columns, filter)
        return narrowed.plan, narrowed._metadata.store

    return PaimonDataset(table.schema, lambda columns, filter: execute.batch_reader(*plan(columns, filter)), plan=plan)


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
    found = relation(handed(every_type), con)
    expected = con.from_arrow(plain)
    assert found.types == expected.types
    assert found.to_arrow_table().to_pylist() == expected.to_arrow_table().to_pylist()


def test_duckdb_pushes_columns_and_filters(
    every_type: morrow.Table, con: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(duckdb_own, "MOST_FILES", 0)
    asked: list[tuple[Any, str]] = []
    source = handed(every_type)
    plan = source.plan
    assert plan is not None

    def recorded(columns: Any, filter: pc.Expression | None) -> tuple[ScanPlan, FileStore]:
        asked.append((columns, str(filter)))
        return plan(columns, filter)

    source.plan = recorded
    assert relation(source, con).filter("c9 = 'abc'").project("c3").fetchall() == [(-(2**31),)]
    columns, condition = asked[-1]
    assert set(columns) <= {"c3", "c9"}
    assert "c9" in condition


def test_duckdb_counts_without_columns(every_type: morrow.Table, con: duckdb.DuckDBPyConnection) -> None:
    assert relation(handed(every_type), con).count("*").fetchall() == [(3,)]


def test_a_dataset_without_plans_is_read_plainly(every_type: morrow.Table, con: duckdb.DuckDBPyConnection) -> None:
    source = PaimonDataset(every_type.schema, lambda columns, _: every_type.scan(columns=columns).to_reader())
    assert relation(source, con).project("c10").fetchall() == [(text,) for text in VALUES["STRING"]]


# --- streaming ---


@pytest.fixture
def parts(tmp_path: Path) -> morrow.Table:
    """Twenty partitions of one row each: n 0 to 19, label of n."""
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
    monkeypatch.setattr(execute, "MOST_GROUPED", most_sections)
    monkeypatch.setattr(execute, "GROUP_ROWS", most_rows)
    plan, store = planned(parts)
    assert len(list(execute.groups(plan.sections))) == groups
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
    monkeypatch.setattr(execute, "BATCH_ROWS", 100)
    monkeypatch.setattr(execute, "AT_ONCE", 0)
    monkeypatch.setattr(duckdb_stream, "BATCH_VALUES", 1000)
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
    # Merged rows are slices; of a slice of nested text Polars may give views without their buffer.
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
