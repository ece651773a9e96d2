"""Files of btree and bitmap indexes, which pypaimon, Java and Morrow write."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import morrow
from morrow.engine.errors import CorruptFile, MorrowError
from morrow.engine.format import types as t
from morrow.engine.format.sorted_indexes import (
    BITMAP,
    BTREE,
    SORTED_INDEXES,
    BitmapFile,
    BTreeFile,
    KeyBounds,
    decode_keys,
    encode_keys,
    open_index_file,
    write_index_file,
)
from morrow.engine.io.local import LocalStore
from tests.support.global_indexes import open_files, unpack

Pairs = list[tuple[object, int]]


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack(tmp_path_factory.mktemp("indexes"))


def list_pairs(file: BTreeFile | BitmapFile, kind: t.DataType) -> Pairs:
    """Return all values of an index with their rows."""
    found: Pairs = [(None, row) for row in file.read_nulls().tolist()]
    for entries in file.read_entries(file.blocks):
        keys = decode_keys(entries.keys, kind, file.path)
        for number, key in enumerate(keys):
            chosen = np.arange(len(entries)) == number
            found += [(key, row) for row in file.read_rows(entries, chosen).tolist()]
    return sorted(found, key=lambda pair: pair[1])


@pytest.mark.parametrize("name", ["btree", "bitmap", "partitioned"])
def test_indexes_of_pypaimon_have_the_values_of_the_rows_and_are_written_the_same(warehouse: Path, name: str) -> None:
    table = morrow.open(warehouse / "db.db" / name)
    rows = table.to_polars([*table.schema.names, "_ROW_ID"]).sort("_ROW_ID")

    for field, ids, meta, file in open_files(table):
        own = rows.filter(pl.col("_ROW_ID").is_between(ids[0], ids[-1]))
        local = own["_ROW_ID"].to_numpy() - ids[0]
        assert repr(list_pairs(file, field.type)) == repr(list(zip(own[field.name], local.tolist())))

        kind = BITMAP if isinstance(file, BitmapFile) else BTREE
        data, bounds = write_index_file(kind, own[field.name], local, field.type, 64 << 10)
        assert bounds == meta
        if kind == BTREE:
            assert data == Path(file.path).read_bytes()


def test_indexes_of_keyed_tables_of_java_are_read(warehouse: Path) -> None:
    files = open_files(morrow.open(warehouse / "default.db/test_pk_global_index_golden"))
    found = {field.name: list_pairs(file, field.type) for field, _, _, file in files}

    assert found == {
        "category": [("odd", 0), ("even", 1), ("odd", 2), ("even", 3)],
        "name": [("name-1", 0), ("name-2", 1), ("name-3", 2), ("name-4", 3)],
    }


VALUES: list[tuple[t.DataType, list[object]]] = [
    (t.BooleanType(), [True, None, False, True]),
    (t.TinyIntType(), [-128, None, 127, 0]),
    (t.SmallIntType(), [-(2**15), None, 2**15 - 1]),
    (t.IntType(), [3, None, -(2**31), 3]),
    (t.BigIntType(), [2**63 - 1, None, -(2**63)]),
    (t.FloatType(), [1.5, None, -0.0, 0.0, float("nan"), float("-inf")]),
    (t.DoubleType(), [1.5, None, -0.0, 0.0, float("nan"), float("-inf")]),
    (t.DateType(), [date(1, 1, 1), None, date(9999, 12, 31)]),
    (t.TimeType(), [time(23, 59, 59, 999000), None, time()]),
    (t.DecimalType(precision=10, scale=2), [Decimal("-99999999.99"), None, Decimal("0.01")]),
    (
        t.DecimalType(precision=38, scale=4),
        [Decimal(10**38 - 1).scaleb(-4), None, Decimal("-0.0128"), Decimal("0.0127"), Decimal(0)],
    ),
    (t.TimestampType(precision=3), [datetime(1969, 12, 31, 23, 59, 59, 1000), None, datetime(2024, 1, 1)]),
    (t.TimestampType(precision=6), [datetime(1969, 12, 31, 23, 59, 59, 999999), None, datetime(2024, 1, 1)]),
    (t.TimestampType(precision=9), [datetime(1969, 12, 31, 23, 59, 59, 999999), None, datetime(2024, 1, 1)]),
    (t.LocalZonedTimestampType(precision=6), [datetime(2024, 1, 1, 0, 0, 0, 1, tzinfo=UTC), None]),
    (t.VarCharType(length=10), ["", None, "ü", "a", "\U0001f600", "a\0"]),
]


@pytest.mark.parametrize("index_type", SORTED_INDEXES)
@pytest.mark.parametrize(("kind", "values"), VALUES, ids=[str(kind) for kind, _ in VALUES])
def test_values_of_all_types_are_read_back(
    tmp_path: Path, index_type: str, kind: t.DataType, values: list[object]
) -> None:
    column = pl.Series(values * 3, dtype=t.to_polars_dtype(kind))
    data, meta = write_index_file(index_type, column, np.arange(len(column)), kind, 16)
    (tmp_path / "x").write_bytes(data)
    file = open_index_file(index_type, LocalStore(), str(tmp_path / "x"), len(data), len(column))

    assert repr([value for value, _ in list_pairs(file, kind)]) == repr(column.to_list())
    assert len(file.blocks) > 1 or column.n_unique() <= 4
    bounds = KeyBounds.parse(meta, "x")
    assert bounds.has_nulls
    assert bounds.first is not None
    if not column.dtype.is_float():
        assert bounds.first == encode_keys(column.sort().drop_nulls().head(1), kind).data.tobytes()


@pytest.mark.parametrize("index_type", SORTED_INDEXES)
def test_an_index_of_many_rows_of_a_value_and_of_nulls_alone(tmp_path: Path, index_type: str) -> None:
    for column in (pl.Series([7] * 200_000, dtype=pl.Int32), pl.Series([None] * 9, dtype=pl.Int32)):
        data, _ = write_index_file(index_type, column, np.arange(len(column)), t.IntType(), 64 << 10)
        (tmp_path / "x").write_bytes(data)
        file = open_index_file(index_type, LocalStore(), str(tmp_path / "x"), len(data), len(column))
        assert [value for value, _ in list_pairs(file, t.IntType())] == column.to_list()


@pytest.mark.parametrize("index_type", SORTED_INDEXES)
def test_damaged_files_raise_an_error_or_return_the_same_rows(tmp_path: Path, index_type: str) -> None:
    column = pl.Series([None, *(f"value {number % 7}" for number in range(60))])
    data, _ = write_index_file(index_type, column, np.arange(len(column)), t.VarCharType(length=99), 64)
    (tmp_path / "x").write_bytes(data)
    path = str(tmp_path / "x")
    whole = list_pairs(
        open_index_file(index_type, LocalStore(), path, len(data), len(column)), t.VarCharType(length=99)
    )
    # The bits of roaring bitmaps have no checksum in bitmap files: their length and cardinality are checked.
    first = 0 if index_type == BTREE else len(data) - 200
    for at in range(first, len(data), 3):
        damaged = bytearray(data)
        damaged[at] ^= 0xFF
        (tmp_path / "x").write_bytes(damaged)
        file = open_index_file(index_type, LocalStore(), path, len(data), len(column))
        try:
            found = list_pairs(file, t.VarCharType(length=99))
        except MorrowError:
            continue
        assert len(found) == len(whole) or index_type == BITMAP


def test_metadata_that_is_cut_off_is_refused() -> None:
    meta = KeyBounds(b"abc", b"x", has_nulls=True).serialize()

    assert KeyBounds.parse(meta, "x") == KeyBounds(b"abc", b"x", has_nulls=True)
    assert KeyBounds.parse(meta[:-2], "x") == KeyBounds(b"abc", b"x", has_nulls=True)  # as before 2.0
    assert KeyBounds.parse(bytes(8) + b"\1", "x") == KeyBounds(None, None, has_nulls=True)
    with pytest.raises(CorruptFile, match="cut off"):
        KeyBounds.parse(meta[:9], "x")
    with pytest.raises(CorruptFile, match="cut off"):
        KeyBounds.parse(None, "x")
