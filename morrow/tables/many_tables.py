"""Operations of a catalog on whole tables: many compacted, one copied, one made from Parquet files."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from morrow.engine.arguments import instance
from morrow.engine.catalog.filesystem import FilesystemCatalog, check_warehouse
from morrow.engine.errors import AlreadyExists, InvalidArgument, MorrowError, TableNotFound, Unsupported
from morrow.engine.io.local import LocalStore
from morrow.engine.io.resolve import location_of
from morrow.engine.options.declared.table import BUCKET, PATH
from morrow.engine.plan.filter import FilterLike
from morrow.scans.making import make_scan
from morrow.tables.table import Table

if TYPE_CHECKING:
    from morrow.engine.catalog.protocol import Catalog
    from morrow.engine.format.snapshot import Snapshot
    from morrow.engine.plan.metadata import TableMetadata

ALL = ".*"


@dataclass(frozen=True)
class CompactedTable:
    """A table that was compacted: the snapshot, None where nothing was worth it; or the error that stopped it."""

    name: str
    snapshot: Snapshot | None
    error: MorrowError | None = None


def chosen_tables(
    catalog: Catalog, databases: str | None, including: str | None, excluding: str | None
) -> Iterator[str]:
    """Yields the names ``database.table`` that regular expressions choose; None: all, and to exclude, none.

    Raises:
        InvalidArgument: not a regular expression. DatabaseNotFound: there is no such warehouse.
    """
    check_warehouse(catalog)
    of_databases, of_tables = pattern(databases or ALL), pattern(including or ALL)
    others = pattern(excluding) if excluding else None
    for database in catalog.databases():
        if not of_databases.fullmatch(database):
            continue
        for table in catalog.tables(database):
            name = f"{database}.{table}"
            if of_tables.fullmatch(name) and not (others and others.fullmatch(name)):
                yield name


def pattern(text: str) -> re.Pattern[str]:
    """Compiles a regular expression. Raises `InvalidArgument`."""
    if not isinstance(text, str):
        raise InvalidArgument(f"a regular expression is text, not {text!r}")
    try:
        return re.compile(text, re.DOTALL)
    except (re.error, TypeError) as error:
        raise InvalidArgument(f"{text!r} is no regular expression: {error}") from error


def compact_tables(
    catalog: Catalog, databases: str | None, including: str | None, excluding: str | None, *, full: bool
) -> list[CompactedTable]:
    """Compacts the chosen tables one by one; see `Catalog.compact`."""
    return [_compacted(catalog, name, full) for name in list(chosen_tables(catalog, databases, including, excluding))]


def _compacted(catalog: Catalog, name: str, full: bool) -> CompactedTable:
    try:
        return CompactedTable(name, Table(catalog.table(name)).compact(full=full))
    except MorrowError as error:
        return CompactedTable(name, None, error)


def check_replaceable(catalog: Catalog) -> None:
    """Raises `Unsupported` where nothing is renamed."""
    if not (isinstance(catalog, FilesystemCatalog) and isinstance(catalog.store, LocalStore)):
        is_remote = isinstance(catalog, FilesystemCatalog)
        why = "an object store, where nothing is renamed" if is_remote else "a catalog that is no warehouse folder"
        raise Unsupported(
            f"REPLACE TABLE in {why},",
            hint="use INSERT OVERWRITE, or drop the table and create it anew",
        )


def replace_table(catalog: Catalog, name: str, by: str) -> TableMetadata:
    """Puts a table in the place of another one, which is dropped; see `Catalog.replace_table`."""
    check_replaceable(catalog)
    old = f"{by}-old"
    try:
        catalog.rename_table(name, old)
    except TableNotFound:
        return catalog.rename_table(by, name)
    try:
        renamed = catalog.rename_table(by, name)
    except BaseException:
        catalog.rename_table(old, name)
        raise
    catalog.drop_table(old)
    return renamed


def copy_table(catalog: Catalog, source: Table, name: str, where: FilterLike) -> Table:
    """Copies the rows of a table; see `Catalog.copy_table`."""
    from morrow.writers.operations.partitions import partition_filter
    from morrow.writers.target import WriteTarget

    partition_filter(WriteTarget.of(instance(source, Table, "source")._metadata), None, where, "copy_table")
    made = not catalog.has_table(name)
    if made:
        first = source.schemas()[-1]
        from morrow.engine.schema.creating import new_schema  # brings much along that reads do without

        copied = new_schema(
            first,
            partition_keys=source.partition_keys,
            options={key: value for key, value in first.options.items() if key not in PATH.keys},
            comment=source.comment,
            where=catalog.where_of(name),
        )
        catalog.create_table(name, copied)
    target = Table(catalog.table(name))
    try:
        _check_alike(source, target)
        if source._metadata.latest_snapshot() is not None:
            rows = make_scan(source._metadata, filter=where, newest=True)
            target.overwrite(rows, dynamic=True)
    except BaseException:
        if made:
            catalog.drop_table(name)
        raise
    return target


def _check_alike(source: Table, target: Table) -> None:
    """Raises `InvalidArgument` where rows of one table are not rows of the other."""
    if source.path == target.path:
        raise InvalidArgument(f"{source.path}: a table cannot be copied to itself")
    ours, theirs = source.schemas()[-1], target.schemas()[-1]
    there = {field.name: field.type for field in theirs.fields}
    different = (
        ("primary keys", set(ours.primary_keys) != set(theirs.primary_keys)),
        ("partition columns", ours.partition_keys != theirs.partition_keys),
        ("columns", any(there.get(field.name) != field.type for field in ours.fields)),
        ("number of buckets", ours.options.get(BUCKET.key) != theirs.options.get(BUCKET.key)),
    )
    for what, is_so in different:
        if is_so:
            raise InvalidArgument(f"{target.path}: the table exists, with other {what} than {source.path}")


def clone_parquet(
    catalog: Catalog, folder: str | os.PathLike[str], name: str, options: Mapping[str, object] | None
) -> Table:
    """Makes a table of the rows of Parquet files; see `Catalog.clone_parquet`."""
    from morrow.engine.schema.creating import new_schema  # brings much along that reads do without
    from morrow.tables.parquet_folders import parquet_folder

    where = catalog.where_of(name)
    if catalog.has_table(name):
        raise AlreadyExists(f"{where}: the table exists already; nothing was cloned")
    found, partition_keys = parquet_folder(location_of(folder, "folder"), name, where)
    first = new_schema(found.schema, partition_keys=partition_keys, options=options, where=where)
    table = Table(catalog.create_table(name, first))
    try:
        table.append(found)
    except BaseException:
        catalog.drop_table(name)
        raise
    return table
