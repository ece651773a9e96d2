"""Checks of a data file against its metadata, without reading its data."""

from __future__ import annotations

import os
from collections.abc import Sequence
from posixpath import dirname

from morrow.engine.errors import CorruptFile, FileMissing, UnsafePath
from morrow.readers.files.registry import file_reader
from morrow.readers.files.source import FileSource, check_rows, reading


def verify(source: FileSource, *, rows: bool = False) -> None:
    """Checks that the file exists with the size that metadata gives; with `rows` also its row count.

    The size costs one look-up; the row count one read of the footer (Avro: of the file; text formats are not checked).

    Raises:
        FileMissing, CorruptFile.
    """
    size = source.store.size(source.path)
    if size is None:
        raise FileMissing(source.path)
    if source.size and size != source.size:
        raise CorruptFile(source.path, f"has {size} bytes where metadata says {source.size}")
    if rows and (row_count := file_reader(source.format, source.path).row_count) is not None:
        with reading(source.path):
            check_rows(source, row_count(source))


def check_place(path: str, roots: Sequence[str]) -> None:
    """Checks that no link leads from a data file on a local disk to a place that is not below these roots.

    The roots may be links themselves. Where no folder below them is a link, this costs one look-up per folder.

    Raises:
        UnsafePath: a link does.
    """
    base = next((root for root in roots if path.startswith(f"{root.rstrip('/')}/")), None)
    if base is None or not _has_link(path, base.rstrip("/")):
        return
    real = os.path.realpath(path)
    if not any(real.startswith(f"{os.path.realpath(root).rstrip('/')}/") for root in roots):
        raise UnsafePath(
            f"{path}: the data file is a link, or in a folder that is one, to {real}, outside of the table's folder "
            f"{base}; if you trust it, name its folder in morrow.open(..., allowed_roots=[...])"
        )


def _has_link(path: str, base: str) -> bool:
    while len(path) > len(base):
        if os.path.islink(path):  # noqa: PTH114  # a Path takes longer to make
            return True
        path = dirname(path)
    return False
