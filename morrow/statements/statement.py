"""Statements as values. Names of tables are their parts; queries and expressions are the text that was written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

Name: TypeAlias = "tuple[str, ...]"
"""``db.orders`` as its parts, without quotes."""
Values: TypeAlias = "Mapping[str, str | None]"
"""Values of partition columns, as SQL expressions; None: a column named without a value."""


LOSING = ("rollback", "expire_", "delete_", "purge_", "remove_", "replace_", "clear_", "fast_forward", "drop_")
"""How the names of procedures begin that delete something."""


@dataclass(frozen=True)
class Statement:
    """A statement; `kind` is its name in messages."""

    kind: ClassVar[str] = "the statement"

    @property
    def loss(self) -> str | None:
        """What the statement deletes, such as ``drop db.t``; None where it deletes nothing."""
        return None


def shown_name(name: Name) -> str:
    return ".".join(name)


@dataclass(frozen=True)
class Query(Statement):
    """Whatever returns rows and changes nothing."""

    kind: ClassVar[str] = "SELECT"
    text: str


@dataclass(frozen=True)
class Explain(Statement):
    kind: ClassVar[str] = "EXPLAIN"
    statement: Statement


@dataclass(frozen=True)
class Use(Statement):
    kind: ClassVar[str] = "USE"
    database: str


@dataclass(frozen=True)
class Show(Statement):
    """SHOW: of a table, a database or the catalog, by `what`."""

    kind: ClassVar[str] = "SHOW"
    what: str
    name: Name = ()
    like: str | None = None
    partition: Values | None = None


@dataclass(frozen=True)
class Describe(Statement):
    kind: ClassVar[str] = "DESCRIBE"
    table: Name
    extended: bool = False


@dataclass(frozen=True)
class DescribeDatabase(Statement):
    kind: ClassVar[str] = "DESCRIBE DATABASE"
    database: str
    extended: bool = False


@dataclass(frozen=True)
class Argument:
    """An argument of CALL; `name` None: by its position."""

    name: str | None
    value: str
    """A SQL expression of constants."""


@dataclass(frozen=True)
class CallProcedure(Statement):
    kind: ClassVar[str] = "CALL"
    procedure: Name
    arguments: tuple[Argument, ...]

    @property
    def loss(self) -> str | None:
        name = self.procedure[-1].lower()
        return f"call {name}, which deletes or replaces" if name.startswith(LOSING) else None


@dataclass(frozen=True)
class CopyTo(Statement):
    kind: ClassVar[str] = "COPY"
    query: str
    target: str
    """The file and the options, as DuckDB reads them."""
