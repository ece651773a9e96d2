"""Merged rows by the file set of a section: files are immutable, so they are never stale."""

from __future__ import annotations

import polars as pl

from morrow.engine.io.cache import ByteCache

MERGED_CACHE: ByteCache[pl.DataFrame] = ByteCache(256 << 20)
"""Merged rows of the sections read recently; `capacity` may be set, in bytes."""
