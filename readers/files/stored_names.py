"""The names of the columns that a data file holds, for formats that store them."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pyarrow.parquet as pq

from morrow.engine.format.orc_layout import OrcLayout
from morrow.readers.files.source import FileSource, reading


def stored_names(source: FileSource) -> frozenset[str]:
    """Returns the top-level columns; none for formats that do not store them.

    Meant for files that were read before: little is checked.

    Raises:
        CorruptFile, FileMissing, StorageError.
    """
    if source.format not in TELLING:
        return frozenset()
    with reading(source.path):
        return frozenset(TELLING[source.format](source))


def _parquet(source: FileSource) -> list[str]:
    with source.store.open(source.path) as stream:
        return list(pq.read_schema(stream).names)


def _orc(source: FileSource) -> list[str]:
    with source.store.open(source.path) as stream:
        return list(OrcLayout(stream, source.path).columns)


def _avro(source: FileSource) -> list[str]:
    from morrow.engine.format.avro import read_container

    schema = msgspec.json.decode(read_container(source.store.read(source.path), where=source.path).schema)
    record = schema if isinstance(schema, dict) else next(kind for kind in schema if isinstance(kind, dict))
    return [member["name"] for member in record["fields"]]


TELLING: dict[str, Callable[[FileSource], list[str]]] = {"parquet": _parquet, "orc": _orc, "avro": _avro}
