"""Files are pruned by statistics only when no row of them can match."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from morrow.engine.format.stats import ColumnStats
from morrow.engine.plan.predicate import ALWAYS, NEVER, And, Leaf, Op, Or, Predicate
from morrow.engine.plan.stats_pruning import StatsFrame, keep_mask
from tests.support.predicates import COLUMNS, leaves, matching, ordered, predicates, rows, table

File = list[dict[str, Any]]


def series(name: str, values: Sequence[Any]) -> pl.Series:
    """Values in the Polars dtype of a column of the test table."""
    dtype = pl.DataFrame(table([])).schema[name]
    return pl.Series(name, values, dtype=dtype)


def bounds(values: Sequence[Any]) -> tuple[Any, Any]:
    """Computes minimum and maximum as a careful writer leaves them: NaN is never one of them."""
    numbers = [v for v in values if v is not None and not (isinstance(v, float) and math.isnan(v))]
    return (min(numbers, key=ordered), max(numbers, key=ordered)) if numbers else (None, None)


def truncated(lower: Any, upper: Any, length: int) -> tuple[Any, Any]:
    """Strings cut to `length` characters, the maximum incremented; unknown when it cannot be."""
    if not isinstance(upper, str) or len(upper) <= length:
        return (lower[:length] if isinstance(lower, str) else lower), upper
    for end in range(length, 0, -1):
        following = ord(upper[end - 1]) + 1
        if following <= 0x10FFFF:
            character = "?" if 0xD800 <= following < 0xE000 else chr(following)
            return lower[:length], upper[: end - 1] + character
    return None, None


def stats_of(files: Sequence[File], *, length: int = 100, hidden: frozenset[str] = frozenset()) -> StatsFrame:
    columns = {}
    for name in COLUMNS.keys() - hidden:
        pairs = [truncated(*bounds([row[name] for row in file]), length) for file in files]
        nulls = [sum(row[name] is None for row in file) for file in files]
        columns[name] = ColumnStats(
            series(name, [lower for lower, _ in pairs]),
            series(name, [upper for _, upper in pairs]),
            pl.Series(nulls, dtype=pl.Int64),
        )
    return StatsFrame(pl.Series([len(file) for file in files], dtype=pl.Int64), columns)


@given(predicate=predicates(), files=st.lists(rows(), max_size=6), length=st.integers(1, 3))
def test_no_matching_row_is_ever_lost(predicate: Predicate, files: list[File], length: int) -> None:
    mask = keep_mask(predicate, stats_of(files, length=length))
    assert mask.dtype == np.bool_
    assert all(kept or not matching(predicate, file) for kept, file in zip(mask, files, strict=True))


@given(leaf=leaves(), files=st.lists(rows(), max_size=6), data=st.data())
@settings(max_examples=settings().max_examples // 2)
def test_absent_statistics_prune_less_never_more(leaf: Leaf, files: list[File], data: st.DataObject) -> None:
    known = stats_of(files)
    column = known.columns[leaf.column]
    unknown = data.draw(st.lists(st.booleans(), min_size=len(files), max_size=len(files)))
    blank = [None if hidden else True for hidden in unknown]
    holes = pl.Series(blank, dtype=pl.Boolean)
    assert column.minimum is not None
    assert column.maximum is not None
    partly = ColumnStats(
        pl.select(pl.when(holes).then(column.minimum)).to_series(),
        pl.select(pl.when(holes).then(column.maximum)).to_series(),
        None,
    )
    less = keep_mask(leaf, StatsFrame(known.row_count, {leaf.column: partly}))
    assert (less >= keep_mask(leaf, known)).all()
    assert keep_mask(leaf, StatsFrame(known.row_count, {})).all()
    assert keep_mask(leaf, StatsFrame(known.row_count, {leaf.column: ColumnStats(None, None, None)})).all()


def integers(pairs: Sequence[tuple[Any, Any]], nulls: Sequence[int | None] = (), rows: int = 10) -> StatsFrame:
    """Files of ten rows with an integer column ``x``."""
    counts = pl.Series(nulls or [0] * len(pairs), dtype=pl.Int64)
    lower, upper = (pl.Series([pair[side] for pair in pairs], dtype=pl.Int32) for side in (0, 1))
    return StatsFrame(pl.Series([rows] * len(pairs), dtype=pl.Int64), {"x": ColumnStats(lower, upper, counts)})


@pytest.mark.parametrize(
    ("op", "literals", "kept"),
    [
        (Op.EQ, (15,), [False, True, False, True]),
        (Op.NE, (10,), [True, True, False, True]),
        (Op.LT, (10,), [True, False, False, True]),
        (Op.LE, (10,), [True, True, True, True]),
        (Op.GT, (10,), [False, True, False, True]),
        (Op.GE, (20,), [False, True, False, True]),
        (Op.IN, (5, 30), [True, False, False, True]),
        (Op.IN, (9, 21), [True, False, False, True]),
        (Op.IN, (), [False, False, False, False]),
        (Op.NOT_IN, (7, 10), [True, True, False, True]),
        (Op.IS_NULL, (), [False, False, False, False]),
        (Op.IS_NOT_NULL, (), [True, True, True, True]),
    ],
)
def test_each_operator(op: Op, literals: tuple[int, ...], kept: list[bool]) -> None:
    files = integers([(0, 9), (10, 20), (10, 10), (None, None)])
    assert keep_mask(Leaf("x", op, literals), files).tolist() == kept


def test_and_needs_both_or_needs_one() -> None:
    files = integers([(0, 9), (10, 20)])
    low, high = Leaf("x", Op.LT, (5,)), Leaf("x", Op.GT, (15,))
    assert keep_mask(And((low, high)), files).tolist() == [False, False]
    assert keep_mask(Or((low, high)), files).tolist() == [True, True]
    assert keep_mask(ALWAYS, files).tolist() == [True, True]
    assert keep_mask(NEVER, files).tolist() == [False, False]


def test_a_file_of_nulls_matches_nothing_but_is_null() -> None:
    files = integers([(None, None)] * 3, nulls=[10, 9, None])
    assert keep_mask(Leaf("x", Op.NE, (1,)), files).tolist() == [False, True, True]
    assert keep_mask(Leaf("x", Op.IS_NOT_NULL), files).tolist() == [False, True, True]
    assert keep_mask(Leaf("x", Op.IS_NULL), files).tolist() == [True, True, True]


def test_bounds_that_contradict_each_other_prove_nothing() -> None:
    assert keep_mask(Leaf("x", Op.EQ, (5,)), integers([(9, 0)])).tolist() == [True]


def texts(lower: str | None, upper: str | None) -> StatsFrame:
    return StatsFrame(
        pl.Series([10]),
        {"s": ColumnStats(pl.Series([lower], dtype=pl.String), pl.Series([upper], dtype=pl.String), pl.Series([0]))},
    )


@pytest.mark.parametrize(
    ("op", "literal", "kept"),
    [
        (Op.STARTS_WITH, "ab", True),
        (Op.STARTS_WITH, "a", True),
        (Op.STARTS_WITH, "b", False),
        (Op.STARTS_WITH, "aa", False),
        (Op.STARTS_WITH, "", True),
        (Op.NOT_STARTS_WITH, "ab", False),
        (Op.NOT_STARTS_WITH, "abc", True),
        (Op.GT, "abz", False),
    ],
)
def test_prefixes_by_range(op: Op, literal: str, kept: bool) -> None:
    assert keep_mask(Leaf("s", op, (literal,)), texts("aba", "abf")).tolist() == [kept]


def test_the_successor_of_u_d7ff_is_no_upper_bound() -> None:
    """Java cuts "\\ud7ffz" to one character, increments it to a surrogate, and writes a question mark."""
    assert keep_mask(Leaf("s", Op.EQ, ("\ud7ffz",)), texts("0", "?")).tolist() == [True]
    assert keep_mask(Leaf("s", Op.EQ, ("\ue000",)), texts("0", "?")).tolist() == [True]
    assert keep_mask(Leaf("s", Op.GT, ("\ue000",)), texts("0", "?")).tolist() == [False]


@pytest.mark.parametrize(
    ("op", "literal", "kept"),
    [
        (Op.GT, 5.0, True),  # a NaN may be in the file, and is greater
        (Op.GE, math.nan, True),
        (Op.GT, math.nan, False),  # nothing is greater than NaN
        (Op.EQ, math.nan, True),
        (Op.NE, 1.0, True),
        (Op.LT, 1.0, False),
        (Op.LE, 0.5, False),
        (Op.EQ, 2.0, False),
        (Op.LT, math.nan, True),
    ],
)
def test_nan_hides_from_float_bounds(op: Op, literal: float, kept: bool) -> None:
    one = pl.Series([1.0])
    files = StatsFrame(pl.Series([10]), {"f": ColumnStats(one, one, pl.Series([0]))})
    assert keep_mask(Leaf("f", op, (literal,)), files).tolist() == [kept]


def test_zeros_of_either_sign_are_equal() -> None:
    for bound in (0.0, -0.0):
        files = StatsFrame(pl.Series([1]), {"f": ColumnStats(pl.Series([bound]), pl.Series([bound]), None)})
        for literal in (0.0, -0.0):
            for op in (Op.EQ, Op.IN, Op.LE, Op.GE):
                assert keep_mask(Leaf("f", op, (literal,)), files).tolist() == [True]


def test_partition_values_are_files_whose_bounds_meet() -> None:
    days = pl.Series(["2024-01-01", "2024-01-02", None])
    partitions = StatsFrame(pl.Series([1, 1, 1]), {"dt": ColumnStats(days, days, days.is_null().cast(pl.Int64))})
    assert keep_mask(Leaf("dt", Op.EQ, ("2024-01-02",)), partitions).tolist() == [False, True, False]
    assert keep_mask(Leaf("dt", Op.NE, ("2024-01-02",)), partitions).tolist() == [True, False, False]
    assert keep_mask(Leaf("dt", Op.NOT_IN, ("2024-01-01", "2024-01-02")), partitions).tolist() == [False, False, False]
    assert keep_mask(Leaf("dt", Op.IS_NULL), partitions).tolist() == [False, False, True]
