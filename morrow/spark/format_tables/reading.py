"""Rows of format tables as DataFrames.

The rule: Parquet files whose columns have exactly the table's types are scanned by Spark itself, where it finds them.
All others are read by tasks of Morrow, so that every value is that of a local read: texts of CSV and JSON, timestamps
in other units, files of other columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from morrow.engine.format.types import DataField
from morrow.engine.names import FIRST_BIT
from morrow.engine.plan.filter import Filter
from morrow.engine.plan.folder_table import FolderFile, FolderTable
from morrow.readers.execution.folder_frames import THREADS, Partition, partitions
from morrow.readers.files.source import reading
from morrow.spark.format_tables.access import FolderAccess, ReadJob
from morrow.spark.job.packing import MOST_TASK_BYTES, OPENING_BYTES, TASKS_PER_CORE, packed
from morrow.spark.job.registry import Work
from morrow.spark.job.run import run_tasks
from morrow.spark.job.wire import encoded
from morrow.spark.jvm.scanning import Scanning, scanning
from morrow.spark.reading import expressions
from morrow.spark.reading.choice import PARQUET, is_plain
from morrow.spark.reading.distributed import not_writable
from morrow.spark.reading.listed import NO_MASK, folder_of
from morrow.spark.reading.native import CHECKS_PAGES, READ_OPTIONS
from morrow.spark.reading.places import Place, place_of
from morrow.spark.sessions import cores
from morrow.spark.types.to_spark import no_rows, spark_schema, without_not_null

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MOST_FOOTERS, MOST_FAR_FOOTERS = 1_000, 100
"""Files whose footers the driver looks at, on its disk and in a store; tables of more are read by tasks."""


@dataclass(frozen=True)
class Located:
    """A file as `place_of` takes it."""

    path: str
    size: int


def to_dataframe(table: FolderTable, columns: Sequence[str], filter: Filter, spark: SparkSession) -> DataFrame:
    """Returns the rows of the files that are there now; conditions on partition keys leave files out, others may.

    Raises:
        CorruptFile: a folder is none of a partition, a file is damaged. StorageError.
        Unsupported: a type that this version of Spark does not have.
    """
    fields = [table.schema.by_name[name] for name in columns]
    found = partitions(table, filter)
    scanned = list(_scanned(table, fields, found, spark))
    theirs = {file.path for _, some in scanned for each in some for file in each.files}
    frames = [_scan(table, fields, some, place, spark) for place, some in scanned]
    rest = [file for each in found for file in each.files if file.path not in theirs]
    if rest or not frames:
        frames.append(_by_tasks(table, fields, filter, rest, spark))
    return not_writable(reduce(lambda left, right: left.unionAll(right), frames), scanning(spark))


def _by_tasks(
    table: FolderTable, fields: Sequence[DataField], filter: Filter, files: Sequence[FolderFile], spark: SparkSession
) -> DataFrame:
    schema = spark_schema(without_not_null(fields))
    if not files:
        return no_rows(spark, schema)
    job = ReadJob(FolderAccess.of(table), tuple(each.name for each in fields), filter)
    size = sum(file.status.size for file in files)
    most = min(MOST_TASK_BYTES, max(size // (TASKS_PER_CORE * cores(spark)), OPENING_BYTES))
    groups = packed(files, lambda file: file.status.size + OPENING_BYTES, most)
    units = ([encoded(file) for file in group] for group in groups)
    return run_tasks(spark, Work.READ_FOLDER, job, units, schema, size)


# Spark's own scan


def _scanned(
    table: FolderTable, fields: Sequence[DataField], found: Sequence[Partition], spark: SparkSession
) -> Iterator[tuple[Place, list[Partition]]]:
    """Yields where Spark finds those files that it reads as local reads do, if there are some."""
    files = [file for each in found for file in each.files if file.status.size]
    most = MOST_FOOTERS if table.store.is_local else MOST_FAR_FOOTERS
    if table.format != PARQUET or not 0 < len(files) <= most or not all(is_plain(each.type) for each in fields):
        return
    place = place_of(table.store, Located(files[0].path, files[0].status.size), scanning(spark), spark)
    if place.obstacle is not None or scanning(spark).obstacle is not None:
        return
    with ThreadPoolExecutor(THREADS) as pool:
        schemas = dict(zip((file.path for file in files), pool.map(lambda file: _footer(table, file), files)))
    stored = [each for each in fields if each.name not in table.schema.partition_keys]
    known = {path for path, schema in schemas.items() if _is_as_told(schema, table, stored)}
    kept = [Partition(tuple(f for f in each.files if f.path in known), each.constants) for each in found]
    if known:
        yield place, [each for each in kept if each.files]


def _footer(table: FolderTable, file: FolderFile) -> pa.Schema:
    with reading(file.path), table.store.open(file.path) as stream:
        return pq.read_schema(stream)


def _is_as_told(held: pa.Schema, table: FolderTable, fields: Sequence[DataField]) -> bool:
    """Returns whether Spark, which looks for names without regard to case, finds columns of these very types or none.

    A file without any column of the table is left to tasks, which refuse it.
    """
    names = [name.casefold() for name in held.names]
    if len(set(names)) < len(names) or not any(each.name in held.names for each in table.stored_fields):
        return False
    types = dict(zip(held.names, held.types))
    return all(
        _same(types[each.name], each.type.arrow()) if each.name in types else each.name.casefold() not in names
        for each in fields
    )


ALIKE = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}
"""Types of Arrow that are the same in Parquet."""


def _same(held: pa.DataType, told: pa.DataType) -> bool:
    """Returns whether two types are stored alike in Parquet."""
    if pa.types.is_struct(told) and pa.types.is_struct(held):
        members = zip(held, told)
        return held.num_fields == told.num_fields and all(
            h.name == t.name and _same(h.type, t.type) for h, t in members
        )
    if pa.types.is_list(told) and (pa.types.is_list(held) or pa.types.is_large_list(held)):
        return _same(held.value_type, told.value_type)
    if pa.types.is_map(told) and pa.types.is_map(held):
        return _same(held.key_type, told.key_type) and _same(held.item_type, told.item_type)
    return bool(ALIKE.get(held, held) == told)


def _scan(
    table: FolderTable, fields: Sequence[DataField], found: Sequence[Partition], place: Place, spark: SparkSession
) -> DataFrame:
    """Returns the rows of these files by Spark's own scan, with the values of partitions as constants."""
    keys = [each for each in fields if each.name in table.schema.partition_keys]
    paths = [file.path for each in found for file in each.files]
    numbers = [(file.status.size, number, NO_MASK) for number, each in enumerate(found) for file in each.files]
    values = [dict(zip(each.constants.columns, each.constants.row(0))) if keys else {} for each in found]
    folder = folder_of(paths)
    described = {
        "stored": spark_schema(without_not_null([each for each in fields if each not in keys])).json(),
        "constants": spark_schema(without_not_null(keys)).json(),
        "partitions": [[expressions.constant(row[key.name], key.type) for key in keys] for row in values],
        "folder": place.url + folder,
        "paths": [path.removeprefix(folder) for path in paths],
        "first": FIRST_BIT,
        "unmasked": True,
        "columns": [each.name for each in fields],
        "format": PARQUET,
        "options": READ_OPTIONS | {CHECKS_PAGES: str(table.store.checks_pages).lower()},
    }
    packed_numbers = np.array(numbers, np.int64).tobytes()
    way: Scanning = scanning(spark)
    return way.frame(spark, msgspec.json.encode(described).decode(), packed_numbers, b"", spread=False)
