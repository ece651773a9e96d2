"""Dense and sparse statistics of manifest entries."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl
import pytest

from morrow.engine.errors import CorruptFile, Unsupported
from morrow.engine.format.binary_row import Value
from morrow.engine.format.binary_row_encoder import encode_row
from morrow.engine.format.manifest_entries import ColumnStats, decode_column_stats
from morrow.engine.format.types import ArrayType, BigIntType, DataType, DoubleType, IntType, VarCharType

SCHEMA: dict[str, DataType] = {"id": BigIntType(), "name": VarCharType(), "price": DoubleType()}

# columns covered (None: all), minima, maxima, null counts
Entry = tuple["list[str] | None", tuple[Value, ...], tuple[Value, ...], "list[int | None]"]


def decoded(entries: Sequence[Entry], *wanted: str, schema: dict[str, DataType] = SCHEMA) -> dict[str, ColumnStats]:
    def rows(values: int) -> pl.Series:
        stored = []
        for entry in entries:
            covered = list(schema) if entry[0] is None else entry[0]
            row: tuple[Value, ...] = entry[values]  # type: ignore[assignment]  # 1 and 2 are the tuples of values
            kinds = [schema.get(name, IntType()) for name in covered]
            stored.append(encode_row(row, kinds if row else []))
        return pl.Series(stored, dtype=pl.Binary)

    counts = pl.Series([entry[3] for entry in entries], dtype=pl.List(pl.Int64))
    columns = pl.Series([entry[0] for entry in entries], dtype=pl.List(pl.String))
    return decode_column_stats(rows(1), rows(2), counts, columns, schema, wanted, where="manifest-1")


def shown(stats: ColumnStats) -> list[list[Value] | None]:
    return [None if s is None else s.to_list() for s in (stats.minimum, stats.maximum, stats.null_count)]


def test_entries_that_cover_all_columns() -> None:
    stats = decoded(
        [(None, (1, "a", 0.5), (9, "z", 1.5), [0, 2, 0]), (None, (10, "b", 2.5), (19, "c", 3.5), [0, 0, 1])],
        "id",
        "name",
    )
    assert list(stats) == ["id", "name"]
    assert shown(stats["id"]) == [[1, 10], [9, 19], [0, 0]]
    assert shown(stats["name"]) == [["a", "b"], ["z", "c"], [2, 0]]
    assert stats["id"].minimum is not None and stats["id"].minimum.dtype == pl.Int64


def test_entries_that_cover_some_columns() -> None:
    entries: list[Entry] = [
        (["price"], (0.5,), (1.5,), [3]),
        (None, (1, "a", 2.5), (2, "b", 3.5), [0, 0, 0]),
        ([], (), (), []),
        (["price", "id"], (4.5, 7), (5.5, 8), [0, 1]),
    ]
    stats = decoded(entries, "id", "price")
    assert shown(stats["id"]) == [[None, 1, None, 7], [None, 2, None, 8], [None, 0, None, 1]]
    assert shown(stats["price"]) == [[0.5, 2.5, None, 4.5], [1.5, 3.5, None, 5.5], [3, 0, None, 0]]


def test_a_column_no_entry_covers() -> None:
    assert decoded([(["id"], (1,), (2,), [0])], "name") == {"name": ColumnStats(None, None, None)}


def test_counts_only() -> None:
    stats = decoded([(None, (None, None, None), (None, None, None), [0, 4, 0])], "name")
    assert shown(stats["name"]) == [None, None, [4]]


def test_dropped_statistics() -> None:
    """Entries that became DELETE may have statistics without fields although the schema has three."""
    stats = decoded([(None, (), (), []), (None, (1, "a", 0.5), (2, "b", 1.5), [0, 0, 0])], "id")
    assert shown(stats["id"]) == [[None, 1], [None, 2], [None, 0]]


def test_no_entries() -> None:
    assert decoded([], "id") == {"id": ColumnStats(None, None, None)}


def test_nan_says_nothing() -> None:
    stats = decoded([(["price"], (float("nan"),), (1.5,), [0])], "price")
    assert shown(stats["price"]) == [None, [1.5], [0]]


def test_counts_that_were_not_collected() -> None:
    entries: list[Entry] = [(None, (1, "a", 0.5), (2, "b", 1.5), counts) for counts in ([-1, None, 0], [3, None, 0])]
    stats = decoded(entries, "id", "name")
    assert (shown(stats["id"])[2], shown(stats["name"])[2]) == ([None, 3], None)


def test_columns_of_nested_types_and_columns_dropped_since() -> None:
    schema: dict[str, DataType] = {"tags": ArrayType(element=IntType()), "id": BigIntType()}
    stats = decoded([(["tags", "dropped", "id"], (None, 5, 1), (None, 6, 2), [7, 0, 0])], "tags", "id", schema=schema)
    assert shown(stats["tags"]) == [None, None, [7]]
    assert shown(stats["id"]) == [[1], [2], [0]]


def test_rows_of_another_number_of_fields() -> None:
    two, three = encode_row((1, 2), [BigIntType()] * 2), encode_row((1, "a", 0.5), list(SCHEMA.values()))
    counts = pl.Series([[0, 0, 0]])
    with pytest.raises(CorruptFile, match="manifest-1: row 0: the row does not have 3 fields"):
        decode_column_stats(pl.Series([two]), pl.Series([three]), counts, None, SCHEMA, ["id"], where="manifest-1")
    with pytest.raises(Unsupported, match="manifest-1: statistics whose null counts are not for the file's 3 columns"):
        decode_column_stats(
            pl.Series([three]), pl.Series([three]), pl.Series([[0]]), None, SCHEMA, ["id"], where="manifest-1"
        )
