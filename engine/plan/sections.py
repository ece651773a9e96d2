"""Groups the files of each bucket into sections: the smallest sets whose key ranges overlap.

A section of one file needs no merge. The work is one sort of all key bounds and a running maximum, for all buckets
at once.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from morrow.engine.names import BUCKET_NUMBER


def section_ids(
    groups: npt.NDArray[np.int64], low: npt.NDArray[np.int64], high: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Returns the section of each file, ascending from 0.

    Args: files sorted by group (bucket) and then by `low`; `low` and `high` are ranks of the key bounds.
    Two files are in one section when a chain of overlapping ranges (bounds included) joins them.
    """
    if not len(groups):
        return np.empty(0, np.int64)
    # Ranks of different groups are shifted apart, so one running maximum serves all groups.
    spread = np.int64(high.max() + 1)
    reach = np.maximum.accumulate(high + groups * spread)
    starts = np.ones(len(groups), bool)
    starts[1:] = (low + groups * spread)[1:] > reach[:-1]
    return np.cumsum(starts) - 1


def key_ranks(bounds: Sequence[pl.Series]) -> npt.NDArray[np.int64]:
    """Returns the ranks of composite keys, one Series a column, in key order; equal keys have equal ranks."""
    return _ranks(pl.DataFrame([column.alias(f"k{i}") for i, column in enumerate(bounds)]))


def bucket_numbers(frame: pl.DataFrame) -> npt.NDArray[np.int64]:
    """Returns a number for each file's partition and bucket, ascending in the order of _PARTITION and then _BUCKET.

    They are taken from the column `BUCKET_NUMBER` where there is one.
    """
    if BUCKET_NUMBER in frame.columns:
        return frame[BUCKET_NUMBER].to_numpy()
    if frame["_PARTITION"].n_unique() <= 1:
        return frame["_BUCKET"].to_numpy().astype(np.int64)
    return _ranks(frame[["_PARTITION", "_BUCKET"]])


def _ranks(rows: pl.DataFrame) -> npt.NDArray[np.int64]:
    """Returns the dense rank of each row in the order of its columns, nulls first."""
    if rows.width == 1 and rows.dtypes[0].is_integer() and not rows.to_series().null_count():
        # Asked for the inverse alone, numpy imports its masked arrays.
        return np.unique(rows.to_series().to_numpy(), return_index=True, return_inverse=True)[2]
    return rows.select(pl.struct(rows.columns).rank("dense")).to_series().cast(pl.Int64).to_numpy()
