"""Sources of queries: tables of the catalog, ``information_schema``, and results of Paimon functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from morrow.engine.catalog.names import SYSTEM_DATABASE, parse_object_name
from morrow.engine.errors import DatabaseNotFound, InvalidArgument, MorrowError, TableNotFound, Unsupported
from morrow.engine.format.schema import ROWKIND
from morrow.statements.tokens import split

if TYPE_CHECKING:
    from morrow.engine.catalog.protocol import Function, View
    from morrow.engine.plan.time_travel import Travel
    from morrow.readers.execution.datasets import PaimonDataset
    from morrow.statements.context import SqlSession, Warehouse
    from morrow.tables.table import Table

INFORMATION = "information_schema"
ADDED = pa.array(["+I", "+U"])
VECTOR_SEARCH = "vector_search"
"""Paimon's table function for the rows with the nearest vectors."""
FULL_TEXT_SEARCH = "full_text_search"
"""Paimon's table function for the rows whose texts match a query."""
MAX_PT = "max_pt"
TABLES = {"table_catalog": pa.string(), "table_schema": pa.string(), "table_name": pa.string()}
YES, NO = "YES", "NO"


@dataclass(frozen=True)
class CatalogSources:
    """The tables of a catalog, with the options of a session.

    `open_dataset` maps ``database.table``, optionally with ``$``, time travel, options of reads, columns of row
    tracking and settings to a dataset. Options override settings. Tables without options of reads refuse the former.
    """

    catalog: Warehouse
    open_dataset: Callable[[str, Travel, Mapping[str, str], Sequence[str], Mapping[str, str]], PaimonDataset]
    session: SqlSession | None = None

    @property
    def databases(self) -> Sequence[str]:
        return self.catalog.databases()

    def open_table(
        self, name: str, travel: Travel, tracked: Sequence[str] = (), options: Mapping[str, str] = MappingProxyType({})
    ) -> PaimonDataset:
        table = parse_object_name(name).table
        settings = {} if self.session is None else self.session.select_options(self.catalog, table)
        return self.open_dataset(name, travel, options, tracked, settings)

    def in_catalog(self, name: str) -> CatalogSources | None:
        return None if self.session is None else self.session.sources.get(name)

    def changes(self, name: str, options: Mapping[str, str]) -> pa.Table | PaimonDataset:
        from morrow.queries.incremental import parse_change_options

        parts = parse_object_name(name)
        table = self.catalog.table(parts.table, branch=parts.branch)
        asked = parse_change_options(table, options)
        if parts.system is None:
            found = table.changes(1, 1, mode="diff") if asked is None else table.changes(**asked)
            rows = found.to_arrow()
            return rows.filter(pc.is_in(rows[ROWKIND], ADDED)).drop_columns([ROWKIND])
        if asked is None or "from_snapshot" not in asked:
            raise Unsupported(f"changes of {name} between times, or where there are none,", hint="name two snapshots")
        return table.system(parts.system, **asked).dataset()

    def view(self, name: str) -> View | None:
        try:
            return self.catalog.view(name)
        except (Unsupported, TableNotFound, DatabaseNotFound):
            return None

    def function(self, name: str, arguments: Sequence[object], database: str | None) -> pa.Table | PaimonDataset | None:
        from morrow.queries.incremental import CHANGES_BY

        if name.lower() == VECTOR_SEARCH:
            return self._search(arguments, database)
        if name.lower() == FULL_TEXT_SEARCH:
            return self._search_text(arguments, database)
        known = CHANGES_BY.get(name.lower())
        if known is None:
            return None
        key, count = known
        if len(arguments) != count + 1:
            raise InvalidArgument(f"{name} takes the name of a table and {count} more")
        table, *others = map(str, arguments)
        return self.changes(_qualify_name(table, database), {key: ",".join(others)})

    def _search(self, arguments: Sequence[object], database: str | None) -> pa.Table:
        """Return the rows of ``vector_search('db.t', 'column', [1.0, 2.0], k, 'metric=cosine')``."""
        from morrow.readers.execution.row_search import parse_search_options
        from morrow.scans.lookups import SearchRequest, plan_search

        if len(arguments) not in (4, 5):
            raise InvalidArgument(
                f"{VECTOR_SEARCH} takes the name of a table, a column, a list of numbers, the number of rows, and "
                "optionally a text such as 'metric=cosine'"
            )
        table, column, query, k, *options = arguments
        metric, exact, others = parse_search_options(str(options[0]) if options else "")
        metadata = self.catalog.table(_qualify_name(str(table), database))._metadata
        asked = SearchRequest(str(column), k)
        return plan_search(metadata, asked, query, metric, exact=exact, options=others)[1]()

    def _search_text(self, arguments: Sequence[object], database: str | None) -> pa.Table:
        """Return the rows of ``full_text_search('db.t', 'column', 'words, or a query in JSON', k)``."""
        from morrow.scans.lookups import SearchRequest, search_texts

        if len(arguments) != 4:
            raise InvalidArgument(
                f"{FULL_TEXT_SEARCH} takes the name of a table, a column, a query, and the number of rows"
            )
        table, column, query, k = arguments
        metadata = self.catalog.table(_qualify_name(str(table), database))._metadata
        return search_texts(metadata, SearchRequest(str(column), k), query)

    def value(self, name: str, arguments: Sequence[object], database: str | None) -> str | None:
        from morrow.writers.operations.partition_filters import find_greatest_partition
        from morrow.writers.target import WriteTarget

        if name.lower() != MAX_PT:
            return None
        if len(arguments) != 1:
            raise InvalidArgument(f"{MAX_PT} takes the name of a table")
        full = _qualify_name(str(arguments[0]), database)
        return find_greatest_partition(WriteTarget.of(self.catalog.table(full)._metadata))

    def catalog_function(self, name: str) -> Function | None:
        if name.partition(".")[0] not in self.databases:
            return None  # a method call or function of DuckDB
        try:
            return self.catalog.function(name)
        except (Unsupported, TableNotFound, DatabaseNotFound):
            return None

    def of_schema(self, schema: str, name: str) -> pa.Table | None:
        if schema.lower() != INFORMATION:
            return None
        made = VIEWS.get(name.lower())
        if made is None:
            known = ", ".join(f"{INFORMATION}.{each}" for each in VIEWS)
            raise TableNotFound(f"{INFORMATION}.{name}: there is no such table; there are {known}")
        return made(self.catalog)


def _qualify_name(text: str, database: str | None) -> str:
    """Return ``database.table``, optionally with ``$``, for a SQL name whose parts may be quoted."""
    statements = split(text)
    parts = statements[0].path() if len(statements) == 1 else ()
    if len(statements) != 1 or not statements[0].is_at_end():
        raise InvalidArgument(f"{text!r} is not a table name; write database.table")
    if len(parts) == 1 and database is None:
        raise InvalidArgument(f"{text!r}: in which database? Write database.table")
    if len(parts) > 2:
        raise InvalidArgument(f"{text!r} is not a table name here; write database.table")
    return ".".join(parts if len(parts) > 1 else (str(database), *parts))


def qualify_name(text: str, database: str | None) -> tuple[str, str | None]:
    """Return ``database.table`` and the branch for a SQL name. Raises `InvalidArgument` for a system table."""
    found = parse_object_name(_qualify_name(text, database))
    if found.system is not None:
        raise InvalidArgument(f"{text!r} is a system table; name the table itself")
    return found.table, found.branch


# information_schema


def _list_tables(catalog: Warehouse) -> Iterator[tuple[str, str, Table]]:
    for database in catalog.databases():
        for name in catalog.tables(database):
            try:
                yield database, name, catalog.table(f"{database}.{name}")
            except (TableNotFound, Unsupported):  # dropped meanwhile, or a format table
                continue


def _read_schemata(catalog: Warehouse) -> pa.Table:
    names = [*catalog.databases(), SYSTEM_DATABASE, INFORMATION]
    columns = {"catalog_name": [catalog.warehouse] * len(names), "schema_name": names}
    return pa.table(columns, pa.schema({"catalog_name": pa.string(), "schema_name": pa.string()}))


def _read_tables(catalog: Warehouse) -> pa.Table:
    schema = pa.schema({**TABLES, "table_type": pa.string(), "table_comment": pa.string(), "row_count": pa.int64()})
    rows = []
    for database, name, table in _list_tables(catalog):
        at = {"table_catalog": catalog.warehouse, "table_schema": database, "table_name": name}
        try:
            count: int | None = table.count()
        except MorrowError:  # a table that cannot be read is still listed
            count = None
        rows.append({**at, "table_type": "BASE TABLE", "table_comment": table.comment, "row_count": count})
    return pa.Table.from_pylist(rows, schema)


def _read_columns(catalog: Warehouse) -> pa.Table:
    numbers = {"ordinal_position": pa.int32()}
    texts = dict.fromkeys(("column_default", "is_nullable", "data_type", "column_comment"), pa.string())
    schema = pa.schema({**TABLES, "column_name": pa.string(), **numbers, **texts})
    rows = [
        {
            "table_catalog": catalog.warehouse,
            "table_schema": database,
            "table_name": name,
            "column_name": field.name,
            "ordinal_position": number,
            "column_default": field.default_value,
            "is_nullable": YES if field.type.nullable else NO,
            "column_comment": field.description,
            "data_type": field.type.with_nullable(True).text(),
        }
        for database, name, table in _list_tables(catalog)
        for number, field in enumerate(table._newest.fields, 1)
    ]
    return pa.Table.from_pylist(rows, schema)


def _read_key_columns(catalog: Warehouse) -> pa.Table:
    schema = pa.schema(
        {"constraint_name": pa.string(), **TABLES, "column_name": pa.string(), "ordinal_position": pa.int32()}
    )
    rows = [
        {
            "constraint_name": "PRIMARY KEY",
            "table_catalog": catalog.warehouse,
            "table_schema": database,
            "table_name": name,
            "column_name": column,
            "ordinal_position": number,
        }
        for database, name, table in _list_tables(catalog)
        for number, column in enumerate(table.primary_keys, 1)
    ]
    return pa.Table.from_pylist(rows, schema)


VIEWS: Mapping[str, Callable[[Warehouse], pa.Table]] = {
    "schemata": _read_schemata,
    "tables": _read_tables,
    "columns": _read_columns,
    "key_column_usage": _read_key_columns,
}
"""The tables of ``information_schema``."""
