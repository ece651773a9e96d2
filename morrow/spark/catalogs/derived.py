"""Rows that a statement has derived from those of the table that it writes, as if no other commit came in between."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from morrow.engine.errors import CommitConflict, TableNotFound, Unsupported
from morrow.engine.plan.filter import NO_FILTER, Filter
from morrow.engine.plan.predicate import ALWAYS, conjunction
from morrow.engine.plan.predicate import columns as columns_of
from morrow.spark.catalogs import described
from morrow.spark.catalogs.chosen import CHANGING, check_unset
from morrow.spark.catalogs.place import Opens, Question
from morrow.spark.catalogs.write_options import settings_of_changes
from morrow.spark.types.told import predicates
from morrow.writers.commit.premise import ADVICE, Premise
from morrow.writers.operations.overriding import with_options
from morrow.writers.operations.retrying import retried
from morrow.writers.operations.serial import readable
from morrow.writers.target import WriteTarget

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DERIVATION = "Derivation"
"""The class of the JVM."""


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
        """What the rows of the table were read by; none stand for all rows."""
        found: Sequence[Sequence[Any]] = json.loads(self._java.filters())
        return found

    @property
    def is_repeatable(self) -> bool:
        return bool(self._java.isRepeatable())

    def repeat(self, found: dict[str, object]) -> None:
        """Derives the rows from the state that is described."""
        self._java.repeat(json.dumps(found))


def repeated(
    place: Opens, question: Question, rows: Derivation, write: Callable[[DataFrame, WriteTarget, Premise], object]
) -> None:
    """Writes rows, and derives them again for as long as others have changed first what they were derived from.

    Raises:
        CommitConflict: others were faster each time (``commit.max-retries``, ``commit.timeout``), or have changed the
            table's columns. Others: as `write`, and as `_premise`.
    """
    state, options = question["state"], settings_of_changes(place, question)
    check_unset(CHANGING, state, question["table"])
    first = WriteTarget.of(place.table(question["table"])._metadata)
    changed: list[CommitConflict] = []

    def attempt() -> None:
        nonlocal state
        if state is None:
            newest = _newest(place, question)
            if newest is None:
                changed.append(CommitConflict(f"{first.where}: its columns were changed meanwhile; {ADVICE}"))
                return
            rows.repeat(newest)
            state = newest["state"]
        target, premise = _premise(place, question["table"], str(state), rows.filters)
        try:
            write(rows.rows, with_options(target, options), premise)
        except CommitConflict:
            if rows.is_repeatable:
                state = None
            raise

    if not rows.is_repeatable:
        attempt()
        return
    retried(first, attempt)
    if changed:
        raise changed[0]


def _newest(place: Opens, question: Question) -> dict[str, object] | None:
    """Describes the newest state, after compacting rows that reads do not see yet; None where its columns differ."""
    name = question["table"]
    table = place.table(name)
    readable(WriteTarget.of(table._metadata))
    newest = described.of_table(table, table.scan(), name, writable=True)
    _, before, _ = described.unpacked(question["state"])
    _, now, _ = described.unpacked(str(newest["state"]))
    return newest if now.schema == before.schema else None


def _premise(place: Opens, name: str, state: str, filters: Sequence[Sequence[Any]]) -> tuple[WriteTarget, Premise]:
    """Returns the table, and the premise that its rows are those that a statement has read by these filters.

    Raises:
        CommitConflict: the table has another schema since. TableNotFound: the catalog was given another warehouse.
        Unsupported: options of the table make queries read another state than the newest.
    """
    table = place.table(name)
    path, request, _ = described.unpacked(state)
    target = WriteTarget.of(table._metadata)
    if path != table.path:
        raise TableNotFound(f"{path} is no longer {name}")
    if request.schema != target.schema:
        raise CommitConflict(f"{target.where}: its schema was changed after its rows were read; {ADVICE}")
    if request.options.travel:
        raise Unsupported("changing rows of a table whose options name the state to read", where=target.where)
    predicate = conjunction(*predicates(filters, target.schema.by_name))
    if predicate == ALWAYS:
        return target, Premise(request.snapshot, NO_FILTER)
    return target, Premise(request.snapshot, Filter(predicate, (), columns_of(predicate), str(predicate)))
