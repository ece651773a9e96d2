"""Folds the versions of all keys at once: one Polars expression per column takes the state and one more version.

A round's frame holds the state of its keys beside their next version. Columns that are only ever *picked* (overwritten,
kept, cleared) pass through the fold as row numbers, null where the value is null, and are gathered once at the end: so
text and nested values are copied once, and any type can be merged. Computed columns (sums, greatest values) pass
through as values.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import polars as pl

from morrow.engine.errors import Unsupported
from morrow.engine.format.row_kinds import DELETE, INSERT, RETRACT_BIT
from morrow.engine.format.schema import VALUE_KIND
from morrow.engine.format.types import DataField
from morrow.engine.merge.spec import ColumnMerge, MergeSpec
from morrow.engine.names import col, own
from morrow.readers.casts.dtypes import polars_dtype
from morrow.readers.merges.functions import Aggregator, NoResult, State, aggregator
from morrow.readers.merges.versions import Versions

ROW = pl.UInt32()
"""Dtype of row numbers that stand for picked values."""

NEWEST = own("newest")
"""Operand: the number of the version's row. State: that of the newest version that counts."""
RETRACTS = pl.col(own("retracts"))
"""Whether the version is a retraction (-U or -D)."""
DELETES = pl.col(own("deletes"))
"""Whether the version is a -D."""


def _acc(name: str) -> str:
    return own("acc", name)


def operand(name: str) -> str:
    """Returns the operand name of a column's value in the version."""
    return own("new", name)


def acc(name: str) -> pl.Expr:
    """Returns the state of a column before the version."""
    return col(_acc(name))


def new(name: str) -> pl.Expr:
    """Returns the value of a column in the version."""
    return col(operand(name))


@dataclass(frozen=True)
class FoldedColumn:
    """One column in the fold; without `function` the engine's own rule picks its value."""

    field: DataField
    merge: ColumnMerge
    function: Aggregator | None

    @property
    def name(self) -> str:
        return self.field.name

    @property
    def picks(self) -> bool:
        return self.function is None or self.function.picks

    @property
    def dtype(self) -> pl.DataType:
        return ROW if self.picks else polars_dtype(self.field.type)

    @property
    def retracts(self) -> bool:
        """Whether the function supports retractions."""
        return self.function is None or self.function.retract(self.state, new(self.name)) is not None

    @property
    def own_state(self) -> Mapping[str, tuple[pl.DataType, Any]]:
        """The function's extra state: dtype and first value by the name of the state column."""
        if self.function is None:
            return {}
        return {self._own(name): initial for name, initial in self.function.extra_state.items()}

    @property
    def state(self) -> State:
        """The function's state before the version."""
        extra = () if self.function is None else self.function.extra_state
        return {"value": acc(self.name), **{name: acc(self._own(name)) for name in extra}}

    def _own(self, state: str) -> str:
        """Returns the column name of the function's extra state `state`."""
        return own(repr(state), self.name)

    def named(self, state: State) -> Iterator[tuple[str, pl.Expr]]:
        """Yields the function's state after the version, by the names of the state's columns."""
        for name, expression in state.items():
            yield (self.name if name == "value" else self._own(name)), expression


@dataclass(frozen=True)
class Refusal:
    """An operation that versions must not perform, a hint, and its condition (a boolean expression)."""

    what: str
    hint: str
    happens: pl.Expr

    @classmethod
    def of_retraction(cls, column: FoldedColumn, happens: pl.Expr) -> Refusal:
        """Returns the refusal of a retraction for a column whose aggregate function does not support it."""
        hint = f"'fields.{column.name}.ignore-retract' = 'true' leaves such retractions out"
        return cls(f"a retraction of column {column.name!r} by its aggregate function", hint, happens)


class Fold(ABC):
    """A merge compiled for some columns. Subclasses define the effect of one more version on the state.

    Args:
        fields: the value columns to merge, in the order of the result.
        retracts: whether any version is a retraction; without, the expressions are much shorter.
    """

    def __init__(self, spec: MergeSpec, fields: Sequence[DataField], *, retracts: bool, where: str) -> None:
        self.spec = spec
        self.retracts = retracts
        self.where = where
        merges = {column.name: column for column in spec.columns}
        self.columns = tuple(
            FoldedColumn(field, merge, None if merge.call is None else aggregator(merge.call, field.type))
            for field in fields
            if (merge := merges[field.name])
        )

    # --- defined by engines ---

    @abstractmethod
    def flags(self) -> list[pl.Expr]:
        """Returns columns that the steps share, computed before them from the round's frame."""

    @abstractmethod
    def steps(self) -> Mapping[str, pl.Expr]:
        """Returns every state column after the version."""

    def refusals(self) -> Sequence[Refusal]:
        """Returns the refusals: operations that versions must not perform."""
        return ()

    def state(self, operands: pl.Schema) -> Mapping[str, tuple[pl.DataType, Any]]:  # noqa: ARG002
        """Returns the engine's own state: dtype and first value by name; `operands` are the columns of a version."""
        return {}

    def operands(self, rows: pl.DataFrame) -> Mapping[str, pl.Series]:  # noqa: ARG002
        """Returns the engine's inputs from the rows besides their values and kinds, by name."""
        return {}

    def deleted(self) -> pl.Expr | None:
        """Returns, for the last state, whether the key has no row. None: every key has one."""
        return None

    @cached_property
    def followed(self) -> Mapping[str, str]:
        """Columns without a state of their own: each picks the row whose number is in the state that is named."""
        return {}

    # --- execution ---

    @cached_property
    def own_columns(self) -> tuple[FoldedColumn, ...]:
        """The columns with a state of their own."""
        return tuple(column for column in self.columns if column.name not in self.followed)

    def run(self, rows: pl.DataFrame, versions: Versions) -> pl.DataFrame:
        """Merges to one complete row per key of `versions` with all columns of `rows`, keys in no particular order.

        Key columns and ``_SEQUENCE_NUMBER`` are those of the newest version that counts.
        """
        rounds = versions.rounds
        lined_up = self._operands(rows, pl.Series(rounds.rows, dtype=ROW))
        try:
            state = self._first_state(rounds.keys, lined_up.schema)
            return self._result(rows, rounds.run(lined_up, state, self._step))
        except NoResult as error:
            raise NoResult(f"{self.where}: {error.feature}") from error

    def _operands(self, rows: pl.DataFrame, numbers: pl.Series) -> pl.DataFrame:
        """Returns the inputs of the steps for the rows `numbers`."""
        expressions = []
        for column in self.own_columns:
            value = col(column.name)
            if not column.picks:
                expressions.append(value.gather(numbers).alias(operand(column.name)))
            elif rows[column.name].null_count():
                # Nulls are looked up in a bit mask, which stays in the processor's cache.
                there = value.is_not_null().gather(numbers)
                expressions.append(pl.when(there).then(pl.lit(numbers)).alias(operand(column.name)))
            else:
                expressions.append(pl.lit(numbers).alias(operand(column.name)))
        if self.retracts:
            kind = pl.col(VALUE_KIND).gather(numbers)
            expressions.append(((kind & RETRACT_BIT) != 0).alias(own("retracts")))
            expressions.append((kind == DELETE).alias(own("deletes")))
        for name, values in self.operands(rows).items():
            expressions.append(pl.lit(values).gather(numbers).alias(operand(name)))
        return rows.select(*expressions, pl.lit(numbers).alias(operand(NEWEST)))

    def _first_state(self, keys: int, operands: pl.Schema) -> pl.DataFrame:
        initial: dict[str, tuple[pl.DataType, Any]] = {NEWEST: (ROW, None), **self.state(operands)}
        for column in self.own_columns:
            initial[column.name] = (column.dtype, None)
            initial.update(column.own_state)
        return pl.select(
            pl.repeat(value, keys, dtype=dtype).alias(_acc(name)) for name, (dtype, value) in initial.items()
        )

    @cached_property
    def _compiled(self) -> tuple[list[pl.Expr], list[pl.Expr], Sequence[Refusal]]:
        steps = [expression.alias(_acc(name)) for name, expression in self.steps().items()]
        return self.flags(), steps, self.refusals()

    def _step(self, state: pl.DataFrame, version: pl.DataFrame) -> pl.DataFrame:
        flags, steps, refusals = self._compiled
        frame = pl.concat([state, version], how="horizontal").with_columns(flags)
        for refusal in refusals:
            if frame.select(refusal.happens.any()).item():
                raise Unsupported(refusal.what, where=self.where, hint=refusal.hint)
        return frame.select(steps)

    def _result(self, rows: pl.DataFrame, state: pl.DataFrame) -> pl.DataFrame:
        deleted = self.deleted() if self.retracts else None
        gone = pl.lit(False) if deleted is None else deleted
        finished = state.with_columns(self._finished(gone)).with_columns(
            pl.when(gone).then(DELETE).otherwise(INSERT).cast(pl.Int8).alias(VALUE_KIND)
        )
        merged = {column.name: column for column in self.columns}
        result = [self._value(finished, name, merged.get(name)) for name in rows.columns if name != VALUE_KIND]
        return rows.select(*result, pl.lit(finished[VALUE_KIND]).alias(VALUE_KIND))

    def _finished(self, gone: pl.Expr) -> Iterator[pl.Expr]:
        """Applies `finish` of the functions; deleted rows keep the values of their deletion."""
        for column in self.columns:
            if column.function is not None and not column.picks:
                value = acc(column.name)
                finished = column.function.finish(pl.when(~gone).then(value))
                yield pl.when(gone).then(value).otherwise(finished).alias(_acc(column.name))

    def _value(self, state: pl.DataFrame, name: str, column: FoldedColumn | None) -> pl.Expr:
        if column is None:
            return col(name).gather(state[_acc(NEWEST)])
        folded = state[_acc(self.followed.get(name, name))]
        return col(name).gather(folded) if column.picks else pl.lit(folded).alias(name)
