"""Lance data files, encoded by the package pylance (``pip install 'morrow[lance]'``)."""

from __future__ import annotations

import pyarrow as pa

from morrow.engine.plugins import require_extra
from morrow.writers.files.formats.wheel_files import make_writer


def _write(rows: pa.Table, path: str) -> None:
    with require_extra("writing Lance files", "lance", "lance"):
        from lance.file import LanceFileWriter
    with LanceFileWriter(path, rows.schema) as writer:
        for batch in rows.to_batches():
            writer.write_batch(batch)


WRITER = make_writer(_write)
