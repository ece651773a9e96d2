"""Tables loaded and read: time travel, system tables, branches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from morrow.engine.catalog.names import SYSTEM_DATABASE
from morrow.engine.errors import ColumnNotFound, InvalidArgument, TableNotFound
from morrow.engine.plan.filter import Filter
from morrow.engine.plan.predicate import columns as columns_of
from morrow.engine.plan.predicate import conjunction
from morrow.scan import Scan
from morrow.spark.catalogs import described
from morrow.spark.catalogs.filters import predicates
from morrow.spark.catalogs.place import Place, Question, full_name, parsed
from morrow.spark.reading.read import to_dataframe
from morrow.system_scan import SystemScan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from morrow.engine.plan.time_travel import TravelArguments

MICROS_OF_MILLI = 1000


def load(place: Place, question: Question, _rows: DataFrame | None = None) -> dict[str, object]:
    """Describes a table in its newest state, or in the one that ``version`` or ``micros`` name."""
    name = full_name(question["namespace"], question["name"])
    at = _travel(question)
    if parsed(name).system is not None or name.startswith(f"{SYSTEM_DATABASE}."):
        return described.of_rows(name, _system(place, name, at).fields, at)
    table = place.table(name)
    return described.of_table(table, table.scan(**at), name, writable=not at)


def _travel(question: Question) -> TravelArguments:
    if "version" in question:
        return {"version": question["version"]}
    if "micros" in question:
        return {"timestamp": question["micros"] // MICROS_OF_MILLI}
    return {}


def _system(place: Place, name: str, at: Mapping[str, object]) -> SystemScan:
    try:
        return place.catalog.system(name, **at)  # type: ignore[arg-type]  # `at` came through JSON
    except InvalidArgument as error:
        if at or isinstance(error, ColumnNotFound):
            raise
        raise TableNotFound(str(error)) from error  # no system table has this name


def rows(place: Place, question: Question, _rows: DataFrame | None = None) -> DataFrame:
    """Returns the columns of a state as a DataFrame; filters prune files, and Spark applies them once more."""
    columns, name = tuple(question["columns"]), question["table"]
    if isinstance(question["state"], Mapping):
        scan = _system(place, name, question["state"])
        wanted = columns or (scan.fields[0].name,)
        return to_dataframe(scan.narrowed(wanted), place.spark).select(*map(_quoted, columns))
    table = place.table(name)
    path, request = described.unpacked(question["state"])
    if path != table.path:  # the catalog has been given another warehouse since
        raise TableNotFound(f"{path} is no longer {name}; make the DataFrame again")
    kept = predicates(question["filters"], request.read_schema.by_name)
    predicate = conjunction(request.filter.predicate, *kept)
    filter = Filter(predicate, (), columns_of(predicate), " AND ".join(map(str, kept)))
    narrowed = replace(request, columns=columns, filter=filter)
    return to_dataframe(Scan(table._metadata, narrowed), place.spark)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


ANSWERS = {"load": load, "read": rows}
