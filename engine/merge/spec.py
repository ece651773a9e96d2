"""Merges of versions of a key as data: readers and writers compile a `MergeSpec`; this module runs nothing.

An engine has a `Rule` and traits. Readers, writers and operations depend on these, never on the engine's name. So an
engine of another package is a `MergeSpec` with a name of its own. The module of each engine converts a table's schema
and options to a `MergeSpec`; `morrow.engine.merge.engines.describe_merge` finds it.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

import msgspec

UNLIMITED = 2**31 - 1
"""The default of ``count-limit``: Java's Integer.MAX_VALUE."""


class AggregateCall(msgspec.Struct, frozen=True):
    """The function that folds a column: ``fields.<column>.aggregate-function`` with its options, checked.

    `function` is the canonical name (``first_not_null_value`` is ``first_non_null_value``). Members that the function
    does not use keep their defaults; `options` holds all of ``fields.<column>.*`` for functions of other packages.
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


class SequenceGroup(msgspec.Struct, frozen=True):
    """Columns whose versions are ordered by separate sequence columns.

    `sequence` is compared in order, ascending, nulls first; a version whose sequence columns are all null leaves the
    group unchanged. It may name key columns. `protected` are the other columns of the group, in schema order.
    `removes_record`: a ``-D`` that is not older than the group removes the whole row
    (``partial-update.remove-record-on-sequence-group``).
    """

    sequence: tuple[str, ...]
    protected: tuple[str, ...] = ()
    removes_record: bool = False

    def __str__(self) -> str:
        return f"({', '.join(self.sequence)})"


class Rule(StrEnum):
    """The ways in which the versions of a key become one row."""

    NEWEST = "newest version"
    """The newest version is chosen; a key whose newest version is a retraction is omitted."""

    FIRST = "first version"
    """Compaction keeps the first version: above level 0 every key has one row."""

    UPDATE = "values that are not null overwrite"
    """Versions are folded column by column, oldest first, as partial-update does."""

    AGGREGATE = "a function folds each column"
    """Versions are folded column by column, oldest first, as aggregation does."""


class OnDelete(StrEnum):
    """The effect of a retraction (``-U``, ``-D``) on a key that folds."""

    REFUSE = "retractions refused"
    """The read fails, as it does in Paimon."""

    IGNORE = "retractions ignored"
    """No effect, except that a retraction before any insertion initializes the row with its values."""

    REMOVE_RECORD = "-D removes the row"
    """``-D`` restarts the row from its own values, and removes it unless a newer version follows.

    ``-U`` is ignored in partial-update; in aggregation each function retracts it.
    """

    RETRACT = "retractions by column"
    """Each column is retracted by its function; inside a sequence group, a column without a function becomes null."""


class ColumnMerge(msgspec.Struct, frozen=True):
    """The fold of one column.

    `call` None is partial-update's own rule: a value that is not null overwrites; in a group, nulls overwrite, too.
    `group` is an index into `MergeSpec.groups`, for both protected and sequence columns.
    """

    name: str
    call: AggregateCall | None = None
    group: int | None = None


class MergeSpec(msgspec.Struct, frozen=True):
    """A merge of the versions of one key into one row.

    `engine` is the name for options and messages, `rule` the kind of merge. Versions are ordered by `sequence` columns
    (all descending if `descending`; null is the oldest), then by ``_SEQUENCE_NUMBER``. `ignore_delete` drops
    retractions (``-U``, ``-D``) before all other steps. Engines that fold declare their alternative in `on_delete`.
    `columns` has every column outside the primary key, in schema order, if the engine folds, and is empty if it chooses
    a version. `looks_up`: compactions fold in a key's row from the levels above. So of a key's versions above level 0,
    only the version in the lowest level counts. `keeps_retractions`: a key whose newest version is a retraction also
    has a row, the retraction.

    Writers and operations use these traits. `hides_level_zero`: batch reads see only rows that compaction has moved
    above level 0. `updatable`: a new version of a key replaces the columns that an update sets. `undeletable`: advice
    for users if a ``-D`` does not remove the row of its key; otherwise None. `refused_retractions`: advice if ``-U``
    and ``-D`` rows cannot be written at all; otherwise None.
    """

    engine: str
    rule: Rule
    key: tuple[str, ...]
    sequence: tuple[str, ...] = ()
    descending: bool = False
    ignore_delete: bool = False
    columns: tuple[ColumnMerge, ...] = ()
    groups: tuple[SequenceGroup, ...] = ()
    on_delete: OnDelete | None = None
    looks_up: bool = False
    keeps_retractions: bool = False
    hides_level_zero: bool = False
    updatable: bool = True
    undeletable: str | None = None
    refused_retractions: str | None = None

    @property
    def folds(self) -> bool:
        """Whether versions are combined, rather than one of them chosen."""
        return self.on_delete is not None

    @property
    def takes_retractions(self) -> bool:
        """Whether ``-U`` and ``-D`` rows may be written, even if they are then dropped."""
        return self.ignore_delete or self.refused_retractions is None

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
        """Yield one line for columns with equal folds: ``a, b: newest in group (g)``."""
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
