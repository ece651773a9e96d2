"""Groups the files of each bucket into sections: the smallest sets whose key ranges overlap.

A section of one file needs no merge. The work is one sort of all key bounds and a running maximum, for all buckets
at once.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import polars as pl


def section_ids(
    groups: npt.NDArray[np.int64], low: npt.NDArray[np.int64], high: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Section of each file, ascending from 0.

    Args: files sorted by group (bucket) and then by `low`; `low` and `high` are ranks of the key bounds.
    Two files are in one section when a chain of overlapping ranges (bounds included) joins them.
    """
    if not len(groups):
        return np.empty(0, np.int64)
    # Ranks of different groups are moved apart, so one running maximum serves all groups.
    spread = np.int64(high.max() + 1)
    reach = np.maximum.accumulate(high + groups * spread)
    starts = np.ones(len(groups), bool)
    starts[1:] = (low + groups * spread)[1:] > reach[:-1]
    return np.cumsum(starts) - 1


def key_ranks(
    minima: Sequence[pl.Series], maxima: Sequence[pl.Series]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Ranks of composite key bounds in the order of the key; equal keys have equal ranks.

    Returns: ranks of the minima and of the maxima, comparable with each other.
    """
    count = len(minima[0])
    names = [f"k{i}" for i in range(len(minima))]
    bounds = pl.DataFrame(
        [low.append(high).alias(n) for n, low, high in zip(names, map(pl.Series.clone, minima), maxima)]
    )
    order = bounds.select(pl.arg_sort_by(names)).to_series()
    ordered = bounds[order]
    changes = ordered.select(pl.any_horizontal(pl.col(n).ne_missing(pl.col(n).shift()) for n in names)).to_series()
    ranks = np.empty(2 * count, np.int64)
    ranks[order.to_numpy()] = np.cumsum(changes.to_numpy())
    return ranks[:count], ranks[count:]
