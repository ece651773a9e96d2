"""Partitions listed and dropped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import polars as pl

from morrow.engine.errors import Unsupported
from morrow.engine.plan.filter import NO_FILTER
from morrow.readers.casts.dtypes import polars_schema, to_arrow_table
from morrow.readers.execution.folder_frames import partitions
from morrow.spark import handoff
from morrow.spark.catalogs.place import Opens, Place, Question, full_name
from morrow.spark.catalogs.read import format_table, is_of_folder
from morrow.spark.catalogs.rewriting import placed
from morrow.spark.catalogs.words import name_of
from morrow.spark.types.told import partition_value_of
from morrow.writers.operations.format_table import empty_partitions
from morrow.writers.operations.partitions import greatest, listed
from morrow.writers.target import WriteTarget

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from morrow.tables.table import Table


def _partitions(place: Place, question: Question, _rows: DataFrame | None) -> DataFrame:
    """Returns the partitions that hold files now, a row for each."""
    if is_of_folder(question):
        table = format_table(place, question)._table
        held = [each.constants for each in partitions(table, NO_FILTER)]
        keys = [table.schema.by_name[key] for key in table.schema.partition_keys]
        frame = pl.concat([pl.DataFrame(schema=polars_schema(keys)), *held])
        return handoff.to_spark(to_arrow_table(frame, keys).to_batches(), keys, place.spark, where=table.where)
    return partitions_of_table(place, question)


def partitions_of_table(place: Opens, question: Question, _rows: DataFrame | None = None) -> DataFrame:
    """Returns the partitions of a table with snapshots."""
    target = WriteTarget.of(place.table(question["table"])._metadata, None)
    batches = to_arrow_table(listed(target), target.partition_fields).to_batches()
    return handoff.to_spark(batches, target.partition_fields, place.spark, where=target.where)


def _greatest(place: Place, question: Question, _rows: DataFrame | None) -> str:
    """Returns the greatest value of the first partition column as text. Raises `InvalidArgument` if there is none."""
    catalog, name = placed(place.spark, name_of(question["name"]))
    if catalog != place.name:
        raise Unsupported(f"max_pt of a table of the catalog {catalog} in {place.name}")
    return greatest_of(place.table(full_name(name[:-1], name[-1])))


def greatest_of(table: Table) -> str:
    """Returns the greatest value of the first partition column as text. Raises `InvalidArgument` if there is none."""
    return greatest(WriteTarget.of(table._metadata, None))


def _drop(place: Place, question: Question, _rows: DataFrame | None) -> None:
    if is_of_folder(question):
        folder = format_table(place, question)
        empty_partitions(folder._table, _named(question, folder.partition_keys))
        return
    drop_of_table(place, question)


def drop_of_table(place: Opens, question: Question, _rows: DataFrame | None = None) -> None:
    """Drops partitions of a table with snapshots, of which there may be none."""
    table = place.table(question["table"])
    if question["partitions"]:
        table.drop_partition(*_named(question, table.partition_keys))


def _named(question: Question, keys: Sequence[str]) -> list[dict[str, object]]:
    return [dict(zip(keys, map(partition_value_of, values), strict=True)) for values in question["partitions"]]


ANSWERS = {"partitions": _partitions, "max partition": _greatest, "drop partitions": _drop}
