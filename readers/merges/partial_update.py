"""The steps of partial-update, as Java's merge function takes them.

Columns outside of sequence groups take every non-null value. A sequence group compares the version's sequence
fields with those of the state: not smaller, and all its columns are overwritten (nulls too); all null, and the version
does not touch the group; smaller, and only aggregated columns take part, in reversed order.

The table's options define the effect of retractions. Two rules hold regardless: the first version of a key fills the
row even if it is a retraction, and a key that never saw an insert has no row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import polars as pl

from morrow.engine.format.types import DataField
from morrow.engine.merge.spec import MergeSpec, OnDelete, SequenceGroup
from morrow.engine.names import own
from morrow.readers.masks.ordering import sortable
from morrow.readers.merges.fold import DELETES, NEWEST, RETRACTS, ROW, Fold, FoldedColumn, Refusal, acc, new, operand

FILLED, INSERTED, DELETED = own("filled"), own("inserted"), own("deleted")

NO_SOLUTION = "a retraction in a partial-update table whose options do not say what it means"
SOLUTIONS = (
    "choose one: (1) 'ignore-delete' = 'true' ignores it; "
    "(2) 'partial-update.remove-record-on-delete' = 'true' removes the whole row; "
    "(3) sequence groups ('fields.<sequence field>.sequence-group') retract their columns, and "
    "'partial-update.remove-record-on-sequence-group' removes the whole row when such a group is deleted"
)


def groups_in_play(spec: MergeSpec, names: frozenset[str], *, retracts: bool) -> Mapping[int, SequenceGroup]:
    """Returns the sequence groups, by their numbers, that the columns `names` depend on.

    These are the groups that guard one of them and, where there are retractions, those that may remove the row.
    """
    guarding = {column.group for column in spec.columns if column.name in names}
    return {
        number: group
        for number, group in enumerate(spec.groups)
        if number in guarding or (retracts and group.removes_record)
    }


class PartialUpdate(Fold):
    """Partial-update for some columns; see the module."""

    def __init__(self, spec: MergeSpec, fields: Sequence[DataField], *, retracts: bool, where: str) -> None:
        super().__init__(spec, fields, retracts=retracts, where=where)
        self.groups = groups_in_play(spec, frozenset(column.name for column in self.columns), retracts=retracts)

    # --- state and operands ---

    @cached_property
    def _orders(self) -> Mapping[int, list[str]]:
        """The names under which the sequence fields of each group pass through the fold as comparable values."""
        return {g: [own("order", g, i) for i in range(len(group.sequence))] for g, group in self.groups.items()}

    def operands(self, rows: pl.DataFrame) -> Mapping[str, pl.Series]:
        return {
            name: sortable(rows[field])
            for number, names in self._orders.items()
            for name, field in zip(names, self.groups[number].sequence)
        }

    def state(self, operands: pl.Schema) -> Mapping[str, tuple[pl.DataType, Any]]:
        orders = {name: (operands[operand(name)], None) for names in self._orders.values() for name in names}
        if not self.retracts:
            return {**orders, **dict.fromkeys(self.followed.values(), (ROW, None))}
        return {**orders, **{name: (pl.Boolean(), False) for name in (FILLED, INSERTED, DELETED)}}

    @cached_property
    def followed(self) -> Mapping[str, str]:
        """Without retractions the columns of a group that nothing aggregates are those of the version that led last."""
        return {
            column.name: own("led", column.merge.group)
            for column in self.columns
            if not self.retracts and column.merge.group is not None and column.function is None
        }

    def deleted(self) -> pl.Expr:
        return acc(DELETED) | ~acc(INSERTED)

    # --- one version ---

    def flags(self) -> list[pl.Expr]:
        flags = []
        for number, names in self._orders.items():
            flags.append(pl.any_horizontal(new(name).is_not_null() for name in names).alias(own("touches", number)))
            flags.append(_not_smaller([(new(name), self._base(name)) for name in names]).alias(own("leads", number)))
        return flags

    def refusals(self) -> Sequence[Refusal]:
        if not self.retracts or self.spec.on_delete is OnDelete.IGNORE:
            return ()
        if self.spec.on_delete is OnDelete.REFUSE:
            return [Refusal(NO_SOLUTION, SOLUTIONS, RETRACTS)]
        return [
            Refusal.of_retraction(column, RETRACTS & self._touched(column) & ~self._removes)
            for column in self.columns
            if column.merge.group is not None and not column.retracts
        ]

    def steps(self) -> Mapping[str, pl.Expr]:
        steps: dict[str, pl.Expr] = {}
        for column in self.own_columns:
            steps.update(self._column(column))
        for number, names in self._orders.items():
            leads = _leads(number)
            if (led := own("led", number)) in self.followed.values():
                steps[led] = pl.when(leads).then(new(NEWEST)).otherwise(acc(led))
            for name in names:
                steps[name] = self._chosen(name, pl.when(leads).then(new(name)).otherwise(self._base(name)))
        steps[NEWEST] = new(NEWEST)
        if self.retracts:
            steps.update(self._marks())
        return steps

    def _marks(self) -> Iterator[tuple[str, pl.Expr]]:
        yield FILLED, pl.lit(True)
        yield INSERTED, acc(INSERTED) | ~RETRACTS
        yield DELETED, self._removes
        if self.spec.on_delete is OnDelete.IGNORE:
            yield NEWEST, pl.when(RETRACTS).then(pl.coalesce(acc(NEWEST), new(NEWEST))).otherwise(new(NEWEST))

    @property
    def _removes(self) -> pl.Expr:
        """Whether the version removes the row, which then restarts from the version's values."""
        if self.spec.on_delete is OnDelete.REMOVE_RECORD:
            return DELETES
        removing = [
            _leads(number)
            for number, group in self.groups.items()
            if group.removes_record and self.spec.on_delete is OnDelete.RETRACT
        ]
        return DELETES & pl.any_horizontal(removing) if removing else pl.lit(False)

    def _base(self, name: str) -> pl.Expr:
        """Returns the state before the version: a retraction that comes first fills the row before all else."""
        if not self.retracts:
            return acc(name)
        return pl.when(RETRACTS & ~acc(FILLED)).then(new(name)).otherwise(acc(name))

    def _chosen(self, name: str, updated: pl.Expr, retracted: pl.Expr | None = None) -> pl.Expr:
        """Returns the state after the version: `updated` by inserts, `retracted` (default: as before) by retractions.

        In sequence groups, a retraction's sequence fields are taken like those of an insert.
        """
        if not self.retracts:
            return updated
        if self.spec.on_delete is OnDelete.RETRACT and retracted is None:
            retracted = updated
        kept = self._base(name) if retracted is None or self.spec.on_delete is not OnDelete.RETRACT else retracted
        return pl.when(self._removes).then(new(name)).when(RETRACTS).then(kept).otherwise(updated)

    def _touched(self, column: FoldedColumn) -> pl.Expr:
        return pl.col(own("touches", column.merge.group))

    def _column(self, column: FoldedColumn) -> Iterator[tuple[str, pl.Expr]]:
        name, group = column.name, column.merge.group
        if group is None:
            yield name, self._chosen(name, pl.coalesce(new(name), self._base(name)), self._base(name))
        elif name in self.groups[group].sequence:
            leads = _leads(group)
            yield name, self._chosen(name, pl.when(leads).then(new(name)).otherwise(self._base(name)))
        elif column.function is None:
            leads = _leads(group)
            updated = pl.when(leads).then(new(name)).otherwise(self._base(name))
            yield name, self._chosen(name, updated, pl.when(leads).then(None).otherwise(self._base(name)))
        else:
            yield from self._aggregated(column)

    def _aggregated(self, column: FoldedColumn) -> Iterator[tuple[str, pl.Expr]]:
        """Yields the state of a column with an aggregate function in a sequence group.

        Older versions take part in reversed order.
        """
        assert column.function is not None
        leads, touched = pl.col(own("leads", column.merge.group)), self._touched(column)
        before = {**column.state, "value": self._base(column.name)}
        added = pl.when(~RETRACTS).then(new(column.name)) if self.retracts else new(column.name)
        forward = dict(column.named(column.function.agg(before, added)))
        backward = dict(column.named(column.function.agg_reversed(before, added)))
        taken_back = pl.when(RETRACTS & touched & ~self._removes).then(new(column.name))
        by_column = self.retracts and self.spec.on_delete is OnDelete.RETRACT
        after = column.function.retract(before, taken_back) if by_column else None
        retracted = dict(column.named(after)) if after is not None else {}
        for name, unchanged in column.named(before):
            updated = pl.when(~touched).then(unchanged).when(leads).then(forward[name]).otherwise(backward[name])
            if name != column.name:
                # The extra state of a function survives the removal of the row, as in Java.
                yield name, pl.when(RETRACTS).then(unchanged).otherwise(updated) if self.retracts else updated
                continue
            taken = pl.when(touched).then(retracted.get(name, unchanged)).otherwise(unchanged)
            yield name, self._chosen(name, updated, taken).cast(column.dtype)


def _leads(group: int) -> pl.Expr:
    """Returns whether the version affects the group and is not older than the state."""
    return pl.col(own("touches", group)) & pl.col(own("leads", group))


def _not_smaller(pairs: Sequence[tuple[pl.Expr, pl.Expr]]) -> pl.Expr:
    """Returns whether the first of each pair, taken together, are at least the second; null is the smallest value."""
    result = pl.lit(True)
    for left, right in reversed(pairs):
        greater = pl.when(right.is_null()).then(left.is_not_null()).otherwise(left > right).fill_null(False)
        result = greater | (left.eq_missing(right) & result)
    return result
