"""The command ``cache``."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from morrow.cli.arguments import Format
from morrow.cli.output import write_rows
from morrow.engine.io.cache_folder import SWITCH, cache_folder

CACHE = pa.schema(
    [
        pa.field("path", pa.string()),
        pa.field("bytes", pa.int64(), nullable=False),
        pa.field("capacity", pa.int64(), nullable=False),
        pa.field("entries", pa.int64(), nullable=False),
        pa.field("hits", pa.int64(), nullable=False),
        pa.field("state", pa.string(), nullable=False),
    ]
)


def cache(clear: bool, form: Format, output: Path | None) -> None:
    """Write what the cache folder holds, emptied first if that is asked for; where it is off, a row without a path."""
    folder = cache_folder()
    if folder is None:
        row = {"path": None, "bytes": 0, "capacity": 0, "entries": 0, "hits": 0, "state": f"off ({SWITCH})"}
    else:
        if clear:
            folder.clear()
        held = folder.contents()
        state = "in use" if folder.is_usable() else "not usable: it is not yours alone, or cannot be written"
        sizes = {"bytes": held.size, "capacity": folder.capacity, "entries": held.entries, "hits": held.hits}
        row = {"path": str(folder.path), **sizes, "state": state}
    write_rows(CACHE, pa.Table.from_pylist([row], CACHE).to_batches(), form, output)
