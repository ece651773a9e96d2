"""Merges as data: how the versions of a key are combined, and the options of columns that say so.

An engine has a `Rule` and traits. Readers, writers and operations depend on these, never on the engine's name. So an
engine of another package is a `MergeSpec` with a name of its own. The module of each engine converts a table's schema
and options to a `MergeSpec`; `morrow.engine.merge.engines.describe_merge` finds it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, TypeVar

import msgspec

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.format import types as t
from morrow.engine.format.schema import TableSchema
from morrow.engine.options import Declared, Options, TableOptions
from morrow.engine.options.declarations import FIELDS, ColumnOption
from morrow.engine.options.declared.merging import AGGREGATE_FUNCTION, FIELDS_DEFAULT_AGGREGATE_FUNCTION, SEQUENCE_FIELD
from morrow.engine.options.table_options import COLUMN_OPTIONS, split_column_option
from morrow.engine.redaction import format_columns

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
    nested_sequence: tuple[str, ...] = ()
    nested_nulls: str = "merge"
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
        if self.nested_sequence:
            yield f"greatest ({', '.join(self.nested_sequence)})"
        if self.nested_nulls != "merge":
            yield f"null keys: {self.nested_nulls}"
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
    has a row, the retraction. `by_snapshot`: the ``_SEQUENCE_NUMBER`` of a row is the id of the snapshot that added it
    (see `DataFile.snapshot_id`).

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
    by_snapshot: bool = False
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


T = TypeVar("T")

SEPARATOR = ","


class FieldOptions(msgspec.Struct, frozen=True):
    """The options of one column, ``fields.<column>.<suffix>``, by declaration."""

    column: t.DataField
    given: Options

    @property
    def where(self) -> str:
        """The table, for errors."""
        return self.given.where

    def of(self, option: ColumnOption[T]) -> Declared[T]:
        """Return the option of this column; it prints as its key."""
        return option.of(self.column.name)

    def get(self, option: ColumnOption[T]) -> T:
        """Return the value of an option, or its default. Raises `InvalidArgument`, `Unsupported`."""
        return self.given.get(self.of(option))

    def names(self, option: ColumnOption[str | None]) -> tuple[str, ...]:
        """Return the names between commas, without surrounding blanks; empty if not set."""
        text = self.get(option)
        return () if text is None else tuple(part.strip() for part in text.split(SEPARATOR))

    def all(self) -> tuple[tuple[str, str], ...]:
        """Return every option of the column without its prefix, sorted."""
        prefix = f"{FIELDS}{self.column.name}."
        raw = self.given.raw
        own = {key: value for key, value in raw.items() if key.startswith(prefix) and not self._is_of_longer_name(key)}
        return tuple(sorted((key.removeprefix(prefix), value) for key, value in own.items()))

    def _is_of_longer_name(self, key: str) -> bool:
        """Return whether an option belongs to a column whose name begins with this column's name and a dot."""
        found = split_column_option(key)
        return found is not None and found[1] in COLUMN_OPTIONS and found[0] != self.column.name

    def invalid(self, option: ColumnOption[Any], problem: str) -> InvalidArgument:
        """Return an error about the value of an option: "... the option 'x' has the value 'y', <problem>"."""
        one = self.of(option)
        return InvalidArgument(f"{self.where}: the option {one} has the value {self.given.text(one)!r}, {problem}")


def split_names(text: str) -> tuple[str, ...]:
    """Split names at commas like Java: blanks belong to names, empty parts at the end are dropped."""
    parts = text.split(SEPARATOR)
    while len(parts) > 1 and not parts[-1]:
        parts.pop()
    return tuple(parts)


def require_columns(schema: TableSchema, names: Sequence[str], key: str, where: str) -> None:
    """Raise `InvalidArgument` if the option `key` names something that is not a column."""
    for name in names:
        if name not in schema.by_name:
            blank = "; blanks around commas belong to the name" if name != name.strip() else ""
            raise InvalidArgument(
                f"{where}: the option {key!r} names {name!r}, which is not a column{blank}; "
                f"{format_columns(schema.by_name)}"
            )


def check_field_names(schema: TableSchema, raw: Mapping[str, str], where: str) -> None:
    """Check that every ``fields.<columns>.*`` names columns: a mistyped name would silently change rows.

    The text after the columns may be the option of a member (``fields.<row>.<member>.distinct``), which Paimon ignores.

    Raises `InvalidArgument`: an option of something that is not a column.
    """
    for key in sorted(raw):
        if key.startswith(FIELDS) and key != FIELDS_DEFAULT_AGGREGATE_FUNCTION.key:
            found = split_column_option(key)
            first = split_names(key.split(".")[1])
            if not schema.by_name.keys() >= set(first):
                require_columns(schema, first if found is None else split_names(found[0]), key, where)


def check_new_field_names(schema: TableSchema, raw: Mapping[str, str], where: str) -> None:
    """Check the names as `check_field_names` does, with Paimon's further rules for tables that are created or changed.

    Raises:
        InvalidArgument: an option of something that is not a column.
        Unsupported: an option of a column ``x.y`` without a column ``x``: Paimon does not open such tables.
    """
    for key in sorted(raw):
        if (found := split_column_option(key)) is None:
            continue
        names, first = split_names(found[0]), split_names(key.split(".")[1])
        if found[1] in COLUMN_OPTIONS:
            require_columns(schema, names, key, where)
        if missing := [name for name in first if name not in schema.by_name and name not in names]:
            hint = f"Paimon takes {missing[0]!r} for the column and opens no such table; rename the column"
            raise Unsupported(f"the option {key!r} of a column with a dot in its name", where=where, hint=hint)
    check_field_names(schema, raw, where)


WITHOUT_ORDER = (t.VariantType, t.BlobType)
NESTED = (t.ArrayType, t.VectorType, t.MapType, t.MultisetType, t.RowType)
"""Types that Paimon orders element by element, although its documentation does not list them."""


def check_sequence_fields(schema: TableSchema, options: TableOptions, where: str) -> None:
    """Check ``sequence.field`` for engines that accept it, as Paimon does when it creates or opens a table.

    Raises:
        InvalidArgument: a missing column, a column named twice or with an aggregate function of its own, a type without
            order, or keys that may move between partitions.
        Unsupported: a nested type.
    """
    names = options.sequence_fields
    require_columns(schema, names, SEQUENCE_FIELD.key, where)
    for name in names:
        if names.count(name) > 1:
            raise InvalidArgument(f"{where}: the option {SEQUENCE_FIELD} names {name!r} twice")
        function = AGGREGATE_FUNCTION.of(name)
        if options.given.has(function):
            raise InvalidArgument(
                f"{where}: {name!r} is a sequence field, which takes no aggregate function; remove the option "
                f"{function}"
            )
        check_comparable(schema, name, where)
    if names and schema.cross_partition:
        raise InvalidArgument(
            f"{where}: the option {SEQUENCE_FIELD} does not go with keys that may move between partitions; "
            f"add the partition keys {', '.join(schema.partition_keys)} to the primary key"
        )


def check_comparable(schema: TableSchema, name: str, where: str) -> None:
    """Raise `InvalidArgument` or `Unsupported` for a sequence column of a type without order."""
    kind = schema.by_name[name].type
    if isinstance(kind, WITHOUT_ORDER):
        raise InvalidArgument(f"{where}: the sequence field {name!r} has the type {kind}, which cannot be compared")
    if isinstance(kind, NESTED):
        raise Unsupported(
            f"the sequence field {name!r} of the type {kind}",
            where=where,
            hint="order versions by a column that is not nested",
        )
