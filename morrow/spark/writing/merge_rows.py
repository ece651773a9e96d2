"""The rows of a MERGE: pairs that Spark joins, clause by clause, and the changes that come of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from morrow.engine.errors import ColumnNotFound, InvalidArgument
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.names import KIND, OWN_PREFIX, SPARKS_OLD_KEY, own
from morrow.spark.reading.distributed import to_dataframe
from morrow.spark.reading.expressions import quoted
from morrow.spark.writing.assigning import assigned
from morrow.spark.writing.changes import DELETED, INSERTED, UPDATED, change, insert
from morrow.spark.writing.write import is_case_sensitive
from morrow.writers.commit.premise import Premise
from morrow.writers.operations.merge_clauses import (
    DELETE,
    INSERT,
    MATCHED,
    SOURCE,
    TARGET,
    UNMATCHED,
    UNMATCHED_BY_SOURCE,
    UPDATE,
)
from morrow.writers.operations.scanning import plan_where
from morrow.writers.target import WriteTarget

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

HERE, THERE = own("in_source"), own("in_target")
"""Columns that are true in rows of the source, and of the table; null in those of a join without a match."""
CLAUSE, PAIR = own("clause"), own("pair")
OPERATIONS: Mapping[str, int] = {DELETE: DELETED, UPDATE: UPDATED, INSERT: INSERTED}
JOINS: Mapping[tuple[bool, bool], str] = {
    (False, False): "inner",
    (True, False): "right",
    (False, True): "left",
    (True, True): "full",
}
"""By whether rows of the source, and rows of the table, are wanted that have no match; the table is on the left."""


@dataclass(frozen=True)
class Step:
    """A clause, with the value of each column that it sets."""

    when: str
    action: str
    condition: Column | None
    values: Mapping[str, Column]


@dataclass(frozen=True)
class Prepared:
    """A merge that is checked."""

    target: WriteTarget
    source: DataFrame
    on: tuple[str, ...] | Column
    steps: tuple[Step, ...]
    properties: Mapping[str, str]

    def attempt(self, premise: Premise) -> Snapshot | None:
        rows = _decided(self, premise)
        names = list(self.target.schema.by_name)
        if all(step.action == INSERT for step in self.steps):
            return insert(rows.select(*map(quoted, names)), self.target, premise, self.properties)
        return change(rows, self.target, "MERGE", premise, self.properties)


def _decided(merge: Prepared, premise: Premise) -> DataFrame:
    """Returns the changed rows as `change` takes them: the operation, the columns of the table, the old key."""
    from pyspark.sql import functions

    fields = merge.target.schema.by_name
    rows = _joined(merge, premise)
    for when, visible in _VISIBLE.items():
        steps = {number: step for number, step in enumerate(merge.steps) if step.when == when}
        if steps:
            rows = _valued(visible(rows, merge.target), when, steps)
    rows = _changed(rows, merge)
    values = {_value(number, n): fields[n] for number, step in enumerate(merge.steps) for n in step.values}
    rows = assigned(rows, values, [CLAUSE, *map(_old, fields)])
    operation = functions.lit(None).cast("int")
    columns = {name: functions.col(quoted(_old(name))) for name in fields}
    for number, step in enumerate(merge.steps):
        applies = functions.col(CLAUSE) == number
        operation = functions.when(applies, OPERATIONS[step.action]).otherwise(operation)
        for name in step.values:
            columns[name] = functions.when(applies, functions.col(quoted(_value(number, name)))).otherwise(
                columns[name]
            )
    return rows.select(
        operation.alias(KIND),
        *(column.alias(name) for name, column in columns.items()),
        *(functions.col(quoted(_old(name))).alias(f"{SPARKS_OLD_KEY}{name}") for name in merge.target.schema.row_keys),
    )


def _old(column: str) -> str:
    """Returns the name of a copy of a column of the table, which all expressions are spared."""
    return own("old", column)


def _value(clause: int, column: str) -> str:
    return own("set", clause, column)


def _clause(when: str) -> str:
    """Returns the name of the column with the clause of this kind that applies."""
    return own("clause", when)


def _joined(merge: Prepared, premise: Premise) -> DataFrame:
    """Returns the pairs of rows, and the rows of either side without a match for which there is a clause."""
    from pyspark.sql import functions

    target = merge.target
    stored = to_dataframe(plan_where(target, premise.read, premise.filter), target.store, merge.source.sparkSession)
    left = stored.withColumn(THERE, functions.lit(True)).alias(TARGET)
    right = merge.source.withColumn(HERE, functions.lit(True)).alias(SOURCE)
    if isinstance(merge.on, tuple):
        there = sources_of(merge.source, merge.on)
        equal = [side(TARGET, name) == side(SOURCE, there[name]) for name in merge.on]
        on = reduce(lambda one, other: one & other, equal)
    else:
        on = merge.on
    whens = {step.when for step in merge.steps}
    pairs = left.join(right, on, JOINS[UNMATCHED in whens, UNMATCHED_BY_SOURCE in whens])
    return pairs.select("*", *(side(TARGET, name).alias(_old(name)) for name in target.schema.by_name))


# The columns that expressions can read: those of the sides that a clause has rows of, and none of Morrow's own.


def _both(rows: DataFrame, _target: WriteTarget) -> DataFrame:
    return rows


def _source_alone(rows: DataFrame, _target: WriteTarget) -> DataFrame:
    return rows.select(f"{SOURCE}.*", *(quoted(name) for name in _own(rows) if name != HERE))


def _target_alone(rows: DataFrame, target: WriteTarget) -> DataFrame:
    from pyspark.sql import functions

    columns = (functions.col(quoted(_old(name))).alias(name) for name in target.schema.by_name)
    return rows.select(*columns, *map(quoted, _own(rows))).alias(TARGET)


_VISIBLE = {MATCHED: _both, UNMATCHED: _source_alone, UNMATCHED_BY_SOURCE: _target_alone}
"""By the kind of a clause. In this order: what is hidden once stays so."""


def _own(rows: DataFrame) -> list[str]:
    return [name for name in rows.columns if name.startswith(OWN_PREFIX)]


def _valued(rows: DataFrame, when: str, steps: Mapping[int, Step]) -> DataFrame:
    """Adds the number of the first of these clauses that applies, and its values: no others are computed."""
    from pyspark.sql import functions

    here, there = functions.col(HERE).isNotNull(), functions.col(THERE).isNotNull()
    concerned = {MATCHED: here & there, UNMATCHED: here & ~there, UNMATCHED_BY_SOURCE: there & ~here}[when]
    chosen = functions.lit(None).cast("int")
    for number, step in reversed(list(steps.items())):
        applies = functions.lit(True) if step.condition is None else step.condition
        chosen = functions.when(applies, number).otherwise(chosen)
    rows = rows.select("*", functions.when(concerned, chosen).alias(_clause(when)))
    mine = functions.col(quoted(_clause(when)))
    return rows.select(
        "*",
        *(
            functions.when(mine == number, value).alias(_value(number, name))
            for number, step in steps.items()
            for name, value in step.values.items()
        ),
    )


def _changed(rows: DataFrame, merge: Prepared) -> DataFrame:
    """Returns the rows that a clause applies to, with its number as `CLAUSE`, and columns of Morrow's own alone."""
    from pyspark.sql import Window, functions

    columns = [functions.col(quoted(name)) for name in _own(rows)]
    whens = dict.fromkeys(step.when for step in merge.steps)
    clause = functions.coalesce(*(functions.col(quoted(_clause(when))) for when in whens))
    rows = rows.select(*columns, clause.alias(CLAUSE))
    applies = functions.col(CLAUSE).isNotNull()
    if not _may_match_twice(merge):
        return rows.where(applies)
    pair = functions.col(HERE) & functions.col(THERE)
    # Rows without a match are no group: each has a number of its own.
    number = functions.when(functions.coalesce(pair, functions.lit(False)), None)
    rows = rows.select("*", number.otherwise(functions.monotonically_increasing_id()).alias(PAIR)).where(pair | applies)
    keys = [functions.col(quoted(_old(name))) for name in merge.target.schema.row_keys]
    several = functions.count(functions.lit(1)).over(Window.partitionBy(*keys, PAIR)) > 1
    failed = functions.raise_error(functions.lit(_twice(merge.target)))
    clause = functions.when(several, failed.cast("int")).otherwise(functions.col(CLAUSE))
    rows = rows.select(*(functions.col(quoted(n)) for n in _own(rows) if n not in (CLAUSE, PAIR)), clause.alias(CLAUSE))
    return rows.where(applies)


def _may_match_twice(merge: Prepared) -> bool:
    """Returns whether several source rows may match a row: they may where it is deleted in any case."""
    matched = [step for step in merge.steps if step.when == MATCHED]
    return bool(matched) and (matched[0].action != DELETE or matched[0].condition is not None)


def _twice(target: WriteTarget) -> str:
    return (
        f"InvalidArgument: {target.where}: merge: several rows of the source match one row of the table; make the "
        "source unique in what it is matched on"
    )


def sources_of(source: DataFrame, names: Sequence[str]) -> dict[str, str]:
    """Returns the columns of the source that have these names. Raises `ColumnNotFound`, `InvalidArgument`."""
    folds = not is_case_sensitive(source.sparkSession)
    found: dict[str, str] = {}
    for name in names:
        same = [c for c in source.columns if c == name or (folds and c.casefold() == name.casefold())]
        if not same:
            raise ColumnNotFound(f"merge on {name!r}: the source has only {', '.join(source.columns)}")
        if len(same) > 1:
            raise InvalidArgument(f"merge: the source has several columns {name!r}")
        found[name] = same[0]
    return found


def side(side: str, name: str) -> Column:
    from pyspark.sql import functions

    return functions.col(f"{side}.{quoted(name)}")
