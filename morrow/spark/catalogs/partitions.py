"""Partitions listed and dropped."""

from __future__ import annotations

from typing import TYPE_CHECKING

from morrow.engine.errors import Unsupported
from morrow.readers.casts.dtypes import to_arrow_table
from morrow.spark import handoff
from morrow.spark.catalogs.place import Place, Question, full_name
from morrow.spark.catalogs.rewriting import placed
from morrow.spark.catalogs.words import name_of
from morrow.writers.operations.partitions import greatest, listed
from morrow.writers.target import WriteTarget

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def _partitions(place: Place, question: Question, _rows: DataFrame | None) -> DataFrame:
    """Returns the partitions that hold files now, a row for each."""
    target = WriteTarget.of(place.table(question["table"])._metadata, None)
    batches = to_arrow_table(listed(target), target.partition_fields).to_batches()
    return handoff.to_spark(batches, target.partition_fields, place.spark, where=target.where)


def _greatest(place: Place, question: Question, _rows: DataFrame | None) -> str:
    """Returns the greatest value of the first partition column as text. Raises `InvalidArgument` if there is none."""
    catalog, name = placed(place.spark, name_of(question["name"]))
    if catalog != place.name:
        raise Unsupported(f"max_pt of a table of the catalog {catalog} in {place.name}")
    table = place.table(full_name(name[:-1], name[-1]))
    return greatest(WriteTarget.of(table._metadata, None))


def _drop(place: Place, question: Question, _rows: DataFrame | None) -> None:
    table = place.table(question["table"])
    keys = table.partition_keys
    told = [[None if value[0] == "null" else value[1] for value in values] for values in question["partitions"]]
    table.drop_partition(*(dict(zip(keys, values, strict=True)) for values in told))


ANSWERS = {"partitions": _partitions, "max partition": _greatest, "drop partitions": _drop}
