"""Format tables in Spark: folders of files without snapshots, read as DataFrames and written from them.

Spark itself scans Parquet files whose columns have exactly the table's types. Tasks of Morrow read all others, so
that every value equals that of a local read, as for text in CSV and JSON, and timestamps in other units.
To write, tasks put files into a hidden folder of the table. The driver moves the files of the successful attempts
to their partitions, and removes the folder.
"""

from __future__ import annotations

import pickle
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
from morrow.readers.execution.format_tables import FOOTER_THREADS, Partition, find_partitions
from morrow.readers.execution.section_pieces import OPENING_BYTES, pack_units
from morrow.readers.files.source import translate_errors
from morrow.spark import expressions
from morrow.spark.format_table_tasks import RESULT, FolderAccess, ReadJob, WriteJob
from morrow.spark.job.execution import map_rows, run_tasks
from morrow.spark.job.sections import MAX_TASK_BYTES, TASKS_PER_CORE
from morrow.spark.job.tasks import Work
from morrow.spark.job.wire import decode_value, encode_value
from morrow.spark.jvm.file_scans import Scanning, get_scanning
from morrow.spark.reading.choice import PARQUET, is_plain
from morrow.spark.reading.distributed import make_read_only
from morrow.spark.reading.file_scans import Place, place_of
from morrow.spark.reading.native import CHECKS_PAGES, NO_MASK, READ_OPTIONS, find_folder
from morrow.spark.sessions import count_cores
from morrow.spark.types import drop_not_null, make_empty_frame, to_arrow_schema, to_spark_schema
from morrow.writers.ingest.conversion import convert_rows
from morrow.writers.operations.format_table import NewFile, Replacement, make_target, publish_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MAX_FOOTERS, MAX_REMOTE_FOOTERS = 1_000, 100
"""The maximum files whose footers the driver reads, locally and in a store. Tasks read larger tables."""


@dataclass(frozen=True)
class Located:
    """A file in the form that `place_of` takes."""

    path: str
    size: int


def to_dataframe(table: FolderTable, columns: Sequence[str], filter: Filter, spark: SparkSession) -> DataFrame:
    """Return the rows of the files that exist now. Conditions on partition keys skip files, other conditions may.

    Raises:
        CorruptFile: a folder is not a partition, a file is damaged. StorageError: files cannot be read.
        Unsupported: a type that this version of Spark does not have.
    """
    fields = [table.schema.by_name[name] for name in columns]
    found = find_partitions(table, filter)
    scanned = list(_find_scannable(table, fields, found, spark))
    theirs = {file.path for _, some in scanned for each in some for file in each.files}
    frames = [_scan(table, fields, some, place, spark) for place, some in scanned]
    rest = [file for each in found for file in each.files if file.path not in theirs]
    if rest or not frames:
        frames.append(_read_by_tasks(table, fields, filter, rest, spark))
    return make_read_only(reduce(lambda left, right: left.unionAll(right), frames), get_scanning(spark))


def _read_by_tasks(
    table: FolderTable, fields: Sequence[DataField], filter: Filter, files: Sequence[FolderFile], spark: SparkSession
) -> DataFrame:
    schema = to_spark_schema(drop_not_null(fields))
    if not files:
        return make_empty_frame(spark, schema)
    job = ReadJob(FolderAccess.of(table), tuple(each.name for each in fields), filter)
    size = sum(file.status.size for file in files)
    most = min(MAX_TASK_BYTES, max(size // (TASKS_PER_CORE * count_cores(spark)), OPENING_BYTES))
    groups = pack_units(files, lambda file: file.status.size + OPENING_BYTES, most)
    units = ([encode_value(file) for file in group] for group in groups)
    return run_tasks(spark, Work.READ_FOLDER, job, units, schema, size)


# read by Spark's own scan


def _find_scannable(
    table: FolderTable, fields: Sequence[DataField], found: Sequence[Partition], spark: SparkSession
) -> Iterator[tuple[Place, list[Partition]]]:
    """Yield the place and the partitions whose files Spark's own scan reads like a local read, if there are some."""
    files = [file for each in found for file in each.files if file.status.size]
    most = MAX_FOOTERS if table.store.is_local else MAX_REMOTE_FOOTERS
    if table.format != PARQUET or not 0 < len(files) <= most or not all(is_plain(each.type) for each in fields):
        return
    place = place_of(table.store, Located(files[0].path, files[0].status.size), get_scanning(spark), spark)
    if place.obstacle is not None or get_scanning(spark).obstacle is not None:
        return
    with ThreadPoolExecutor(FOOTER_THREADS) as pool:
        schemas = dict(zip((file.path for file in files), pool.map(lambda file: _read_footer(table, file), files)))
    stored = [each for each in fields if each.name not in table.schema.partition_keys]
    known = {path for path, schema in schemas.items() if _is_as_declared(schema, table, stored)}
    kept = [Partition(tuple(f for f in each.files if f.path in known), each.constants) for each in found]
    if known:
        yield place, [each for each in kept if each.files]


def _read_footer(table: FolderTable, file: FolderFile) -> pa.Schema:
    with translate_errors(file.path), table.store.open(file.path) as stream:
        return pq.read_schema(stream)


def _is_as_declared(held: pa.Schema, table: FolderTable, fields: Sequence[DataField]) -> bool:
    """Return whether Spark, which ignores the case of names, finds columns of exactly these types, or none.

    Tasks get a file without any column of the table, and refuse it.
    """
    names = [name.casefold() for name in held.names]
    if len(set(names)) < len(names) or not any(each.name in held.names for each in table.stored_fields):
        return False
    types = dict(zip(held.names, held.types))
    return all(
        _is_same_type(types[each.name], each.type.arrow()) if each.name in types else each.name.casefold() not in names
        for each in fields
    )


ALIKE = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}
"""Arrow types with the same Parquet form, and their equivalents."""


def _is_same_type(held: pa.DataType, told: pa.DataType) -> bool:
    """Return whether two types are stored alike in Parquet."""
    if pa.types.is_struct(told) and pa.types.is_struct(held):
        members = zip(held, told)
        return held.num_fields == told.num_fields and all(
            h.name == t.name and _is_same_type(h.type, t.type) for h, t in members
        )
    if pa.types.is_list(told) and (pa.types.is_list(held) or pa.types.is_large_list(held)):
        return _is_same_type(held.value_type, told.value_type)
    if pa.types.is_map(told) and pa.types.is_map(held):
        return _is_same_type(held.key_type, told.key_type) and _is_same_type(held.item_type, told.item_type)
    return bool(ALIKE.get(held, held) == told)


def _scan(
    table: FolderTable, fields: Sequence[DataField], found: Sequence[Partition], place: Place, spark: SparkSession
) -> DataFrame:
    """Return the rows of files by Spark's own scan, with partition values as constants."""
    keys = [each for each in fields if each.name in table.schema.partition_keys]
    paths = [file.path for each in found for file in each.files]
    numbers = [(file.status.size, number, NO_MASK) for number, each in enumerate(found) for file in each.files]
    values = [dict(zip(each.constants.columns, each.constants.row(0))) if keys else {} for each in found]
    folder = find_folder(paths)
    described = {
        "stored": to_spark_schema(drop_not_null([each for each in fields if each not in keys])).json(),
        "constants": to_spark_schema(drop_not_null(keys)).json(),
        "partitions": [[expressions.format_constant(row[key.name], key.type) for key in keys] for row in values],
        "folder": place.url + folder,
        "paths": [path.removeprefix(folder) for path in paths],
        "first": FIRST_BIT,
        "unmasked": True,
        "columns": [each.name for each in fields],
        "format": PARQUET,
        "options": READ_OPTIONS | {CHECKS_PAGES: str(table.store.checks_pages).lower()},
    }
    packed_numbers = np.array(numbers, np.int64).tobytes()
    way: Scanning = get_scanning(spark)
    return way.frame(spark, msgspec.json.encode(described).decode(), packed_numbers, b"", spread=False)


def write(table: FolderTable, rows: DataFrame, replaced: Replacement | None = None) -> None:
    """Write rows, and remove the files that they replace.

    Raises: as `morrow.writers.operations.format_table.write_rows`. Spark's own errors if a task failed too often.
    """
    for _ in convert_rows(make_target(table), to_arrow_schema(rows.schema).empty_table()):
        pass
    with publish_files(table, replaced) as (staging, written):
        job = WriteJob(FolderAccess.of(table), staging, tuple(rows.columns))
        results = map_rows(_group_by_partition(table, rows), Work.WRITE_FOLDER, job, RESULT).collect()
        error = next((bytes(row.error) for row in results if row.error), None)
        if error is not None:
            raise pickle.loads(error)
        written += [file for row in results for file in decode_value(bytes(row.files), list[NewFile])]


def _group_by_partition(table: FolderTable, rows: DataFrame) -> DataFrame:
    """Return the rows with numbered columns, clustered by partition as far as its size allows."""
    from pyspark.sql.functions import col

    numbers = [f"c{number}" for number in range(len(rows.columns))]
    numbered = rows.toDF(*numbers)
    keys = [col(numbers[rows.columns.index(key)]) for key in table.schema.partition_keys if key in rows.columns]
    return numbered.hint("rebalance", *keys) if keys else numbered
