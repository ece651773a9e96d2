"""A barrier in a lazy frame that projections pass and filters do not."""

from __future__ import annotations

import polars as pl


def barred(frame: pl.LazyFrame) -> pl.LazyFrame:
    """Returns the same frame; projections are pushed below this point, filters are not."""
    return frame.map_batches(
        _as_it_is, predicate_pushdown=False, projection_pushdown=True, slice_pushdown=False, streamable=True
    )


def _as_it_is(frame: pl.DataFrame) -> pl.DataFrame:
    return frame
