"""Rows written to format tables: files in folders of partitions, which become visible when all of them are written."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace

import polars as pl

from morrow.engine.errors import StorageError, Unsupported
from morrow.engine.format.file_formats import TIMESTAMPS
from morrow.engine.format.partition_path import partition_path
from morrow.engine.format.types import DataType
from morrow.engine.options.declared.catalogs import (
    FORMAT_TABLE_FILE_COMPRESSION,
    FORMAT_TABLE_PARTITION_PATH_ONLY_VALUE,
)
from morrow.engine.options.declared.commits import DYNAMIC_PARTITION_OVERWRITE
from morrow.engine.options.declared.table import PARTITION_DEFAULT_NAME
from morrow.engine.options.writing import parse_write_options
from morrow.engine.plan.folder_table import FORMAT_TABLE, FolderTable
from morrow.engine.plan.metadata import TableMetadata
from morrow.readers.files.source import member_types
from morrow.writers.files.encoders import EncoderOptions, encoder
from morrow.writers.files.layout import FileLayout
from morrow.writers.files.text_files import TEXT_ENCODERS
from morrow.writers.rows.incoming import incoming
from morrow.writers.target import WriteTarget

CODECS = {"parquet": "snappy", "orc": "zstd"}
"""The codec of a format where no option names one, as in Java; text is not compressed."""
MOST_BYTES = 128 << 20
"""The most bytes of rows in memory that a file is made of."""
TIMES_DIFFER = ("parquet",)
Encode = Callable[[pl.DataFrame], bytes]


def write_rows(table: FolderTable, data: object, *, replaces: bool) -> int:
    """Writes rows to new files of a format table; returns their number.

    With `replaces` the files that are there are removed afterwards: those of the partitions that the rows have, all
    files of a table without partitions, or with ``dynamic-partition-overwrite=false``.

    Raises:
        InvalidArgument: rows that do not fit the columns, or that the format cannot hold. Unsupported: the format.
        StorageError: the store fails; files that were written stay hidden or are removed.
    """
    if table.kind != FORMAT_TABLE:
        raise Unsupported(f"writing a table of the type {table.kind}", where=table.where)
    _check_times(table)
    target, encode = _target(table), _encoder(table)
    before = table.files() if replaces else []
    written: list[tuple[str, str]] = []
    folders: set[str] = set()
    rows = 0
    try:
        for folder, frame in _by_folder(table, incoming(target, data)):
            rows += frame.height
            folders.add(folder)
            written.append(_hidden(table, folder, encode(frame)))
        for hidden, shown in written:
            table.store.move(hidden, shown)
    except BaseException:
        with suppress(StorageError):  # of the two errors the first tells more
            table.store.discard([hidden for hidden, _ in written])
        raise
    only_written = bool(table.schema.partition_keys) and table.given.get(DYNAMIC_PARTITION_OVERWRITE)
    gone = [each for each in before if not only_written or _folder_of(table, each.relative) in folders]
    table.store.delete_many([each.path for each in gone])
    return rows


def _check_times(table: FolderTable) -> None:
    """Raises `Unsupported` for Parquet timestamps in a table of Hive's: its readers do not agree on their unit."""
    if table.is_hives and table.format in TIMES_DIFFER:
        for each in table.stored_fields:
            if any(isinstance(kind, TIMESTAMPS) for kind in _kinds(each.type)):
                what = f"writing the {table.format} column {each.name!r} of type {each.type} for Hive"
                raise Unsupported(what, where=table.where, hint="its readers differ in the unit; choose ORC, or text")


def _kinds(kind: DataType) -> Iterator[DataType]:
    yield kind
    for inner in member_types(kind):
        yield from _kinds(inner)


def _target(table: FolderTable) -> WriteTarget:
    """Returns what rows are checked against: a table with these columns."""
    schema = replace(table.schema, options={}, partition_keys=(), primary_keys=())
    metadata = TableMetadata(table.store, table.root)
    options = parse_write_options({}, keyed=False, where=table.where)
    return WriteTarget(metadata, schema, metadata.options(schema), options)


def _encoder(table: FolderTable) -> Encode:
    codec = table.given.get(FORMAT_TABLE_FILE_COMPRESSION) or CODECS.get(table.format, "none")
    if table.format in TEXT_ENCODERS:
        if codec.lower() != "none":
            raise Unsupported(f"the codec {codec!r} in files of {table.format}", where=table.where, hint="use 'none'")
        return TEXT_ENCODERS[table.format](table.stored_fields, table.given, table.where)
    write = parse_write_options({}, keyed=False, where=table.where)
    made = encoder(table.format, FileLayout(table.stored_fields), EncoderOptions(codec, write, table.where))

    def encoded(frame: pl.DataFrame) -> bytes:
        block = made.block(frame)
        return bytes(made.head + bytes(block.body) + made.foot([block]))

    return encoded


def _by_folder(table: FolderTable, frames: Iterable[pl.DataFrame]) -> Iterator[tuple[str, pl.DataFrame]]:
    """Yields the rows of one file each, with the folder of their partition."""
    waiting: dict[str, list[pl.DataFrame]] = {}
    size: dict[str, int] = {}
    for frame in frames:
        for folder, part in _parts(table, frame):
            waiting.setdefault(folder, []).append(part)
            size[folder] = size.get(folder, 0) + int(part.estimated_size())
            if size[folder] >= MOST_BYTES:
                yield folder, pl.concat(waiting.pop(folder))
                del size[folder]
    for folder, parts in waiting.items():
        yield folder, pl.concat(parts)


def _parts(table: FolderTable, frame: pl.DataFrame) -> Iterator[tuple[str, pl.DataFrame]]:
    keys = list(table.schema.partition_keys)
    if not keys:
        if frame.height:
            yield "", frame
        return
    types = [table.schema.by_name[key].type for key in keys]
    default = table.given.get(PARTITION_DEFAULT_NAME)
    only_values = table.given.get(FORMAT_TABLE_PARTITION_PATH_ONLY_VALUE)
    names = [each.name for each in table.stored_fields]
    for part in frame.partition_by(keys, maintain_order=True):
        values = part.select(keys).row(0)
        folders = partition_path(values, types, keys, default_name=default, legacy_name=False).split("/")
        if only_values:
            folders = [folder.partition("=")[2] for folder in folders]
        yield "/".join(folders), part.select(names)


def _hidden(table: FolderTable, folder: str, data: bytes) -> tuple[str, str]:
    """Writes a file under a name that readers leave out; returns it, and the name that it will have."""
    name = f"data-{uuid.uuid4()}-0.{table.format}"
    place = "/".join(filter(None, (table.root, folder)))
    table.store.make_folder(place)
    table.store.write(f"{place}/.{name}", data)
    return f"{place}/.{name}", f"{place}/{name}"


def _folder_of(table: FolderTable, relative: str) -> str:
    return "/".join(relative.split("/")[: len(table.schema.partition_keys)])
