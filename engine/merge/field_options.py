"""The options ``fields.<columns>.<name>``: one view per column, and the checks all merge engines share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.format.schema import TableSchema
from morrow.engine.format.types import DataField
from morrow.engine.options import Declared, Options
from morrow.engine.options.declared.merging import FIELDS_DEFAULT_AGGREGATE_FUNCTION
from morrow.engine.options.declaring import FIELDS, ColumnOption
from morrow.engine.options.registry import COLUMN_OPTIONS, column_option
from morrow.engine.telling import the_columns

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
        """Returns the option of this column; it prints as its key."""
        return option.of(self.column.name)

    def get(self, option: ColumnOption[T]) -> T:
        """Returns the value of an option, or its default. Raises `InvalidArgument`, `Unsupported`."""
        return self.given.get(self.of(option))

    def names(self, option: ColumnOption[str | None]) -> tuple[str, ...]:
        """Returns the parts between commas, without surrounding blanks; empty when not set."""
        text = self.get(option)
        return () if text is None else tuple(part.strip() for part in text.split(SEPARATOR))

    def all(self) -> tuple[tuple[str, str], ...]:
        """Returns every option of the column without its prefix, sorted."""
        prefix = f"{FIELDS}{self.column.name}."
        raw = self.given.raw
        own = {key: value for key, value in raw.items() if key.startswith(prefix) and not self._is_of_longer_name(key)}
        return tuple(sorted((key.removeprefix(prefix), value) for key, value in own.items()))

    def _is_of_longer_name(self, key: str) -> bool:
        """Returns whether an option is that of a column whose name begins with this one's and a dot."""
        found = column_option(key)
        return found is not None and found[1] in COLUMN_OPTIONS and found[0] != self.column.name

    def invalid(self, option: ColumnOption[Any], problem: str) -> InvalidArgument:
        """Returns an error about the value of an option: "... the option 'x' has the value 'y', <problem>"."""
        one = self.of(option)
        return InvalidArgument(f"{self.where}: the option {one} has the value {self.given.text(one)!r}, {problem}")


def split_names(text: str) -> tuple[str, ...]:
    """Splits names at commas like Java: blanks belong to names, empty parts at the end are dropped."""
    parts = text.split(SEPARATOR)
    while len(parts) > 1 and not parts[-1]:
        parts.pop()
    return tuple(parts)


def require_columns(schema: TableSchema, names: Sequence[str], key: str, where: str) -> None:
    """Raises `InvalidArgument` when the option `key` names something that is no column."""
    for name in names:
        if name not in schema.by_name:
            blank = "; blanks around commas belong to the name" if name != name.strip() else ""
            raise InvalidArgument(
                f"{where}: the option {key!r} names {name!r}, which is no column{blank}; {the_columns(schema.by_name)}"
            )


def check_field_names(schema: TableSchema, raw: Mapping[str, str], where: str) -> None:
    """Checks that every ``fields.<columns>.*`` names columns: a mistyped name would silently change rows.

    What follows the columns may be the option of a member (``fields.<row>.<member>.distinct``), which Paimon ignores.

    Raises:
        InvalidArgument: an option of something that is no column.
    """
    for key in sorted(raw):
        if key.startswith(FIELDS) and key != FIELDS_DEFAULT_AGGREGATE_FUNCTION.key:
            found = column_option(key)
            first = split_names(key.split(".")[1])
            if not schema.by_name.keys() >= set(first):
                require_columns(schema, first if found is None else split_names(found[0]), key, where)


def check_new_field_names(schema: TableSchema, raw: Mapping[str, str], where: str) -> None:
    """Checks `check_field_names` for tables that are created or changed, and what Paimon demands there.

    Raises:
        InvalidArgument: an option of something that is no column.
        Unsupported: an option of a column ``x.y`` where there is no column ``x``: Paimon opens no such table.
    """
    for key in sorted(raw):
        if (found := column_option(key)) is None:
            continue
        names, first = split_names(found[0]), split_names(key.split(".")[1])
        if found[1] in COLUMN_OPTIONS:
            require_columns(schema, names, key, where)
        if missing := [name for name in first if name not in schema.by_name and name not in names]:
            hint = f"Paimon takes {missing[0]!r} for the column and opens no such table; rename the column"
            raise Unsupported(f"the option {key!r} of a column with a dot in its name", where=where, hint=hint)
    check_field_names(schema, raw, where)
