"""Which files may hold a matching row: a predicate asked of minima, maxima and null counts instead of rows.

Every answer is "maybe" or "no", for all files at once. "No" is only said when the statistics prove it:

* a bound that is null is unknown and proves nothing; so do bounds that contradict each other;
* the minimum of a long string is cut to a prefix and is a lower bound, the maximum is cut and its last character
  incremented and is an upper bound; so ranges are compared, and a value proves something only where the two meet;
* a NaN hides in a column of floats without showing in its bounds, and NaN is the greatest value: upper bounds of
  floats prove nothing for ``>``, ``>=``, and equality of bounds proves nothing for ``!=`` and ``NOT IN``;
* a column whose values are all null matches no comparison.

A partition value is a file whose minimum and maximum are the same and exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce

import numpy as np
import numpy.typing as npt
import polars as pl

from morrow.engine.format.stats import ColumnStats
from morrow.engine.plan.predicate import And, Leaf, Op, Predicate, Value

__all__ = ["ColumnStats", "StatsFrame", "keep_mask"]

Mask = npt.NDArray[np.bool_]

SUCCESSOR_OF_D7FF = "?"
"""Java's writer increments U+D7FF to a lone surrogate, which UTF-8 encodes as a question mark: no upper bound."""
ABOVE_SURROGATES = "\ue000"
MAX_CODE_POINT = 0x10FFFF
SURROGATES = range(0xD800, 0xE000)


@dataclass(frozen=True)
class StatsFrame:
    """Statistics of many files, one row a file: `row_count` (Int64; null unknown) and those columns that have any."""

    row_count: pl.Series
    columns: Mapping[str, ColumnStats]

    def __len__(self) -> int:
        return len(self.row_count)


def keep_mask(predicate: Predicate, stats: StatsFrame) -> Mask:
    """True for each file that may hold a row for which `predicate` is true; a False is proven.

    The result has one bool per file. Literals must be of their column's type, bounds of its Polars dtype.
    """
    if isinstance(predicate, Leaf):
        return _leaf(predicate, stats)
    masks = (keep_mask(child, stats) for child in predicate.children)
    if isinstance(predicate, And):
        return reduce(np.logical_and, masks, np.ones(len(stats), dtype=np.bool_))
    return reduce(np.logical_or, masks, np.zeros(len(stats), dtype=np.bool_))


@dataclass(frozen=True)
class _Bounds:
    """Bounds of one column: null where unknown; `floats` says that NaN may lie above the maximum."""

    lower: pl.Series
    upper: pl.Series
    floats: bool


def _leaf(leaf: Leaf, stats: StatsFrame) -> Mask:
    maybe = np.ones(len(stats), dtype=np.bool_)
    column = stats.columns.get(leaf.column)
    if column is None:
        return maybe
    if leaf.op is Op.IS_NULL:
        return maybe if column.null_count is None else ~_surely(column.null_count == 0)
    if column.null_count is not None:
        maybe = ~_surely(column.null_count == stats.row_count)
    bounds = _bounds(column)
    if bounds is None or leaf.op is Op.IS_NOT_NULL:
        return maybe
    return maybe & ~_EXCLUDED[leaf.op](bounds, leaf.literals)


def _bounds(column: ColumnStats) -> _Bounds | None:
    """Bounds that can be trusted, None when there are none at all."""
    lower, upper = column.minimum, column.maximum
    if lower is None and upper is None:
        return None
    lower = pl.Series([None] * len(upper), dtype=upper.dtype) if lower is None and upper is not None else lower
    upper = pl.Series([None] * len(lower), dtype=lower.dtype) if upper is None and lower is not None else upper
    assert lower is not None
    assert upper is not None
    if lower.dtype.is_nested() or upper.dtype.is_nested():
        return None
    floats = lower.dtype.is_float()
    if floats:
        lower, upper = lower.fill_nan(None), upper.fill_nan(None)
    if upper.dtype == pl.String:
        upper = upper.str.replace(r"\?$", ABOVE_SURROGATES)
    contradicting = _surely(lower > upper)
    if contradicting.any():
        known = pl.Series(~contradicting)
        lower, upper = (bound.zip_with(known, pl.Series([None], dtype=bound.dtype)) for bound in (lower, upper))
    return _Bounds(lower, upper, floats)


def _surely(condition: pl.Series) -> Mask:
    """Unknown is not sure."""
    sure: Mask = condition.fill_null(False).to_numpy().astype(np.bool_, copy=False)
    return sure


def _typed(value: Value, like: pl.Series) -> pl.Series:
    """The literal as one value of the bounds' dtype: nothing is cast, nothing rounded."""
    if isinstance(value, np.datetime64):  # nanoseconds, which Python's datetime does not have: by their count
        return pl.Series([int(value.astype("datetime64[ns]").astype(np.int64))], dtype=pl.Int64).cast(like.dtype)
    return pl.Series([value], dtype=like.dtype)


def _is_nan(value: Value) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _nothing(bounds: _Bounds) -> Mask:
    return np.zeros(len(bounds.lower), dtype=np.bool_)


def _outside(bounds: _Bounds, value: Value) -> Mask:
    """No value of the file equals this one."""
    if _is_nan(value):
        return _nothing(bounds)
    return _surely(bounds.lower > _typed(value, bounds.lower)) | _surely(bounds.upper < _typed(value, bounds.upper))


def _only(bounds: _Bounds, value: Value) -> Mask:
    """Every non-null value of the file equals this one: the bounds meet, so neither was cut."""
    if bounds.floats:
        return _nothing(bounds)
    return _surely(bounds.lower == _typed(value, bounds.lower)) & _surely(bounds.upper == _typed(value, bounds.upper))


def _excludes_less(bounds: _Bounds, literals: tuple[Value, ...], *, or_equal: bool) -> Mask:
    value = literals[0]
    if _is_nan(value):
        return _nothing(bounds)
    literal = _typed(value, bounds.lower)
    return _surely(bounds.lower > literal if or_equal else bounds.lower >= literal)


def _excludes_greater(bounds: _Bounds, literals: tuple[Value, ...], *, or_equal: bool) -> Mask:
    if bounds.floats:
        value = literals[0]
        never = _is_nan(value) and not or_equal
        return np.full(len(bounds.lower), never, dtype=np.bool_)
    literal = _typed(literals[0], bounds.upper)
    return _surely(bounds.upper < literal if or_equal else bounds.upper <= literal)


def _excludes_all_of(bounds: _Bounds, literals: tuple[Value, ...]) -> Mask:
    """IN: no literal lies within the bounds. One binary search per file, however long the list."""
    if any(map(_is_nan, literals)):
        return _nothing(bounds)
    values = pl.Series(literals, dtype=bounds.lower.dtype).unique().sort()
    first = values.search_sorted(bounds.lower, side="left")
    last = values.search_sorted(bounds.upper, side="right")
    known = (bounds.lower.is_not_null() & bounds.upper.is_not_null()).to_numpy()
    below = _surely(bounds.lower > values.tail(1)) if len(values) else np.ones(len(bounds.lower), dtype=np.bool_)
    above = _surely(bounds.upper < values.head(1)) if len(values) else below
    between: Mask = known & (first.to_numpy() >= last.to_numpy())
    return between | below | above


def _excludes_other_than(bounds: _Bounds, literals: tuple[Value, ...]) -> Mask:
    """NOT IN: the file holds one value, and that is in the list."""
    return reduce(np.logical_or, (_only(bounds, value) for value in literals), _nothing(bounds))


def _excludes_prefix(bounds: _Bounds, literals: tuple[Value, ...]) -> Mask:
    """STARTS WITH p: strings from p up to, not including, the successor of p."""
    prefix = str(literals[0])
    excluded = _surely(bounds.upper < _typed(prefix, bounds.upper))
    successor = _successor(prefix)
    if successor is None:
        return excluded
    return excluded | _surely(bounds.lower >= _typed(successor, bounds.lower))


def _excludes_other_prefix(bounds: _Bounds, literals: tuple[Value, ...]) -> Mask:
    """NOT STARTS WITH p: all strings lie between two that start with p."""
    prefix = str(literals[0])
    return _surely(bounds.lower.str.starts_with(prefix)) & _surely(bounds.upper.str.starts_with(prefix))


def _successor(prefix: str) -> str | None:
    """The least string above all that start with `prefix`; None when there is none."""
    for end in range(len(prefix), 0, -1):
        following = ord(prefix[end - 1]) + 1
        following = SURROGATES.stop if following in SURROGATES else following
        if following <= MAX_CODE_POINT:
            return prefix[: end - 1] + chr(following)
    return None


_EXCLUDED: dict[Op, Callable[[_Bounds, tuple[Value, ...]], Mask]] = {
    Op.EQ: lambda bounds, literals: _outside(bounds, literals[0]),
    Op.NE: lambda bounds, literals: _only(bounds, literals[0]),
    Op.LT: lambda bounds, literals: _excludes_less(bounds, literals, or_equal=False),
    Op.LE: lambda bounds, literals: _excludes_less(bounds, literals, or_equal=True),
    Op.GT: lambda bounds, literals: _excludes_greater(bounds, literals, or_equal=False),
    Op.GE: lambda bounds, literals: _excludes_greater(bounds, literals, or_equal=True),
    Op.IN: _excludes_all_of,
    Op.NOT_IN: _excludes_other_than,
    Op.STARTS_WITH: _excludes_prefix,
    Op.NOT_STARTS_WITH: _excludes_other_prefix,
}
