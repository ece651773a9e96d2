"""Mosaic data files, encoded by the package paimon-mosaic (``pip install 'morrow[mosaic]'``)."""

from __future__ import annotations

import pyarrow as pa

from morrow.engine.plugins import require_extra
from morrow.writers.files.formats.wheel_files import make_writer


def _write(rows: pa.Table, path: str) -> None:
    with require_extra("writing Mosaic files", "mosaic", "mosaic"):
        import mosaic
    with open(path, "wb") as stream:  # noqa: PTH123 - the library needs a stream of Python
        mosaic.write_table(rows, stream)


WRITER = make_writer(_write)
