"""A proposed schema, as the rules of `validation` and `feature_rules` check it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from morrow.engine.errors import ColumnNotFound, InvalidArgument
from morrow.engine.format.schema import TableSchema
from morrow.engine.options import Options, TableOptions, parse_options
from morrow.engine.redaction import format_columns


@dataclass(frozen=True)
class Proposal:
    """A proposed schema; `options` are the options that reads depend on."""

    schema: TableSchema
    options: TableOptions
    where: str

    @classmethod
    def of(cls, schema: TableSchema, where: str) -> Proposal:
        """Parse the options of a schema. Raises `InvalidArgument`, `Unsupported` for options that do not parse."""
        return cls(schema, parse_options(schema.options, where=where), where)

    @property
    def keyed(self) -> bool:
        return bool(self.schema.primary_keys)

    @property
    def given(self) -> Options:
        """All options as the user gave them."""
        return self.options.given

    def refused(self, problem: str) -> InvalidArgument:
        return InvalidArgument(f"{self.where}: {problem}")

    def require(self, holds: bool, problem: str) -> None:
        """Raise `InvalidArgument` unless `holds`."""
        if not holds:
            raise self.refused(problem)

    def require_columns(self, names: Sequence[str], what: str) -> None:
        """Raise `ColumnNotFound` for names that are not columns."""
        for name in names:
            if name not in self.schema.by_name:
                known = format_columns(self.schema.by_name)
                raise ColumnNotFound(f"{self.where}: the {what} {name!r} is not a column; {known}")
