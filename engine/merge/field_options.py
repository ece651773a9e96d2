"""The options ``fields.<columns>.<name>`` and ``sequence.field``, with the checks that all merge engines share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.format.schema import TableSchema
from morrow.engine.format.types import (
    ArrayType,
    BlobType,
    DataField,
    MapType,
    MultisetType,
    RowType,
    VariantType,
    VectorType,
)
from morrow.engine.options import Declared, Options, TableOptions
from morrow.engine.options.declarations import FIELDS, ColumnOption
from morrow.engine.options.declared.merging import AGGREGATE_FUNCTION, FIELDS_DEFAULT_AGGREGATE_FUNCTION, SEQUENCE_FIELD
from morrow.engine.options.registry import COLUMN_OPTIONS, split_column_option
from morrow.engine.redaction import format_columns

T = TypeVar("T")

SEPARATOR = ","


class FieldOptions(msgspec.Struct, frozen=True):
    """The options of one column, ``fields.<column>.<suffix>``, by declaration."""

    column: DataField
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
                f"{where}: the option {key!r} names {name!r}, which is no column{blank}; "
                f"{format_columns(schema.by_name)}"
            )


def check_field_names(schema: TableSchema, raw: Mapping[str, str], where: str) -> None:
    """Check that every ``fields.<columns>.*`` names columns: a mistyped name would silently change rows.

    The text after the columns may be the option of a member (``fields.<row>.<member>.distinct``), which Paimon ignores.

    Raises:
        InvalidArgument: an option of something that is not a column.
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


WITHOUT_ORDER = (VariantType, BlobType)
NESTED = (ArrayType, VectorType, MapType, MultisetType, RowType)
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
