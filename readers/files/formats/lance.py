"""Lance data files, decoded by the package pylance (``pip install 'morrow[lance]'``)."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from morrow.engine.plugins import require_extra
from morrow.readers.files.formats.wheel_files import MAX_BATCH_ROWS, make_reader


def _read(path: str, names: list[str] | None) -> Iterable[pa.RecordBatch]:
    with require_extra("reading Lance files", "lance", "lance"):
        from lance.file import LanceFileReader
    batches: Iterable[pa.RecordBatch] = (
        LanceFileReader(path, columns=names).read_all(batch_size=MAX_BATCH_ROWS).to_batches()
    )
    return batches


READER = make_reader(_read)
