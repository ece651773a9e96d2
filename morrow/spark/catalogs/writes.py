"""Writes and changes of rows: INSERT, OVERWRITE, TRUNCATE, DELETE, UPDATE, MERGE, and the equivalent DataFrame calls.

Spark derives changed rows from the state that a statement has read. If another commit comes first, Spark derives
them again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from morrow.engine.errors import CommitConflict, InvalidArgument, TableNotFound, Unsupported
from morrow.engine.format.paths import normalize_path
from morrow.engine.format.types import DataField
from morrow.engine.options.declared.table import PATH
from morrow.engine.plan.filter import NO_FILTER, Filter, parse_filter
from morrow.engine.plan.predicate import ALWAYS, Predicate, combine_predicates, find_columns
from morrow.spark.catalogs import descriptions
from morrow.spark.catalogs.options import CHANGING, check_unset, find_change_settings, parse_sink
from morrow.spark.catalogs.questions import Place, Question, TableOpener
from morrow.spark.catalogs.reads import format_table, is_of_folder
from morrow.spark.expressions import parse_column, parse_partition_value, parse_predicates
from morrow.spark.format_tables import write as write_folder
from morrow.spark.types import to_paimon_fields
from morrow.spark.writing.assignments import resolve_columns
from morrow.spark.writing.changes import change, insert
from morrow.spark.writing.schema_evolution import Evolution, extend_schema, find_changes
from morrow.spark.writing.write import is_case_sensitive, match_case, name_by_position
from morrow.spark.writing.write import write as write_rows
from morrow.tables.format_table import WITHOUT_SNAPSHOTS
from morrow.writers.commit.commit_lock import retry_on_conflict
from morrow.writers.commit.premise import ADVICE, Premise
from morrow.writers.operations.erasure import delete_by_rewriting
from morrow.writers.operations.format_table import Replacement, delete_partition_files, ensure_partition, plan_replace
from morrow.writers.operations.update import delete_matching, is_of_partitions, needs_rewriting
from morrow.writers.operations.write_session import find_readable_snapshot
from morrow.writers.target import WriteTarget, override_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def _write(place: Place, question: Question, rows: DataFrame | Derivation | None) -> None:
    assert rows is not None  # every write comes with rows
    if is_of_folder(question):
        _write_files(place, question, rows)
    else:
        write_table(place, question, rows)


def write_table(place: TableOpener, question: Question, rows: DataFrame | Derivation) -> None:
    """Write rows. ``mode`` is append, overwrite (of ``partition``, or of the whole table if empty), or dynamic."""
    table = place.table(question["table"])
    if isinstance(rows, Derivation):
        retry_write(place, question, rows, insert)
        return
    sink = parse_sink(place, question, overwrite=question["mode"] != "append")
    if question.get("takes") == "position":
        rows = name_by_position(rows, table._newest, table.path)
    arguments: dict[str, Any] = {}
    if "condition" in question:
        arguments = {"replace_where": _parse_condition(question["condition"], table._newest.fields, table.path)}
    elif question["mode"] != "append":
        arguments = {"partition": _partition(question["partition"]), "dynamic": question["mode"] == "dynamic"}
    write_rows(
        rows,
        table,
        "append" if question["mode"] == "append" else "overwrite",
        kinds=sink.kinds,
        merge_schema=sink.evolution or False,
        options=sink.table,
        commit_user=sink.commit_user,
        commit_identifier=sink.commit_identifier,
        **arguments,
    )


def _write_files(place: Place, question: Question, rows: DataFrame | Derivation) -> None:
    """Write rows to a format table; an overwrite replaces whole partitions."""
    table = format_table(place, question)
    if isinstance(rows, Derivation):
        raise Unsupported("MERGE INTO a format table", where=table.path, hint=WITHOUT_SNAPSHOTS)
    given = (key for key, value in question["options"].items() if not _is_path_of(table.path, key, value))
    if (other := min(given, default=None)) is not None:
        raise Unsupported(f"the option {other!r} of a write to a format table", where=table.path)
    replaced = None
    if "condition" in question:
        condition = _parse_condition(question["condition"], table.fields, table.path)
        about = find_columns(condition)
        if others := about - set(table.partition_keys):
            raise InvalidArgument(f"{table.path}: {min(others)!r} is not a partition column; overwrite partitions")
        replaced = Replacement(Filter(condition, (), about, str(condition)))
    elif question["mode"] != "append":
        dynamic = question["mode"] == "dynamic"
        replaced = plan_replace(table._table, _partition(question["partition"]), None, dynamic=dynamic)
    write_folder(table._table, rows, replaced)
    fixed = _partition(question["partition"]) if replaced is not None and "condition" not in question else {}
    if fixed and {*fixed} == {*table.partition_keys}:  # there is a partition even without rows
        ensure_partition(table._table, fixed)


def _is_path_of(path: str, key: str, value: str) -> bool:
    """Return whether an option of a write names the path of the table, as ``saveAsTable`` of external tables does."""
    return key.lower() == PATH.key and normalize_path(value) == path


def _parse_condition(told: Sequence[Sequence[Any] | None], fields: Sequence[DataField], where: str) -> Predicate:
    """Return the predicate of an overwrite. Raises `Unsupported` if a part of the condition cannot be translated."""
    known = {field.name: field for field in fields}
    found = [parse_predicates([] if one is None else [one], known) for one in told]
    if not all(found):
        raise Unsupported("to overwrite by this condition", where=where, hint="compare partition columns with values")
    return combine_predicates(*(part for parts in found for part in parts))


def _partition(told: dict[str, list[str]]) -> dict[str, object]:
    """Return values of partition columns by their names."""
    return {parse_column(name): parse_partition_value(value) for name, value in told.items()}


def _truncate(place: Place, question: Question, _rows: DataFrame | None) -> None:
    if is_of_folder(question):
        delete_partition_files(format_table(place, question)._table, None)
        return
    truncate_table(place, question)


def truncate_table(place: TableOpener, question: Question, _rows: DataFrame | None = None) -> None:
    place.table(question["table"]).truncate()


def _evolve(place: TableOpener, question: Question, _rows: DataFrame | None) -> None:
    """Change the table's columns to fit those that a MERGE assigns, as session settings allow.

    Raises `Unsupported`: the statement is only explained, and would change columns. Others: as `extend_schema`.
    """
    from pyspark.sql.types import StructType

    table = place.table(question["table"])
    columns = StructType.fromJson(json.loads(question["columns"]))
    if not is_case_sensitive(place.spark):
        columns = match_case(columns, table._newest)
    fields, how = to_paimon_fields(columns), parse_sink(place, question).evolution or Evolution()
    if question["explained"] and find_changes(table._metadata, fields, how):
        raise Unsupported("EXPLAIN of a MERGE that would change the table's columns", where=table.path, hint="run it")
    extend_schema(table._metadata, fields, how)


WRITE_ANSWERS = {"write": _write, "truncate": _truncate, "evolve": _evolve}


def _change(place: TableOpener, question: Question, rows: Derivation | None) -> None:
    assert rows is not None  # the changed rows
    retry_write(place, question, rows, partial(_apply_change, question["command"], question["assigned"]))


def _apply_change(
    command: str, assigned: Sequence[str] | None, rows: DataFrame, target: WriteTarget, premise: Premise
) -> None:
    columns = None if assigned is None else resolve_columns(dict.fromkeys(assigned), target, rows.sparkSession)
    change(rows, target, command, premise, columns=columns)


def _combine_filters(target: WriteTarget, filters: Sequence[Sequence[Any]]) -> Predicate | None:
    """Return a predicate equivalent to all of these filters together; None if there is none."""
    found = [parse_predicates([one], target.schema.by_name) for one in filters]
    return combine_predicates(*(part for parts in found for part in parts)) if all(found) else None


def _open_changed(place: TableOpener, question: Question) -> WriteTarget:
    """Return the table of a DELETE with the options that session settings give."""
    target = WriteTarget.of(place.table(question["table"])._metadata)
    return override_options(target, find_change_settings(place, question))


def _is_deletable(place: TableOpener, question: Question, _rows: DataFrame | None) -> bool:
    """Return whether Morrow can delete without rows from Spark: all rows, partitions, or rows of an append table."""
    target = _open_changed(place, question)
    predicate = _combine_filters(target, question["filters"])
    if predicate is None:
        return False
    return (
        predicate == ALWAYS
        or not target.keyed
        or needs_rewriting(target)
        or is_of_partitions(target, parse_filter(predicate, target.schema.fields))
    )


def _check(_place: TableOpener, question: Question, _rows: DataFrame | None) -> None:
    """Refuse an unsupported change of rows before Spark plans it."""
    check_unset(CHANGING, question["state"], question["table"])


def _delete(place: TableOpener, question: Question, _rows: DataFrame | None) -> None:
    table = place.table(question["table"])
    check_unset(CHANGING, question.get("state"), table.path)
    if not question["filters"]:
        table.truncate()
        return
    target = _open_changed(place, question)
    predicate = _combine_filters(target, question["filters"])
    if predicate is None:
        raise CommitConflict(f"{target.where}: its schema was changed after the statement was planned; {ADVICE}")
    filter = parse_filter(predicate, target.schema.fields)
    if needs_rewriting(target) and not is_of_partitions(target, filter):
        delete_by_rewriting(target, filter)
    else:
        delete_matching(target, predicate)


CHANGE_ANSWERS: Mapping[str, Callable[[TableOpener, Question, Any], object]] = {
    "change": _change,
    "check change": _check,
    "can delete": _is_deletable,
    "delete": _delete,
}

DERIVATION = "Derivation"
"""The name of the Java class."""


class Derivation:
    """Rows of the JVM's `Derivation`, which can be derived again from a newer state of the table."""

    def __init__(self, java: Any, spark: SparkSession) -> None:
        self._java, self._spark = java, spark

    @property
    def rows(self) -> DataFrame:
        from pyspark.sql import DataFrame

        return DataFrame(self._java.rows(), self._spark)

    @property
    def filters(self) -> Sequence[Sequence[Any]]:
        """The filters by which the table's rows were read; without filters, all rows were read."""
        found: Sequence[Sequence[Any]] = json.loads(self._java.filters())
        return found

    @property
    def is_repeatable(self) -> bool:
        return bool(self._java.isRepeatable())

    def repeat(self, found: dict[str, object]) -> None:
        """Derive the rows again from the described state."""
        self._java.repeat(json.dumps(found))


def retry_write(
    place: TableOpener, question: Question, rows: Derivation, write: Callable[[DataFrame, WriteTarget, Premise], object]
) -> None:
    """Write rows. While other commits have changed the rows that these were derived from, derive them again.

    Raises:
        CommitConflict: others committed first each time (``commit.max-retries``, ``commit.timeout``), or changed the
            table's columns. Others: as `write`, and as `_build_premise`.
    """
    state, options = question["state"], find_change_settings(place, question)
    check_unset(CHANGING, state, question["table"])
    first = WriteTarget.of(place.table(question["table"])._metadata)
    changed: list[CommitConflict] = []

    def attempt() -> None:
        nonlocal state
        if state is None:
            newest = _describe_newest(place, question)
            if newest is None:
                changed.append(CommitConflict(f"{first.where}: its columns were changed meanwhile; {ADVICE}"))
                return
            rows.repeat(newest)
            state = newest["state"]
        target, premise = _build_premise(place, question["table"], str(state), rows.filters)
        try:
            write(rows.rows, override_options(target, options), premise)
        except CommitConflict:
            if rows.is_repeatable:
                state = None
            raise

    if not rows.is_repeatable:
        attempt()
        return
    retry_on_conflict(first, attempt)
    if changed:
        raise changed[0]


def _describe_newest(place: TableOpener, question: Question) -> dict[str, object] | None:
    """Describe the newest state, after compacting rows that reads do not see yet; None if its columns differ."""
    name = question["table"]
    table = place.table(name)
    find_readable_snapshot(WriteTarget.of(table._metadata))
    newest = descriptions.describe_table(table, table.scan(), name, writable=True)
    _, before, _ = descriptions.unpack_state(question["state"])
    _, now, _ = descriptions.unpack_state(str(newest["state"]))
    return newest if now.schema == before.schema else None


def _build_premise(
    place: TableOpener, name: str, state: str, filters: Sequence[Sequence[Any]]
) -> tuple[WriteTarget, Premise]:
    """Return the table, and the premise: the rows that a statement has read by these filters are unchanged.

    Raises:
        CommitConflict: the table's schema has changed. TableNotFound: the catalog now has another warehouse.
        Unsupported: the table's options make queries read a state other than the newest.
    """
    table = place.table(name)
    path, request, _ = descriptions.unpack_state(state)
    target = WriteTarget.of(table._metadata)
    if path != table.path:
        raise TableNotFound(f"{path} is no longer {name}")
    if request.schema != target.schema:
        raise CommitConflict(f"{target.where}: its schema was changed after its rows were read; {ADVICE}")
    if request.options.travel:
        raise Unsupported("changing rows of a table whose options name the state to read", where=target.where)
    predicate = combine_predicates(*parse_predicates(filters, target.schema.by_name))
    if predicate == ALWAYS:
        return target, Premise(request.snapshot, NO_FILTER)
    return target, Premise(request.snapshot, Filter.of_predicate(predicate))
