"""The options ``fields.<columns>.<name>``: one view per column, and the checks all merge engines share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from morrow.engine.errors import InvalidArgument
from morrow.engine.format.schema import TableSchema
from morrow.engine.format.types import DataField
from morrow.engine.options import Declared, Options
from morrow.engine.options.declared.merging import FIELDS_DEFAULT_AGGREGATE_FUNCTION
from morrow.engine.options.declaring import FIELDS, ColumnOption

T = TypeVar("T")

SEPARATOR = ","


@dataclass(frozen=True)
class FieldOptions:
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
        return tuple(sorted((key.removeprefix(prefix), v) for key, v in raw.items() if key.startswith(prefix)))

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
                f"{where}: the option {key!r} names {name!r}, which is no column{blank}; "
                f"the columns are {', '.join(schema.by_name)}"
            )


def check_field_names(schema: TableSchema, raw: Mapping[str, str], where: str) -> None:
    """Checks that every ``fields.<columns>.*`` names columns: a mistyped name would silently change rows.

    Raises:
        InvalidArgument: an option of something that is no column.
    """
    for key in sorted(raw):
        if key.startswith(FIELDS):
            names = split_names(key.split(".")[1])
            if key != FIELDS_DEFAULT_AGGREGATE_FUNCTION.key:
                require_columns(schema, names, key, where)
