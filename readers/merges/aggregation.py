"""The steps of aggregation: every column has a function, which adds inserts and reverses retractions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import polars as pl

from morrow.engine.merge.spec import OnDelete
from morrow.engine.names import own
from morrow.readers.merges.fold import DELETES, NEWEST, RETRACTS, Fold, FoldedColumn, Refusal, acc, new

DELETED = own("deleted")


class Aggregation(Fold):
    """Aggregation for some columns; see the module."""

    def state(self, operands: pl.Schema) -> Mapping[str, tuple[pl.DataType, Any]]:  # noqa: ARG002
        return {DELETED: (pl.Boolean(), False)} if self.retracts else {}

    def deleted(self) -> pl.Expr:
        return acc(DELETED)

    def flags(self) -> list[pl.Expr]:
        return []

    @property
    def _removes(self) -> pl.Expr:
        return DELETES if self.spec.on_delete is OnDelete.REMOVE_RECORD else pl.lit(False)

    def refusals(self) -> Sequence[Refusal]:
        if not self.retracts:
            return ()
        happens = RETRACTS & ~self._removes
        return [Refusal.of_retraction(column, happens) for column in self.columns if not column.retracts]

    def steps(self) -> Mapping[str, pl.Expr]:
        steps: dict[str, pl.Expr] = {NEWEST: new(NEWEST)}
        for column in self.columns:
            steps.update(self._column(column))
        if self.retracts:
            steps[DELETED] = self._removes
        return steps

    def _column(self, column: FoldedColumn) -> Iterator[tuple[str, pl.Expr]]:
        assert column.function is not None
        before = column.state
        if not self.retracts:
            for name, value in column.named(column.function.agg(before, new(column.name))):
                yield name, value.cast(column.dtype) if name == column.name else value
            return
        added = dict(column.named(column.function.agg(before, pl.when(~RETRACTS).then(new(column.name)))))
        taken_back = pl.when(RETRACTS & ~self._removes).then(new(column.name))
        after = column.function.retract(before, taken_back)
        taken = dict(column.named(after)) if after is not None else {}
        for name, unchanged in column.named(before):
            value = pl.when(RETRACTS).then(taken.get(name, unchanged)).otherwise(added[name])
            if name == column.name:
                # A deleted row restarts from the values of its deletion; the extra state of functions stays.
                yield name, pl.when(self._removes).then(new(name)).otherwise(value).cast(column.dtype)
            else:
                yield name, pl.when(self._removes).then(unchanged).otherwise(value)
