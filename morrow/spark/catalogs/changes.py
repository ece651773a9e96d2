"""Rows changed: DELETE, UPDATE and MERGE of the state that a statement has read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from morrow.engine.errors import CommitConflict, TableNotFound, Unsupported
from morrow.engine.plan.filter import NO_FILTER, Filter, parse_filter
from morrow.engine.plan.predicate import ALWAYS, Predicate, conjunction
from morrow.engine.plan.predicate import columns as columns_of
from morrow.spark.catalogs import described
from morrow.spark.catalogs.filters import predicates
from morrow.spark.catalogs.place import Place, Question
from morrow.spark.writing.changes import change
from morrow.writers.commit.premise import ADVICE, Premise
from morrow.writers.operations.delete import delete_matching, of_partitions
from morrow.writers.target import WriteTarget

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def derived(place: Place, question: Question, filters: Sequence[Sequence[Any]]) -> tuple[WriteTarget, Premise]:
    """Returns the table, and the premise that its rows are those that a statement has read by these filters.

    Raises:
        CommitConflict: the table has another schema since. TableNotFound: the catalog was given another warehouse.
        Unsupported: options of the table make queries read another state than the newest.
    """
    table = place.table(question["table"])
    path, request, is_set = described.unpacked(question["state"])
    target = WriteTarget.of(table._metadata)
    if path != table.path:
        raise TableNotFound(f"{path} is no longer {question['table']}")
    if request.schema != target.schema:
        raise CommitConflict(f"{target.where}: its schema was changed after its rows were read; {ADVICE}")
    if request.options.travel or is_set:
        raise Unsupported("changing rows of a table whose options name the state to read", where=target.where)
    predicate = conjunction(*predicates(filters, target.schema.by_name))
    if predicate == ALWAYS:
        return target, Premise(request.snapshot, NO_FILTER)
    return target, Premise(request.snapshot, Filter(predicate, (), columns_of(predicate), str(predicate)))


def _change(place: Place, question: Question, rows: DataFrame | None) -> None:
    assert rows is not None  # the changed ones
    target, premise = derived(place, question, question["filters"])
    change(rows, target, question["command"], premise)


def _predicate(target: WriteTarget, filters: Sequence[Sequence[Any]]) -> Predicate | None:
    """Returns the predicate that keeps the same rows as all of these filters; None when there is none."""
    found = [predicates([one], target.schema.by_name) for one in filters]
    return conjunction(*(part for parts in found for part in parts)) if all(found) else None


def _can_delete(place: Place, question: Question, _rows: DataFrame | None) -> bool:
    """Returns whether Morrow deletes without rows of Spark's: all rows, partitions, or rows of an append table."""
    target = WriteTarget.of(place.table(question["table"])._metadata)
    predicate = _predicate(target, question["filters"])
    if predicate is None:
        return False
    return (
        predicate == ALWAYS or not target.keyed or of_partitions(target, parse_filter(predicate, target.schema.fields))
    )


def _delete(place: Place, question: Question, _rows: DataFrame | None) -> None:
    table = place.table(question["table"])
    if not question["filters"]:
        table.truncate()
        return
    target = WriteTarget.of(table._metadata)
    predicate = _predicate(target, question["filters"])
    if predicate is None:
        raise CommitConflict(f"{target.where}: its schema was changed after the statement was planned; {ADVICE}")
    delete_matching(target, predicate)


ANSWERS = {"change": _change, "can delete": _can_delete, "delete": _delete}
