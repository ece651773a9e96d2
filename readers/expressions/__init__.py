"""Predicates and residuals in the language of each engine: Polars, Arrow, DuckDB's SQL."""

from __future__ import annotations

import polars as pl


def stop_filters(frame: pl.LazyFrame) -> pl.LazyFrame:
    """Return the frame with a barrier: projections are pushed below it, filters are not."""
    return frame.map_batches(
        _return_unchanged, predicate_pushdown=False, projection_pushdown=True, slice_pushdown=False, streamable=True
    )


def _return_unchanged(frame: pl.DataFrame) -> pl.DataFrame:
    return frame
