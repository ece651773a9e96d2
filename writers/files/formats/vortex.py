"""Vortex data files, encoded by the package vortex-data (``pip install 'morrow[vortex]'``)."""

from __future__ import annotations

import pyarrow as pa

from morrow.engine.plugins import require_extra
from morrow.writers.files.formats.wheel_files import make_writer


def _write(rows: pa.Table, path: str) -> None:
    with require_extra("writing Vortex files", "vortex", "vortex"):
        import vortex
    vortex.io.write(rows, path)


WRITER = make_writer(_write)
