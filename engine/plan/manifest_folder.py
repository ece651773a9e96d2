"""Decoded manifests in the cache folder: those that are large, or that a request would have to fetch."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from morrow.engine.format.frame_bytes import FAILURES, frame_bytes, frame_of
from morrow.engine.io.cache_folder import cache_folder, digest, keep
from morrow.engine.io.store import FileStore

WORTH_BYTES = 1 << 18
"""Smaller manifests on a local disk are decoded as fast as the folder is read."""
MOST_FRAME_BYTES = 64 << 20
"""Frames that take more memory are not kept."""


def kept_manifest(store: FileStore, path: str, size: int | None, *, outline: bool = False) -> pl.DataFrame | None:
    """Returns the decoded manifest at `path`, of `size` bytes, or its outline; None where it is not kept."""
    key = _key(store, path, size, outline)
    folder = None if key is None else cache_folder()
    data = None if key is None or folder is None else folder.get(key)
    if key is None or folder is None or data is None:
        return None
    try:
        return frame_of(data)
    except FAILURES:
        folder.discard(key)
        return None


def keep_manifest(store: FileStore, path: str, size: int | None, frame: pl.DataFrame, *, outline: bool = False) -> None:
    """Keeps a decoded manifest, or its outline, where that pays."""
    key = _key(store, path, size, outline)
    folder = None if key is None else cache_folder()
    if key is None or folder is None or frame.estimated_size() > MOST_FRAME_BYTES:
        return
    keep(folder, key, lambda: frame_bytes(frame))


def _key(store: FileStore, path: str, size: int | None, outline: bool) -> bytes | None:
    """Returns the name of a manifest; None where it is not worth to keep. Its size tells as little as its name alone
    whether the file is the same one: on a local disk the file system is asked, elsewhere names are never used again.
    """
    if size is None or store.checks_pages or (store.is_local and size < WORTH_BYTES):
        return None
    place, kind = store.url(path), "outline" if outline else "manifest"
    if not store.is_local:
        return digest(kind, pl.__version__, place, size)
    try:
        status = Path(place).stat()
    except OSError:
        return None
    if status.st_size != size:
        return None
    return digest(kind, pl.__version__, place, size, status.st_mtime_ns, status.st_ino)
