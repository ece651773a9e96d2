"""Polars frames become Arrow tables of exactly the schema's types, and the other way round."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import polars as pl
import pyarrow as pa
import pytest

from morrow.engine.errors import InvalidArgument
from morrow.engine.format import types as t
from morrow.engine.library_versions import CASTS_VIEWS, WRITES_VIEWS
from morrow.readers.casts import dtypes
from morrow.readers.casts.dtypes import to_arrow_table, to_polars_dtype, to_polars_schema, to_series

POINT = t.RowType(
    fields=(
        t.DataField(10, "x", t.IntType(nullable=False)),
        t.DataField(11, "m", t.MapType(key=t.VarCharType(), value=t.ArrayType(element=t.TimeType()))),
        t.DataField(12, "v", t.VectorType(element=t.FloatType(), length=2)),
    )
)
FIELDS = (
    t.DataField(0, "k", t.BigIntType(nullable=False)),
    t.DataField(1, "c", t.CharType(length=3)),
    t.DataField(2, "seconds", t.TimestampType(precision=0)),
    t.DataField(3, "instant", t.LocalZonedTimestampType(precision=3)),
    t.DataField(4, "point", POINT),
    t.DataField(5, "bag", t.MultisetType(element=t.VarCharType())),
    t.DataField(6, "price", t.DecimalType(precision=10, scale=2), description="in euro"),
    t.DataField(7, "blob", t.BlobType()),
    t.DataField(8, "variant", t.VariantType()),
    t.DataField(9, "time", t.TimeType()),
    t.DataField(13, "points", t.ArrayType(element=POINT)),
)
POINTS = (
    {"x": 1, "m": [{"key": "k", "value": [dt.time(1, 2, 3, 4000)]}, {"key": "z", "value": None}], "v": [1.0, 2.0]},
    {"x": 2, "m": None, "v": None},
)
FRAME = pl.DataFrame(
    {
        "k": [1, 2, 3],
        "c": ["a", None, "c"],
        "seconds": [dt.datetime(1960, 1, 1), None, dt.datetime(2020, 1, 1)],
        "instant": [None, dt.datetime(2020, 1, 1, tzinfo=dt.UTC), None],
        "point": [None, *POINTS],
        "bag": [[{"key": "a", "value": 1}], [], None],
        "price": [Decimal("1.25"), None, None],
        "blob": [b"x", None, b"y"],
        "variant": [{"value": b"a", "metadata": b"b"}, None, None],
        "time": [dt.time(1), None, None],
        "points": [[POINTS[0], None], None, []],
    },
    schema=to_polars_schema(FIELDS),
)


@pytest.mark.parametrize(
    "frame",
    [FRAME, FRAME[1:], FRAME[:0], FRAME.filter(pl.col("k") > 1), pl.concat([FRAME, FRAME[1:2]], rechunk=False)],
    ids=["whole", "sliced", "empty", "filtered", "chunked"],
)
def test_a_frame_becomes_arrow_and_back(frame: pl.DataFrame) -> None:
    table = to_arrow_table(frame, FIELDS)

    table.validate(full=True)
    assert table.schema.equals(t.to_arrow_schema(FIELDS), check_metadata=True)
    assert table.num_rows == frame.height
    back = pl.DataFrame([to_series(field.name, table[field.name], field.type) for field in FIELDS])
    assert back.equals(frame)


def test_columns_are_taken_by_name_in_the_order_of_the_fields() -> None:
    fields = (FIELDS[9], FIELDS[0])
    assert to_arrow_table(FRAME, fields).column_names == ["time", "k"]


def test_fixed_width_columns_share_their_memory() -> None:
    series = pl.Series("k", range(1000), dtype=pl.Int64())
    address = series.to_arrow().buffers()[1].address
    assert to_arrow_table(series.to_frame(), FIELDS[:1])["k"].chunk(0).buffers()[1].address == address


def test_timestamps_with_more_digits_than_declared_are_floored() -> None:
    frame = pl.DataFrame(
        {"seconds": [dt.datetime(1960, 1, 1, 0, 0, 0, 500_000)]}, schema={"seconds": pl.Datetime("ms")}
    )
    assert to_arrow_table(frame, FIELDS[2:3]).to_pylist() == [{"seconds": dt.datetime(1960, 1, 1)}]


def test_a_missing_column_and_one_of_another_type_are_errors() -> None:
    with pytest.raises(InvalidArgument, match="no column 'c'"):
        to_arrow_table(FRAME.select("k"), FIELDS[:2])
    with pytest.raises(InvalidArgument, match="column 'k'"):
        to_arrow_table(pl.DataFrame({"k": ["x"]}), FIELDS[:1])


def test_large_columns_are_split_into_chunks_that_32_bit_offsets_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("morrow.readers.casts.dtypes.MAX_CHUNK_BYTES", 1000)
    frame = pl.DataFrame({"c": ["x" * 100] * 50, "numbers": [[1, 2, 3]] * 50})
    numbers = t.DataField(1, "numbers", t.ArrayType(element=t.BigIntType()))
    table = to_arrow_table(frame, (FIELDS[1], numbers))
    assert table.to_pydict() == frame.to_dict(as_series=False)
    assert all(column.num_chunks > 1 for column in table.columns)
    assert all(chunk.nbytes <= 1000 for column in table.columns for chunk in column.chunks)


@pytest.mark.skipif(not WRITES_VIEWS, reason="sizes of views are not known")
def test_views_of_the_same_bytes_are_counted_once_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("morrow.readers.casts.dtypes.MAX_CHUNK_BYTES", 1000)
    same = pl.Series("c", ["x" * 100]).new_from_index(0, 50)
    assert same.to_arrow(compat_level=pl.CompatLevel.newest()).nbytes < 1000  # 16 for a view, 100 for the shared text
    assert to_arrow_table(same.to_frame(), FIELDS[1:2])["c"].num_chunks > 1


def test_one_value_larger_than_a_chunk_is_a_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("morrow.readers.casts.dtypes.MAX_CHUNK_BYTES", 100)
    values = [b"a", b"b" * 200, b"c"]
    table = to_arrow_table(pl.DataFrame({"blob": values}), FIELDS[7:8])
    assert table["blob"].to_pylist() == values


@pytest.mark.skipif(not CASTS_VIEWS, reason="text is not copied from views")
@pytest.mark.parametrize("threaded", [2**31 - 1, 1])
@pytest.mark.parametrize("most", [2**31 - 1, 40])
def test_text_lies_in_memory_of_the_pool(monkeypatch: pytest.MonkeyPatch, most: int, threaded: int) -> None:
    fields = (t.DataField(0, "s", t.VarCharType()), t.DataField(1, "b", t.VarBinaryType()))
    rows = {"s": [None, "", "é" * 9, "x"], "b": [b"", None, b"\xff" * 20, b"y"]}
    frame = pl.DataFrame(rows, schema=to_polars_schema(fields))
    expected = to_arrow_table(frame, fields)
    monkeypatch.setattr(dtypes, "MAX_FEW_VALUES", 0)
    monkeypatch.setattr(dtypes, "MAX_CHUNK_BYTES", most)
    monkeypatch.setattr(dtypes, "MIN_THREADED_ROWS", threaded)
    assert to_arrow_table(frame, fields).equals(expected)
    pool = pa.system_memory_pool()
    before = pool.bytes_allocated()
    made = to_arrow_table(frame, fields, pool=pool)
    assert pool.bytes_allocated() > before
    assert made.equals(expected) and made.schema == expected.schema


def test_large_frames_are_converted_in_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("morrow.readers.casts.dtypes.MIN_THREADED_ROWS", 2)
    frame = pl.concat([FRAME, FRAME[1:]], rechunk=False)
    table = to_arrow_table(frame, FIELDS)
    assert pl.DataFrame([to_series(f.name, table[f.name], f.type) for f in FIELDS]).equals(frame)
    with pytest.raises(InvalidArgument, match="column 'k'"):
        to_arrow_table(pl.DataFrame({"k": ["x", "y"]}), FIELDS[:1])


@pytest.mark.parametrize(
    ("type", "dtype"),
    [
        (t.TimestampType(precision=0), pl.Datetime("ms")),
        (t.TimestampType(precision=9), pl.Datetime("ns")),
        (t.LocalZonedTimestampType(precision=6), pl.Datetime("us", "UTC")),
        (t.MapType(key=t.IntType(), value=t.DateType()), pl.List(pl.Struct({"key": pl.Int32, "value": pl.Date}))),
        (t.VectorType(element=t.FloatType(), length=3), pl.Array(pl.Float32, 3)),
        (t.DecimalType(precision=38, scale=10), pl.Decimal(38, 10)),
    ],
    ids=str,
)
def test_dtypes(type: t.DataType, dtype: pl.DataType) -> None:
    assert to_polars_dtype(type) == dtype
    assert to_series("a", pa.nulls(1, type.arrow()), type).dtype == dtype


def test_a_null_map_may_hold_an_entry_without_a_key() -> None:
    """Polars leaves such entries in null lists."""
    entries = pa.StructArray.from_arrays([pa.array([None, 1]), pa.array([None, 2])], ["key", "value"])
    lists = pa.LargeListArray.from_arrays([0, 1, 2], entries, mask=pa.array([True, False]))
    assert dtypes.cast_layout(lists, pa.map_(pa.int64(), pa.int64())).to_pylist() == [None, [(1, 2)]]


@pytest.mark.parametrize("kind", ["list", "map"])
def test_an_empty_list_cut_out_of_others_can_be_combined(kind: str) -> None:
    element = t.IntType()
    type = t.ArrayType(element=element) if kind == "list" else t.MapType(key=t.IntType(nullable=False), value=element)
    field = t.DataField(0, "l", type)
    full = [1] if kind == "list" else [{"key": 1, "value": 1}]
    frame = pl.DataFrame({"l": [full, []]}, schema={"l": to_polars_dtype(type)})
    merged = pl.concat([frame, frame], rechunk=True).select(pl.col("l").gather([1]))
    for found in (merged, frame.filter(pl.Series([False, True])), frame[1:]):
        table = to_arrow_table(found, [field])
        assert table.combine_chunks().column("l").to_pylist() == [[]]
