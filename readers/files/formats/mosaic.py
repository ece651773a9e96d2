"""Mosaic data files, decoded by the package paimon-mosaic (``pip install 'morrow[mosaic]'``)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from morrow.engine.plugins import require_extra
from morrow.readers.files.formats.wheel_files import make_reader


def _read(path: str, names: list[str] | None) -> Iterable[pa.RecordBatch]:
    with require_extra("reading Mosaic files", "mosaic", "mosaic"):
        from mosaic import MosaicReader
    with open(path, "rb") as stream:  # noqa: PTH123 - faster than a Path
        size = stream.seek(0, 2)

        def read_at(offset: int, length: int) -> bytes:
            stream.seek(offset)
            return stream.read(length)

        reader: Any = MosaicReader.from_input_file(read_at, size)
        if names is not None:
            reader.project(names)
        for group in range(reader.num_row_groups):
            yield reader.read_row_group(group)


READER = make_reader(_read)
