"""Statements about databases, tables, partitions and tags as values."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from morrow.engine.schema.sql import Columns
from morrow.statements.statement import Name, Statement, Values, shown_name


@dataclass(frozen=True)
class CreateDatabase(Statement):
    kind: ClassVar[str] = "CREATE DATABASE"
    database: str
    if_not_exists: bool = False
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class AlterDatabase(Statement):
    kind: ClassVar[str] = "ALTER DATABASE"
    database: str
    properties: Mapping[str, str] = field(default_factory=dict)
    removed: tuple[str, ...] = ()


@dataclass(frozen=True)
class DropDatabase(Statement):
    kind: ClassVar[str] = "DROP DATABASE"
    database: str
    if_exists: bool = False
    cascade: bool = False

    @property
    def loss(self) -> str:
        return f"drop the database {self.database}{' with its tables' if self.cascade else ''}"


@dataclass(frozen=True)
class CreateTable(Statement):
    """CREATE TABLE, with columns or with the rows of `query`; `replace` None: CREATE, else whether it has to exist."""

    kind: ClassVar[str] = "CREATE TABLE"
    table: Name
    columns: Columns | None = None
    query: str | None = None
    partition_keys: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    comment: str | None = None
    if_not_exists: bool = False
    replace: bool = False
    must_exist: bool = False

    @property
    def loss(self) -> str | None:
        return f"replace the table {shown_name(self.table)}" if self.replace else None


@dataclass(frozen=True)
class CreateTableLike(Statement):
    kind: ClassVar[str] = "CREATE TABLE LIKE"
    table: Name
    source: Name
    options: Mapping[str, str] = field(default_factory=dict)
    if_not_exists: bool = False


@dataclass(frozen=True)
class DropTable(Statement):
    kind: ClassVar[str] = "DROP TABLE"
    table: Name
    if_exists: bool = False

    @property
    def loss(self) -> str:
        return f"drop the table {shown_name(self.table)}"


@dataclass(frozen=True)
class RenameTable(Statement):
    kind: ClassVar[str] = "ALTER TABLE RENAME"
    table: Name
    to: Name


@dataclass(frozen=True)
class NewColumn:
    """A column, or a member at a path; `after`: its neighbour, empty for the first place."""

    path: Name
    definition: str
    """Its type, comment and default as SQL."""
    after: str | None = None


@dataclass(frozen=True)
class AlterTable(Statement):
    """ALTER TABLE: changes of one version of the schema."""

    kind: ClassVar[str] = "ALTER TABLE"
    table: Name
    changes: tuple[AlterChange, ...]


@dataclass(frozen=True)
class AlterChange:
    """A change: its verb, the path of its column or its key, and what is new.

    The verbs are those of `morrow.statements.altering`.
    """

    verb: str
    path: Name = ()
    value: str | None = None
    new: NewColumn | None = None
    if_exists: bool = False


@dataclass(frozen=True)
class DropPartitions(Statement):
    kind: ClassVar[str] = "ALTER TABLE DROP PARTITION"
    table: Name
    partitions: tuple[Values, ...]

    @property
    def loss(self) -> str:
        return f"drop {len(self.partitions)} partitions of {shown_name(self.table)}"


@dataclass(frozen=True)
class Truncate(Statement):
    kind: ClassVar[str] = "TRUNCATE TABLE"
    table: Name
    partition: Values | None = None

    @property
    def loss(self) -> str:
        return f"delete {'all' if self.partition is None else 'some'} rows of {shown_name(self.table)}"


@dataclass(frozen=True)
class CreateTag(Statement):
    kind: ClassVar[str] = "ALTER TABLE CREATE TAG"
    table: Name
    tag: str
    snapshot: int | None = None
    retained: dt.timedelta | None = None
    replace: bool = False
    if_not_exists: bool = False


@dataclass(frozen=True)
class DeleteTags(Statement):
    kind: ClassVar[str] = "ALTER TABLE DELETE TAG"
    table: Name
    tags: str
    """Names that commas separate."""
    if_exists: bool = False

    @property
    def loss(self) -> str:
        return f"delete the tag {self.tags} of {shown_name(self.table)}"


@dataclass(frozen=True)
class RenameTag(Statement):
    kind: ClassVar[str] = "ALTER TABLE RENAME TAG"
    table: Name
    tag: str
    to: str
    if_exists: bool = False


@dataclass(frozen=True)
class Analyze(Statement):
    """ANALYZE TABLE; `columns` None: all."""

    kind: ClassVar[str] = "ANALYZE TABLE"
    table: Name
    columns: tuple[str, ...] | None = ()


@dataclass(frozen=True)
class AnalyzeTables(Statement):
    """ANALYZE TABLES: counts the rows of all tables of a database; empty: of the current one."""

    kind: ClassVar[str] = "ANALYZE TABLES"
    database: Name = ()
