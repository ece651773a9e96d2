"""Partitions listed and dropped."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.format.binary_row import decode_columns
from morrow.engine.plan.filter import NO_FILTER
from morrow.readers.casts.dtypes import to_arrow_table
from morrow.spark import handoff
from morrow.spark.catalogs.place import Place, Question, full_name
from morrow.spark.catalogs.rewriting import placed
from morrow.spark.catalogs.syntax import name_of
from morrow.writers.operations.partitions import matching_partitions
from morrow.writers.target import WriteTarget

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def _partitions(place: Place, question: Question, _rows: DataFrame | None) -> DataFrame:
    """Returns the partitions that hold files now, a row for each."""
    metadata = place.table(question["table"])._metadata
    target = WriteTarget.of(metadata, None)
    snapshot = metadata.latest_snapshot()
    fields = target.partition_fields
    stored = pl.Series(matching_partitions(target, snapshot, NO_FILTER) if snapshot else [], dtype=pl.Binary)
    values = decode_columns(stored, [field.type for field in fields], where=target.where)
    frame = pl.DataFrame([value.alias(field.name) for value, field in zip(values, fields)])
    batches = to_arrow_table(frame, fields).to_batches()
    return handoff.to_spark(batches, fields, place.spark, where=target.where)


def _greatest(place: Place, question: Question, _rows: DataFrame | None) -> str:
    """Returns the greatest value of the first partition column as text. Raises `InvalidArgument` if there is none."""
    catalog, name = placed(place.spark, name_of(question["name"]))
    if catalog != place.name:
        raise Unsupported(f"max_pt of a table of the catalog {catalog} in {place.name}")
    table = place.table(full_name(name[:-1], name[-1]))
    if not table.partition_keys:
        raise InvalidArgument(f"{table.path}: it is not partitioned, so that there is no max_pt")
    key = "`" + table.partition_keys[0].replace("`", "``") + "`"
    listed = _partitions(place, {"table": full_name(name[:-1], name[-1])}, None)
    found = listed.selectExpr(f"CAST(max({key}) AS STRING)").collect()[0][0]
    if found is None:
        raise InvalidArgument(f"{table.path}: no partition has rows, so that there is no max_pt")
    return str(found)


def _drop(place: Place, question: Question, _rows: DataFrame | None) -> None:
    table = place.table(question["table"])
    keys = table.partition_keys
    told = [[None if value[0] == "null" else value[1] for value in values] for values in question["partitions"]]
    table.drop_partition(*(dict(zip(keys, values, strict=True)) for values in told))


ANSWERS = {"partitions": _partitions, "max partition": _greatest, "drop partitions": _drop}
