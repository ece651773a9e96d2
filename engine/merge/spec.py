"""What a merge engine does to the versions of a key, as data: readers compile it, nothing here runs it.

Two kinds of engine: deduplicate and first-row *choose* one version of a key, partial-update and aggregation *fold*
all of them, column by column, oldest first. How a table's schema and options become a `MergeSpec` is told by the module
of each engine; `morrow.engine.merge.registry.merge_spec` finds it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

UNLIMITED = 2**31 - 1
"""The default of ``count-limit``: Java's Integer.MAX_VALUE."""


@dataclass(frozen=True)
class AggregateCall:
    """The function that folds a column: ``fields.<column>.aggregate-function`` with its options, checked.

    `function` is the canonical name (``first_not_null_value`` is ``first_non_null_value``). Members that the function
    does not take keep their defaults; `options` holds all of ``fields.<column>.*`` for functions of other packages.
    """

    function: str
    ignore_retract: bool = False
    distinct: bool = False
    delimiter: str = ","
    nested_key: tuple[str, ...] = ()
    count_limit: int = UNLIMITED
    timestamp_field: str | None = None
    options: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        return f"{self.function}({', '.join(self._arguments())})" if any(self._arguments()) else self.function

    def _arguments(self) -> Iterator[str]:
        if self.function == "listagg":
            yield f"delimiter {self.delimiter!r}"
        if self.nested_key:
            yield f"key ({', '.join(self.nested_key)})"
        if self.count_limit != UNLIMITED:
            yield f"at most {self.count_limit}"
        if self.timestamp_field is not None:
            yield f"time {self.timestamp_field}"
        if self.distinct:
            yield "distinct"
        yield from (f"{name} {value!r}" for name, value in self.options)
        if self.ignore_retract:
            yield "retractions ignored"


@dataclass(frozen=True)
class SequenceGroup:
    """Columns whose versions are ordered by columns of their own.

    `sequence` is compared in order, ascending, nulls first; a version whose sequence columns are all null leaves the
    group as it is. It may name key columns. `protected` are the other columns of the group, in schema order.
    `removes_record`: a ``-D`` that is not older than the group removes the whole row
    (``partial-update.remove-record-on-sequence-group``).
    """

    sequence: tuple[str, ...]
    protected: tuple[str, ...] = ()
    removes_record: bool = False

    def __str__(self) -> str:
        return f"({', '.join(self.sequence)})"


class OnDelete(StrEnum):
    """What a retraction (``-U``, ``-D``) does to a key that folds."""

    REFUSE = "retractions refused"
    """The read fails, as it does in Paimon."""

    IGNORE = "retractions ignored"
    """Nothing, but a retraction before any insertion starts the row with its values."""

    REMOVE_RECORD = "-D removes the row"
    """``-D`` starts the row anew from its own values, and removes it if nothing newer comes; in partial-update ``-U``
    does nothing, in aggregation it is retracted by each function."""

    RETRACT = "retractions by column"
    """Each column retracts by its function; inside a sequence group without a function it becomes null."""


@dataclass(frozen=True)
class ColumnMerge:
    """How one column folds.

    `call` None is partial-update's own rule: a value that is not null overwrites; in a group, nulls overwrite too.
    `group` numbers `MergeSpec.groups`, for protected columns and for sequence columns alike.
    """

    name: str
    call: AggregateCall | None = None
    group: int | None = None


@dataclass(frozen=True)
class MergeSpec:
    """How versions of one key become one row.

    Versions are ordered by `sequence` columns (all descending when `descending`; null is the oldest), then by
    ``_SEQUENCE_NUMBER``. `ignore_delete` leaves retractions (``-U``, ``-D``) out before anything else is decided:
    engines that fold say in `on_delete` what they do instead. `columns` has every column outside the primary key, in
    schema order, when the engine folds, and is empty when it chooses. `looks_up`: compactions fold in what a key was in
    the levels above, so of a key's versions above level 0 only that in the lowest level counts. `keeps_retractions`: a
    key whose newest state is a retraction has a row as well, that of the retraction.
    """

    engine: str
    key: tuple[str, ...]
    sequence: tuple[str, ...] = ()
    descending: bool = False
    ignore_delete: bool = False
    columns: tuple[ColumnMerge, ...] = ()
    groups: tuple[SequenceGroup, ...] = ()
    on_delete: OnDelete | None = None
    looks_up: bool = False
    keeps_retractions: bool = False

    @property
    def folds(self) -> bool:
        """Whether versions are combined, not one of them chosen."""
        return self.on_delete is not None

    def __str__(self) -> str:
        return "\n  ".join((self._heading(), *self._column_lines()))

    def _heading(self) -> str:
        order = ", ".join([*(f"{c} {'DESC' if self.descending else 'ASC'}" for c in self.sequence), "_SEQUENCE_NUMBER"])
        ignored = ", retractions ignored" if self.ignore_delete else ""
        on_delete = f", {self.on_delete.value}" if self.on_delete else ""
        levels = ", above level 0 only the lowest level" if self.looks_up else ""
        kept = ", retractions kept" if self.keeps_retractions else ""
        return f"{self.engine} by ({', '.join(self.key)}) ordered by {order}{ignored}{on_delete}{levels}{kept}"

    def _column_lines(self) -> Iterator[str]:
        """One line for the columns that fold alike: ``a, b: newest in group (g)``."""
        alike: dict[str, list[str]] = {}
        for column in self.columns:
            alike.setdefault(self._rule(column), []).append(column.name)
        yield from (f"{', '.join(names)}: {rule}" for rule, names in alike.items())

    def _rule(self, column: ColumnMerge) -> str:
        if column.group is None:
            return str(column.call or "newest non-null")
        group = self.groups[column.group]
        if column.name in group.sequence:
            removes = ", its -D removes the row" if group.removes_record else ""
            return f"sequence of group {group}{removes}"
        return f"{column.call or 'newest'} in group {group}"
