"""Keys are found in the newest level that holds them, dead rows are not found."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest

from morrow.engine.errors import FileMissing
from morrow.engine.names import FILE, KEY_ROW, POSITION
from morrow.readers.casts.dtypes import polars_dtype
from morrow.writers.files import file_path
from morrow.writers.files.deletion_vectors import DeletionMaintainer
from morrow.writers.keyed.lookup.keys import looked_up
from tests.writers.keyed.lookup.tables import BUCKET, rows_of, stored, table, target


def test_the_newest_level_wins(tmp_path: Path) -> None:
    t = target(table(tmp_path))
    old = stored(t, 5, (0, "+I", 1, 10, "a"), (1, "+I", 2, 20, "b"), (2, "+I", 4, 40, "d"))
    new = stored(t, 3, (7, "+U", 2, 21, "B"))

    found = looked_up(t, BUCKET, pl.DataFrame({"k": [4, 2, 3]}), [old, new], columns=["v", "_SEQUENCE_NUMBER"])

    assert rows_of(found, [KEY_ROW, FILE, POSITION, "v", "_SEQUENCE_NUMBER"]) == [(0, 0, 2, 40, 2), (1, 1, 0, 21, 7)]


def test_a_dead_row_is_not_there(tmp_path: Path) -> None:
    """So the key is looked for further down."""
    t = target(table(tmp_path))
    old = stored(t, 5, (0, "+I", 1, 10, "a"), (1, "+I", 2, 20, "b"))
    new = stored(t, 3, (7, "+U", 2, 21, "B"))
    vectors = DeletionMaintainer(t, BUCKET.partition, BUCKET.bucket)
    vectors.mark(new.file_name, np.array([0]))
    vectors.mark(old.file_name, np.array([0]))

    found = looked_up(t, BUCKET, pl.DataFrame({"k": [1, 2]}), [old, new], vectors)

    assert rows_of(found, found.columns) == [(1, 0, 1)]


@pytest.mark.parametrize("format", ["parquet", "orc", "avro"])
@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("INT", [-5, 0, 7]),
        ("STRING", ["", "b", "é"]),
        ("BYTES", [b"", b"\x00", b"\xff"]),
        ("DECIMAL(20, 2)", [Decimal("-1.50"), Decimal("0.00"), Decimal("99.99")]),
        ("DATE", [dt.date(1969, 12, 31), dt.date(1970, 1, 1), dt.date(2024, 2, 29)]),
        ("TIMESTAMP(6)", [dt.datetime(1970, 1, 1), dt.datetime(2024, 5, 14, 1, 2, 3, 4000), dt.datetime(2030, 1, 1)]),
        ("DOUBLE", [-1.5, 0.0, float("nan")]),
        ("BOOLEAN", [False, True]),
    ],
)
def test_keys_of_every_kind_are_found(tmp_path: Path, format: str, kind: str, values: list[Any]) -> None:
    t = target(table(tmp_path, f"k {kind} NOT NULL, v INT", file__format=format))
    file = stored(t, 4, *((number, "+I", value, number) for number, value in enumerate(values)))
    dtype = polars_dtype(t.schema.by_name["k"].type)
    wanted = pl.DataFrame({"k": pl.Series(list(reversed(values)), dtype=dtype)})

    found = looked_up(t, BUCKET, wanted, [file], columns=["v"])

    count = len(values)
    assert rows_of(found, [KEY_ROW, POSITION, "v"]) == [(row, count - 1 - row, count - 1 - row) for row in range(count)]


def test_keys_of_several_columns(tmp_path: Path) -> None:
    t = target(table(tmp_path, "b STRING NOT NULL, v INT, a INT NOT NULL", ("a", "b")))
    file = stored(t, 4, (0, "+I", "x", 1, 1), (1, "+I", "y", 2, 1), (2, "+I", "x", 3, 2))
    wanted = pl.DataFrame({"a": [2, 1, 2], "b": ["x", "y", "y"]}, schema={"a": pl.Int32, "b": pl.String})
    assert rows_of(looked_up(t, BUCKET, wanted, [file], columns=["v"]), [KEY_ROW, "v"]) == [(0, 3), (1, 2)]


def test_of_a_level_only_the_files_that_may_hold_the_key_are_opened(tmp_path: Path) -> None:
    t = target(table(tmp_path))
    low = stored(t, 5, (0, "+I", 1, 10, "a"), (1, "+I", 2, 20, "b"))
    high = stored(t, 5, (2, "+I", 8, 80, "x"), (3, "+I", 9, 90, "y"))
    t.store.delete(file_path(t, BUCKET, low.file_name))

    found = looked_up(t, BUCKET, pl.DataFrame({"k": [5, 9]}), [low, high], columns=["w"])
    assert rows_of(found, [KEY_ROW, FILE, "w"]) == [(1, 1, "y")]
    with pytest.raises(FileMissing, match=low.file_name):
        looked_up(t, BUCKET, pl.DataFrame({"k": [1]}), [low, high])


def test_a_column_that_the_file_does_not_have_is_null(tmp_path: Path) -> None:
    made = table(tmp_path)
    file = stored(target(made), 5, (0, "+I", 1, 10, "a"))
    made.alter.add_column("x", "INT")
    found = looked_up(target(made), BUCKET, pl.DataFrame({"k": [1]}), [file], columns=["x", "v"])
    assert rows_of(found, ["x", "v"]) == [(None, 10)]


@pytest.mark.parametrize(
    "wanted",
    [range(-3, 9007), range(9006, -3, -1), range(4000, 4100), [8998, 9000, 0, -1, 1], [10**6]],
    ids=["all and more", "backwards", "some", "ends", "none"],
)
@pytest.mark.parametrize("dead", [[], [0, 1500, 4499]], ids=["", "dead rows"])
def test_keys_in_many_row_groups(tmp_path: Path, wanted: Sequence[int], dead: list[int]) -> None:
    t = target(table(tmp_path, "k BIGINT NOT NULL", file__block_size="8 kb"))
    file = stored(t, 5, *((number, "+I", 2 * number) for number in range(4500)))
    assert pq.ParquetFile(file_path(t, BUCKET, file.file_name)).num_row_groups > 3
    vectors = DeletionMaintainer(t, BUCKET.partition, BUCKET.bucket)
    vectors.mark(file.file_name, np.array(dead, np.int64))

    found = looked_up(t, BUCKET, pl.DataFrame({"k": wanted}, schema={"k": pl.Int64}), [file], vectors)

    live = {2 * number: number for number in range(4500) if number not in dead}
    expected = [(row, 0, live[key]) for row, key in enumerate(wanted) if key in live]
    assert sorted(found.rows()) == expected


def test_nothing_to_look_for(tmp_path: Path) -> None:
    t = target(table(tmp_path))
    file = stored(t, 5, (0, "+I", 1, 10, "a"))
    none = pl.DataFrame(schema={"k": pl.Int64})
    assert looked_up(t, BUCKET, none, [file], columns=["v"]).shape == (0, 4)
    assert looked_up(t, BUCKET, pl.DataFrame({"k": [1]}), []).shape == (0, 3)
