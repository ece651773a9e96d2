"""Data to write: any kind of table, with columns matched by name and checked."""

from __future__ import annotations

import datetime as dt
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

import morrow
from morrow.engine.errors import ColumnNotFound, InvalidArgument
from morrow.engine.format import types as t
from morrow.writers.ingest.conversion import cast_lossless
from morrow.writers.ingest.sources import LIBRARY_CALLS
from tests.support.hostile_names import PATTERNS
from tests.support.written import data_files, new_table, rows

THREE = [(1, "a"), (2, "b"), (3, None)]


@pytest.mark.parametrize(
    "data",
    [
        pl.DataFrame({"id": [1, 2, 3], "v": ["a", "b", None]}),
        pl.LazyFrame({"id": [1, 2, 3], "v": ["a", "b", None]}),
        pa.table({"id": [1, 2, 3], "v": ["a", "b", None]}),
        pa.record_batch({"id": [1, 2, 3], "v": ["a", "b", None]}),
        pa.table({"id": [1, 2, 3], "v": pa.array(["a", "b", None]).dictionary_encode()}),
        pl.DataFrame({"id": [1, 2, 3], "v": pl.Series(["a", "b", None], dtype=pl.Categorical)}),
        pl.DataFrame({"id": [9, 1, 2, 3], "v": pl.Series(["b", "a", "b", None], dtype=pl.Enum(["b", "a"]))})[1:],
        pl.LazyFrame({"id": [1, 2, 3], "v": pl.Series(["a", "b", None], dtype=pl.Categorical)}),
        pd.DataFrame({"id": [1, 2, 3], "v": pd.Categorical(["a", "b", None])}),
        ds.dataset(pa.table({"id": [1, 2, 3], "v": ["a", "b", None]})),
        pd.DataFrame({"id": [1, 2, 3], "v": ["a", "b", None]}),
        pd.DataFrame({"id": [1, 2, 3], "v": ["a", "b", None]}, index=[7, 8, 9]),
        [{"id": 1, "v": "a"}, {"v": "b", "id": 2}, {"id": 3}],
        {"id": [1, 2, 3], "v": ["a", "b", None]},
        duckdb.sql("SELECT * FROM (VALUES (1, 'a'), (2, 'b'), (3, NULL)) AS r(id, v)"),
    ],
    ids=lambda data: f"{type(data).__module__}.{type(data).__name__}",
)
def test_whatever_is_a_table(tmp_path: Path, data: object) -> None:
    table = new_table(tmp_path, "id BIGINT, v STRING")
    table.append(data)
    assert rows(table) == THREE


@pytest.mark.parametrize("data", [[{"id": 1, "x": 0.1}], {"id": [1], "x": [0.1]}], ids=["rows", "columns"])
def test_floats_of_python_fit_into_float_columns(tmp_path: Path, data: object) -> None:
    """Python has only one float type; floats of Arrow and Polars are refused if a value would change."""
    table = new_table(tmp_path, "id BIGINT, x FLOAT")
    table.append(data)
    assert table.scan().to_arrow()["x"].to_pylist() == pa.array([0.1], pa.float32()).to_pylist()


def test_a_float_of_python_that_is_too_large_is_refused(tmp_path: Path) -> None:
    table = new_table(tmp_path, "id BIGINT, x FLOAT")
    with pytest.raises(InvalidArgument, match=r"'x', row 1: 1e\+300 does not fit FLOAT"):
        table.append({"id": [1, 2], "x": [float("inf"), 1e300]})


@pytest.mark.parametrize("a", [{"k": 1, "": None}, [("k", 1), ("", None)]], ids=["dict", "pairs"])
def test_maps_of_python_are_dicts_or_pairs(tmp_path: Path, a: object) -> None:
    table = new_table(tmp_path, "id BIGINT, m MAP<STRING, INT>")
    table.append([{"id": 1, "m": a}, {"id": 2, "m": None}, {"id": 3, "m": {}}])
    table.append([{"id": 4, "m": {}}])
    found = table.scan().to_arrow().sort_by("id")["m"].to_pylist()
    assert found == [[("k", 1), ("", None)], None, [], []]
    for bad, problem in [({"k": 1.5}, "struct<key: string, value: double>"), ({None: 1}, "a key of a map is null")]:
        with pytest.raises(InvalidArgument, match=problem):
            table.append([{"id": 5, "m": bad}])


def test_a_stream_is_read_batch_by_batch(tmp_path: Path) -> None:
    batches = [
        pa.record_batch({"id": [n], "v": [None]}, pa.schema({"id": pa.int64(), "v": pa.string()})) for n in (1, 2)
    ]
    table = new_table(tmp_path, "id BIGINT, v STRING")
    table.append(pa.RecordBatchReader.from_batches(batches[0].schema, iter(batches)))
    assert rows(table) == [(1, None), (2, None)]


def test_tables_one_after_the_other(tmp_path: Path) -> None:
    table = new_table(tmp_path, "id BIGINT, v STRING")
    table.append(pa.table({"id": [n], "v": ["a"]}) for n in (1, 2))
    table.append([pl.DataFrame({"v": ["b"], "id": [3]}), pa.record_batch({"id": [4], "v": ["c"]})])
    assert rows(table) == [(1, "a"), (2, "a"), (3, "b"), (4, "c")]
    assert len(table.snapshots()) == 2


@pytest.mark.parametrize("name", PATTERNS)
def test_tables_whose_columns_have_names_of_patterns(tmp_path: Path, name: str) -> None:
    table = new_table(tmp_path, f"`{name}` BIGINT, i BIGINT")
    table.append(
        [pl.DataFrame({"i": [2], name: [1]}), pa.table({name: [3], "i": [4]}), pl.LazyFrame({name: [5], "i": [6]})]
    )
    assert rows(table) == [(1, 2), (3, 4), (5, 6)]


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ([], "the iterator has no table, and so no columns"),
        ([{"id": 1}], "an iterator of dict is not a table; pass one of Arrow tables, or a list of dicts"),
        (
            [pa.table({"id": [1]}), pa.table({"v": ["a"]})],
            r"table 1 .* has the columns \['v'\], the first one \['id'\]",
        ),
    ],
)
def test_iterators_of_anything_else(tmp_path: Path, tables: list[object], message: str) -> None:
    table = new_table(tmp_path, "id BIGINT, v STRING")
    with pytest.raises(InvalidArgument, match=message):
        table.append(iter(tables))
    assert table.snapshots() == []


def test_another_table_of_morrow(tmp_path: Path) -> None:
    source = new_table(tmp_path, "id BIGINT, v STRING", name="source")
    source.append({"id": [1, 2], "v": ["a", "b"]})
    table = new_table(tmp_path, "id BIGINT, v STRING")
    table.append(source.scan(filter="id = 2"))
    assert rows(table) == [(2, "b")]


def test_columns_in_any_order(tmp_path: Path) -> None:
    table = new_table(tmp_path, "id BIGINT, v STRING, n INT")
    table.append(pl.DataFrame({"n": [5], "v": [None], "id": [1]}))
    assert rows(table) == [(1, None, 5)]


def test_columns_that_say_nothing_may_be_missing_where_versions_are_combined(tmp_path: Path) -> None:
    options = {"bucket": 1, "merge-engine": "partial-update"}
    table = new_table(tmp_path, "id BIGINT, v STRING, n INT", keys=["id"], options=options)
    table.upsert({"id": [1], "n": [5]})
    table.upsert({"id": [1], "v": ["x"]})
    assert rows(table) == [(1, "x", 5)]


def test_default_values_stand_for_missing_columns_and_for_nulls(tmp_path: Path) -> None:
    table = new_table(tmp_path, "id BIGINT, v STRING DEFAULT 'none', n INT NOT NULL DEFAULT '7'")
    table.append({"id": [1]})
    table.append({"id": [2, 3], "v": [None, "x"], "n": [1, 2]})
    assert rows(table) == [(1, "none", 7), (2, "none", 1), (3, "x", 2)]


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        (
            {"id": [1], "w": [1]},
            ColumnNotFound,
            r"the table does not have: 'w'; append and upsert add .*are id, v, n",
        ),
        (
            {"v": ["a"]},
            InvalidArgument,
            r"the data lacks the column id; give it. Its columns are v",
        ),
        (
            {"id": [1, None, 2], "v": [None] * 3, "n": [None] * 3},
            InvalidArgument,
            r"'id' is BIGINT NOT NULL .* 1 null in it, the first in row 1",
        ),
        ({"id": ["1"], "v": [None], "n": [1]}, InvalidArgument, r"'id': string where BIGINT NOT NULL is needed"),
        ({"id": [1.0], "v": [None], "n": [1]}, InvalidArgument, r"'id': double where BIGINT NOT NULL is needed"),
        (
            {"id": [1, 2], "v": [None, None], "n": [3, 2**31]},
            InvalidArgument,
            r"'n', row 1: 2147483648 does not fit INT",
        ),
        (pa.table([[1], [2]], ["id", "id"]), InvalidArgument, r"several columns 'id'"),
        ({"id": [1], "v": [{"a": 1}], "n": [1]}, InvalidArgument, r"'v': struct<a: int64> where STRING is needed"),
        (5, InvalidArgument, r"a int is not a table"),
        ("rows.csv", InvalidArgument, r"a str is not a table"),
        (pl.Series("id", [1]), InvalidArgument, r"a Series is one column, not a table; pass .to_frame"),
        (pl.Series("id", [1], pl.Object).to_frame(), InvalidArgument, r"column 'id' has Polars' type Object"),
        (pl.LazyFrame({"id": [1]}, {"id": pl.Int128}), InvalidArgument, r"'id' has .* Int128.*; cast it to pl.Decimal"),
        (
            pd.DataFrame({"id": pd.period_range("2024", periods=1, freq="D")}),
            InvalidArgument,
            r"the column 'id' has the Arrow type .*period.*to_timestamp\(\)",
        ),
        (
            [{"id": 1}, {"id": "x"}],
            InvalidArgument,
            r"values of column 'id' do not make one: row 0 is 1 \(int\), row 1 is 'x' \(str\); convert all",
        ),
        ("rows.parquet", InvalidArgument, r"for a path, pass pl.scan_parquet\('rows.parquet'\)"),
        ({"id": 5}, InvalidArgument, r"column 'id' is one value"),
    ],
    ids=str,
)
def test_what_is_refused_writes_nothing(tmp_path: Path, data: object, error: type[Exception], message: str) -> None:
    table = new_table(tmp_path, "id BIGINT NOT NULL, v STRING, n INT")
    with pytest.raises(error, match=message):
        table.append(data)
    assert table.scan().snapshot_id is None
    assert data_files(Path(table.path)) == set()


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        *(("BIGINT", 7), ("STRING", "x"), ("BOOLEAN", True), ("DATE", dt.date(2024, 1, 1)), ("DECIMAL(9, 2)", None)),
        *(("TIMESTAMP(3)", dt.datetime(2024, 1, 1)), ("ARRAY<DOUBLE>", [1.5]), ("MAP<STRING, INT>", [("a", 1)])),
        ("BYTES", b"x"),
    ],
)
@pytest.mark.parametrize("missing", ["nan", "NaT", "NA"])
def test_missing_values_of_pandas_in_rows(tmp_path: Path, kind: str, value: object, missing: str) -> None:
    pandas = pytest.importorskip("pandas")
    null = float("nan") if missing == "nan" else getattr(pandas, missing)
    table = new_table(tmp_path, f"id INT, v {kind}")
    table.append([{"id": 1, "v": null}, {"id": 2, "v": value}])
    table.append([{"id": 3, "v": null}])
    assert sorted(table.to_arrow().to_pylist(), key=lambda row: row["id"]) == [
        {"id": 1, "v": None},
        {"id": 2, "v": value},
        {"id": 3, "v": None},
    ]


def test_nan_stays_a_float(tmp_path: Path) -> None:
    table = new_table(tmp_path, "a DOUBLE, b FLOAT")
    table.append([{"a": float("nan"), "b": float("nan")}, {"a": 1, "b": None}])
    assert str(table.to_polars().rows()) == "[(nan, nan), (1.0, None)]"


@pytest.mark.parametrize("library", LIBRARY_CALLS)
def test_objects_of_other_libraries_name_the_call(tmp_path: Path, library: str) -> None:
    given = type("Table", (), {"__module__": f"{library}.table"})()
    with pytest.raises(InvalidArgument, match=re.escape(LIBRARY_CALLS[library])):
        new_table(tmp_path, "id BIGINT").append(given)


def test_an_error_in_a_later_batch_undoes_the_first(tmp_path: Path) -> None:
    table = new_table(tmp_path, "id INT", options={"write-buffer-size": "1 kb", "target-file-size": "1 kb"})
    good = pa.table({"id": pa.array(range(200_000), pa.int64())})
    bad = pa.table({"id": pa.array([2**40], pa.int64())})
    stream = pa.RecordBatchReader.from_batches(good.schema, [*good.to_batches(), *bad.to_batches()])
    with pytest.raises(InvalidArgument, match="row 200000: 1099511627776 does not fit INT"):
        table.append(stream)
    assert data_files(Path(table.path)) == set()


def test_types_that_hold_the_same_values(tmp_path: Path) -> None:
    table = new_table(
        tmp_path,
        "i BIGINT, f DOUBLE, m DECIMAL(10, 2), d DATE, c TIME, t TIMESTAMP(6), z TIMESTAMP_LTZ(3), s STRING, b BYTES, "
        "l ARRAY<INT>, r ROW<a INT, b STRING>",
    )
    noon = dt.datetime(2024, 5, 14, 12)
    table.append(
        pa.table(
            {
                "i": pa.array([1], pa.uint8()),
                "f": pa.array([3], pa.int32()),
                "m": pa.array([Decimal("1.5")], pa.decimal128(4, 1)),
                "d": pa.array([noon.date()], pa.date64()),
                "c": pa.array([dt.time(1, 2, 3)], pa.time64("ns")),
                "t": pa.array([noon], pa.timestamp("ns")),
                "z": pa.array([noon], pa.timestamp("us", "Asia/Tokyo")),
                "s": pa.array(["x"], pa.large_string()),
                "b": pa.array([b"xy"], pa.binary(2)),
                "l": pa.array([[1, 2]], pa.large_list(pa.int64())),
                "r": pa.array([{"b": "x"}]),
            }
        )
    )
    (row,) = table.scan().to_arrow().to_pylist()
    assert row == {
        "i": 1,
        "f": 3.0,
        "m": Decimal("1.50"),
        "d": noon.date(),
        "c": dt.time(1, 2, 3),
        "t": noon,
        "z": noon.replace(tzinfo=dt.UTC),
        "s": "x",
        "b": b"xy",
        "l": [1, 2],
        "r": {"a": None, "b": "x"},
    }


def test_maps_of_arrow_and_entries_of_polars(tmp_path: Path) -> None:
    table = new_table(tmp_path, "id INT, m MAP<STRING, INT>")
    table.append(pa.table({"id": [1], "m": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64()))}))
    table.append(pl.DataFrame({"id": [2], "m": [[{"key": "b", "value": 2}]]}))
    table.append(table.scan(filter="id = 2").to_polars().with_columns(id=pl.lit(3)))
    assert [row["m"] for row in table.scan().to_arrow().sort_by("id").to_pylist()] == [
        [("a", 1)],
        [("b", 2)],
        [("b", 2)],
    ]


def test_null_rows_beside_maps_and_lists_of_fixed_size(tmp_path: Path) -> None:
    table = new_table(tmp_path, "v ROW<m MAP<STRING, FLOAT>, r ROW<l ARRAY<STRING>>>")
    kind = pa.struct({"m": pa.map_(pa.string(), pa.float32()), "r": pa.struct({"l": pa.list_(pa.string(), 2)})})
    values = [None, {"m": None, "r": {"l": None}}]
    table.append(pa.table({"v": pa.array(values, kind)}))
    assert table.scan().to_arrow()["v"].to_pylist() == values


def test_rows_of_no_height_commit_nothing(tmp_path: Path) -> None:
    table = new_table(tmp_path, "id BIGINT")
    assert table.append(pl.DataFrame({"id": []}, schema={"id": pl.Int64})) is None
    assert table.append([]) is None
    assert isinstance(table, morrow.Table)
    assert list(table.snapshots()) == []


def test_nullable_columns_that_the_data_lacks(tmp_path: Path) -> None:
    table = new_table(tmp_path, "p INT, id INT, v STRING, n INT", keys=["p", "id"], by=["p"])
    table.upsert({"p": [1], "id": [1], "v": ["a"], "n": [1]})
    table.alter.add_column("s", "STRING")
    table.upsert({"p": [1, 1], "id": [1, 2], "v": ["b", "c"]})
    table.overwrite([{"id": 3}], partition={"p": 2})
    with table.writer() as writer:
        writer.write(pl.DataFrame({"p": [3], "id": [4]}))
    assert rows(table, columns=["id", "v", "n", "s"]) == [
        (1, "b", None, None),
        (2, "c", None, None),
        (3, None, None, None),
        (4, None, None, None),
    ]
    for write in (table.upsert, table.append, table.overwrite, table.writer().write):
        with pytest.raises(InvalidArgument, match=r"lacks the columns v, n, s; give them \(null where"):
            write({"p": [1], "id": [1]}, missing="error")  # type: ignore[operator]
    with pytest.raises(InvalidArgument, match="missing is 'null' or 'error', not 'nulls'"):
        table.append({"p": [1], "id": [1]}, missing="nulls")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="lacks the primary key columns p, id; give them"):
        table.upsert({"v": ["a"]})
    with pytest.raises(InvalidArgument, match="1 rows and no columns"):
        table.upsert([{}])


def test_rows_do_not_go_astray_for_want_of_a_partition(tmp_path: Path) -> None:
    table = new_table(tmp_path, "p INT, v STRING", by=["p"])
    with pytest.raises(InvalidArgument, match="lacks the partition key column p; give it"):
        table.append({"v": ["a"]})


# Row kinds: one for all rows, a column of the data, one per row, or a column of the table.


@pytest.fixture
def table(tmp_path: Path) -> morrow.Table:
    """Make a table with the keys 1 to 3."""
    table = new_table(tmp_path, "id BIGINT, v STRING", keys=["id"], options={"bucket": 1})
    table.upsert({"id": [1, 2, 3], "v": ["a", "b", "c"]})
    return table


@pytest.mark.parametrize(
    "kinds",
    [
        ["-D", "+U"],
        [3, 2],
        np.array([3, 2], np.int8),
        np.array(["-D", "+U"]),
        pl.Series(["-D", "+U"]),
        pl.Series([3, 2]),
        iter(["-D", "+U"]),
    ],
    ids=lambda kinds: type(kinds).__name__,
)
def test_a_kind_per_row(table: morrow.Table, kinds: Any) -> None:
    table.upsert({"id": [1, 2], "v": ["x", "y"]}, kinds=kinds)
    assert rows(table) == [(2, "y"), (3, "c")]


def test_one_kind_for_all(table: morrow.Table) -> None:
    table.upsert({"id": [1, 2], "v": [None, None]}, kinds="-D")
    table.upsert({"id": [3], "v": [None]}, kinds=3)
    assert rows(table) == []


def test_a_column_of_the_data(table: morrow.Table) -> None:
    table.upsert({"id": [1, 2], "op": ["-D", "+U"], "v": ["x", "y"]}, kinds="op")
    assert rows(table) == [(2, "y"), (3, "c")]


@pytest.mark.parametrize(
    ("kinds", "message"),
    [
        ("-X", r"kinds='-X' is neither a kind \(\+I, -U, \+U, -D .*\) nor a column of the data"),
        (4, r"the row kind 4 is none of"),
        (["-D", "delete"], r"row 1: the row kind 'delete' is none of"),
        (["-D", None], r"row 1: the row kind None is none of"),
        (["-D"], r"kinds has 1 values for more rows"),
        (["-D", "-D", "-D"], r"kinds has 3 values for 2 rows"),
        ("id", r"kinds='id' names a column of the table; give the kinds another name"),
        (2.5, r"a float holds no row kinds"),
        ([1.5, 2.5], r"not values of type Float64"),
    ],
    ids=str,
)
def test_what_is_no_kind(table: morrow.Table, kinds: Any, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        table.upsert({"id": [1, 2], "v": ["x", "y"]}, kinds=kinds)
    assert rows(table) == [(1, "a"), (2, "b"), (3, "c")]


def test_rowkind_field_overrules(tmp_path: Path) -> None:
    options = {"bucket": 1, "rowkind.field": "op"}
    table = new_table(tmp_path, "id BIGINT, op STRING", keys=["id"], options=options)
    table.upsert({"id": [1, 2], "op": ["+I", "+I"]})
    table.upsert({"id": [1, 2], "op": ["-D", "+U"]}, kinds="+I")
    assert rows(table) == [(2, "+U")]
    with pytest.raises(
        InvalidArgument, match=r"column 'op' \(rowkind.field\), from row 0 on: row 1: the row kind None"
    ):
        table.upsert({"id": [1, 2], "op": ["-D", None]})


def test_ignore_delete_leaves_retractions_out(tmp_path: Path) -> None:
    table = new_table(tmp_path, "id BIGINT, v INT", keys=["id"], options={"bucket": 1, "ignore-delete": True})
    with table.writer() as writer:
        assert writer.write({"id": [1, 1, 2], "v": [1, 1, 2]}, kinds=["+I", "-D", "-U"]) == 1
    assert rows(table) == [(1, 1)]


@pytest.mark.parametrize(
    ("options", "keys", "reason"),
    [
        ({}, [], "it is an append table"),
        ({"merge-engine": "first-row"}, ["id"], "merge-engine first-row takes no retractions"),
        ({"merge-engine": "partial-update"}, ["id"], "merge-engine partial-update takes no retractions; say what"),
    ],
)
def test_retractions_that_a_table_does_not_take(
    tmp_path: Path, options: dict[str, Any], keys: list[str], reason: str
) -> None:
    table = new_table(tmp_path, "id BIGINT, v INT", keys=keys, options={**options, "bucket": 1, "bucket-key": "id"})
    with pytest.raises(InvalidArgument, match=f"-U and -D rows cannot be written: {reason}"):
        table.append({"id": [1], "v": [1]}, kinds="-D")


# Lossless casts of values to the type of their column, or an error that names the first misfit.

ROW = t.RowType(fields=(t.DataField(1, "a", t.IntType(nullable=False)), t.DataField(2, "b", t.VarCharType())))


def cast(values: pa.Array, kind: t.DataType) -> list[Any]:
    made = cast_lossless(values, t.DataField(0, "x", kind), first_row=100)
    assert made.type == kind.arrow()
    return list(made.to_pylist())


@pytest.mark.parametrize(
    ("given", "kind", "expected"),
    [
        (pa.array([1, None], pa.int8()), t.BigIntType(), [1, None]),
        (pa.array([2**31 - 1]), t.IntType(), [2**31 - 1]),
        (pa.array([2**53]), t.DoubleType(), [2.0**53]),
        (pa.array([0.5, None, float("inf")]), t.FloatType(), [0.5, None, float("inf")]),
        (pa.array([12]), t.DecimalType(precision=4, scale=2), [Decimal("12.00")]),
        (pa.array([Decimal("1.50")], pa.decimal256(60, 10)), t.DecimalType(precision=2, scale=1), [Decimal("1.5")]),
        (pa.nulls(2), t.DateType(), [None, None]),
        (pa.array([{"b": "x", "a": 1}, None]), ROW, [{"a": 1, "b": "x"}, None]),
        (pa.array([{"a": 1}]), ROW, [{"a": 1, "b": None}]),
        (pa.array([[1], [2, 3], None]).slice(1), t.ArrayType(element=t.SmallIntType()), [[2, 3], None]),
        (pa.array([[1.0, 2.0], None]), t.VectorType(element=t.FloatType(), length=2), [[1.0, 2.0], None]),
        (pa.array(["x"]).dictionary_encode(), t.CharType(length=1), ["x"]),
        (pa.RunEndEncodedArray.from_arrays([2], pa.array([7])), t.IntType(), [7, 7]),
        (
            pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int8())),
            t.MultisetType(element=t.VarCharType()),
            [[("a", 1)]],
        ),
    ],
    ids=str,
)
def test_values_stay_what_they_are(given: pa.Array, kind: t.DataType, expected: list[Any]) -> None:
    assert cast(given, kind) == expected


@pytest.mark.parametrize(
    ("given", "kind", "message"),
    [
        (pa.array([1, 2, 300]), t.TinyIntType(), r"'x', row 102: 300 does not fit TINYINT"),
        (pa.array([2**53 + 1]), t.DoubleType(), r"row 100: 9007199254740993 does not fit DOUBLE"),
        (pa.array([0.5, 0.1]), t.FloatType(), r"row 101: 0.1 does not fit FLOAT .*more digits"),
        (
            pa.array([1.0]),
            t.DecimalType(),
            r"DECIMAL\(10, 0\) is needed .row 100 has 1.0.: cast .* pl.col\('x'\)",
        ),
        (pa.array([Decimal("1.25")]), t.DecimalType(precision=5, scale=1), r"row 100: .*does not fit DECIMAL\(5, 1\)"),
        (pa.array([Decimal(100)]), t.DecimalType(precision=2, scale=0), r"does not fit DECIMAL\(2, 0\)"),
        (pa.array(["1"]), t.IntType(), r"string where INT is needed"),
        (pa.array([b"1"]), t.VarCharType(), r"binary where STRING is needed"),
        (pa.array([True]), t.IntType(), r"bool where INT is needed"),
        (pa.array([dt.datetime(2024, 5, 14)]), t.DateType(), r"timestamp\[us\] where DATE is needed"),
        (pa.array([1], pa.timestamp("ns")), t.TimestampType(precision=6), r"does not fit TIMESTAMP\(6\)"),
        (pa.array([2**62], pa.timestamp("s")), t.TimestampType(precision=9), r"row 100: .*does not fit TIMESTAMP\(9\)"),
        (pa.array([1], pa.timestamp("us", "UTC")), t.TimestampType(), r"TIMESTAMP has no zone"),
        (pa.array([1], pa.timestamp("us")), t.LocalZonedTimestampType(), r"an instant needs a zone"),
        (pa.array([1], pa.time64("us")), t.TimeType(), r"does not fit TIME"),
        (pa.array([{"b": "x"}]), ROW, r"the member 'a' is missing and NOT NULL"),
        (pa.array([{"a": None}], pa.struct({"a": pa.int32()})), ROW, r"a null inside, where INT NOT NULL is needed"),
        (pa.array([{"a": None}], ROW.arrow()), ROW, r"a null inside, where INT NOT NULL is needed"),
        (pa.array([[{"a": None}]], pa.list_(ROW.arrow())), t.ArrayType(element=ROW), r"a null inside"),
        (pa.array([{"a": 1, "c": 1}]), ROW, r"there is no member 'c'"),
        (pa.array([[1.0]]), t.VectorType(element=t.FloatType(), length=2), r"does not fit VECTOR"),
        (pa.array([1]), t.ArrayType(element=t.IntType()), r"int64 where ARRAY<INT> is needed .*: give lists"),
    ],
    ids=str,
)
def test_what_does_not_fit_is_named(given: pa.Array, kind: t.DataType, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        cast(given, kind)
