"""The options ``fields.<columns>.<name>``: one view per column, and the checks all merge engines share."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from morrow.engine.errors import InvalidArgument
from morrow.engine.format.schema import TableSchema
from morrow.engine.format.types import DataField
from morrow.engine.options import flag

PREFIX = "fields."
SEPARATOR = ","
AGGREGATE_FUNCTION = "aggregate-function"
DEFAULT_AGGREGATE_FUNCTION = "default-aggregate-function"
IGNORE_RETRACT = "ignore-retract"

INT_MIN, INT_MAX = -(2**31), 2**31 - 1
_INTEGER = re.compile(r"[+-]?\d+")


@dataclass(frozen=True)
class FieldOptions:
    """The options of one column; `where` goes into errors."""

    column: DataField
    raw: Mapping[str, str]
    where: str

    def key(self, name: str) -> str:
        return f"{PREFIX}{self.column.name}.{name}"

    def text(self, name: str) -> str | None:
        return self.raw.get(self.key(name))

    def flag(self, name: str) -> bool:
        """False unless set. Raises `InvalidArgument` for anything but true and false."""
        return flag(self.raw, self.key(name), False, self.where)

    def integer(self, name: str, default: int) -> int:
        """Raises `InvalidArgument` for what is no 32-bit integer."""
        text = self.text(name)
        if text is None:
            return default
        if not _INTEGER.fullmatch(text) or not INT_MIN <= int(text) <= INT_MAX:
            raise self.invalid(name, "which is no 32-bit integer")
        return int(text)

    def names(self, name: str) -> tuple[str, ...]:
        """The parts between commas, without surrounding blanks; empty when not set."""
        text = self.text(name)
        return () if text is None else tuple(part.strip() for part in text.split(SEPARATOR))

    def all(self) -> tuple[tuple[str, str], ...]:
        """Every option of the column without its prefix, sorted."""
        prefix = self.key("")
        return tuple(sorted((key.removeprefix(prefix), v) for key, v in self.raw.items() if key.startswith(prefix)))

    def invalid(self, name: str, problem: str) -> InvalidArgument:
        """An error about the value of an option: "... the option 'x' has the value 'y', <problem>"."""
        return InvalidArgument(
            f"{self.where}: the option {self.key(name)!r} has the value {self.text(name)!r}, {problem}"
        )


def split_names(text: str) -> tuple[str, ...]:
    """Names between commas as Java splits them: blanks belong to names, empty parts at the end do not count."""
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
    """Every ``fields.<columns>.*`` must name columns: a mistyped name would otherwise change rows in silence.

    Raises:
        InvalidArgument: an option of something that is no column.
    """
    for key in sorted(raw):
        if key.startswith(PREFIX):
            names = split_names(key.split(".")[1])
            if names != (DEFAULT_AGGREGATE_FUNCTION,):
                require_columns(schema, names, key, where)
