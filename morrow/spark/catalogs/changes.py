"""Rows changed: DELETE, UPDATE and MERGE of the state that a statement has read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from morrow.engine.errors import CommitConflict
from morrow.engine.plan.filter import parse_filter
from morrow.engine.plan.predicate import ALWAYS, Predicate, conjunction
from morrow.spark.catalogs.chosen import CHANGING, check_unset
from morrow.spark.catalogs.derived import Derivation, repeated
from morrow.spark.catalogs.place import Opens, Question
from morrow.spark.types.told import predicates
from morrow.spark.writing.changes import change
from morrow.writers.commit.premise import ADVICE, Premise
from morrow.writers.operations.delete import delete_matching, of_partitions
from morrow.writers.target import WriteTarget

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def _change(place: Opens, question: Question, rows: Derivation | None) -> None:
    assert rows is not None  # the changed ones
    repeated(place, question, rows, partial(_changed, question["command"]))


def _changed(command: str, rows: DataFrame, target: WriteTarget, premise: Premise) -> None:
    change(rows, target, command, premise)


def _predicate(target: WriteTarget, filters: Sequence[Sequence[Any]]) -> Predicate | None:
    """Returns the predicate that keeps the same rows as all of these filters; None when there is none."""
    found = [predicates([one], target.schema.by_name) for one in filters]
    return conjunction(*(part for parts in found for part in parts)) if all(found) else None


def _can_delete(place: Opens, question: Question, _rows: DataFrame | None) -> bool:
    """Returns whether Morrow deletes without rows of Spark's: all rows, partitions, or rows of an append table."""
    target = WriteTarget.of(place.table(question["table"])._metadata)
    predicate = _predicate(target, question["filters"])
    if predicate is None:
        return False
    return (
        predicate == ALWAYS or not target.keyed or of_partitions(target, parse_filter(predicate, target.schema.fields))
    )


def _check(_place: Opens, question: Question, _rows: DataFrame | None) -> None:
    """Refuses a change of rows before Spark makes its plan."""
    check_unset(CHANGING, question["state"], question["table"])


def _delete(place: Opens, question: Question, _rows: DataFrame | None) -> None:
    table = place.table(question["table"])
    check_unset(CHANGING, question.get("state"), table.path)
    if not question["filters"]:
        table.truncate()
        return
    target = WriteTarget.of(table._metadata)
    predicate = _predicate(target, question["filters"])
    if predicate is None:
        raise CommitConflict(f"{target.where}: its schema was changed after the statement was planned; {ADVICE}")
    delete_matching(target, predicate)


ANSWERS: Mapping[str, Callable[[Opens, Question, Any], object]] = {
    "change": _change,
    "check change": _check,
    "can delete": _can_delete,
    "delete": _delete,
}
