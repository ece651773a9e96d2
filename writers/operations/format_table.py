"""Rows written to format tables: files in folders of partitions, which become visible when all of them are written."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import msgspec
import polars as pl

from morrow.engine.errors import InvalidArgument, StorageError, Unsupported
from morrow.engine.format.file_formats import TIMESTAMPS
from morrow.engine.format.partition_path import partition_path
from morrow.engine.format.types import DataType
from morrow.engine.io.store import FileStatus
from morrow.engine.options.declared.catalogs import (
    FORMAT_TABLE_FILE_COMPRESSION,
    FORMAT_TABLE_PARTITION_PATH_ONLY_VALUE,
)
from morrow.engine.options.declared.commits import DYNAMIC_PARTITION_OVERWRITE
from morrow.engine.options.declared.table import PARTITION_DEFAULT_NAME
from morrow.engine.options.writing import parse_write_options
from morrow.engine.plan.filter import NO_FILTER, Filter, FilterLike
from morrow.engine.plan.folder_table import FORMAT_TABLE, FolderFile, FolderTable
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.values import replace
from morrow.readers.execution.folder_frames import Partition, partitions
from morrow.readers.files.source import member_types
from morrow.writers.files.encoders import EncoderOptions, encoder
from morrow.writers.files.layout import FileLayout
from morrow.writers.files.text_files import TEXT_ENCODERS
from morrow.writers.operations.partitions import AnyOf, partition_filter
from morrow.writers.rows.incoming import incoming
from morrow.writers.target import WriteTarget

CODECS = {"parquet": "snappy", "orc": "zstd"}
"""The codec of a format where no option names one, as in Java; text is not compressed."""
MOST_BYTES = 128 << 20
"""The most bytes of rows in memory that a file is made of."""
TIMES_DIFFER = ("parquet",)
STAGING = ".morrow-"
"""The beginning of the names of folders of files that are not all written yet."""
Encode = Callable[[pl.DataFrame], bytes]


@dataclass(frozen=True)
class Replaced:
    """What an overwrite removes: the partitions of the rows (`dynamic`), or all that `filter`, on keys, keeps.

    The rows have to lie in partitions that the filter keeps.
    """

    filter: Filter = NO_FILTER
    dynamic: bool = False


class NewFile(msgspec.Struct, frozen=True):
    """A file that is written, and hidden yet: the folder of its partition in the table, its name, and its rows."""

    folder: str
    name: str
    rows: int


def write_rows(table: FolderTable, data: object, replaced: Replaced | None = None) -> int:
    """Writes rows to new files of a format table, and removes those that they replace; returns the number of rows.

    Raises:
        InvalidArgument: rows that do not fit the columns, that the format cannot hold, or that are not among those
            that are replaced. Unsupported: the format.
        StorageError: the store fails; files that were written are removed, or stay hidden.
    """
    with published(table, replaced) as (staging, written):
        written += write_files(table, data, staging)
    return sum(each.rows for each in written)


def replacing(table: FolderTable, partition: AnyOf, condition: FilterLike, *, dynamic: bool | None = None) -> Replaced:
    """Returns what an overwrite of partitions replaces; see `FormatTable.overwrite`.

    Raises:
        InvalidArgument: a column that is no partition key, a value or condition that does not fit.
    """
    filter = partition_filter(target_of(table, partitioned=True), partition, condition, "overwrite")
    chosen = table.given.get(DYNAMIC_PARTITION_OVERWRITE) if dynamic is None else dynamic
    return Replaced(filter, bool(table.schema.partition_keys) and condition is None and chosen)


def empty_partitions(table: FolderTable, wanted: AnyOf) -> None:
    """Removes the files of partitions of these values, all files for None. Raises as `replacing`; `StorageError`."""
    with published(table, replacing(table, wanted, None, dynamic=False)):
        pass


def check_writable(table: FolderTable) -> None:
    """Raises `Unsupported` for a table, or columns, that are not written."""
    if table.kind != FORMAT_TABLE:
        raise Unsupported(f"writing a table of the type {table.kind}", where=table.where)
    _check_times(table)
    _encoder(table)


def write_files(table: FolderTable, data: object, staging: str) -> list[NewFile]:
    """Writes rows to files in the folder `staging` of a table, which readers leave out. Raises as `write_rows`."""
    check_writable(table)
    encode, written = _encoder(table), []
    for folder, frame in _by_folder(table, incoming(target_of(table), data)):
        new = NewFile(folder, f"data-{uuid.uuid4()}-0.{table.format}", frame.height)
        place = _place(table, staging, folder)
        table.store.make_folder(place)
        table.store.write(f"{place}/{new.name}", encode(frame))
        written.append(new)
    return written


@contextmanager
def published(table: FolderTable, replaced: Replaced | None) -> Iterator[tuple[str, list[NewFile]]]:
    """Yields the name of a new folder for hidden files, and a list for those that are written to it.

    At the end these become visible, and the files that they replace are removed; after an error, the hidden ones.

    Raises:
        InvalidArgument: a file lies in a partition that is not replaced. StorageError.
    """
    check_writable(table)
    before = [] if replaced is None else table.files()
    staging, written = f"{STAGING}{uuid.uuid4()}", list[NewFile]()
    shown: list[str] = []
    try:
        yield staging, written
        gone = [] if replaced is None else _gone(table, before, written, replaced)
        for each in written:
            place = _place(table, each.folder)
            table.store.make_folder(place)
            shown.append(f"{place}/{each.name}")
            table.store.move(f"{_place(table, staging, each.folder)}/{each.name}", shown[-1])
    except BaseException:
        with suppress(StorageError):  # of the two errors the first tells more
            table.store.discard(shown)
        raise
    finally:
        with suppress(StorageError):  # what stays is hidden
            table.store.delete_folder(_place(table, staging))
    table.store.delete_many([each.path for each in gone])


def _gone(
    table: FolderTable, before: Sequence[FolderFile], written: Sequence[NewFile], replaced: Replaced
) -> list[FolderFile]:
    """Returns the files that an overwrite removes. Raises `InvalidArgument` for rows outside of what it replaces."""
    folders = {each.folder: table.partition_in(each.folder.split("/") if each.folder else [], "") for each in written}
    status = FileStatus("", 0, 0, is_dir=False)
    new = [FolderFile("", folder, status, texts) for folder, texts in folders.items()]
    inside = {file.relative for each in partitions(table, replaced.filter, new) for file in each.files}
    for outside in folders.keys() - inside:
        raise InvalidArgument(f"{table.where}: the data has rows of {outside!r}, which is not among what it replaces")
    kept = partitions(table, replaced.filter, before)
    if not replaced.dynamic:
        return [file for each in kept for file in each.files]
    touched = {_values_of(each) for each in partitions(table, NO_FILTER, new)}
    return [file for each in kept if _values_of(each) in touched for file in each.files]


def _values_of(partition: Partition) -> str:
    """Returns the values as text, by which NaN is NaN."""
    return repr(partition.constants.row(0))


def _place(table: FolderTable, *folders: str) -> str:
    return "/".join(each for each in (table.root, *folders) if each)


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


def target_of(table: FolderTable, *, partitioned: bool = False) -> WriteTarget:
    """Returns what rows are checked against: a table with these columns, and its partition keys if `partitioned`."""
    keys = table.schema.partition_keys if partitioned else ()
    schema = replace(table.schema, options={}, partition_keys=keys, primary_keys=())
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
        values = part[keys].row(0)
        folders = partition_path(values, types, keys, default_name=default, legacy_name=False).split("/")
        if only_values:
            folders = [folder.partition("=")[2] for folder in folders]
        yield "/".join(folders), part[names]
