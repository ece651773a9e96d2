"""A schema that somebody wants to store, with its options parsed: what every rule looks at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from morrow.engine.errors import ColumnNotFound, InvalidArgument
from morrow.engine.format.schema import TableSchema
from morrow.engine.options import TableOptions, flag, parse_options
from morrow.engine.options.parsing import choice, integer
from morrow.engine.options.registry import resolved


@dataclass(frozen=True)
class Proposal:
    """`options` are those that reads depend on, `raw` is all of them under their present names."""

    schema: TableSchema
    options: TableOptions
    raw: Mapping[str, str]
    where: str

    @classmethod
    def of(cls, schema: TableSchema, where: str) -> Proposal:
        """Raises `InvalidArgument`, `Unsupported` for options that do not parse."""
        raw = resolved(schema.options)
        return cls(schema, parse_options(raw, where=where), raw, where)

    @property
    def keyed(self) -> bool:
        return bool(self.schema.primary_keys)

    @property
    def changelog_producer(self) -> str:
        producers = ("none", "input", "full-compaction", "lookup")
        return choice(self.raw, "changelog-producer", "none", producers, self.where)

    def flag(self, key: str, default: bool = False) -> bool:
        return flag(self.raw, key, default, self.where)

    def integer(self, key: str, default: int) -> int:
        return integer(self.raw, key, default, self.where)

    def refused(self, problem: str) -> InvalidArgument:
        return InvalidArgument(f"{self.where}: {problem}")

    def require(self, holds: bool, problem: str) -> None:
        """Raises `InvalidArgument` unless it holds."""
        if not holds:
            raise self.refused(problem)

    def require_columns(self, names: Sequence[str], what: str) -> None:
        """Raises `ColumnNotFound` for what is no column."""
        for name in names:
            if name not in self.schema.by_name:
                known = ", ".join(self.schema.by_name)
                raise ColumnNotFound(f"{self.where}: the {what} {name!r} is no column; the columns are {known}")


def java_names(text: str) -> tuple[str, ...]:
    """Names between commas where Paimon does not take blanks off: " a" is another name than "a"."""
    parts = text.split(",")
    while len(parts) > 1 and not parts[-1]:
        parts.pop()
    return tuple(parts)
