"""Masks by the file set of a section: files are immutable, so a mask is never stale."""

from __future__ import annotations

import polars as pl

from morrow.engine.io.cache import ByteCache

MASK_CACHE: ByteCache[tuple[pl.Series | None, ...]] = ByteCache(256 << 20)
"""One bit per row of the files read recently; `capacity` may be set, in bytes."""


def clear_mask_cache() -> None:
    """Drops all masks; the next read computes them anew."""
    MASK_CACHE.clear()


def mask_bytes(masks: tuple[pl.Series | None, ...]) -> int:
    """Returns the memory of these masks: one bit a row."""
    return sum(64 + len(mask) // 8 for mask in masks if mask is not None) + 64
