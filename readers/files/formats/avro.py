"""Avro data files: blocks are decompressed and re-wrapped, then decoded by Polars, some blocks at a time.

Paimon maps its types as follows:

* Nullable columns are unions with null.
* TINYINT and SMALLINT are ints, DECIMAL is bytes.
* Maps with text keys are Avro maps; other maps, and multisets, are arrays of records {key, value}.
* TIMESTAMP is timestamp-millis or -micros, and LTZ is local-timestamp-millis or -micros. This is the reverse of Avro's
  specification, so the zone comes from the table's type and never from the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from morrow.engine.format.avro import decode_batches, read_container
from morrow.engine.format.types import DataField
from morrow.readers.files.registry import FileReader
from morrow.readers.files.source import Chunk, FileSource, check_rows

BATCH_BYTES = 1 << 24
"""Bytes of decompressed rows that are decoded at a time."""


def decode_avro(source: FileSource, fields: Sequence[DataField]) -> Iterator[Chunk]:
    """Yield chunks of about `BATCH_BYTES` each; the compressed file stays in memory until the end."""
    container = read_container(source.store.read(source.path), where=source.path)
    check_rows(source, container.rows)
    for rows, frame in decode_batches(container, BATCH_BYTES, [each.name for each in fields]):
        yield Chunk(rows, frame)


def _count_rows(source: FileSource) -> int:
    return read_container(source.store.read(source.path), where=source.path).rows


def _read_stored_names(source: FileSource) -> list[str]:
    schema = msgspec.json.decode(read_container(source.store.read(source.path), where=source.path).schema)
    record = schema if isinstance(schema, dict) else next(kind for kind in schema if isinstance(kind, dict))
    return [member["name"] for member in record["fields"]]


READER = FileReader(decode=decode_avro, row_count=_count_rows, stored_names=_read_stored_names)
