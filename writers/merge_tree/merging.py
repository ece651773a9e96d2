"""Sorted runs merged in key order, a key range at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import polars as pl

from morrow.writers.merge_tree.levels import Section
from morrow.writers.merge_tree.vectors import Vectors
from morrow.writers.target import WriteTarget

if TYPE_CHECKING:
    from morrow.writers.files import Placement

LEVEL = "__morrow_level"
"""Column (Int32) of `versions_by_range`: the level of the file that a row comes from."""


def versions_by_range(
    target: WriteTarget, place: Placement, sections: Sequence[Section], *, vectors: Vectors | None = None
) -> Iterator[pl.DataFrame]:
    """All live rows of the files, by ascending key ranges: version frames, unmerged, with the column `LEVEL`.

    A key has all its rows in one frame; rows are in no particular order within it.
    """
    raise NotImplementedError


def merge_versions(target: WriteTarget, rows: pl.DataFrame) -> pl.DataFrame:
    """One row per key by the table's merge engine, sorted by key: what remains of some versions, retractions included.

    Args:
        rows: a version frame in any order; versions of a key are ordered by the user's sequence fields, then by
            ``_SEQUENCE_NUMBER``. Other columns than those of version frames are dropped.
    """
    raise NotImplementedError


def sorted_merge(
    target: WriteTarget,
    place: Placement,
    sections: Sequence[Section],
    *,
    vectors: Vectors | None = None,
    drop_deletes: bool,
) -> Iterator[pl.DataFrame]:
    """The merged rows of the files as sorted version frames by ascending key ranges, in memory of some ranges."""
    raise NotImplementedError
