"""Merge engines as folds: one Polars expression per column takes the state and one more version.

A round's frame holds the state of its keys next to their next version. Columns that are only *picked* (overwritten,
retained, cleared) pass through the fold as row numbers (null if the value is null) and are gathered once at the end. So
text and nested values are copied once, and any type can be merged. Computed columns (sums, greatest values) pass
through as values.

Partial-update follows Java's merge function. Columns outside of sequence groups take every non-null value. A sequence
group compares the version's sequence fields with the state's. If they are not smaller, all columns of the group are
overwritten (nulls too). If all are null, the version does not touch the group. If they are smaller, only aggregated
columns take part, in reversed order. The table's options define the effect of retractions. Two rules always hold. The
first version of a key fills the row even if it is a retraction. A key without any insert does not get a row.

In aggregation every column has a function, which adds inserts and reverses retractions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl

from morrow.engine.errors import Unsupported
from morrow.engine.format.arrow_buffers import make_series
from morrow.engine.format.row_kinds import DELETE, INSERT, RETRACT_BIT
from morrow.engine.format.schema import VALUE_KIND
from morrow.engine.format.types import DataField
from morrow.engine.merge.spec import ColumnMerge, MergeSpec, OnDelete, Rule, SequenceGroup
from morrow.engine.names import col, cols, reserve_name
from morrow.readers.casts.dtypes import to_polars_dtype
from morrow.readers.masks.ordering import sort_by_key, to_sortable
from morrow.readers.merges.functions import find_aggregator
from morrow.readers.merges.functions.base import Aggregator, NoResult, State
from morrow.readers.merges.version_masks import Rounds, Versions, choose_versions

ROW = pl.UInt32()
"""Dtype of row numbers that stand for picked values."""

NEWEST = reserve_name("newest")
"""Operand: the number of the version's row. State: the row number of the newest version that counts."""
RETRACTS = pl.col(reserve_name("retracts"))
"""Whether the version is a retraction (-U or -D)."""
DELETES = pl.col(reserve_name("deletes"))
"""Whether the version is a -D."""


def _name_state(name: str) -> str:
    return reserve_name("acc", name)


def name_operand(name: str) -> str:
    """Return the operand name of a column's value in the version."""
    return reserve_name("new", name)


def get_state(name: str) -> pl.Expr:
    """Return the state of a column before the version."""
    return col(_name_state(name))


def get_new_value(name: str) -> pl.Expr:
    """Return the value of a column in the version."""
    return col(name_operand(name))


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
        return ROW if self.picks else to_polars_dtype(self.field.type)

    @property
    def retracts(self) -> bool:
        """Whether the function supports retractions."""
        return self.function is None or self.function.retract(self.state, get_new_value(self.name)) is not None

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
        return {"value": get_state(self.name), **{name: get_state(self._own(name)) for name in extra}}

    def _own(self, state: str) -> str:
        """Return the column name of the function's extra state `state`."""
        return reserve_name(repr(state), self.name)

    def named(self, state: State) -> Iterator[tuple[str, pl.Expr]]:
        """Yield the column name and expression of each part of the function's `state`."""
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
        """Return the refusal of a retraction for a column whose aggregate function does not support it."""
        hint = f"'fields.{column.name}.ignore-retract' = 'true' leaves such retractions out"
        return cls(f"a retraction of column {column.name!r} by its aggregate function", hint, happens)


class Fold(ABC):
    """A merge compiled for some columns. Subclasses define the effect of one more version on the state.

    Args:
        fields: the value columns to merge, in the order of the result.
        retracts: whether any version is a retraction; if not, the expressions are much shorter.
    """

    def __init__(self, spec: MergeSpec, fields: Sequence[DataField], *, retracts: bool, where: str) -> None:
        self.spec = spec
        self.retracts = retracts
        self.where = where
        merges = {column.name: column for column in spec.columns}
        self.columns = tuple(
            FoldedColumn(field, merge, None if merge.call is None else find_aggregator(merge.call, field.type))
            for field in fields
            if (merge := merges[field.name])
        )

    # --- defined by engines ---

    @abstractmethod
    def flags(self) -> list[pl.Expr]:
        """Return columns that the steps share, computed before them from the round's frame."""

    @abstractmethod
    def steps(self) -> Mapping[str, pl.Expr]:
        """Return every state column after the version."""

    def refusals(self) -> Sequence[Refusal]:
        """Return the refusals: operations that versions must not perform."""
        return ()

    def state(self, operands: pl.Schema) -> Mapping[str, tuple[pl.DataType, Any]]:  # noqa: ARG002
        """Return the engine's own state: dtype and first value by name; `operands` are the columns of a version."""
        return {}

    def operands(self, rows: pl.DataFrame) -> Mapping[str, pl.Series]:  # noqa: ARG002
        """Return the engine's further inputs from the rows (apart from values and kinds), by name."""
        return {}

    def deleted(self) -> pl.Expr | None:
        """Return an expression of the last state for whether the key's row is deleted; None if every key has a row."""
        return None

    @cached_property
    def followed(self) -> Mapping[str, str]:
        """Columns without a state of their own, and the state with the number of the row that each column picks."""
        return {}

    # --- execution ---

    @cached_property
    def own_columns(self) -> tuple[FoldedColumn, ...]:
        """The columns with a state of their own."""
        return tuple(column for column in self.columns if column.name not in self.followed)

    def run(self, rows: pl.DataFrame, versions: Versions) -> pl.DataFrame:
        """Merge to one complete row per key of `versions` with all columns of `rows`, keys in no particular order.

        Key columns and ``_SEQUENCE_NUMBER`` come from the newest version that counts.
        """
        rounds = versions.rounds
        lined_up = self._operands(rows, pl.Series(rounds.rows, dtype=ROW))
        try:
            state = self._first_state(rounds.keys, lined_up.schema)
            return self._result(rows, rounds.run(lined_up, state, self._step))
        except NoResult as error:
            raise NoResult(f"{self.where}: {error.feature}") from error

    def _operands(self, rows: pl.DataFrame, numbers: pl.Series) -> pl.DataFrame:
        """Return the inputs of the steps for the rows `numbers`."""
        expressions = []
        for column in self.own_columns:
            value = col(column.name)
            if not column.picks:
                expressions.append(value.gather(numbers).alias(name_operand(column.name)))
            elif rows[column.name].null_count():
                # Nulls are looked up in a bit mask, which stays in the processor's cache.
                there = value.is_not_null().gather(numbers)
                expressions.append(pl.when(there).then(pl.lit(numbers)).alias(name_operand(column.name)))
            else:
                expressions.append(pl.lit(numbers).alias(name_operand(column.name)))
        if self.retracts:
            kind = pl.col(VALUE_KIND).gather(numbers)
            expressions.append(((kind & RETRACT_BIT) != 0).alias(reserve_name("retracts")))
            expressions.append((kind == DELETE).alias(reserve_name("deletes")))
        for name, values in self.operands(rows).items():
            expressions.append(pl.lit(values).gather(numbers).alias(name_operand(name)))
        return rows.select(*expressions, pl.lit(numbers).alias(name_operand(NEWEST)))

    def _first_state(self, keys: int, operands: pl.Schema) -> pl.DataFrame:
        initial: dict[str, tuple[pl.DataType, Any]] = {NEWEST: (ROW, None), **self.state(operands)}
        for column in self.own_columns:
            initial[column.name] = (column.dtype, None)
            initial.update(column.own_state)
        return pl.select(
            pl.repeat(value, keys, dtype=dtype).alias(_name_state(name)) for name, (dtype, value) in initial.items()
        )

    @cached_property
    def _compiled(self) -> tuple[list[pl.Expr], list[pl.Expr], Sequence[Refusal]]:
        steps = [expression.alias(_name_state(name)) for name, expression in self.steps().items()]
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
        finished = state.with_columns(self._finish(gone)).with_columns(
            pl.when(gone).then(DELETE).otherwise(INSERT).cast(pl.Int8).alias(VALUE_KIND)
        )
        merged = {column.name: column for column in self.columns}
        result = [self._value(finished, name, merged.get(name)) for name in rows.columns if name != VALUE_KIND]
        return rows.select(*result, pl.lit(finished[VALUE_KIND]).alias(VALUE_KIND))

    def _finish(self, gone: pl.Expr) -> Iterator[pl.Expr]:
        """Apply `finish` of the functions; deleted rows keep the values of their deletion."""
        for column in self.columns:
            if column.function is not None and not column.picks:
                value = get_state(column.name)
                finished = column.function.finish(pl.when(~gone).then(value))
                yield pl.when(gone).then(value).otherwise(finished).alias(_name_state(column.name))

    def _value(self, state: pl.DataFrame, name: str, column: FoldedColumn | None) -> pl.Expr:
        if column is None:
            return col(name).gather(state[_name_state(NEWEST)])
        folded = state[_name_state(self.followed.get(name, name))]
        return col(name).gather(folded) if column.picks else pl.lit(folded).alias(name)


FILLED, INSERTED, DELETED = reserve_name("filled"), reserve_name("inserted"), reserve_name("deleted")

NO_SOLUTION = "a retraction in a partial-update table whose options do not say what it means"
SOLUTIONS = (
    "choose one: (1) 'ignore-delete' = 'true' ignores it; "
    "(2) 'partial-update.remove-record-on-delete' = 'true' removes the whole row; "
    "(3) sequence groups ('fields.<sequence field>.sequence-group') retract their columns, and "
    "'partial-update.remove-record-on-sequence-group' removes the whole row when such a group is deleted"
)


def find_needed_groups(spec: MergeSpec, names: frozenset[str], *, retracts: bool) -> Mapping[int, SequenceGroup]:
    """Return the sequence groups, by their numbers, that the columns `names` depend on.

    These are the groups that guard one of the columns and, with retractions, the groups that may remove the row.
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
        self.groups = find_needed_groups(spec, frozenset(column.name for column in self.columns), retracts=retracts)

    # --- state and operands ---

    @cached_property
    def _orders(self) -> Mapping[int, list[str]]:
        """The names of the columns that hold the sequence fields of each group as comparable values in the fold."""
        return {
            g: [reserve_name("order", g, i) for i in range(len(group.sequence))] for g, group in self.groups.items()
        }

    def operands(self, rows: pl.DataFrame) -> Mapping[str, pl.Series]:
        return {
            name: to_sortable(rows[field])
            for number, names in self._orders.items()
            for name, field in zip(names, self.groups[number].sequence)
        }

    def state(self, operands: pl.Schema) -> Mapping[str, tuple[pl.DataType, Any]]:
        orders = {name: (operands[name_operand(name)], None) for names in self._orders.values() for name in names}
        if not self.retracts:
            return {**orders, **dict.fromkeys(self.followed.values(), (ROW, None))}
        return {**orders, **{name: (pl.Boolean(), False) for name in (FILLED, INSERTED, DELETED)}}

    @cached_property
    def followed(self) -> Mapping[str, str]:
        """Columns of groups that take the row of the last leading version; aggregated columns never do."""
        return {
            column.name: reserve_name("led", column.merge.group)
            for column in self.columns
            if not self.retracts and column.merge.group is not None and column.function is None
        }

    def deleted(self) -> pl.Expr:
        return get_state(DELETED) | ~get_state(INSERTED)

    # --- one version ---

    def flags(self) -> list[pl.Expr]:
        flags = []
        for number, names in self._orders.items():
            flags.append(
                pl.any_horizontal(get_new_value(name).is_not_null() for name in names).alias(
                    reserve_name("touches", number)
                )
            )
            flags.append(
                _is_at_least([(get_new_value(name), self._base(name)) for name in names]).alias(
                    reserve_name("leads", number)
                )
            )
        return flags

    def refusals(self) -> Sequence[Refusal]:
        if not self.retracts or self.spec.on_delete is OnDelete.IGNORE:
            return ()
        if self.spec.on_delete is OnDelete.REFUSE:
            return [Refusal(NO_SOLUTION, SOLUTIONS, RETRACTS)]
        return [
            Refusal.of_retraction(column, RETRACTS & self._get_touched(column) & ~self._removes)
            for column in self.columns
            if column.merge.group is not None and not column.retracts
        ]

    def steps(self) -> Mapping[str, pl.Expr]:
        steps: dict[str, pl.Expr] = {}
        for column in self.own_columns:
            steps.update(self._column(column))
        for number, names in self._orders.items():
            leads = _is_leading(number)
            if (led := reserve_name("led", number)) in self.followed.values():
                steps[led] = pl.when(leads).then(get_new_value(NEWEST)).otherwise(get_state(led))
            for name in names:
                steps[name] = self._chosen(name, pl.when(leads).then(get_new_value(name)).otherwise(self._base(name)))
        steps[NEWEST] = get_new_value(NEWEST)
        if self.retracts:
            steps.update(self._marks())
        return steps

    def _marks(self) -> Iterator[tuple[str, pl.Expr]]:
        yield FILLED, pl.lit(True)
        yield INSERTED, get_state(INSERTED) | ~RETRACTS
        yield DELETED, self._removes
        if self.spec.on_delete is OnDelete.IGNORE:
            yield (
                NEWEST,
                pl.when(RETRACTS)
                .then(pl.coalesce(get_state(NEWEST), get_new_value(NEWEST)))
                .otherwise(get_new_value(NEWEST)),
            )

    @property
    def _removes(self) -> pl.Expr:
        """Whether the version removes the row, which then restarts from the version's values."""
        if self.spec.on_delete is OnDelete.REMOVE_RECORD:
            return DELETES
        removing = [
            _is_leading(number)
            for number, group in self.groups.items()
            if group.removes_record and self.spec.on_delete is OnDelete.RETRACT
        ]
        return DELETES & pl.any_horizontal(removing) if removing else pl.lit(False)

    def _base(self, name: str) -> pl.Expr:
        """Return the state before the version. A row that begins with a retraction begins with its values."""
        if not self.retracts:
            return get_state(name)
        return pl.when(RETRACTS & ~get_state(FILLED)).then(get_new_value(name)).otherwise(get_state(name))

    def _chosen(self, name: str, updated: pl.Expr, retracted: pl.Expr | None = None) -> pl.Expr:
        """Return the state after the version: `updated` by inserts, `retracted` (default: unchanged) by retractions.

        In sequence groups, the sequence fields of a retraction are treated like the sequence fields of an insert.
        """
        if not self.retracts:
            return updated
        if self.spec.on_delete is OnDelete.RETRACT and retracted is None:
            retracted = updated
        kept = self._base(name) if retracted is None or self.spec.on_delete is not OnDelete.RETRACT else retracted
        return pl.when(self._removes).then(get_new_value(name)).when(RETRACTS).then(kept).otherwise(updated)

    def _get_touched(self, column: FoldedColumn) -> pl.Expr:
        return pl.col(reserve_name("touches", column.merge.group))

    def _column(self, column: FoldedColumn) -> Iterator[tuple[str, pl.Expr]]:
        name, group = column.name, column.merge.group
        if group is None:
            yield name, self._chosen(name, pl.coalesce(get_new_value(name), self._base(name)), self._base(name))
        elif name in self.groups[group].sequence:
            leads = _is_leading(group)
            yield name, self._chosen(name, pl.when(leads).then(get_new_value(name)).otherwise(self._base(name)))
        elif column.function is None:
            leads = _is_leading(group)
            updated = pl.when(leads).then(get_new_value(name)).otherwise(self._base(name))
            yield name, self._chosen(name, updated, pl.when(leads).then(None).otherwise(self._base(name)))
        else:
            yield from self._aggregate(column)

    def _aggregate(self, column: FoldedColumn) -> Iterator[tuple[str, pl.Expr]]:
        """Yield the state of a column with an aggregate function in a sequence group.

        Older versions take part in reversed order.
        """
        assert column.function is not None
        leads, touched = pl.col(reserve_name("leads", column.merge.group)), self._get_touched(column)
        before = {**column.state, "value": self._base(column.name)}
        added = pl.when(~RETRACTS).then(get_new_value(column.name)) if self.retracts else get_new_value(column.name)
        forward = dict(column.named(column.function.agg(before, added)))
        backward = dict(column.named(column.function.agg_reversed(before, added)))
        taken_back = pl.when(RETRACTS & touched & ~self._removes).then(get_new_value(column.name))
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


def _is_leading(group: int) -> pl.Expr:
    """Return whether the version affects the group and is not older than the state."""
    return pl.col(reserve_name("touches", group)) & pl.col(reserve_name("leads", group))


def _is_at_least(pairs: Sequence[tuple[pl.Expr, pl.Expr]]) -> pl.Expr:
    """Compare the first values of all pairs with the second values, as rows, by ``>=``; null is the smallest value."""
    result = pl.lit(True)
    for left, right in reversed(pairs):
        greater = pl.when(right.is_null()).then(left.is_not_null()).otherwise(left > right).fill_null(False)
        result = greater | (left.eq_missing(right) & result)
    return result


ROW_DELETED = reserve_name("deleted")


class Aggregation(Fold):
    """Aggregation for some columns; see the module."""

    def state(self, operands: pl.Schema) -> Mapping[str, tuple[pl.DataType, Any]]:  # noqa: ARG002
        return {ROW_DELETED: (pl.Boolean(), False)} if self.retracts else {}

    def deleted(self) -> pl.Expr:
        return get_state(ROW_DELETED)

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
        steps: dict[str, pl.Expr] = {NEWEST: get_new_value(NEWEST)}
        for column in self.columns:
            steps.update(self._column(column))
        if self.retracts:
            steps[ROW_DELETED] = self._removes
        return steps

    def _column(self, column: FoldedColumn) -> Iterator[tuple[str, pl.Expr]]:
        assert column.function is not None
        before = column.state
        if not self.retracts:
            for name, value in column.named(column.function.agg(before, get_new_value(column.name))):
                yield name, value.cast(column.dtype) if name == column.name else value
            return
        added = dict(column.named(column.function.agg(before, pl.when(~RETRACTS).then(get_new_value(column.name)))))
        taken_back = pl.when(RETRACTS & ~self._removes).then(get_new_value(column.name))
        after = column.function.retract(before, taken_back)
        taken = dict(column.named(after)) if after is not None else {}
        for name, unchanged in column.named(before):
            value = pl.when(RETRACTS).then(taken.get(name, unchanged)).otherwise(added[name])
            if name == column.name:
                # A deleted row restarts from the values of its deletion; the extra state of functions stays.
                yield name, pl.when(self._removes).then(get_new_value(name)).otherwise(value).cast(column.dtype)
            else:
                yield name, pl.when(self._removes).then(unchanged).otherwise(value)


FOLDS: Mapping[Rule, type[Fold]] = {Rule.UPDATE: PartialUpdate, Rule.AGGREGATE: Aggregation}
"""The rules that combine versions."""


def fold(
    spec: MergeSpec, fields: Sequence[DataField], rows: pl.DataFrame, versions: Versions, *, where: str
) -> pl.DataFrame:
    """Merge the versions of every key into one complete row.

    Args:
        fields: the columns to merge; other columns are taken from the newest version that counts.
        rows: the stored rows that the numbers of `versions` refer to. Without a column ``_VALUE_KIND`` all are
            insertions.

    Returns: a row per key, in no particular order: the columns of `rows`, ``_VALUE_KIND`` +I or -D as the last.

    Raises `Unsupported`: a retraction that the engine or a column's function does not support.
    """
    if spec.rule not in FOLDS:
        raise Unsupported(
            f"the merge engine {spec.engine!r}, which folds by the rule {spec.rule.value!r},",
            where=where,
            hint=f"rules that fold are {', '.join(map(repr, FOLDS))}",
        )
    kinds = rows[VALUE_KIND] if VALUE_KIND in rows.columns else None
    retracts = kinds is not None and bool(((kinds & RETRACT_BIT) != 0).any())
    return FOLDS[spec.rule](spec, fields, retracts=retracts, where=where).run(rows, versions)


def merge_rows(spec: MergeSpec, fields: Sequence[DataField], rows: pl.DataFrame, *, where: str) -> pl.DataFrame:
    """Return one row per key, retractions included, in no particular order. A single version stays unchanged.

    Args:
        fields: the columns of `rows` to merge, if the engine folds.
        rows: the key, the sequence fields, ``_VALUE_KIND`` and other columns. If versions have equal
            sequence fields, the older version comes first.

    Raises `Unsupported`: a retraction that the engine or a column's function does not support.
    """
    sequence = rows.select(cols(spec.sequence))
    order, starts = sort_by_key(rows.select(cols(spec.key)), sequence, [spec.descending] * sequence.width)
    if not spec.folds or len(starts) == len(order):
        return rows[make_series(choose_versions(spec, rows, order, starts, where))]
    counts = np.diff(np.append(starts, len(order)))
    alone = counts == 1
    rounds = Rounds.of_sorted(order[np.repeat(~alone, counts)], counts[~alone])
    merged = fold(spec, fields, rows, Versions(np.empty(0, bool), rounds), where=where)
    return pl.concat([rows[make_series(order[starts[alone]])], merged.select(cols(rows.columns))])
