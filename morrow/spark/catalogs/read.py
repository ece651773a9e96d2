"""Tables loaded and read: time travel, system tables, branches."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from morrow.engine.errors import InvalidArgument, TableNotFound, Unsupported
from morrow.engine.plan.filter import Filter
from morrow.engine.plan.predicate import columns as columns_of
from morrow.engine.plan.predicate import conjunction
from morrow.engine.values import replace
from morrow.queries.incremental import are_of_changes, changes
from morrow.scans.table_scan import Scan
from morrow.spark.catalogs import described, system
from morrow.spark.catalogs.chosen import Chosen
from morrow.spark.catalogs.place import Opens, Place, Question, full_name
from morrow.spark.catalogs.read_options import travel
from morrow.spark.format_tables.reading import to_dataframe as folder_rows
from morrow.spark.reading import hidden
from morrow.spark.reading.expressions import quoted
from morrow.spark.reading.read import to_dataframe
from morrow.spark.source.changed import to_dataframe as changed_rows
from morrow.spark.source.instants import clock_of
from morrow.spark.types.told import predicates
from morrow.tables.format_table import FormatTable, ObjectTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from morrow.engine.plan.time_travel import TravelArguments
    from morrow.tables.table import Table

MICROS_OF_MILLI = 1000
CHANGES = "changes"
"""The state that is the changes between two others: the arguments of `Table.changes`, or None where there are none."""
FOLDER = "folder"
"""The state of a folder of files: what is there when it is read."""


def load(place: Place, question: Question, _rows: DataFrame | None = None) -> dict[str, object]:
    """Describes a table in its newest state, or in the one that ``version`` or ``micros`` name."""
    name = full_name(question["namespace"], question["name"])
    at = _travel(question)
    settings: Mapping[str, str] = question.get("settings", {})
    if system.is_system(name):
        return system.load(place, name, at, settings)
    try:
        table = place.table(name)
    except Unsupported:
        folder = None if at else _folder(place, name)
        if folder is None:
            raise
        if isinstance(folder, FormatTable):
            return described.of_folder(name, folder, {FOLDER: True})
        return described.of_rows(name, folder.fields, {FOLDER: True}, streams=False)
    chosen = Chosen() if at else Chosen.of(settings, place.name, *name.split(".", 1))
    if chosen.are_of_changes:
        return of_changes(table, name, chosen)
    return described.of_table(table, table.scan(**(at or chosen.travel())), name, writable=not at, set=chosen.by)


def of_changes(table: Table, name: str, chosen: Chosen) -> dict[str, object]:
    """Describes the changes of a table that settings choose; it takes rows as ever."""
    found = described.of_table(table, table.scan(), name, writable=True, set=chosen.by)
    state = {CHANGES: changes(table, chosen.options), described.SET: list(chosen.by)}
    return {**found, "state": state, "version": str((found["version"], dict(chosen.options)))}


def _chosen(place: Place, question: Question, _rows: DataFrame | None) -> dict[str, object]:
    """Returns the state that the options of a read choose, and what tells it from others.

    Raises:
        Unsupported: its columns are others than the table's. Others: as `travel` and `changes`.
    """
    from pyspark.sql.types import StructType

    name, options = question["table"], question["options"]
    wanted = are_of_changes(options)
    state: dict[str, object] | str
    if system.is_system(name):
        state = system.chosen_by_options(place, name, options)
        fields = system.scan(place, name, state).fields
    elif wanted:
        table = place.table(name)
        fields, state = table.scan().fields, {CHANGES: changes(table, options)}
    else:
        table = place.table(name)
        scan = table.scan(**travel(options, clock=clock_of(place.spark)))
        fields, state = scan.fields, described.packed(table.path, scan.request)
    if described.columns(fields) != StructType.fromJson(json.loads(question["columns"])):
        raise Unsupported(
            f"the option {next(iter(options))!r}, which chooses a state of {name} with other columns,",
            hint="write VERSION AS OF or TIMESTAMP AS OF",
        )
    return {"state": state, "version": str((question["state"], options))}


def _travel(question: Question) -> TravelArguments:
    if "version" in question:
        return {"version": question["version"]}
    if "micros" in question:
        return {"timestamp": question["micros"] // MICROS_OF_MILLI}
    return {}


def rows(place: Place, question: Question, _rows: DataFrame | None = None) -> DataFrame:
    """Returns the columns of a state as a DataFrame; filters prune files, and Spark applies them once more."""
    columns, name = tuple(question["columns"]), question["table"]
    if isinstance(question["state"], Mapping) and CHANGES in question["state"]:
        return changed(place, question)
    if is_of_folder(question):
        return _of_folder(place, question)
    if isinstance(question["state"], Mapping):
        scan = system.scan(place, name, question["state"])
        wanted = columns or (scan.fields[0].name,)
        return to_dataframe(scan.narrowed(wanted), place.spark).select(*map(quoted, columns))
    return of_table(place, question)


def of_table(place: Opens, question: Question) -> DataFrame:
    """Returns the columns of the state of a table as a DataFrame, as `rows` does."""
    columns = tuple(question["columns"])
    scan = narrowed(place, question)
    limits = [limit for limit in (scan.request.limit, question.get("limit")) if limit is not None]
    limit = min(limits, default=None)
    chosen = scan.adapted(lambda each: replace(each, columns=columns, limit=limit))
    if set(columns) <= set(scan.request.read_schema.by_name):
        # Spark's own LIMIT stays above what is computed in the task that reads, such as input_file_name().
        return to_dataframe(chosen, place.spark, limits=scan.request.limit is not None)
    return hidden.to_dataframe(chosen, columns, place.spark)


def _folder(place: Place, name: str) -> FormatTable | ObjectTable | None:
    """Returns a format table or object table of the catalog; None for others."""
    for opened in (place.catalog.format_table, place.catalog.object_table):
        with suppress(InvalidArgument, Unsupported):
            return opened(name)
    return None


def is_of_folder(question: Question) -> bool:
    """Returns whether a question is about a format table or object table."""
    state = question.get("state")  # which SHOW PARTITIONS of a session without a catalog does not have
    return isinstance(state, Mapping) and FOLDER in state


def format_table(place: Place, question: Question) -> FormatTable:
    """Returns the format table of a question. Raises `TableNotFound` where it is none any more."""
    found = _folder(place, question["table"])
    if not isinstance(found, FormatTable):
        raise TableNotFound(f"{question['table']} is no longer a format table; make the DataFrame again")
    return found


def _of_folder(place: Place, question: Question) -> DataFrame:
    """Returns the rows of a format table, or of an object table, which the driver makes; partitions are pruned."""
    columns, folder = tuple(question["columns"]), _folder(place, question["table"])
    if folder is None:
        raise TableNotFound(f"{question['table']} is no longer a table of files; make the DataFrame again")
    kept = predicates(question["filters"], {field.name: field for field in folder.fields})
    wanted = columns or (folder.fields[0].name,)
    predicate = conjunction(*kept)
    if isinstance(folder, FormatTable):
        filter = Filter(predicate, (), columns_of(predicate), str(predicate))
        frame = folder_rows(folder._table, wanted, filter, place.spark)
    else:
        frame = to_dataframe(folder.scan().narrowed(wanted, predicate if kept else None), place.spark)
    return frame.select(*map(quoted, columns))


def narrowed(place: Opens, question: Question) -> Scan:
    """Returns the scan of a state and of those of its rows that the filters keep, as far as Morrow can test them.

    Raises `TableNotFound` where the catalog has been given another warehouse since.
    """
    table = place.table(question["table"])
    path, request, _ = described.unpacked(question["state"])
    if path != table.path:
        raise TableNotFound(f"{path} is no longer {question['table']}; make the DataFrame again")
    kept = predicates(question["filters"], request.read_schema.by_name)
    predicate = conjunction(request.filter.predicate, *kept)
    filter = Filter(predicate, (), columns_of(predicate), " AND ".join(map(str, kept)))
    return Scan(table._metadata, replace(request, filter=filter))


def changed(place: Opens, question: Question) -> DataFrame:
    """Returns the rows that were added or updated between two states; retractions are left out, as in Paimon."""
    table, columns = place.table(question["table"]), tuple(question["columns"])
    if unknown := set(columns) - set(table.schema.names):
        raise Unsupported(f"hidden columns of changes ({', '.join(sorted(unknown))})")
    wanted = columns or table.schema.names[:1]
    asked = question["state"][CHANGES]
    found = (
        table.changes(1, 1, mode="diff", columns=wanted) if asked is None else table.changes(**asked, columns=wanted)
    )
    return changed_rows(found, place.spark, with_kinds=False).select(*map(quoted, columns))


ANSWERS: dict[str, Callable[[Place, Question, DataFrame | None], object]] = {
    "load": load,
    "read": rows,
    "read options": _chosen,
}
