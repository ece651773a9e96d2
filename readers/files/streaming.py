"""Batch-wise collection of frames with a check for completeness: where Polars panics, its streams end early, silently.

So this module appends a sentinel row. A stream that ends without it has lost rows.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from morrow.engine.names import apart, own

END = own("end")


def batches(frame: pl.LazyFrame, rows: int | None = None) -> Iterator[pl.DataFrame]:
    """Yields the rows of `frame` in their order, at most `rows` at a time, by Polars' streaming engine.

    Raises (while iterating):
        pl.exceptions.ComputeError: the stream ended early. Any other error that Polars raises.
    """
    end = apart(END, frame.collect_schema().names())  # frames of users may have columns of any name
    marked = frame.with_columns(pl.lit(False).alias(end))
    whole = pl.concat([marked, pl.LazyFrame({end: [True]})], how="diagonal")
    complete = False
    for batch in whole.collect_batches(chunk_size=rows, maintain_order=True, lazy=True, engine="streaming"):
        complete = bool(batch[end][-1])
        found = batch.drop(end)
        found = found[:-1] if complete else found
        if found.height:
            yield found
    if not complete:
        raise pl.exceptions.ComputeError("reading broke off (Polars panicked, and said where on standard error)")
