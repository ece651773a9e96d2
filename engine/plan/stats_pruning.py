"""File pruning by statistics: a predicate evaluated on minima, maxima and null counts instead of rows.

Every answer is "maybe" or "no", for all files at once. "No" is given only when the statistics prove it:

* a bound that is null is unknown and proves nothing; neither do bounds that contradict each other;
* the minimum of a long string is cut to a prefix and is a lower bound, the maximum is cut and its last character
  incremented and is an upper bound; so ranges are compared, and a value proves something only where the two meet;
* a NaN hides in a column of floats without showing in its bounds, and NaN is the greatest value: upper bounds of
  floats prove nothing for ``>``, ``>=``, and equality of bounds proves nothing for ``!=`` and ``NOT IN``;
* a column whose values are all null matches no comparison.

A partition value is a file whose minimum and maximum are the same and exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import reduce

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from morrow.engine.format.stats import ColumnStats, column_stats
from morrow.engine.format.types import DataType
from morrow.engine.plan.predicate import And, Leaf, Op, Predicate, Value

__all__ = ["ColumnStats", "StatsFrame", "keep_mask", "value_stats"]

Mask = npt.NDArray[np.bool_]

SUCCESSOR_OF_D7FF = "?"
"""Java's writer increments U+D7FF to a lone surrogate, which UTF-8 encodes as a question mark: not an upper bound."""
ABOVE_SURROGATES = "\ue000"
MAX_CODE_POINT = 0x10FFFF
SURROGATES = range(0xD800, 0xE000)


class StatsFrame(msgspec.Struct, frozen=True, eq=False):
    """Statistics of many files, one row a file: `row_count` (Int64; null unknown) and the columns that have any."""

    row_count: pl.Series
    columns: Mapping[str, ColumnStats]
    _known: dict[str, _Bounds | None] = msgspec.field(default_factory=dict)

    def bounds(self, name: str) -> _Bounds | None:
        """Returns the trustworthy bounds of a column, None when there are none; a filter may ask a thousand times."""
        if name not in self._known:
            self._known[name] = _bounds(self.columns[name])
        return self._known[name]

    def __len__(self) -> int:
        return len(self.row_count)


def value_stats(
    entries: pl.DataFrame, types: Mapping[str, DataType], wanted: Sequence[str], *, where: str
) -> StatsFrame:
    """Returns the statistics of the `wanted` columns of entries that were written with one schema, of these `types`."""
    stats = entries["_VALUE_STATS"].struct
    found = column_stats(
        stats.field("_MIN_VALUES"),
        stats.field("_MAX_VALUES"),
        stats.field("_NULL_COUNTS"),
        entries.select(pl.coalesce("_VALUE_STATS_COLS", "_WRITE_COLS")).to_series(),
        types,
        wanted,
        where=where,
    )
    return StatsFrame(entries["_ROW_COUNT"], found)


def keep_mask(predicate: Predicate, stats: StatsFrame) -> Mask:
    """Returns True for each file that may hold a row for which `predicate` is true; a False is proven.

    The result has one bool per file. Literals must be of their column's type, bounds of its Polars dtype.
    """
    if isinstance(predicate, Leaf):
        return _leaf(predicate, stats)
    masks = (keep_mask(child, stats) for child in predicate.children)
    if isinstance(predicate, And):
        return reduce(np.logical_and, masks, np.ones(len(stats), dtype=np.bool_))
    return reduce(np.logical_or, masks, np.zeros(len(stats), dtype=np.bool_))


class _Bounds(msgspec.Struct, frozen=True):
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
    bounds = stats.bounds(leaf.column)
    if bounds is None or leaf.op is Op.IS_NOT_NULL:
        return maybe
    return maybe & ~_EXCLUDED[leaf.op](bounds, leaf.literals)


def _bounds(column: ColumnStats) -> _Bounds | None:
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
    """Returns where the condition is true: null (unknown) counts as false."""
    known = condition.fill_null(False) if condition.null_count() else condition
    sure: Mask = known.to_numpy().astype(np.bool_, copy=False)
    return sure


def _typed(value: Value, like: pl.Series) -> pl.Series:
    """Returns the literal as one value of the bounds' dtype: nothing is cast, nothing rounded."""
    if isinstance(value, np.datetime64):  # nanoseconds, which Python's datetime lacks: by their count
        return pl.Series([int(value.astype("datetime64[ns]").astype(np.int64))], dtype=pl.Int64).cast(like.dtype)
    return pl.Series([value], dtype=like.dtype)


def _listed(values: Sequence[Value], like: pl.Series) -> pl.Series:
    """Returns literals as values of the bounds' dtype."""
    if any(isinstance(value, np.datetime64) for value in values):
        return pl.concat([_typed(value, like) for value in values])
    return pl.Series(values, dtype=like.dtype)


def _is_nan(value: Value) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _nothing(bounds: _Bounds) -> Mask:
    return np.zeros(len(bounds.lower), dtype=np.bool_)


def _outside(bounds: _Bounds, value: Value) -> Mask:
    """Returns where no value of the file equals this one."""
    if _is_nan(value):
        return _nothing(bounds)
    return _surely(bounds.lower > _typed(value, bounds.lower)) | _surely(bounds.upper < _typed(value, bounds.upper))


def _only(bounds: _Bounds, value: Value) -> Mask:
    """Returns where every non-null value of the file equals this one: the bounds meet, so neither was cut."""
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
    """Evaluates IN: no literal lies within the bounds. One binary search per file, however long the list."""
    if any(map(_is_nan, literals)):
        return _nothing(bounds)
    values = _listed(literals, bounds.lower).unique().sort() if literals else bounds.lower.clear()
    first = values.search_sorted(bounds.lower, side="left")
    last = values.search_sorted(bounds.upper, side="right")
    known = (bounds.lower.is_not_null() & bounds.upper.is_not_null()).to_numpy()
    below = _surely(bounds.lower > values.tail(1)) if len(values) else np.ones(len(bounds.lower), dtype=np.bool_)
    above = _surely(bounds.upper < values.head(1)) if len(values) else below
    between: Mask = known & (first.to_numpy() >= last.to_numpy())
    return between | below | above


def _excludes_other_than(bounds: _Bounds, literals: tuple[Value, ...]) -> Mask:
    """Evaluates NOT IN: the file holds one value, which is in the list. One pass over the list serves all files."""
    if bounds.floats or not literals:
        return _nothing(bounds)
    excluded = _surely(bounds.lower == bounds.upper)
    if excluded.any():
        listed = _listed(literals, bounds.lower)
        excluded[excluded] = _surely(bounds.lower.filter(pl.Series(excluded)).is_in(listed.implode()))
    return excluded


def _excludes_prefix(bounds: _Bounds, literals: tuple[Value, ...]) -> Mask:
    """Evaluates STARTS WITH p: strings from p up to, not including, the successor of p."""
    prefix = str(literals[0])
    excluded = _surely(bounds.upper < _typed(prefix, bounds.upper))
    successor = _successor(prefix)
    if successor is None:
        return excluded
    return excluded | _surely(bounds.lower >= _typed(successor, bounds.lower))


def _excludes_other_prefix(bounds: _Bounds, literals: tuple[Value, ...]) -> Mask:
    """Evaluates NOT STARTS WITH p: all strings lie between two that start with p."""
    prefix = str(literals[0])
    return _surely(bounds.lower.str.starts_with(prefix)) & _surely(bounds.upper.str.starts_with(prefix))


def _successor(prefix: str) -> str | None:
    """Returns the least string above all that start with `prefix`; None when there is none."""
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
