"""What remains of keys that leave level 0, and what the changelog says of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from morrow.engine.errors import Unsupported
from morrow.engine.format.schema import VALUE_KIND
from morrow.engine.names import FILE, KEY_ROW, RUN_LEVEL
from morrow.readers.execution.changelog import Comparison
from morrow.writers.keyed.lookup.keys import PLACES
from morrow.writers.keyed.lookup.merges import Merged, merged_first_rows, merged_fully, merged_with_lookup
from morrow.writers.target import WriteTarget
from tests.writers.keyed.lookup.tables import KINDS, table, target, versions

Row = tuple[Any, ...]


def leveled(target: WriteTarget, rows: Sequence[Row]) -> pl.DataFrame:
    """Rows led by their level."""
    levels = pl.Series(RUN_LEVEL, [row[0] for row in rows], dtype=pl.Int32)
    return versions(target, *(row[1:] for row in rows)).with_columns(levels)


def above(target: WriteTarget, *rows: Row) -> Any:
    """Makes a lookup that finds these rows."""

    def found(keys: pl.DataFrame) -> pl.DataFrame:
        held = versions(target, *rows)
        wanted = keys.with_row_index(KEY_ROW).cast({KEY_ROW: pl.Int64})
        places = [pl.lit(0, pl.Int64).alias(name) for name in PLACES if name != KEY_ROW]
        return wanted.join(held, on=keys.columns).with_columns(places).select(*PLACES, *held.columns)

    return found


def shown(frame: pl.DataFrame, *columns: str) -> list[Row]:
    """Rows led by their kinds, in their order."""
    kinds = [KINDS[kind] for kind in frame[VALUE_KIND]]
    return [(kind, *row) for kind, row in zip(kinds, frame.select(columns).rows(), strict=True)]


def merged(t: WriteTarget, *rows: Row, held: Sequence[Row] = (), comparison: Comparison | None = None) -> Merged:
    return merged_with_lookup(t, leveled(t, rows), above(t, *held), with_changelog=True, comparison=comparison)


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
    """It has taken in the others already: a sum would count them twice."""
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
    """A sequence group that is not set leaves its columns alone, so alone they become null."""
    t = target(table(tmp_path, merge_engine="partial-update", fields__v__sequence_group="w"))
    result = merged(t, (0, 1, "+I", 1, None, "without its sequence"), (0, 2, "+I", 2, 5, "with it"))
    assert shown(result.rows, "k", "w") == [("+I", 1, None), ("+I", 2, "with it")]


def test_first_rows(tmp_path: Path) -> None:
    t = target(table(tmp_path, merge_engine="first-row"))
    rows = leveled(
        t, [(0, 10, "+I", 1, 11, "b"), (0, 9, "+I", 1, 10, "a"), (0, 11, "+I", 2, 2, None), (4, 1, "+I", 3, 3, None)]
    )

    result = merged_first_rows(t, rows, lambda keys: above(t, (0, "+I", 2, 0, None))(keys).select(PLACES))

    assert shown(result.rows, "k", "v") == [("+I", 1, 10), ("+I", 3, 3)]
    assert shown(result.changes, "k", "v") == [("+I", 1, 10)]


def test_first_row_takes_no_retractions(tmp_path: Path) -> None:
    t = target(table(tmp_path, merge_engine="first-row"))
    with pytest.raises(Unsupported, match="ignore-delete"):
        merged_first_rows(t, leveled(t, [(0, 1, "-D", 1, 1, None)]), above(t))


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
    result = merged_fully(t, rows, 5, comparison=None)
    assert shown(result.changes, "k", "v") == [("-U", 2, 2), ("+U", 2, 222), ("-D", 3, 3), ("+I", 4, 4)]
    assert shown(result.rows, "k") == [("+I", 1), ("+U", 2), ("-D", 3), ("+I", 4), ("-D", 5)]


def test_the_file_of_a_lookup_is_not_asked_for(tmp_path: Path) -> None:
    """Where only positions are looked up, nothing is merged in."""
    t = target(table(tmp_path))
    rows = leveled(t, [(0, 1, "+I", 1, 1, None)])
    found = pl.DataFrame({KEY_ROW: [0], FILE: [0], PLACES[2]: [7]})
    result = merged_with_lookup(t, rows, lambda _: found, with_changelog=False, comparison=None)
    assert shown(result.rows, "k", "v") == [("+I", 1, 1)]
    assert result.changes.height == 0
