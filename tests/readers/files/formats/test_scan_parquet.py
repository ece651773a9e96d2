"""Parquet files: types of columns, filters that reach the file, and refused files."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from morrow.engine.errors import CorruptFile, FileMissing, InvalidArgument, Unsupported
from morrow.engine.format import types as t
from morrow.engine.io.local import LocalStore
from morrow.engine.library_versions import import_array
from morrow.readers.casts.dtypes import to_polars_dtype
from morrow.readers.files import FileSource, scan, translate_errors, verify

ID = t.DataField(0, "id", t.BigIntType())
NAME = t.DataField(1, "name", t.VarCharType())


def source(path: Path, rows: int = -1) -> FileSource:
    return FileSource(LocalStore(), str(path), path.stat().st_size if path.exists() else 0, rows, "parquet")


def written(path: Path, table: pa.Table, **options: Any) -> FileSource:
    pq.write_table(table, path, **options)
    return source(path, table.num_rows)


@pytest.fixture
def people(tmp_path: Path) -> FileSource:
    table = pa.table({"_SEQUENCE_NUMBER": range(100), "name": [f"n{i}" for i in range(100)], "id": range(100)})
    return written(tmp_path / "people.parquet", table, row_group_size=10)


def test_columns_and_position_in_the_order_asked_for(people: FileSource) -> None:
    frame = scan([people], [ID, NAME], position="at").filter(pl.col("id") == 42).collect()

    assert frame.to_dicts() == [{"id": 42, "name": "n42", "at": 42}]
    assert frame.columns == ["id", "name", "at"]


def test_positions_alone_count_the_rows(people: FileSource) -> None:
    assert scan([people], [], position="at").collect()["at"].to_list() == list(range(100))


def test_several_files_are_one_scan(people: FileSource) -> None:
    frame = scan([people, people], [ID])

    assert frame.collect()["id"].to_list() == [*range(100)] * 2
    assert frame.explain().count("SCAN") == 1


def test_positions_count_through_several_files(people: FileSource) -> None:
    frame = scan([people, people, people], [ID], position="at").filter(pl.col("id").is_in([3, 97]))

    assert frame.collect()["at"].to_list() == [3, 97, 103, 197, 203, 297]
    assert frame.explain().count("SCAN") == 1


def test_positions_through_several_files_need_true_row_counts(people: FileSource) -> None:
    with pytest.raises(CorruptFile, match="has 100 rows where metadata says 99"):
        scan([source(Path(people.path), rows=99), people], [ID], position="at")


def test_filters_and_projections_reach_the_file(people: FileSource) -> None:
    plan = scan([people], [ID, NAME]).filter(pl.col("id") > 95).select("id").explain()

    assert plan.startswith("Parquet SCAN")
    assert 'col("id") > 95' in plan.replace("(", "").replace(")", "").replace('col"id"', 'col("id")')
    assert "WITH_COLUMNS" not in plan


NESTED = t.RowType(
    True,
    (
        t.DataField(1, "tags", t.ArrayType(True, t.VarCharType())),
        t.DataField(2, "by_day", t.MapType(True, t.DateType(), t.ArrayType(True, t.IntType()))),
    ),
)


@pytest.mark.parametrize(
    ("type_", "values"),
    [
        (t.BooleanType(), [True, None]),
        (t.TinyIntType(), [-128, None]),
        (t.SmallIntType(), [-(2**15), None]),
        (t.IntType(), [-(2**31), None]),
        (t.FloatType(), [1.5, None]),
        (t.DoubleType(), [1e300, None]),
        (t.CharType(length=5), ["ab   ", None]),
        (t.BinaryType(length=2), [b"\x00\xff", None]),
        (t.DecimalType(precision=9, scale=2), [Decimal("-1234567.89"), None]),
        (t.DecimalType(precision=18, scale=0), [Decimal("123456789012345678"), None]),
        (t.DecimalType(precision=38, scale=10), [Decimal("-1234567890123456789012345678.0123456789"), None]),
        (t.DateType(), [dt.date(1, 1, 1), dt.date(9999, 12, 31)]),
        (t.TimeType(precision=3), [dt.time(23, 59, 59, 999000), None]),
        (t.TimestampType(precision=0), [dt.datetime(9999, 12, 31, 23, 59, 59), None]),
        (t.TimestampType(precision=3), [dt.datetime(1, 1, 1), None]),
        (t.TimestampType(precision=6), [dt.datetime(1969, 12, 31, 23, 59, 59, 999999), None]),
        (t.LocalZonedTimestampType(precision=6), [dt.datetime(2024, 1, 1, tzinfo=dt.UTC), None]),
        (t.ArrayType(True, t.IntType()), [[1, None], [], None]),
        (t.MapType(True, t.IntType(), t.VarCharType()), [[(1, "a"), (2, None)], [], None]),
        (t.MultisetType(True, t.VarCharType()), [[("a", 2)], None]),
        (t.VariantType(), [{"value": b"\x0c\x01", "metadata": b"\x01\x00"}, None]),
        (NESTED, [{"tags": ["x"], "by_day": [(dt.date(2024, 1, 1), [1])]}, {"tags": None, "by_day": []}, None]),
    ],
    ids=str,
)
@pytest.mark.parametrize("decimals_as_integers", [True, False])
def test_types_are_exact(tmp_path: Path, type_: t.DataType, values: list[Any], decimals_as_integers: bool) -> None:
    field = t.DataField(0, "v", type_)
    table = pa.table([pa.array(values, type_.arrow())], schema=t.to_arrow_schema([field]))
    file = written(
        tmp_path / "f", table, store_schema=False, store_decimal_as_integer=decimals_as_integers, compression="lz4"
    )

    frame = scan([file], [field]).collect()

    assert frame.schema == {"v": to_polars_dtype(type_)}
    assert frame["v"].equals(import_array(table["v"]).cast(frame.schema["v"]))


def int96(path: Path, values: list[Any]) -> FileSource:
    """Write a file with the INT96 values that Java writes for TIMESTAMP above precision 6."""
    table = pa.table({"v": pa.array(values, pa.timestamp("us"))})
    return written(path, table, use_deprecated_int96_timestamps=True, store_schema=False)


@pytest.mark.parametrize("type_", [t.TimestampType(precision=9), t.LocalZonedTimestampType(precision=7)], ids=str)
def test_int96_timestamps(tmp_path: Path, type_: t.DataType) -> None:
    file = int96(tmp_path / "f", [dt.datetime(2024, 1, 1, 0, 0, 0, 123456), None])

    frame = scan([file], [t.DataField(0, "v", type_)]).collect()

    assert frame.schema == {"v": to_polars_dtype(type_)}
    assert frame["v"].to_physical().to_list() == [1_704_067_200_123_456_000, None]


@pytest.mark.parametrize("year", [1, 1676, 2263, 9999])
def test_int96_outside_of_64_bits_is_refused_and_never_wrapped(tmp_path: Path, year: int) -> None:
    file = int96(tmp_path / "f", [dt.datetime(2024, 1, 1), dt.datetime(year, 1, 1)])
    frame = scan([file], [t.DataField(0, "v", t.TimestampType(precision=9))], position="at")

    with pytest.raises(Unsupported, match=r"TIMESTAMP\(9\) before 1677 or after 2262 in column 'v'"):
        frame.filter(pl.col("v") < dt.datetime(2000, 1, 1)).collect()
    assert frame.select("at").collect().height == 2


def test_a_column_that_is_not_there(people: FileSource) -> None:
    with pytest.raises(Unsupported, match="city"), translate_errors(people.path):
        scan([people], [t.DataField(7, "city", t.VarCharType())]).collect()


def test_a_column_of_another_type(people: FileSource) -> None:
    with (
        pytest.raises(Unsupported, match=r"people\.parquet: .*.name. is String, not Date"),
        translate_errors(people.path),
    ):
        scan([people], [t.DataField(1, "name", t.DateType())]).collect()


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    missing = source(tmp_path / "gone.parquet")

    with pytest.raises(FileMissing), translate_errors(missing.path):
        scan([missing], [ID]).collect()
    with pytest.raises(FileMissing):
        verify(missing)


@pytest.mark.parametrize("keep", [0, 4, 100, 0.5, -1])
def test_a_truncated_file(people: FileSource, keep: float) -> None:
    path = Path(people.path)
    data = path.read_bytes()
    path.write_bytes(data[: int(keep * len(data)) if isinstance(keep, float) else keep])

    with pytest.raises(CorruptFile, match=r"people\.parquet"), translate_errors(people.path):
        scan([people], [ID, NAME]).collect()
    with pytest.raises(CorruptFile, match=f"bytes where metadata says {len(data)}"):
        verify(people)


def test_verify_counts_rows(people: FileSource) -> None:
    verify(people, rows=True)

    with pytest.raises(CorruptFile, match="has 100 rows where metadata says 99"):
        verify(source(Path(people.path), rows=99), rows=True)


def test_calls_that_make_no_sense(people: FileSource) -> None:
    orc = FileSource(people.store, people.path, 0, -1, "orc")

    with pytest.raises(InvalidArgument, match="one format"):
        scan([people, orc], [ID])
    with pytest.raises(InvalidArgument, match="need their row counts"):
        scan([people, source(Path(people.path))], [ID], position="at")
    with pytest.raises(Unsupported, match="unheard"):
        scan([FileSource(people.store, people.path, 0, -1, "unheard")], [ID])
