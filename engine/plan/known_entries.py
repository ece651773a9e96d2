"""Live entries of manifests that were resolved before: a commit adds manifests after those of the snapshot before it.

What the first manifests of a list leave alive is kept, and only what follows them is read, stacked and resolved.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TypeAlias

import polars as pl

from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.metadata_files import METADATA_CACHE, frame_bytes

MOST = 1 << 12
"""Entries in manifests, at most, of which the live ones are kept: others take long for other reasons."""
TOLD = "_FILE_NAME", "_FILE_SIZE", "_NUM_ADDED_FILES", "_NUM_DELETED_FILES"
"""Columns of manifest lists that are held against the manifests: lists that say something else are read as ever."""
Manifest: TypeAlias = tuple[object, ...]
STEPS = 4
"""Manifests at the end of a list that may be new."""


def known_entries(
    metadata: TableMetadata, manifests: pl.DataFrame, columns: Sequence[str]
) -> tuple[pl.DataFrame | None, int]:
    """Returns the live entries, these columns, of as many manifests at the beginning as are known, and how many."""
    if manifests["_NUM_ADDED_FILES"].sum() > MOST:
        return None, 0
    names = _names(manifests)
    for count in range(len(names), max(len(names) - STEPS, 0), -1):
        found = METADATA_CACHE.get(_key(metadata, names[:count], columns))
        if isinstance(found, pl.DataFrame):
            return found, count
    return None, 0


def keep_entries(metadata: TableMetadata, manifests: pl.DataFrame, live: pl.DataFrame) -> None:
    """Keeps the live entries of all these manifests, which were checked."""
    if manifests["_NUM_ADDED_FILES"].sum() > MOST:
        return
    key = _key(metadata, _names(manifests), live.columns)
    last = manifests["_FILE_NAME"][-1] if manifests.height else None
    METADATA_CACHE.put(key, live, frame_bytes(live) + 128 * manifests.height, of=last)


def _names(manifests: pl.DataFrame) -> tuple[Manifest, ...]:
    return tuple(zip(*(manifests[name].to_list() for name in TOLD)))


def _key(metadata: TableMetadata, names: tuple[Manifest, ...], columns: Sequence[str]) -> Hashable:
    return "live entries", metadata.store.url(metadata.root), names, tuple(columns)
