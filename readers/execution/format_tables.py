"""Rows of format tables and object tables as lazy frames: files by partition, whose values are columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from morrow.engine.errors import Unsupported
from morrow.engine.format.types import DataField, TimestampType
from morrow.engine.names import col, cols, reserve_name
from morrow.engine.plan.filter import Filter
from morrow.engine.plan.folder_table import OBJECT_FIELDS, OBJECT_TABLE, FolderFile, FolderTable
from morrow.engine.plan.predicate import ALWAYS, combine_predicates, find_columns, split_conjuncts
from morrow.engine.polars_threads import open_threads
from morrow.engine.structs import replace
from morrow.readers.casts.dtypes import to_polars_dtype
from morrow.readers.expressions.polars import filter_rows
from morrow.readers.files import scan
from morrow.readers.files.formats.text import parse_values
from morrow.readers.files.registry import find_file_reader, read_stored_names
from morrow.readers.files.source import FileSource, translate_errors

NUMBER = reserve_name("number")
NANOS = TimestampType(precision=9)
COUNT_NANOS = ("parquet",)
FOOTER_THREADS = 16
MAX_FILES_PER_FRAME = 64
"""Maximum files of one frame: a read in batches holds the rows of one frame's files at a time."""


@dataclass(frozen=True)
class Part:
    """Files of one partition that hold the same columns."""

    sources: tuple[FileSource, ...]
    fields: tuple[DataField, ...]
    constants: pl.DataFrame
    """One row of the partition's values."""
    nanos: frozenset[str] = frozenset()
    """Columns of timestamps that these files hold in nanoseconds (INT96), as Hive and old Spark write them."""

    def frame(self, wanted: Sequence[DataField]) -> pl.LazyFrame:
        """Return the rows with these columns; columns that the files do not hold are null."""
        read = [each for each in self.fields if each.name in {field.name for field in wanted}]
        # A read without columns must still count rows.
        stored = [replace(each, type=NANOS) if each.name in self.nanos else each for each in read or self.fields[:1]]
        rows = scan(self.sources, stored)
        rows = rows.with_columns(
            col(each.name).cast(to_polars_dtype(each.type)) for each in read if each.name in self.nanos
        )
        made = [
            pl.lit(self.constants[each.name]).first().alias(each.name)
            if each.name in self.constants.columns
            else pl.lit(None, dtype=to_polars_dtype(each.type)).alias(each.name)
            for each in wanted
            if each not in read
        ]
        return rows.with_columns(made).select(cols(each.name for each in wanted))


@dataclass(frozen=True)
class Partition:
    """The files of a partition; all files of a table without partition keys are one partition."""

    files: tuple[FolderFile, ...]
    constants: pl.DataFrame
    """One row of the partition's values."""
    texts: tuple[str | None, ...] = ()
    """The values as text, None for null."""


def find_partitions(
    table: FolderTable, filter: Filter, files: Sequence[FolderFile] | None = None, *, empty: bool = False
) -> list[Partition]:
    """Return the partitions of a format table, or of some of its files, that conditions on keys admit.

    With `empty`, partitions without files are included: folders, or entries in the catalog.

    Raises `Unsupported`: a folder's name is not a valid value of its key.
    """
    files, keys = table.files() if files is None else files, table.schema.partition_keys
    by_partition: dict[tuple[str | None, ...], list[FolderFile]] = {}
    if empty:
        by_partition = {texts: [] for texts in table.list_partitions().values()}
    for file in files:
        by_partition.setdefault(file.partition, []).append(file)
    values = _decode_values(table, list(by_partition))
    if keys:
        values = filter_rows(
            _select_key_conditions(filter, keys), [table.schema.by_name[key] for key in keys], values.lazy()
        ).collect()
    held, texts = list(by_partition.values()), list(by_partition)
    return [
        Partition(tuple(held[number]), values[at].select(cols(keys)), texts[number])
        for at, number in enumerate(values[NUMBER].to_list())
    ]


def read_parts(table: FolderTable, filter: Filter, files: Sequence[FolderFile] | None = None) -> Iterator[Part]:
    """Yield the parts of a format table, or of some of its files, whose partitions a filter admits.

    Raises `Unsupported`: a folder's name is not a valid value of its key, or a file lacks all of the table's columns.
    """
    for each in find_partitions(table, filter, files):
        for begin in range(0, len(each.files), MAX_FILES_PER_FRAME):
            yield from _group_by_columns(table, each.files[begin : begin + MAX_FILES_PER_FRAME], each.constants)


def list_objects(table: FolderTable) -> pl.DataFrame:
    """Return the rows of an object table: its files."""
    assert table.kind == OBJECT_TABLE
    rows = [
        (each.relative, each.status.name, each.status.size, each.status.modified_millis, 0, None)
        for each in table.files()
    ]
    return pl.DataFrame(rows, schema={each.name: to_polars_dtype(each.type) for each in OBJECT_FIELDS}, orient="row")


def _select_key_conditions(filter: Filter, keys: Sequence[str]) -> Filter:
    """Return the conditions of a filter that concern partition keys alone."""
    own = [part for part in split_conjuncts(filter.predicate) if part != ALWAYS and find_columns(part) <= set(keys)]
    return Filter(combine_predicates(*own), (), frozenset(keys), "")


def _decode_values(table: FolderTable, partitions: Sequence[tuple[str | None, ...]]) -> pl.DataFrame:
    """Return the values of partitions by key, and their number in the column `NUMBER`."""
    keys = [table.schema.by_name[key] for key in table.schema.partition_keys]
    texts = {key.name: pl.Series([row[at] for row in partitions], dtype=pl.String) for at, key in enumerate(keys)}
    frame = pl.DataFrame({NUMBER: pl.Series(range(len(partitions)), dtype=pl.Int64), **texts})
    exprs = [parse_values(col(key.name), key.type, table.where).alias(key.name) for key in keys]
    with translate_errors(table.where):
        return frame.with_columns(exprs)


def _group_by_columns(table: FolderTable, files: Sequence[FolderFile], constants: pl.DataFrame) -> Iterator[Part]:
    sources = [_make_source(table, file) for file in files]
    fields = table.stored_fields
    if find_file_reader(table.format, table.where).stored_names is None:
        yield Part(tuple(sources), fields, constants)
        return
    with open_threads(FOOTER_THREADS) as pool:
        held = list(pool.map(read_stored_names, sources))
        nanos = (
            list(pool.map(partial(_find_nanos_columns, fields), sources))
            if table.format in COUNT_NANOS
            else [frozenset()] * len(held)
        )
    by_names: dict[tuple[tuple[DataField, ...], frozenset[str]], list[FileSource]] = {}
    for source, names, counted in zip(sources, held, nanos, strict=True):
        own = tuple(each for each in fields if each.name in names)
        if not own:
            raise Unsupported(
                f"a file with none of the table's columns {', '.join(each.name for each in fields)}", where=source.path
            )
        by_names.setdefault((own, counted), []).append(source)
    for (own, counted), found in by_names.items():
        yield Part(tuple(found), own, constants, counted)


def _find_nanos_columns(fields: Sequence[DataField], source: FileSource) -> frozenset[str]:
    """Return the columns of timestamps without zones that a Parquet file counts in nanoseconds."""
    times = {each.name for each in fields if isinstance(each.type, TimestampType)}
    if not times:
        return frozenset()
    with translate_errors(source.path), source.store.open(source.path) as stream:
        held = pq.read_schema(stream)
    return frozenset(each.name for each in held if each.name in times and each.type == pa.timestamp("ns"))


def _make_source(table: FolderTable, file: FolderFile) -> FileSource:
    columns = tuple(table.stored_fields)
    return FileSource(table.store, file.path, file.status.size, -1, table.format, table.schema.options, columns)
