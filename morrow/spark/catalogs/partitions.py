"""Listing and dropping of partitions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import polars as pl

from morrow.engine.errors import Unsupported
from morrow.engine.plan.filter import NO_FILTER
from morrow.readers.casts.dtypes import to_arrow_table, to_polars_schema
from morrow.readers.execution.format_tables import find_partitions
from morrow.spark import dataframes
from morrow.spark.catalogs.questions import Place, Question, TableOpener, build_full_name
from morrow.spark.catalogs.reads import format_table, is_of_folder
from morrow.spark.catalogs.syntax import resolve_name, split_name
from morrow.spark.expressions import parse_partition_value
from morrow.writers.operations.format_table import delete_partition_files
from morrow.writers.operations.partition_filters import find_greatest_partition, list_partitions
from morrow.writers.target import WriteTarget

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from morrow.tables.table import Table


def _list_partitions(place: Place, question: Question, _rows: DataFrame | None) -> DataFrame:
    """Return the partitions that contain files now, one row each."""
    if is_of_folder(question):
        table = format_table(place, question)._table
        held = [each.constants for each in find_partitions(table, NO_FILTER)]
        keys = [table.schema.by_name[key] for key in table.schema.partition_keys]
        frame = pl.concat([pl.DataFrame(schema=to_polars_schema(keys)), *held])
        return dataframes.to_spark(to_arrow_table(frame, keys).to_batches(), keys, place.spark, where=table.where)
    return list_partition_rows(place, question)


def list_partition_rows(place: TableOpener, question: Question, _rows: DataFrame | None = None) -> DataFrame:
    """Return the partitions of a table with snapshots."""
    target = WriteTarget.of(place.table(question["table"])._metadata, None)
    batches = to_arrow_table(list_partitions(target), target.partition_fields).to_batches()
    return dataframes.to_spark(batches, target.partition_fields, place.spark, where=target.where)


def _find_max_partition(place: Place, question: Question, _rows: DataFrame | None) -> str:
    """Return the maximum of the first partition column as text. Raises `InvalidArgument` without partitions."""
    catalog, name = resolve_name(place.spark, split_name(question["name"]))
    if catalog != place.name:
        raise Unsupported(f"max_pt of a table of the catalog {catalog} in {place.name}")
    return find_max_partition(place.table(build_full_name(name[:-1], name[-1])))


def find_max_partition(table: Table) -> str:
    """Return the maximum of the first partition column as text. Raises `InvalidArgument` without partitions."""
    return find_greatest_partition(WriteTarget.of(table._metadata, None))


def _drop(place: Place, question: Question, _rows: DataFrame | None) -> None:
    if is_of_folder(question):
        folder = format_table(place, question)
        delete_partition_files(folder._table, _parse_partitions(question, folder.partition_keys))
        return
    drop_table_partitions(place, question)


def drop_table_partitions(place: TableOpener, question: Question, _rows: DataFrame | None = None) -> None:
    """Drop partitions of a table with snapshots. The specification may match no partition."""
    table = place.table(question["table"])
    if question["partitions"]:
        table.drop_partition(*_parse_partitions(question, table.partition_keys))


def _parse_partitions(question: Question, keys: Sequence[str]) -> list[dict[str, object]]:
    return [dict(zip(keys, map(parse_partition_value, values), strict=True)) for values in question["partitions"]]


ANSWERS = {"partitions": _list_partitions, "max partition": _find_max_partition, "drop partitions": _drop}
