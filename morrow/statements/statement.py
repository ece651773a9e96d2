"""SQL statements as frozen values, which the parser returns and two executors run.

`morrow.statements.execution` runs them for `Catalog.sql`, `morrow.spark.statements.execution` for `morrow.spark.sql`.
Names of tables and databases are tuples of their parts. Queries, expressions and types are the original text.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, TypeAlias

Name: TypeAlias = "tuple[str, ...]"
"""``db.orders`` as its parts, without quotes."""
Values: TypeAlias = "Mapping[str, str | None]"
"""Values of partition columns as SQL expressions; None for a column without a value."""

LOSING = ("rollback", "erase", "expire_", "delete_", "purge_", "remove_", "replace_", "clear_", "fast_forward", "drop_")
"""Prefixes of the names of procedures that delete something."""


@dataclass(frozen=True)
class Statement:
    """A statement; `kind` is its name in messages."""

    kind: ClassVar[str] = "the statement"

    @property
    def loss(self) -> str | None:
        """A description of the data that the statement deletes, such as ``drop db.t``; None if it deletes nothing."""
        return None


def format_name(name: Name) -> str:
    return ".".join(name)


@dataclass(frozen=True)
class Query(Statement):
    """A statement that returns rows and changes nothing."""

    kind: ClassVar[str] = "SELECT"
    text: str


@dataclass(frozen=True)
class Explain(Statement):
    kind: ClassVar[str] = "EXPLAIN"
    statement: Statement
    mode: str | None = None
    """The word after EXPLAIN, such as EXTENDED."""


@dataclass(frozen=True)
class Use(Statement):
    kind: ClassVar[str] = "USE"
    database: Name
    word: str | None = None
    """DATABASE or CATALOG, if the statement says what the name is."""


@dataclass(frozen=True)
class SetOption(Statement):
    """SET of an option of the session. Without a `value` it shows one option, without a `key` all of them."""

    kind: ClassVar[str] = "SET"
    key: str | None = None
    value: str | None = None


@dataclass(frozen=True)
class ResetOption(Statement):
    """RESET of an option of the session; all of them without a `key`."""

    kind: ClassVar[str] = "RESET"
    key: str | None = None


@dataclass(frozen=True)
class CreateCatalog(Statement):
    kind: ClassVar[str] = "CREATE CATALOG"
    catalog: str
    options: Mapping[str, str] = field(default_factory=dict)
    if_not_exists: bool = False


@dataclass(frozen=True)
class DropCatalog(Statement):
    """DROP CATALOG. The session forgets the catalog; its tables stay."""

    kind: ClassVar[str] = "DROP CATALOG"
    catalog: str
    if_exists: bool = False


@dataclass(frozen=True)
class Show(Statement):
    """SHOW for a table, a database or the catalog, depending on `what`."""

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
    column: Name = ()


@dataclass(frozen=True)
class DescribeQuery(Statement):
    kind: ClassVar[str] = "DESCRIBE QUERY"
    query: str


@dataclass(frozen=True)
class DescribeDatabase(Statement):
    kind: ClassVar[str] = "DESCRIBE DATABASE"
    database: Name
    extended: bool = False


@dataclass(frozen=True)
class Argument:
    """An argument of CALL; `name` is None for a positional one."""

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


@dataclass(frozen=True)
class CopyFormat:
    """FILE_FORMAT of COPY INTO: the type and the other options by upper-case name, each with its texts."""

    type: str
    options: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class CopyInto(Statement):
    """COPY INTO a table: the files of a folder are loaded; `columns` is None for all columns."""

    kind: ClassVar[str] = "COPY INTO"
    table: Name
    source: str
    """A folder, or one file."""
    format: CopyFormat
    columns: tuple[str, ...] | None = None
    pattern: str | None = None
    """A regular expression that is searched in the names of the files."""
    force: bool = False
    """Files that are loaded already are loaded again."""
    on_error: str = "ABORT_STATEMENT"


@dataclass(frozen=True)
class CopyIntoLocation(Statement):
    """COPY INTO a folder: the rows of a table or of a query are written to files."""

    kind: ClassVar[str] = "COPY INTO"
    target: str
    format: CopyFormat
    table: Name = ()
    query: str | None = None
    overwrite: bool = False

    @property
    def loss(self) -> str | None:
        return f"replace the files of {self.target}" if self.overwrite else None


@dataclass(frozen=True)
class Insert(Statement):
    """INSERT INTO or OVERWRITE; `columns` is None for all columns in order."""

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
        return f"overwrite rows of {format_name(self.table)}" if replaces else None


@dataclass(frozen=True)
class Delete(Statement):
    kind: ClassVar[str] = "DELETE"
    table: Name
    alias: str | None = None
    where: str | None = None
    source: str | None = None
    """The source after USING."""

    @property
    def loss(self) -> str:
        return f"delete {'all' if self.where is None else 'some'} rows of {format_name(self.table)}"


@dataclass(frozen=True)
class Update(Statement):
    kind: ClassVar[str] = "UPDATE"
    table: Name
    set: tuple[tuple[Name, str], ...]
    alias: str | None = None
    where: str | None = None
    source: str | None = None
    """The source after FROM."""


@dataclass(frozen=True)
class When:
    """A clause of MERGE INTO, with `when` and `action` as in `Merge`; `set` is None for all columns (``*``)."""

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
    """The source after USING: a name or a query in parentheses, without its alias."""
    source_alias: str | None
    source_columns: tuple[str, ...]
    on: str
    clauses: tuple[When, ...]
    evolves: bool = False
    """Columns of the source that the table lacks are added to it: WITH SCHEMA EVOLUTION."""

    @property
    def loss(self) -> str | None:
        deletes = any(clause.action == "delete" for clause in self.clauses)
        return f"delete rows of {format_name(self.table)}" if deletes else None


@dataclass(frozen=True)
class CreateDatabase(Statement):
    kind: ClassVar[str] = "CREATE DATABASE"
    database: Name
    if_not_exists: bool = False
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class AlterDatabase(Statement):
    kind: ClassVar[str] = "ALTER DATABASE"
    database: Name
    properties: Mapping[str, str] = field(default_factory=dict)
    removed: tuple[str, ...] = ()


@dataclass(frozen=True)
class DropDatabase(Statement):
    kind: ClassVar[str] = "DROP DATABASE"
    database: Name
    if_exists: bool = False
    cascade: bool = False

    @property
    def loss(self) -> str:
        return f"drop the database {format_name(self.database)}{' with its tables' if self.cascade else ''}"


@dataclass(frozen=True)
class CreateTable(Statement):
    """CREATE TABLE with columns or a `query`, CREATE OR REPLACE TABLE, or REPLACE TABLE, which `must_exist`."""

    kind: ClassVar[str] = "CREATE TABLE"
    table: Name
    columns: str | None = None
    """The definitions between the parentheses."""
    query: str | None = None
    partition_keys: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    comment: str | None = None
    if_not_exists: bool = False
    replace: bool = False
    must_exist: bool = False
    provider: str | None = None
    """The name after USING."""

    @property
    def loss(self) -> str | None:
        return f"replace the table {format_name(self.table)}" if self.replace else None


@dataclass(frozen=True)
class CreateTableLike(Statement):
    kind: ClassVar[str] = "CREATE TABLE LIKE"
    table: Name
    source: Name
    options: Mapping[str, str] = field(default_factory=dict)
    if_not_exists: bool = False
    provider: str | None = None


@dataclass(frozen=True)
class DropTable(Statement):
    kind: ClassVar[str] = "DROP TABLE"
    table: Name
    if_exists: bool = False

    @property
    def loss(self) -> str:
        return f"drop the table {format_name(self.table)}"


@dataclass(frozen=True)
class CreateView(Statement):
    kind: ClassVar[str] = "CREATE VIEW"
    view: Name
    query: str
    comment: str | None = None
    if_not_exists: bool = False
    replace: bool = False
    columns: tuple[tuple[str, str | None], ...] = ()
    """The names of the columns, each with a comment or None; empty: the names of the query."""
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def loss(self) -> str | None:
        return f"replace the view {format_name(self.view)}" if self.replace else None


@dataclass(frozen=True)
class AlterView(Statement):
    """ALTER VIEW: another query or name, or options that are set or removed."""

    kind: ClassVar[str] = "ALTER VIEW"
    view: Name
    query: str | None = None
    to: Name = ()
    options: Mapping[str, str] = field(default_factory=dict)
    removed: tuple[str, ...] = ()


@dataclass(frozen=True)
class DropView(Statement):
    kind: ClassVar[str] = "DROP VIEW"
    view: Name
    if_exists: bool = False

    @property
    def loss(self) -> str:
        return f"drop the view {format_name(self.view)}"


@dataclass(frozen=True)
class RepairTable(Statement):
    """MSCK REPAIR TABLE: partitions whose folders exist are registered, those without a folder unregistered."""

    kind: ClassVar[str] = "MSCK REPAIR TABLE"
    table: Name
    adds: bool = True
    drops: bool = False


@dataclass(frozen=True)
class CreateFunction(Statement):
    """CREATE FUNCTION in Spark: its parameters and body as SQL, or a Java class in files."""

    kind: ClassVar[str] = "CREATE FUNCTION"
    function: Name
    body: str
    """The text behind the name."""
    if_not_exists: bool = False
    replace: bool = False
    class_name: str | None = None
    files: tuple[tuple[str, str], ...] = ()
    """The kinds and URIs of files: ``JAR``, for example."""


@dataclass(frozen=True)
class DropFunction(Statement):
    kind: ClassVar[str] = "DROP FUNCTION"
    function: Name
    if_exists: bool = False


@dataclass(frozen=True)
class DescribeFunction(Statement):
    kind: ClassVar[str] = "DESCRIBE FUNCTION"
    function: Name
    extended: bool = False


@dataclass(frozen=True)
class RenameTable(Statement):
    kind: ClassVar[str] = "ALTER TABLE RENAME"
    table: Name
    to: Name


@dataclass(frozen=True)
class NewColumn:
    """A new column or nested field at a path; `after` is the preceding column, empty for the first position."""

    path: Name
    definition: str
    """The type, comment and default as SQL."""
    after: str | None = None


@dataclass(frozen=True)
class AlterTable(Statement):
    """ALTER TABLE: changes committed as one schema version."""

    kind: ClassVar[str] = "ALTER TABLE"
    table: Name
    changes: tuple[AlterChange, ...]


@dataclass(frozen=True)
class AlterChange:
    """A change: its verb, its column path or option key, and the new value.

    The executors define the verbs.
    """

    verb: str
    path: Name = ()
    value: str | None = None
    new: NewColumn | None = None
    if_exists: bool = False


@dataclass(frozen=True)
class CommentColumn(Statement):
    kind: ClassVar[str] = "COMMENT ON COLUMN"
    path: Name
    """The name of the table, followed by that of the column."""
    comment: str | None


@dataclass(frozen=True)
class DropPartitions(Statement):
    kind: ClassVar[str] = "ALTER TABLE DROP PARTITION"
    table: Name
    partitions: tuple[Values, ...]

    @property
    def loss(self) -> str:
        return f"drop {len(self.partitions)} partitions of {format_name(self.table)}"


@dataclass(frozen=True)
class AddPartitions(Statement):
    """ADD PARTITION, which changes nothing: a partition exists once it has rows."""

    kind: ClassVar[str] = "ALTER TABLE ADD PARTITION"
    table: Name
    partitions: tuple[Values, ...]


@dataclass(frozen=True)
class Truncate(Statement):
    kind: ClassVar[str] = "TRUNCATE TABLE"
    table: Name
    partition: Values | None = None

    @property
    def loss(self) -> str:
        return f"delete {'all' if self.partition is None else 'some'} rows of {format_name(self.table)}"


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
    """Tag names, separated by commas."""
    if_exists: bool = False

    @property
    def loss(self) -> str:
        return f"delete the tag {self.tags} of {format_name(self.table)}"


@dataclass(frozen=True)
class RenameTag(Statement):
    kind: ClassVar[str] = "ALTER TABLE RENAME TAG"
    table: Name
    tag: str
    to: str
    if_exists: bool = False


@dataclass(frozen=True)
class Analyze(Statement):
    """ANALYZE TABLE; `columns` is None for all columns."""

    kind: ClassVar[str] = "ANALYZE TABLE"
    table: Name
    columns: tuple[str, ...] | None = ()
    partition: Values | None = None
    """The values in PARTITION as SQL; None without PARTITION."""
    has_noscan: bool = False


@dataclass(frozen=True)
class AnalyzeTables(Statement):
    """ANALYZE TABLES: counts the rows of all tables of a database, by default the current one."""

    kind: ClassVar[str] = "ANALYZE TABLES"
    database: Name = ()
    has_noscan: bool = False
