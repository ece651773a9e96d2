"""Avro data files in Paimon's mapping, with the schemas that Paimon's writer stores in them."""

from __future__ import annotations

import datetime as dt
import io
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import polars as pl
import pytest

from morrow.engine.errors import CorruptFile, FileMissing, Unsupported
from morrow.engine.format import types as t
from morrow.engine.io.local import LocalStore
from morrow.readers.casts.dtypes import to_polars_dtype
from morrow.readers.files import FileSource, scan, verify
from morrow.readers.files.formats import avro as avro_files

ID = t.DataField(0, "id", t.IntType())
MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
LOCAL_MICROS = {"type": "long", "logicalType": "local-timestamp-micros"}
ENTRY = {
    "type": "record",
    "name": "record_v",
    "fields": [{"name": "key", "type": "int"}, {"name": "value", "type": ["null", MILLIS]}],
}
ROW = {
    "type": "record",
    "name": "record_r",
    "fields": [{"name": "p", "type": ["null", "int"]}, {"name": "q", "type": ["null", MILLIS]}],
}


def source(path: Path, rows: int = -1) -> FileSource:
    return FileSource(LocalStore(), str(path), 0, rows, "avro")


def written(path: Path, columns: dict[str, Any], rows: list[dict[str, Any]], **options: Any) -> FileSource:
    fields = [{"name": name, "type": type_} for name, type_ in columns.items()]
    out = io.BytesIO()
    options = {"codec": "zstandard", **options}
    fastavro.writer(out, {"type": "record", "name": "record", "fields": fields}, rows, **options)
    path.write_bytes(out.getvalue())
    return source(path, len(rows))


P = t.DataField(1, "p", t.TinyIntType())
Q = t.DataField(2, "q", t.TimestampType(precision=3))
A_IS_1 = {"key": "a", "value": 1}
ENTRIES = {"type": "array", "items": ENTRY}
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 4}
NOON = dt.datetime(2024, 2, 29, 12)
NOON_UTC = NOON.replace(tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("type_", "avro_type", "written_value", "read"),
    [
        (t.TinyIntType(), "int", -128, -128),
        (t.SmallIntType(), "int", -(2**15), -(2**15)),
        (t.CharType(length=5), "string", "ab ", "ab "),
        (t.DecimalType(precision=20, scale=4), DECIMAL, Decimal("-0.0001"), Decimal("-0.0001")),
        (t.DateType(), {"type": "int", "logicalType": "date"}, dt.date(1, 1, 1), dt.date(1, 1, 1)),
        (t.TimeType(), {"type": "int", "logicalType": "time-millis"}, dt.time(12), dt.time(12)),
        (t.TimestampType(precision=0), MILLIS, NOON_UTC, NOON),
        (t.TimestampType(precision=6), {"type": "long", "logicalType": "timestamp-micros"}, NOON_UTC, NOON),
        (t.LocalZonedTimestampType(precision=6), LOCAL_MICROS, NOON, NOON_UTC),
        (t.ArrayType(True, Q.type), {"type": "array", "items": ["null", MILLIS]}, [NOON_UTC, None], [NOON, None]),
        (t.MapType(True, t.VarCharType(), P.type), {"type": "map", "values": "int"}, {"a": 1}, [A_IS_1]),
        (t.MapType(True, t.IntType(), Q.type), ENTRIES, [{"key": 1, "value": NOON_UTC}], [{"key": 1, "value": NOON}]),
        (t.MultisetType(True, t.VarCharType()), {"type": "map", "values": "int"}, {"a": 1}, [A_IS_1]),
        (t.RowType(True, (P, Q)), ROW, {"p": 1, "q": NOON_UTC}, {"p": 1, "q": NOON}),
        (t.VectorType(True, t.FloatType(), 2), {"type": "array", "items": "float"}, [1.0, 2.0], [1.0, 2.0]),
    ],
    ids=lambda value: str(value) if isinstance(value, t.DataType) else "",
)  # fmt: skip
def test_types(tmp_path: Path, type_: t.DataType, avro_type: Any, written_value: Any, read: Any) -> None:
    file = written(tmp_path / "f.avro", {"v": ["null", avro_type]}, [{"v": written_value}, {"v": None}])

    column = scan([file], [t.DataField(0, "v", type_)]).collect()["v"]

    assert column.dtype == to_polars_dtype(type_)
    assert column.to_list() == [read, None]


@pytest.fixture
def numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FileSource:
    """Write 1,000 rows in blocks of 100 bytes, which are decoded in several steps."""
    monkeypatch.setattr(avro_files, "BATCH_BYTES", 500)
    rows = [{"id": i, "name": f"n{i}"} for i in range(1_000)]
    return written(tmp_path / "f.avro", {"id": "int", "name": "string"}, rows, sync_interval=100)


def test_positions_run_through_all_batches(numbers: FileSource) -> None:
    frame = scan([numbers], [ID], position="at").filter(pl.col("id") % 400 == 1).collect()

    assert frame.to_dicts() == [{"id": i, "at": i} for i in (1, 401, 801)]
    assert scan([numbers], [], position="at").collect()["at"].to_list() == list(range(1_000))


def test_reading_stops_when_enough_rows_are_there(numbers: FileSource, monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[int] = []
    original = avro_files.decode_batches

    def counting(*args: Any) -> Any:
        for rows, frame in original(*args):
            decoded.append(rows)
            yield rows, frame

    monkeypatch.setattr(avro_files, "decode_batches", counting)

    assert scan([numbers], [ID]).head(10).collect()["id"].to_list() == list(range(10))
    assert sum(decoded) < 200


def test_several_files_in_their_order(numbers: FileSource) -> None:
    assert scan([numbers, numbers], [ID]).slice(995, 10).collect()["id"].to_list() == [*range(995, 1000), *range(5)]


def test_another_number_of_rows(numbers: FileSource) -> None:
    other = source(Path(numbers.path), rows=1_001)

    with pytest.raises(CorruptFile, match="has 1000 rows where metadata says 1001"):
        scan([other], [ID]).collect()
    with pytest.raises(CorruptFile, match="has 1000 rows where metadata says 1001"):
        verify(other, rows=True)


def test_a_number_that_does_not_fit_its_type(tmp_path: Path) -> None:
    file = written(tmp_path / "f.avro", {"v": "int"}, [{"v": 128}])

    with pytest.raises(Unsupported, match=r"f\.avro"):
        scan([file], [t.DataField(0, "v", t.TinyIntType())]).collect()


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(FileMissing):
        scan([source(tmp_path / "gone.avro")], [ID]).collect()
