"""Batch-wise collection of frames with a check for completeness: where Polars panics, its streams end early, silently.

So this module appends a sentinel row. A stream that ends without it has lost rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import polars as pl

from morrow.engine.names import apart, own

END = own("end")
FRAMES_AT_ONCE = 128
"""Frames of a file each that are collected together: Polars opens all of their files, by a thread for each, and warns
of a deadlock where these are 512."""


def collected(frames: Sequence[pl.LazyFrame], *, stream: bool = False) -> list[pl.DataFrame]:
    """Returns the rows of each frame, as `pl.collect_all` does, but never of too many files at once.

    `stream`: by Polars' streaming engine.
    """
    starts = range(0, len(frames), FRAMES_AT_ONCE)
    groups = [frames[i : i + FRAMES_AT_ONCE] for i in starts]
    return [found for some in groups for found in pl.collect_all(some, engine="streaming" if stream else "auto")]


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
        complete = bool(batch.drop_in_place(end)[-1])  # `drop` is a query of its own
        found = batch[:-1] if complete else batch
        if found.height:
            yield found
    if not complete:
        raise pl.exceptions.ComputeError("reading broke off (Polars panicked, and said where on standard error)")
