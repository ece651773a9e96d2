"""Vortex data files, decoded by the package vortex-data (``pip install 'morrow[vortex]'``)."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from morrow.engine.plugins import require_extra
from morrow.readers.files.formats.wheel_files import MAX_BATCH_ROWS, make_reader


def _read(path: str, names: list[str] | None) -> Iterable[pa.RecordBatch]:
    with require_extra("reading Vortex files", "vortex", "vortex"):
        import vortex
    batches: Iterable[pa.RecordBatch] = vortex.open(path).scan(names, batch_size=MAX_BATCH_ROWS).to_arrow()
    return batches


READER = make_reader(_read)
