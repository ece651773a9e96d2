"""Tables about all tables of a catalog: Paimon's database ``sys``.

They are ``all_tables``, ``all_partitions``, ``all_table_options`` and ``catalog_options``; Paimon itself calls the
first two ``sys.tables`` and ``sys.partitions``. Values that only other catalogs have (owners, counts) are null, as in
Java.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeAlias

import polars as pl

from morrow.engine.catalog.names import SYSTEM_DATABASE
from morrow.engine.catalog.protocol import Catalog, find_folder_table
from morrow.engine.errors import TableNotFound, Unsupported
from morrow.engine.format.binary_row import decode_columns, to_python_rows
from morrow.engine.format.paths import partition_path, unescape_path_name
from morrow.engine.options import Options
from morrow.engine.options.declarations import AnyOption
from morrow.engine.options.declared.table import CREATED_AT, CREATED_BY, OWNER, PATH, TYPE, UPDATED_AT, UPDATED_BY
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.redaction import hide_secrets
from morrow.readers.system.base import Fields, TableState, make_columns, make_frame, suggest_table_name
from morrow.readers.system.files import is_real_bucket, partition_sums

TABLES_COLUMNS = make_columns(
    database_name="STRING",
    table_name="STRING",
    table_type="STRING",
    partitioned="BOOLEAN",
    primary_key="BOOLEAN",
    owner="STRING",
    created_at="BIGINT",
    created_by="STRING",
    updated_at="BIGINT",
    updated_by="STRING",
    record_count="BIGINT",
    file_size_in_bytes="BIGINT",
    file_count="BIGINT",
    last_file_creation_time="BIGINT",
)
PARTITIONS_COLUMNS = make_columns(
    database_name="STRING",
    table_name="STRING",
    partition_name="STRING",
    record_count="BIGINT",
    file_size_in_bytes="BIGINT",
    file_count="BIGINT",
    last_file_creation_time="BIGINT",
    done="BOOLEAN",
)
TABLE_OPTIONS_COLUMNS = make_columns(database_name="STRING", table_name="STRING", key="STRING", value="STRING")
CATALOG_OPTIONS_COLUMNS = make_columns(key="STRING NOT NULL", value="STRING NOT NULL")

Make: TypeAlias = Callable[[Catalog], pl.DataFrame]


@dataclass(frozen=True)
class CatalogTable:
    """A table about a catalog; `make` returns its rows, in Morrow's dtypes, by database and table."""

    name: str
    description: str
    columns: Fields
    make: Make


def _list_tables(catalog: Catalog) -> Iterator[tuple[str, str, TableMetadata]]:
    """Yield the tables in Paimon's own format; for other tables, partitions and options are not listed."""
    for database, table, metadata in _list_names(catalog):
        if metadata is not None:
            yield database, table, metadata


def _list_names(catalog: Catalog) -> Iterator[tuple[str, str, TableMetadata | None]]:
    for database in catalog.databases():
        for table in catalog.tables(database):
            found = None
            with suppress(Unsupported):  # format tables, and objects that Morrow does not read
                found = catalog.table(f"{database}.{table}")
            yield database, table, found


def _list_options(metadata: TableMetadata) -> Mapping[str, str]:
    """Return the options of a table, with its path as Paimon's catalogs add it."""
    return {**metadata.latest_schema().options, PATH.key: metadata.store.url(metadata.root)}


def _make_tables(catalog: Catalog) -> pl.DataFrame:
    return make_frame(TABLES_COLUMNS, (_make_table_row(catalog, *place) for place in _list_names(catalog)))


def _make_table_row(catalog: Catalog, database: str, name: str, metadata: TableMetadata | None) -> tuple[Any, ...]:
    where = f"{catalog.title}, {database}.{name}"
    schema = find_folder_table(catalog, f"{database}.{name}").schema if metadata is None else metadata.latest_schema()
    options = Options(schema.options, where)
    audit: tuple[AnyOption, ...] = (OWNER, CREATED_AT, CREATED_BY, UPDATED_AT, UPDATED_BY)
    keys = bool(schema.partition_keys), bool(schema.primary_keys)
    return database, name, options.get(TYPE), *keys, *(options.get(each) for each in audit), None, None, None, None


def _make_partitions(catalog: Catalog) -> pl.DataFrame:
    parts = [make_frame(PARTITIONS_COLUMNS, [])]
    for database, table, metadata in _list_tables(catalog):
        state = TableState(metadata)
        sums = partition_sums(state, ["_PARTITION"], is_real_bucket(state)) if state.schema.partition_keys else None
        if sums is None:
            continue
        times = [_to_instant(local) for local in sums["last_update_time"].to_physical().to_list()]
        parts.append(
            sums.select(
                pl.lit(database).alias("database_name"),
                pl.lit(table).alias("table_name"),
                pl.Series("partition_name", _list_partition_names(state, sums["_PARTITION"]), dtype=pl.String),
                *("record_count", "file_size_in_bytes", "file_count"),
                pl.Series("last_file_creation_time", times, dtype=pl.Int64),
                pl.lit(False).alias("done"),
            ).sort("partition_name")
        )
    return pl.concat(parts)


def _list_partition_names(state: TableState, stored: pl.Series) -> list[str]:
    """Return the folder names of partitions without escapes."""
    schema, options, where = state.schema, state.options, state.metadata.where
    types = [schema.by_name[name].type for name in schema.partition_keys]
    rows = to_python_rows(decode_columns(stored, types, where=where), where=where)
    default, legacy = options.partition_default_name, options.legacy_partition_name
    folders = [
        partition_path(row, types, schema.partition_keys, default_name=default, legacy_name=legacy) for row in rows
    ]
    return [unescape_path_name(folder) for folder in folders]


def _to_instant(local: int | None) -> int | None:
    """Convert milliseconds of a wall-clock time on this machine to epoch milliseconds."""
    if local is None:
        return None
    seconds, millis = divmod(local, 1000)
    return int(time.mktime((*time.gmtime(seconds)[:8], -1))) * 1000 + millis


def _make_table_options(catalog: Catalog) -> pl.DataFrame:
    rows = (
        (database, table, key, value)
        for database, table, metadata in _list_tables(catalog)
        for key, value in hide_secrets(_list_options(metadata)).items()
    )
    return make_frame(TABLE_OPTIONS_COLUMNS, rows)


def _make_catalog_options(catalog: Catalog) -> pl.DataFrame:
    return make_frame(CATALOG_OPTIONS_COLUMNS, sorted(catalog.options.items()))


_TABLES = (
    CatalogTable("all_tables", "tables of all databases", TABLES_COLUMNS, _make_tables),
    CatalogTable("all_partitions", "partitions of all tables, with sums", PARTITIONS_COLUMNS, _make_partitions),
    CatalogTable("all_table_options", "options of all tables", TABLE_OPTIONS_COLUMNS, _make_table_options),
    CatalogTable("catalog_options", "options of the catalog", CATALOG_OPTIONS_COLUMNS, _make_catalog_options),
)
CATALOG_TABLES: Mapping[str, CatalogTable] = {table.name: table for table in _TABLES}
ALIASES: Mapping[str, str] = {"tables": "all_tables", "partitions": "all_partitions"}
"""Paimon's own names of the tables in its database ``sys``."""
NAMES: Sequence[str] = sorted({*CATALOG_TABLES, *ALIASES})


def find_catalog_table(name: str) -> CatalogTable:
    """Return the table of this name, in lower or upper case, with or without the database ``sys`` before it.

    Raises `TableNotFound`: the table does not exist.
    """
    plain = name.lower().removeprefix(f"{SYSTEM_DATABASE}.")
    found = CATALOG_TABLES.get(ALIASES.get(plain, plain))
    if found is None:
        raise TableNotFound(f"a catalog has no system table {name!r}; {suggest_table_name(plain, [*CATALOG_TABLES])}")
    return found
