"""Rows written: INSERT INTO and OVERWRITE, TRUNCATE, and the DataFrame calls that come to the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.format.types import DataField
from morrow.engine.plan.filter import Filter
from morrow.engine.plan.predicate import Predicate, conjunction
from morrow.engine.plan.predicate import columns as columns_of
from morrow.spark.catalogs.derived import Derivation, repeated
from morrow.spark.catalogs.place import Opens, Place, Question
from morrow.spark.catalogs.read import format_table, is_of_folder
from morrow.spark.catalogs.write_options import sink_of
from morrow.spark.format_tables.writing import write as write_folder
from morrow.spark.types.told import column_of, partition_value_of, predicates
from morrow.spark.writing.changes import insert
from morrow.spark.writing.write import by_position
from morrow.spark.writing.write import write as write_rows
from morrow.tables.format_table import WITHOUT_SNAPSHOTS
from morrow.writers.operations.format_table import Replaced, empty_partitions, replacing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def _write(place: Place, question: Question, rows: DataFrame | Derivation | None) -> None:
    assert rows is not None  # every write has some
    if is_of_folder(question):
        _write_files(place, question, rows)
    else:
        write_table(place, question, rows)


def write_table(place: Opens, question: Question, rows: DataFrame | Derivation) -> None:
    """Writes rows; ``mode`` is append, overwrite (of ``partition``, all where it is empty), or dynamic."""
    table = place.table(question["table"])
    if isinstance(rows, Derivation):
        repeated(place, question, rows, insert)
        return
    sink = sink_of(place, question, overwrite=question["mode"] != "append")
    if question.get("takes") == "position":
        rows = by_position(rows, table._newest, table.path)
    arguments: dict[str, Any] = {}
    if "condition" in question:
        arguments = {"replace_where": _condition(question["condition"], table._newest.fields, table.path)}
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
    """Writes rows to a format table; overwrites replace whole partitions."""
    table = format_table(place, question)
    if isinstance(rows, Derivation):
        raise Unsupported("MERGE INTO a format table", where=table.path, hint=WITHOUT_SNAPSHOTS)
    if question["options"]:
        raise Unsupported(f"the option {min(question['options'])!r} of a write to a format table", where=table.path)
    replaced = None
    if "condition" in question:
        condition = _condition(question["condition"], table.fields, table.path)
        about = columns_of(condition)
        if others := about - set(table.partition_keys):
            raise InvalidArgument(f"{table.path}: {min(others)!r} is no partition column; overwrites are of partitions")
        replaced = Replaced(Filter(condition, (), about, str(condition)))
    elif question["mode"] != "append":
        dynamic = question["mode"] == "dynamic"
        replaced = replacing(table._table, _partition(question["partition"]), None, dynamic=dynamic)
    write_folder(table._table, rows, replaced)


def _condition(told: Sequence[Sequence[Any] | None], fields: Sequence[DataField], where: str) -> Predicate:
    """Returns the predicate that an overwrite keeps to. Raises `Unsupported` where a part of it cannot be told."""
    known = {field.name: field for field in fields}
    found = [predicates([] if one is None else [one], known) for one in told]
    if not all(found):
        raise Unsupported("to overwrite by this condition", where=where, hint="compare partition columns with values")
    return conjunction(*(part for parts in found for part in parts))


def _partition(told: dict[str, list[str]]) -> dict[str, object]:
    """Returns values of partition columns by their names."""
    return {column_of(name): partition_value_of(value) for name, value in told.items()}


def _truncate(place: Place, question: Question, _rows: DataFrame | None) -> None:
    if is_of_folder(question):
        empty_partitions(format_table(place, question)._table, None)
        return
    truncate_table(place, question)


def truncate_table(place: Opens, question: Question, _rows: DataFrame | None = None) -> None:
    place.table(question["table"]).truncate()


ANSWERS = {"write": _write, "truncate": _truncate}
