"""Statements about rows as values: INSERT, DELETE, UPDATE and MERGE INTO."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from morrow.statements.statement import Name, Statement, Values, shown_name


@dataclass(frozen=True)
class Insert(Statement):
    """INSERT INTO or OVERWRITE; `columns` None: all in order."""

    kind: ClassVar[str] = "INSERT"
    table: Name
    query: str
    columns: tuple[str, ...] | None = None
    partition: Values = field(default_factory=dict)
    by_name: bool = False
    overwrite: bool = False
    replace_where: str | None = None
    evolves: bool = False
    """Columns of the query that the table lacks are added to it: WITH SCHEMA EVOLUTION."""

    @property
    def loss(self) -> str | None:
        replaces = self.overwrite or self.replace_where is not None
        return f"overwrite rows of {shown_name(self.table)}" if replaces else None


@dataclass(frozen=True)
class Delete(Statement):
    kind: ClassVar[str] = "DELETE"
    table: Name
    alias: str | None = None
    where: str | None = None
    source: str | None = None
    """What stands behind USING."""

    @property
    def loss(self) -> str:
        return f"delete {'all' if self.where is None else 'some'} rows of {shown_name(self.table)}"


@dataclass(frozen=True)
class Update(Statement):
    kind: ClassVar[str] = "UPDATE"
    table: Name
    set: tuple[tuple[Name, str], ...]
    alias: str | None = None
    where: str | None = None
    source: str | None = None
    """What stands behind FROM."""


@dataclass(frozen=True)
class When:
    """A clause of MERGE INTO: `when` and `action` are those of `Merge`; `set` None: all columns (``*``)."""

    when: str
    action: str
    condition: str | None = None
    set: tuple[tuple[Name, str], ...] | None = None


@dataclass(frozen=True)
class MergeInto(Statement):
    kind: ClassVar[str] = "MERGE"
    table: Name
    alias: str | None
    source: str
    """What stands behind FROM: a name or a query in parentheses, without its alias."""
    source_alias: str | None
    source_columns: tuple[str, ...]
    on: str
    clauses: tuple[When, ...]
    evolves: bool = False
    """Columns of the source that the table lacks are added to it: WITH SCHEMA EVOLUTION."""

    @property
    def loss(self) -> str | None:
        deletes = any(clause.action == "delete" for clause in self.clauses)
        return f"delete rows of {shown_name(self.table)}" if deletes else None
