"""Rows written: INSERT INTO and OVERWRITE, TRUNCATE, and the DataFrame calls that come to the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from morrow.engine.errors import Unsupported
from morrow.engine.plan.predicate import Predicate, conjunction
from morrow.spark.catalogs.derived import Derivation, repeated
from morrow.spark.catalogs.place import Place, Question
from morrow.spark.source.option_names import MERGE_SCHEMA
from morrow.spark.source.option_values import SinkOptions
from morrow.spark.source.options import Options
from morrow.spark.types.told import predicates
from morrow.spark.writing.changes import insert
from morrow.spark.writing.write import write as write_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from morrow.table import Table


def _write(place: Place, question: Question, rows: DataFrame | Derivation | None) -> None:
    """Writes rows; ``mode`` is append, overwrite (of ``partition``, all where it is empty), or dynamic."""
    assert rows is not None  # every write has some
    table = place.table(question["table"])
    sink = sink_of(question["options"])
    if sink.evolution is not None:
        raise Unsupported(f"the option {MERGE_SCHEMA!r} of a write by name", hint="add the columns by ALTER TABLE")
    if isinstance(rows, Derivation):
        repeated(place, question, rows, insert)
        return
    arguments: dict[str, Any] = {}
    if "condition" in question:
        arguments = {"replace_where": _condition(table, question["condition"])}
    elif question["mode"] != "append":
        arguments = {"partition": _partition(question["partition"]), "dynamic": question["mode"] == "dynamic"}
    write_rows(
        rows,
        table,
        "append" if question["mode"] == "append" else "overwrite",
        kinds=sink.kinds,
        commit_user=sink.commit_user,
        commit_identifier=sink.commit_identifier,
        **arguments,
    )


def sink_of(given: Mapping[str, str]) -> SinkOptions:
    """Returns the options of a write. Raises `Unsupported` for those that concern the table."""
    sink = Options(given).sink()
    if sink.table:
        raise Unsupported(
            f"the option {next(iter(sink.table))!r} of a write", hint="set options of a table by ALTER TABLE"
        )
    if sink.replace_where is not None:
        raise Unsupported("replaceWhere of a write by name", hint="use writeTo(...).overwrite(condition)")
    if sink.dynamic_overwrite is not None:
        raise Unsupported("partitionOverwriteMode as an option", hint="SET spark.sql.sources.partitionOverwriteMode")
    return sink


def _condition(table: Table, told: Sequence[Sequence[Any] | None]) -> Predicate:
    """Returns the predicate that an overwrite keeps to. Raises `Unsupported` where a part of it cannot be told."""
    known = {field.name: field for field in table._newest.fields}
    found = [predicates([] if one is None else [one], known) for one in told]
    if not all(found):
        raise Unsupported(
            "to overwrite by this condition", where=table.path, hint="compare partition columns with values"
        )
    return conjunction(*(part for parts in found for part in parts))


def _partition(told: dict[str, list[str]]) -> dict[str, str | None]:
    """Returns values of partition columns as text, which is parsed as their types."""
    return {name: None if value[0] == "null" else value[1] for name, value in told.items()}


def _truncate(place: Place, question: Question, _rows: DataFrame | None) -> None:
    place.table(question["table"]).truncate()


ANSWERS = {"write": _write, "truncate": _truncate}
