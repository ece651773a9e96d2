"""What runners of statements get: the catalog, the current database, DuckDB's connection, values of parameters."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, Unpack

import sqlglot
from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import SqlglotError

from morrow.engine.catalog.names import object_name
from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.plan.filter.deep import with_room
from morrow.engine.plan.filter.sql_errors import problem_of
from morrow.engine.plan.time_travel import TravelArguments
from morrow.queries.as_of import NOT_CONSTANT
from morrow.queries.dialect import Dialect
from morrow.queries.parameters import Node, literal, value_of
from morrow.queries.querying import Prepared, Sources, prepared, related
from morrow.readers.expressions.sql import SESSION
from morrow.statements.statement import Name, Values, shown_name
from morrow.tables.table import Table

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from morrow.engine.catalog.databases import Database
    from morrow.engine.catalog.functions import Function
    from morrow.engine.catalog.views import View
    from morrow.engine.plan.filter import FilterLike
    from morrow.engine.schema.columns import SchemaLike
    from morrow.scans.system import SystemScan
    from morrow.tables.format_table import FormatTable
    from morrow.tables.many_tables import CompactedTable


class Warehouse(Protocol):
    """The methods of `Catalog` that statements call."""

    @property
    def warehouse(self) -> str: ...
    def databases(self) -> list[str]: ...
    def tables(self, database: str) -> list[str]: ...
    def table(self, name: str, *, branch: str | None = None) -> Table: ...
    def format_table(self, name: str) -> FormatTable: ...
    def system(self, name: str, **at: Unpack[TravelArguments]) -> SystemScan: ...
    def database(self, name: str) -> Database: ...
    def create_database(
        self, name: str, *, properties: Mapping[str, object] | None = None, ignore_if_exists: bool = False
    ) -> None: ...
    def alter_database(
        self, name: str, properties: Mapping[str, object] | None = None, *, unset: str | Sequence[str] = ()
    ) -> None: ...
    def drop_database(self, name: str, *, cascade: bool = False, ignore_if_not_exists: bool = False) -> None: ...
    def create_table(
        self,
        name: str,
        *,
        schema: SchemaLike,
        primary_keys: str | Sequence[str] = (),
        partition_keys: str | Sequence[str] = (),
        options: Mapping[str, object] | None = None,
        comment: str | None = None,
        ignore_if_exists: bool = False,
    ) -> Table: ...
    def create_format_table(
        self,
        name: str,
        schema: SchemaLike,
        *,
        format: str = ...,
        partition_keys: str | Sequence[str] = (),
        options: Mapping[str, object] | None = None,
        comment: str | None = None,
    ) -> FormatTable: ...
    def views(self, database: str) -> list[str]: ...
    def view(self, name: str) -> View: ...
    def create_view(
        self, name: str, query: str, *, comment: str | None = None, ignore_if_exists: bool = False
    ) -> View: ...
    def drop_view(self, name: str, *, ignore_if_not_exists: bool = False) -> None: ...
    def functions(self, database: str) -> list[str]: ...
    def function(self, name: str) -> Function: ...
    def drop_table(self, name: str, *, ignore_if_not_exists: bool = False) -> None: ...
    def rename_table(self, name: str, new_name: str) -> Table: ...
    def check_replaceable(self) -> None: ...
    def replace_table(self, name: str, by: str) -> Table: ...
    def copy_table(self, source: str | Table, name: str, *, where: FilterLike | None = None) -> Table: ...
    def clone_parquet(
        self, folder: str | os.PathLike[str], name: str, *, options: Mapping[str, object] | None = None
    ) -> Table: ...
    def compact(
        self,
        *,
        databases: str | None = None,
        including: str | None = None,
        excluding: str | None = None,
        full: bool = False,
    ) -> list[CompactedTable]: ...


@dataclass
class Context:
    """The state in which the statements of a text run, one after the other."""

    catalog: Warehouse
    sources: Sources
    connection: duckdb.DuckDBPyConnection
    database: str | None = None
    parameters: Mapping[str, object] = field(default_factory=dict)

    # Names

    def full_name(self, name: Name) -> str:
        """Returns ``database.table``. Raises `InvalidArgument` for a name of another form."""
        if len(name) == 1 and self.database is not None:
            return f"{self.database}.{name[0]}"
        if len(name) == 1:
            raise InvalidArgument(f"{name[0]!r}: in which database? Write database.table, or USE a database first")
        if len(name) > 2 or "." in name[0]:
            raise InvalidArgument(f"{shown_name(name)!r} is no name of a table here; write database.table")
        return ".".join(name)

    def plain_name(self, name: Name, what: str) -> str:
        """Returns ``database.table`` of a table itself, neither a branch nor a system table."""
        full = self.full_name(name)
        found = object_name(full)
        if found.branch is not None or found.system is not None:
            raise InvalidArgument(f"{what}: {full!r} is no table itself")
        return full

    def table(self, name: Name) -> Table:
        """Opens a table, or a branch of it. Raises `InvalidArgument` for a system table, others as `Catalog.table`."""
        full = self.full_name(name)
        found = object_name(full)
        if found.system is not None:
            raise InvalidArgument(f"{full!r} is a system table; it is only read")
        return self.catalog.table(found.table, branch=found.branch)

    def format_table(self, name: Name) -> FormatTable | None:
        """Opens a format table; None where the table is of another kind, or the catalog has none of this kind."""
        try:
            return self.catalog.format_table(self.full_name(name))
        except (InvalidArgument, Unsupported):
            return None

    def database_of(self, name: Name) -> str:
        """Returns a database that is named, or the current one."""
        if name:
            return name[0]
        if self.database is None:
            known = ", ".join(self.catalog.databases()) or "none"
            raise InvalidArgument(f"in which database? Write IN database, or USE one first; there are: {known}")
        return self.database

    # Queries and values

    def prepared(self, query: str) -> Prepared:
        """Returns a query whose parameters are literals."""
        return prepared(
            query,
            self.sources,
            database=self.database,
            connection=self.connection,
            parameters=self.parameters,
            literals=True,
        )

    def rows(self, query: str) -> pa.Table:
        """Returns the rows of a query as an Arrow table. Raises as `of_query` where DuckDB cannot compute them."""
        return related(self.prepared(query), self.connection).to_arrow_table()

    def expression(self, text: str, what: str) -> Node:
        """Returns the tree of an expression, with literals in the place of parameters."""
        try:
            tree = with_room(lambda: sqlglot.parse_one(text, into=exp.Condition, dialect=Dialect), text, what)
        except SqlglotError as error:
            raise InvalidArgument(f"{what}: {text!r} does not parse{problem_of(error)}") from None
        holder = exp.Paren(this=tree)
        for placeholder in list(holder.find_all(exp.Placeholder)):
            placeholder.replace(literal(value_of(placeholder, self.parameters)))
        return holder.this

    def constant(self, text: str, what: str) -> Any:
        """Returns the value of an expression of constants, computed by a DuckDB without tables and file access."""
        import duckdb

        tree = self.expression(text, what)
        if tree.find(*NOT_CONSTANT) is not None:
            raise InvalidArgument(f"{what}: {text!r} is no constant")
        with duckdb.connect(config=SESSION) as apart:
            apart.execute("SET TimeZone = 'UTC'")
            try:
                found = apart.execute(exp.select(tree).sql(dialect=DuckDB)).fetchone()
            except duckdb.Error as error:
                raise InvalidArgument(f"{what}: {text!r}: {str(error).splitlines()[0]}") from error
        assert found is not None  # a SELECT without FROM
        return found[0]

    def partition(self, given: Values, what: str) -> dict[str, object]:
        """Returns values of partition columns."""
        return {name: self.constant(text, f"{what} {name}") for name, text in given.items() if text is not None}

    def relation(self, rows: pa.Table) -> duckdb.DuckDBPyRelation:
        from morrow.readers.execution.duckdb_relation import relation

        return relation(rows, self.connection)

    def did(self, deed: str) -> duckdb.DuckDBPyRelation:
        """Returns the result of a statement about tables: what was done."""
        import pyarrow as pa

        return self.relation(pa.table({"done": [deed]}))
