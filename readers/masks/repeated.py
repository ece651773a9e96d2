"""Neighbouring texts that are one and the same, found without a look at their characters.

Polars holds text as views: a length, and the characters or where they are. The first column of a sorted key repeats,
and where a file has a dictionary its values share their characters.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

LEAST = 4
"""Texts have to repeat so many times on average."""
BLOCK = 1 << 15
"""Texts that are compared at a time: as many as stay in the processor's cache."""
VIEWS = (pa.string_view(), pa.binary_view())


def run_starts(texts: pl.Series) -> npt.NDArray[np.integer] | None:
    """Returns where views differ from the one before, the first row among them; None where most do, or rows are null.

    Texts whose views differ may be equal.
    """
    if texts.null_count() or not len(texts):
        return None
    found, rows = [], 0
    for chunk in texts.get_chunks():
        array = chunk.to_arrow(compat_level=pl.CompatLevel.newest())
        if array.type not in VIEWS:
            return None
        views = np.frombuffer(array.buffers()[1], np.uint64).reshape(-1, 2)[array.offset : array.offset + len(array)]
        differs = np.ones(len(array), bool)
        for start in range(0, len(array) - 1, BLOCK):
            before, after = views[start : start + BLOCK][: len(array) - 1 - start], views[start + 1 : start + 1 + BLOCK]
            differs[start + 1 : start + 1 + BLOCK] = (after[:, 1] != before[:, 1]) | (after[:, 0] != before[:, 0])
        found.append(np.flatnonzero(differs) + rows)
        if rows == 0 and len(found[0]) * LEAST > len(array):
            return None
        rows += len(array)
    return np.concatenate(found)
