"""Key lookups find the newest live row of a key and skip deleted rows."""

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

from morrow.engine.errors import FileMissing, Unsupported
from morrow.engine.format.schema import VALUE_KIND
from morrow.engine.names import FILE, KEY_ROW, POSITION, RUN_LEVEL
from morrow.readers.casts.dtypes import to_polars_dtype
from morrow.readers.execution.changelog import Comparison
from morrow.writers.files.data_files import build_file_path
from morrow.writers.files.deletion_vectors import DeletionMaintainer
from morrow.writers.keyed.key_lookup import (
    PLACE_COLUMNS,
    MergeResult,
    look_up_keys,
    merge_first_rows,
    merge_fully,
    merge_with_lookup,
)
from morrow.writers.target import WriteTarget
from tests.writers.keyed.lookup_tables import BUCKET, KINDS, rows_of, stored, table, target, versions


def test_the_newest_level_wins(tmp_path: Path) -> None:
    t = target(table(tmp_path))
    old = stored(t, 5, (0, "+I", 1, 10, "a"), (1, "+I", 2, 20, "b"), (2, "+I", 4, 40, "d"))
    new = stored(t, 3, (7, "+U", 2, 21, "B"))

    found = look_up_keys(t, BUCKET, pl.DataFrame({"k": [4, 2, 3]}), [old, new], columns=["v", "_SEQUENCE_NUMBER"])

    assert rows_of(found, [KEY_ROW, FILE, POSITION, "v", "_SEQUENCE_NUMBER"]) == [(0, 0, 2, 40, 2), (1, 1, 0, 21, 7)]


def test_a_dead_row_is_not_there(tmp_path: Path) -> None:
    """The lookup goes on to lower levels."""
    t = target(table(tmp_path))
    old = stored(t, 5, (0, "+I", 1, 10, "a"), (1, "+I", 2, 20, "b"))
    new = stored(t, 3, (7, "+U", 2, 21, "B"))
    vectors = DeletionMaintainer(t, BUCKET.partition, BUCKET.bucket)
    vectors.mark(new.file_name, np.array([0]))
    vectors.mark(old.file_name, np.array([0]))

    found = look_up_keys(t, BUCKET, pl.DataFrame({"k": [1, 2]}), [old, new], vectors)

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
    dtype = to_polars_dtype(t.schema.by_name["k"].type)
    wanted = pl.DataFrame({"k": pl.Series(list(reversed(values)), dtype=dtype)})

    found = look_up_keys(t, BUCKET, wanted, [file], columns=["v"])

    count = len(values)
    assert rows_of(found, [KEY_ROW, POSITION, "v"]) == [(row, count - 1 - row, count - 1 - row) for row in range(count)]


def test_keys_of_several_columns(tmp_path: Path) -> None:
    t = target(table(tmp_path, "b STRING NOT NULL, v INT, a INT NOT NULL", ("a", "b")))
    file = stored(t, 4, (0, "+I", "x", 1, 1), (1, "+I", "y", 2, 1), (2, "+I", "x", 3, 2))
    wanted = pl.DataFrame({"a": [2, 1, 2], "b": ["x", "y", "y"]}, schema={"a": pl.Int32, "b": pl.String})
    assert rows_of(look_up_keys(t, BUCKET, wanted, [file], columns=["v"]), [KEY_ROW, "v"]) == [(0, 3), (1, 2)]


def test_of_a_level_only_the_files_that_may_hold_the_key_are_opened(tmp_path: Path) -> None:
    t = target(table(tmp_path))
    low = stored(t, 5, (0, "+I", 1, 10, "a"), (1, "+I", 2, 20, "b"))
    high = stored(t, 5, (2, "+I", 8, 80, "x"), (3, "+I", 9, 90, "y"))
    t.store.delete(build_file_path(t, BUCKET, low.file_name))

    found = look_up_keys(t, BUCKET, pl.DataFrame({"k": [5, 9]}), [low, high], columns=["w"])
    assert rows_of(found, [KEY_ROW, FILE, "w"]) == [(1, 1, "y")]
    with pytest.raises(FileMissing, match=low.file_name):
        look_up_keys(t, BUCKET, pl.DataFrame({"k": [1]}), [low, high])


def test_a_column_that_the_file_does_not_have_is_null(tmp_path: Path) -> None:
    made = table(tmp_path)
    file = stored(target(made), 5, (0, "+I", 1, 10, "a"))
    made.alter.add_column("x", "INT")
    found = look_up_keys(target(made), BUCKET, pl.DataFrame({"k": [1]}), [file], columns=["x", "v"])
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
    assert pq.ParquetFile(build_file_path(t, BUCKET, file.file_name)).num_row_groups > 3
    vectors = DeletionMaintainer(t, BUCKET.partition, BUCKET.bucket)
    vectors.mark(file.file_name, np.array(dead, np.int64))

    found = look_up_keys(t, BUCKET, pl.DataFrame({"k": wanted}, schema={"k": pl.Int64}), [file], vectors)

    live = {2 * number: number for number in range(4500) if number not in dead}
    expected = [(row, 0, live[key]) for row, key in enumerate(wanted) if key in live]
    assert sorted(found.rows()) == expected


def test_nothing_to_look_for(tmp_path: Path) -> None:
    t = target(table(tmp_path))
    file = stored(t, 5, (0, "+I", 1, 10, "a"))
    none = pl.DataFrame(schema={"k": pl.Int64})
    assert look_up_keys(t, BUCKET, none, [file], columns=["v"]).shape == (0, 4)
    assert look_up_keys(t, BUCKET, pl.DataFrame({"k": [1]}), []).shape == (0, 3)


# Merged rows of keys that leave level 0, and their changelog.

Row = tuple[Any, ...]


def leveled(target: WriteTarget, rows: Sequence[Row]) -> pl.DataFrame:
    """Build a version frame from rows that begin with their level."""
    levels = pl.Series(RUN_LEVEL, [row[0] for row in rows], dtype=pl.Int32)
    return versions(target, *(row[1:] for row in rows)).with_columns(levels)


def above(target: WriteTarget, *rows: Row) -> Any:
    """Make a lookup that finds these rows."""

    def found(keys: pl.DataFrame) -> pl.DataFrame:
        held = versions(target, *rows)
        wanted = keys.with_row_index(KEY_ROW).cast({KEY_ROW: pl.Int64})
        places = [pl.lit(0, pl.Int64).alias(name) for name in PLACE_COLUMNS if name != KEY_ROW]
        return wanted.join(held, on=keys.columns).with_columns(places).select(*PLACE_COLUMNS, *held.columns)

    return found


def shown(frame: pl.DataFrame, *columns: str) -> list[Row]:
    """List the rows in order, each after its kind."""
    kinds = [KINDS[kind] for kind in frame[VALUE_KIND]]
    return [(kind, *row) for kind, row in zip(kinds, frame.select(columns).rows(), strict=True)]


def merged(t: WriteTarget, *rows: Row, held: Sequence[Row] = (), comparison: Comparison | None = None) -> MergeResult:
    return merge_with_lookup(t, leveled(t, rows), above(t, *held), with_changelog=True, comparison=comparison)


def test_new_rows_replace_what_was_there(tmp_path: Path) -> None:
    t = target(table(tmp_path))
    result = merged(
        t,
        (0, 10, "+I", 1, 11, "new"),
        (0, 11, "+I", 2, 22, "over a row in the compaction"),
        (3, 5, "+I", 2, 20, "old"),
        (0, 12, "+I", 3, 33, "over a row above it"),
        (0, 13, "-D", 4, None, None),
        (3, 6, "+I", 5, 50, "untouched"),
        held=[(1, "+I", 3, 30, "older"), (2, "+I", 4, 40, "gone")],
    )
    assert shown(result.rows, "k", "v") == [("+I", 1, 11), ("+I", 2, 22), ("+I", 3, 33), ("-D", 4, None), ("+I", 5, 50)]
    assert shown(result.changes, "k", "v") == [
        ("+I", 1, 11),
        ("-U", 2, 20),
        ("+U", 2, 22),
        ("-U", 3, 30),
        ("+U", 3, 33),
        ("-D", 4, 40),
    ]


def test_deletions_of_nothing_are_not_told(tmp_path: Path) -> None:
    t = target(table(tmp_path))
    result = merged(t, (0, 1, "-D", 1, None, None), (0, 2, "-D", 2, 0, "x"), held=[(0, "-D", 2, 0, "x")])
    assert result.changes.height == 0


def test_of_the_levels_above_0_only_the_lowest_counts(tmp_path: Path) -> None:
    """The lowest of these levels has already merged the others: a sum would count them twice."""
    t = target(table(tmp_path, merge_engine="aggregation", fields__v__aggregate_function="sum"))
    result = merged(t, (0, 9, "+I", 1, 1, None), (2, 8, "+I", 1, 100, None), (5, 1, "+I", 1, 7, None))
    assert shown(result.rows, "v") == [("+I", 101)]
    assert shown(result.changes, "v") == [("-U", 100), ("+U", 101)]


def test_rows_that_are_looked_up_are_merged_in_where_their_age_puts_them(tmp_path: Path) -> None:
    t = target(table(tmp_path, sequence__field="v"))
    result = merged(t, (0, 9, "+I", 1, 5, "late"), held=[(1, "+I", 1, 8, "stays")])
    assert shown(result.rows, "v", "w") == [("+I", 8, "stays")]
    assert shown(result.changes, "v", "w") == [("-U", 8, "stays"), ("+U", 8, "stays")]


def test_updates_that_change_nothing_can_be_left_out(tmp_path: Path) -> None:
    t = target(table(tmp_path, "k BIGINT NOT NULL, v INT, w STRING, m MAP<STRING, INT>, d DOUBLE"))
    but_w = Comparison(tuple(field for field in t.schema.fields if field.name != "w"))
    old = [
        (0, "+I", 1, 1, "a", [{"key": "x", "value": 1}, {"key": "y", "value": None}], 0.0),
        (1, "+I", 2, None, "a", None, 1.5),
        (2, "+I", 3, 3, "a", None, float("nan")),
    ]
    new = [
        (0, 5, "+I", 1, 1, "b", [{"key": "y", "value": None}, {"key": "x", "value": 1}], -0.0),
        (0, 6, "+I", 2, 2, "a", None, 1.5),
        (0, 7, "+I", 3, 3, "b", None, float("nan")),
    ]
    result = merged(t, *new, held=old, comparison=but_w)
    assert shown(result.changes, "k") == [("-U", 2), ("+U", 2), ("-U", 3), ("+U", 3)]  # NaN differs from itself


def test_single_records_go_through_the_merge_as_well(tmp_path: Path) -> None:
    """An unset sequence group leaves its columns unchanged, so they are null in a key's first row."""
    t = target(table(tmp_path, merge_engine="partial-update", fields__v__sequence_group="w"))
    result = merged(t, (0, 1, "+I", 1, None, "without its sequence"), (0, 2, "+I", 2, 5, "with it"))
    assert shown(result.rows, "k", "w") == [("+I", 1, None), ("+I", 2, "with it")]


def test_first_rows(tmp_path: Path) -> None:
    t = target(table(tmp_path, merge_engine="first-row"))
    rows = leveled(
        t, [(0, 10, "+I", 1, 11, "b"), (0, 9, "+I", 1, 10, "a"), (0, 11, "+I", 2, 2, None), (4, 1, "+I", 3, 3, None)]
    )

    result = merge_first_rows(t, rows, lambda keys: above(t, (0, "+I", 2, 0, None))(keys).select(PLACE_COLUMNS))

    assert shown(result.rows, "k", "v") == [("+I", 1, 10), ("+I", 3, 3)]
    assert shown(result.changes, "k", "v") == [("+I", 1, 10)]


def test_first_row_takes_no_retractions(tmp_path: Path) -> None:
    t = target(table(tmp_path, merge_engine="first-row"))
    with pytest.raises(Unsupported, match="ignore-delete"):
        merge_first_rows(t, leveled(t, [(0, 1, "-D", 1, 1, None)]), above(t))


def test_full_compactions_tell_the_difference_to_the_bottom(tmp_path: Path) -> None:
    t = target(table(tmp_path))
    rows = leveled(
        t,
        [
            (5, 1, "+I", 1, 1, "same"),
            (5, 2, "+I", 2, 2, "old"),
            (3, 7, "+U", 2, 22, "between"),
            (0, 9, "+U", 2, 222, "new"),
            (5, 3, "+I", 3, 3, "deleted"),
            (0, 8, "-D", 3, 3, "deleted"),
            (0, 6, "+I", 4, 4, "added"),
            (0, 5, "-D", 5, 5, "was never there"),
        ],
    )
    result = merge_fully(t, rows, 5, comparison=None)
    assert shown(result.changes, "k", "v") == [("-U", 2, 2), ("+U", 2, 222), ("-D", 3, 3), ("+I", 4, 4)]
    assert shown(result.rows, "k") == [("+I", 1), ("+U", 2), ("-D", 3), ("+I", 4), ("-D", 5)]


def test_the_file_of_a_lookup_is_not_asked_for(tmp_path: Path) -> None:
    """If only positions are looked up, no rows are merged in."""
    t = target(table(tmp_path))
    rows = leveled(t, [(0, 1, "+I", 1, 1, None)])
    found = pl.DataFrame({KEY_ROW: [0], FILE: [0], PLACE_COLUMNS[2]: [7]})
    result = merge_with_lookup(t, rows, lambda _: found, with_changelog=False, comparison=None)
    assert shown(result.rows, "k", "v") == [("+I", 1, 1)]
    assert result.changes.height == 0
