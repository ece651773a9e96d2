"""Checks of a column's statistics against its values, with Java's adjustments.

Bounds are exact except for text: there a minimum may be cut to a prefix, and a maximum cut with its last character
incremented. Floats that hold NaN may be bounded by the values before it. ORC keeps milliseconds of timestamps, counted
in the zone of their writer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import polars as pl

from morrow.engine.format.file_formats import TIMESTAMPS
from morrow.engine.format.types import BlobType, DataField
from morrow.engine.plan.file_facts import Bounds
from morrow.engine.plan.stats_pruning import SUCCESSOR_OF_D7FF, SURROGATES

ORC_SLACK = pl.duration(days=3)
"""The tolerance for bounds of timestamps in ORC: zones, and the calendar before 1582."""


def wrong_bounds(
    totals: Mapping[str, pl.Series], field: DataField, known: Bounds, what: str, *, exact: bool
) -> Iterator[str]:
    """Yields the contradictions of `known` to the values of a column, whose aggregates are `totals`.

    `exact` is the format's (`FileFormat.is_exact`).
    """
    name = field.name
    # pypaimon counts no nulls of blobs, and nothing is pruned by them.
    nulls = None if isinstance(field.type, BlobType) else totals.get(f"nulls {name}")
    if nulls is not None and known.null_count is not None and nulls.item() != known.null_count:
        yield f"column {name!r} has {nulls.item()} nulls where the {what} say {known.null_count}"
    low, high = totals.get(f"min {name}"), totals.get(f"max {name}")
    if low is None or high is None:
        return
    if low.null_count():
        if known.minimum is not None or known.maximum is not None:
            yield f"column {name!r} holds nothing but nulls where the {what} have bounds"
        return
    nan = totals.get(f"nan {name}")
    if nan is not None and nan.item():
        return
    loose = not exact and isinstance(field.type, TIMESTAMPS)
    if known.minimum is not None and not _is_minimum(low, known.minimum, loose=loose):
        yield f"the least value of column {name!r} is not the minimum of the {what}"
    if known.maximum is not None and not _is_maximum(high, known.maximum, loose=loose):
        yield f"the greatest value of column {name!r} is not the maximum of the {what}"


def _is_minimum(found: pl.Series, said: pl.Series, *, loose: bool) -> bool:
    if found.dtype == pl.String:
        return str(found.item()).startswith(said.item())
    return _is_near(found, said) if loose else _is_same(found, said)


def _is_maximum(found: pl.Series, said: pl.Series, *, loose: bool) -> bool:
    if found.dtype == pl.String:
        return _is_upper(found.item(), said.item())
    return _is_near(found, said) if loose else _is_same(found, said)


def _is_same(found: pl.Series, said: pl.Series) -> bool:
    return bool((found == said.cast(found.dtype)).all())


def _is_near(found: pl.Series, said: pl.Series) -> bool:
    apart = pl.select((pl.lit(found) - pl.lit(said.cast(found.dtype))).abs() <= ORC_SLACK).to_series()
    return bool(apart.all())


def _is_upper(text: str, said: str) -> bool:
    """Returns whether `said` is `text`, or a prefix of it whose last character was incremented."""
    if text == said:
        return True
    head, last = said[:-1], said[-1:]
    if not last or len(text) < len(said) or not text.startswith(head):
        return False
    following = ord(text[len(head)]) + 1
    if following in SURROGATES:
        return last == SUCCESSOR_OF_D7FF or ord(last) == SURROGATES.stop
    return ord(last) == following
