"""Answers to the questions of `MorrowFormat` in the JVM, ``format("morrow")``: tables named by path and options."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from morrow.engine.catalog.names import parse_object_name
from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.options.declared.table import PARTITION, PRIMARY_KEY
from morrow.engine.plan.predicate import combine_predicates
from morrow.session import open as open_table
from morrow.spark.catalogs import descriptions, partitions, reads, writes
from morrow.spark.catalogs import options as write_options
from morrow.spark.catalogs.ddl import parse_defaults
from morrow.spark.catalogs.options import STREAMING, Chosen, find_settings, make_refusal, set_read_options
from morrow.spark.catalogs.questions import Question
from morrow.spark.catalogs.reads import CHANGES, describe_changes, read_changed_rows, read_table
from morrow.spark.expressions import parse_predicates, quote_name
from morrow.spark.reading import distributed
from morrow.spark.reading.read import to_dataframe
from morrow.spark.source.dataframe_io import OVERWRITE, Writing, save_rows
from morrow.spark.source.messages import NAME, STREAMS_BY_NAME
from morrow.spark.source.options import Options, check_stream_sink, select_read_options, select_stream_options
from morrow.spark.source.planning import StreamPlanner
from morrow.spark.source.schemas import check_same, ensure_table, open_metadata, to_nullable_schema
from morrow.spark.source.settings import OVERWRITE_MODE, STORAGE_PREFIX, find_source_options, parse_names
from morrow.spark.types import check_collations, to_paimon_fields
from morrow.spark.writing.job import is_committed
from morrow.writers.target import WriteTarget

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from morrow.scans.system_tables import SystemScan
    from morrow.tables.table import Table

STREAM, SYSTEM = "stream", "system"
"""States that are read again for each query: a stream chosen by its options, and the rows of a system table."""
EXTERNAL = {"provider": NAME, "is_managed_location": "false", "external": "true"}
"""Properties of a table in Spark's own catalog. It is external, so dropping it leaves its files."""
COMPLETE, UPDATE = "Complete", "Update"
"""The output modes of streams that overwrite or need a primary key."""


@dataclass(frozen=True)
class ByPath:
    """A session and the options that name a table."""

    spark: SparkSession
    options: Options

    def table(self, name: str | None = None) -> Table:
        """Open the table of the options. `name`, if given, is its name in a question."""
        place = self.options.place()
        parts = parse_object_name(place.path if name is None else name)
        return open_table(
            parts.table,
            branch=parts.branch_or(place.branch),
            storage_options=place.storage_options,
            verify=place.verify,
        )

    def set_for(self, question: Question) -> dict[str, str]:
        """Return the options that session settings give for all tables or for the names in the path."""
        return find_source_options(question.get("settings", {}), *self._names())

    def chosen(self, question: Question) -> Chosen:
        """Return the settings that concern reads. Each has to choose a state; others are refused."""
        chosen = Chosen.of(question.get("settings", {}), *self._names())
        if not chosen.are_of_changes:
            chosen.travel()
        return chosen

    def _names(self) -> tuple[str, str, str]:
        return parse_names(self.options.place().path)

    def system_name(self) -> str | None:
        """Return the name of the system table that the options name; None if they name an ordinary table."""
        return parse_object_name(self.options.place().path).system

    def system(self, name: str, at: Mapping[str, Any]) -> SystemScan:
        """Return the scan of a system table, at the state of the options, else at the state of the settings."""
        asked = self.options.read()
        return self.table().system(name, asked.columns, asked.filter, **(asked.travel or at))


def _load(place: ByPath, question: Question, _rows: DataFrame | None) -> dict[str, object]:
    """Describe the table as the options choose it: its newest snapshot, with the columns of a stream or a batch."""
    from pyspark.sql.types import StructType

    found = (
        _describe_stream(place, question)
        or _describe_system(place, question)
        or _describe_table(place, place.chosen(question))
    )
    if question["columns"] is not None:
        given = StructType.fromJson(json.loads(question["columns"]))
        check_same(given, StructType.fromJson(json.loads(str(found["schema"]))))
    return found


def _describe_stream(place: ByPath, question: Question) -> dict[str, object] | None:
    if not question["stream"] and not place.options.is_stream:
        return None
    if by := place.chosen(question).by:
        raise make_refusal(STREAMING, by)
    columns = to_nullable_schema(StreamPlanner(place.options).fields).json()
    return {**_describe_rows(place, STREAM), "schema": columns}


def _describe_system(place: ByPath, question: Question) -> dict[str, object] | None:
    name, path = place.system_name(), place.options.place().path
    if name is None:
        return None
    state: dict[str, object] = {reads.AT: {}}
    if not place.options.read().travel and reads.has_time_travel(name):
        state = reads.choose_system_state(place.chosen(question), path, place.table)
    fields = place.system(name, cast("dict[str, Any]", state[reads.AT])).fields
    rows = {**_describe_rows(place, SYSTEM), "schema": to_nullable_schema(fields).json()}
    return {**rows, "state": {SYSTEM: name, **state}, "version": str(state)}


def _describe_rows(place: ByPath, state: str) -> dict[str, object]:
    path = place.options.place().path
    return {"table": path, "state": {state: True}, "version": state, "partitions": [], "properties": {}}


def _describe_table(place: ByPath, given: Chosen) -> dict[str, object]:
    asked, path = place.options.read(changes=True), place.options.place().path
    # options count before settings
    of_state = given.of_table_reads if asked.travel else given
    chosen = Chosen(asked.changes, tuple(asked.changes)) if asked.changes else of_state
    if chosen.are_of_changes:
        return _describe_changes(place, chosen)
    table, named = place.table(), asked.columns or ()
    has_hidden = not distributed.NAMES.isdisjoint(named)
    read = set_read_options(table, {**chosen.options, **asked.table})
    scan = read.scan(None if has_hidden else asked.columns, asked.filter, **(asked.travel or chosen.travel()))
    fields = scan.fields
    if has_hidden:
        known = {
            field.name: field for field in distributed.list_hidden_fields(scan.request.schema, scan.request.options)
        }
        known |= {field.name: field for field in fields}
        fields = tuple(known[name] if name in known else scan.request.schema.column(name) for name in named)
    columns = to_nullable_schema(fields)
    writable = named == () and asked.filter is None and not asked.travel and not asked.table
    found = descriptions.describe_table(table, scan, path, writable=writable, set=chosen.by)
    partitions = table.partition_keys if set(table.partition_keys) <= set(columns.names) else ()
    return {
        **found,
        "schema": columns.json(),
        "columns to write": descriptions.to_catalog_schema(fields).json(),
        "partitions": list(partitions),
        "hidden": [
            column for column in descriptions.describe_hidden(scan.request) if column["name"] not in columns.names
        ],
        "properties": {**descriptions.collect_properties(table), **EXTERNAL},
    }


def _describe_changes(place: ByPath, chosen: Chosen) -> dict[str, object]:
    asked, path, table = place.options.read(changes=True), place.options.place().path, place.table()
    if asked.columns is not None or asked.filter is not None:
        raise make_refusal("the options 'columns' and 'filter'", chosen.by)
    found = describe_changes(table, path, chosen)
    return {
        **found,
        "columns to write": found["schema"],
        "properties": {**descriptions.collect_properties(table), **EXTERNAL},
    }


def _read(place: ByPath, question: Question, _rows: DataFrame | None) -> DataFrame:
    """Return the columns of a state as a DataFrame. Raises `InvalidArgument` for options of a stream."""
    if not isinstance(question["state"], Mapping):
        return read_table(place, question)
    if CHANGES in question["state"]:
        return read_changed_rows(place, question)
    columns, state = tuple(question["columns"]), question["state"]
    if SYSTEM not in state:
        place.options.read()
        raise InvalidArgument(f"{question['table']} is read as a stream: use spark.readStream")
    scan = place.system(state[SYSTEM], state[reads.AT])
    kept = parse_predicates(question["filters"], {field.name: field for field in scan.fields})
    chosen = scan.narrowed(columns or (scan.fields[0].name,), combine_predicates(*kept) if kept else None)
    return to_dataframe(chosen, place.spark).select(*map(quote_name, columns))


def _stream(place: ByPath, question: Question, _rows: DataFrame | None) -> dict[str, object]:
    """Return the data source that follows the table, and its options."""
    StreamPlanner(place.options)  # reports wrong options here, in a one-line error
    return {"format": STREAMS_BY_NAME, "options": select_stream_options(question["options"])}


def _make(place: ByPath, question: Question, _rows: DataFrame | None) -> None:
    """Create the table for Spark's own catalog unless it exists.

    Raises:
        InvalidArgument: the existing table has other options or default values.
        Unsupported: a type that the table would lose, although Spark's own catalog would record it.
    """
    from pyspark.sql.types import StructType

    path = place.options.place().path
    given, keys = question["options"], [".".join(key) for key in question["partitions"]]
    of_reads = select_read_options(given)
    own = {key: value for key, value in given.items() if key not in of_reads or key.startswith(STORAGE_PREFIX)}
    schema = StructType.fromJson(json.loads(question["schema"]))
    check_collations(schema)
    fields = to_paimon_fields(schema)
    for asked, kept in zip(schema.fields, descriptions.to_catalog_schema(fields).fields, strict=True):
        given_type, kept_type = (field.dataType.simpleString().upper() for field in (asked, kept))
        if given_type != kept_type:
            raise Unsupported(f"the type {given_type} of the column {asked.name!r}", hint=f"write {kept_type}")
    defaults = parse_defaults(place.spark, schema, {field.name: field for field in fields})
    named = {**own, "path": path} | ({PARTITION.key: ",".join(keys)} if keys else {})
    ensure_table(named, schema, comment=question["comment"], defaults=defaults)
    for field in place.table().scan().fields if defaults else ():
        if defaults.get(field.name, field.default_value) != field.default_value:
            said = f"the default value of {field.name!r} is {field.default_value}, not {defaults[field.name]}"
            raise InvalidArgument(f"{path}: {said}; leave it out, or alter the table")


def _select_read_options(_place: ByPath, question: Question, _rows: DataFrame | None) -> dict[str, str]:
    """Select the read options from the options stored in Spark's own catalog, which also holds table options."""
    return select_read_options(question["options"])


# Writes


def _is_there(place: ByPath) -> bool:
    return bool(open_metadata(place.options.place()).schema_ids())


def _select_sink_options(question: Question) -> dict[str, str]:
    """Return the options of a stream's writes, with the partition keys of a new table."""
    given, keys = dict(question["options"]), question["partitions"]
    if question["mode"] == COMPLETE and not any(name.lower() == OVERWRITE_MODE.lower() for name in given):
        given[OVERWRITE_MODE] = "static"
    return {**given, PARTITION.key: ",".join(keys)} if keys else given


def _save(place: ByPath, question: Question, rows: DataFrame | None) -> None:
    """Save rows in a DataFrame mode (in lower case); create the table if it does not exist."""
    assert rows is not None  # every write comes with rows
    given = question["options"]
    how = Writing(given, question["mode"], tuple(question["partitions"]), others=False)
    save_rows(rows, given, how, _set_for_writes(place, question))


def _set_for_writes(place: ByPath, question: Question) -> dict[str, str]:
    """Return the settings for writes. Raises as `ByPath.chosen` for settings of reads that choose no state."""
    place.chosen(question)
    return find_settings(place, question, question["options"])


def _insert(place: ByPath, question: Question, rows: DataFrame | None) -> None:
    """Add rows to an existing table, or replace all of its rows."""
    place.table()
    _save(place, question, rows)


def _check_sink(place: ByPath, question: Question, _rows: DataFrame | None = None) -> None:
    """Check the options of a stream's writes before the stream starts."""
    options = _select_sink_options(question)
    check_stream_sink({**_set_for_writes(place, question), **options})
    place.options.place()
    keys = place.table().primary_keys if _is_there(place) else options.get(PRIMARY_KEY.key)
    if question["mode"] == UPDATE and not keys:
        raise Unsupported(
            "outputMode('update') into a table without primary key", hint="its rows cannot be updated; use 'append'"
        )


def _write_batch(place: ByPath, question: Question, rows: DataFrame | None) -> bool:
    """Write a batch of a stream. Return False if it had been written before."""
    assert rows is not None  # every batch comes with rows
    options = _select_sink_options(question)
    user = Options(options).sink().commit_user or question["query"]
    batch = question["batch"]
    if _is_there(place) and is_committed(WriteTarget.of(place.table()._metadata, user), batch):
        return False
    numbered = {**options, "commit-user": user, "commit-identifier": str(batch)}
    mode = OVERWRITE if question["mode"] == COMPLETE else "append"
    save_rows(rows, numbered, Writing(numbered, mode, (), others=False), _set_for_writes(place, question))
    return True


Answer: TypeAlias = Callable[[ByPath, Question, Any], object]

ANSWERS: Mapping[str, Answer] = {
    **reads.SUMMARY_ANSWERS,
    "load": _load,
    "read": _read,
    "stream": _stream,
    "make": _make,
    "options of reads": _select_read_options,
    "save": _save,
    "insert": _insert,
    "check sink": _check_sink,
    "write batch": _write_batch,
    **writes.CHANGE_ANSWERS,
    "write": writes.write_table,
    **write_options.ANSWERS,
    "truncate": writes.truncate_table,
    "partitions": partitions.list_partition_rows,
    "drop partitions": partitions.drop_table_partitions,
    "truncate partitions": partitions.drop_table_partitions,
    "create partitions": partitions.check_added_partitions,
}
"""Answers by the verb of the question."""
