"""What metadata tells of a table that a query reads: aggregates that need no rows, and estimates for the planner."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from morrow.engine.plan.estimates import estimated
from morrow.engine.plan.predicate import columns as columns_of
from morrow.readers.casts.dtypes import to_arrow_table
from morrow.readers.execution.summaries import ORDERED, Summary, Summing, result_fields, summarised
from morrow.spark import handoff
from morrow.spark.catalogs import described
from morrow.spark.catalogs.place import Opens, Question
from morrow.spark.catalogs.read import narrowed
from morrow.spark.types.told import predicates

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def _partition_filters(_place: Opens, question: Question, _rows: DataFrame | None) -> list[bool]:
    """Returns of each filter whether Morrow keeps exactly the rows that Spark would: those of whole partitions."""
    if isinstance(question["state"], Mapping):
        return [False] * len(question["filters"])
    schema = described.unpacked(question["state"])[1].schema
    keys = {name for name in schema.partition_keys if isinstance(schema.by_name[name].type, ORDERED)}
    told = (predicates([filter], schema.by_name) for filter in question["filters"])
    return [bool(found) and columns_of(found[0]) <= keys for found in told]


def _aggregate(place: Opens, question: Question, _rows: DataFrame | None) -> DataFrame | None:
    """Returns aggregates as metadata tells them; None where it does not."""
    if isinstance(question["state"], Mapping):
        return None  # a system table, or changes
    scan = narrowed(place, question)
    if len(predicates(question["filters"], scan.request.schema.by_name)) < len(question["filters"]):
        return None  # Spark asks only where it tests no filter itself
    wanted = [Summary(Summing(function), column) for function, column in question["aggregates"]]
    if not wanted and not question["groups"]:
        return place.spark.range(
            1
        ).select()  # Spark asks this of a global aggregate if the query uses none of its columns
    found = summarised(scan._metadata, scan.request, wanted, question["groups"])
    if found is None:
        return None
    fields = result_fields(scan.request.schema, wanted, question["groups"])
    return handoff.to_spark(to_arrow_table(found, fields).to_batches(), fields, place.spark, where=scan.title)


def _statistics(place: Opens, question: Question, _rows: DataFrame | None) -> dict[str, int]:
    """Estimates rows and bytes, of all columns."""
    if isinstance(question["state"], Mapping):
        return {}
    scan = narrowed(place, question)
    found = estimated(scan._metadata, scan.request)
    return {"rows": found.rows, "bytes": found.size}


ANSWERS = {"partition filters": _partition_filters, "aggregate": _aggregate, "statistics": _statistics}
