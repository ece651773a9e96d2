"""Operations on whole tables for catalogs and procedures: compact, copy, replace."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import repeat
from typing import TYPE_CHECKING, TypeVar

from morrow.engine.arguments import check_instance
from morrow.engine.catalog.filesystem import FilesystemCatalog, check_warehouse
from morrow.engine.errors import InvalidArgument, MorrowError, TableNotFound, Unsupported
from morrow.engine.io.local import LocalStore
from morrow.engine.options.declared.table import BUCKET, PATH
from morrow.engine.plan.filter import FilterLike
from morrow.engine.schema.columns import assign_type_ids
from morrow.scans.table_scan import make_scan
from morrow.tables.table import Table

if TYPE_CHECKING:
    from morrow.engine.catalog.protocol import Catalog
    from morrow.engine.format.snapshot import Snapshot
    from morrow.engine.plan.metadata import TableMetadata

ALL = ".*"

T = TypeVar("T")


@dataclass(frozen=True)
class CompactedTable:
    """The result of compacting one table: the snapshot (None if nothing was worth compacting), or the error."""

    name: str
    snapshot: Snapshot | None
    error: MorrowError | None = None


def choose_tables(
    catalog: Catalog, databases: str | None, including: str | None, excluding: str | None
) -> Iterator[str]:
    """Yield the names ``database.table`` that match regular expressions. None includes all and excludes none.

    Raises `InvalidArgument`: not a regular expression. `DatabaseNotFound`: there is no such warehouse.
    """
    check_warehouse(catalog)
    of_databases, of_tables = compile_pattern(databases or ALL), compile_pattern(including or ALL)
    others = compile_pattern(excluding) if excluding else None
    for database in catalog.databases():
        if not of_databases.fullmatch(database):
            continue
        for table in catalog.tables(database):
            name = f"{database}.{table}"
            if of_tables.fullmatch(name) and not (others and others.fullmatch(name)):
                yield name


def compile_pattern(text: str) -> re.Pattern[str]:
    """Compile a regular expression. Raises `InvalidArgument`."""
    if not isinstance(text, str):
        raise InvalidArgument(f"a regular expression is text, not {text!r}")
    try:
        return re.compile(text, re.DOTALL)
    except (re.error, TypeError) as error:
        raise InvalidArgument(f"{text!r} is not a valid regular expression: {error}") from error


def compact_tables(
    catalog: Catalog, databases: str | None, including: str | None, excluding: str | None, *, full: bool
) -> list[CompactedTable]:
    """Compact the chosen tables one by one; see `Catalog.compact`."""
    return [
        _compact_table(catalog, name, full) for name in list(choose_tables(catalog, databases, including, excluding))
    ]


def _compact_table(catalog: Catalog, name: str, full: bool) -> CompactedTable:
    try:
        return CompactedTable(name, Table(catalog.table(name)).compact(full=full))
    except MorrowError as error:
        return CompactedTable(name, None, error)


def check_replaceable(catalog: Catalog) -> None:
    """Raise `Unsupported` if the catalog cannot rename tables."""
    if not (isinstance(catalog, FilesystemCatalog) and isinstance(catalog.store, LocalStore)):
        is_remote = isinstance(catalog, FilesystemCatalog)
        why = "an object store, where nothing is renamed" if is_remote else "a catalog that is not a warehouse folder"
        raise Unsupported(
            f"REPLACE TABLE in {why},",
            hint="use INSERT OVERWRITE, or drop the table and create it again",
        )


def replace_table(catalog: Catalog, name: str, by: str) -> TableMetadata:
    """Replace a table with another one; see `Catalog.replace_table`."""
    check_replaceable(catalog)
    return rename_over(name, by, catalog.rename_table, catalog.drop_table)


def rename_over(name: str, by: str, rename: Callable[[str, str], T], drop: Callable[[str], None]) -> T:
    """Rename a table to the name of another one, which is dropped last: until then a failure restores it."""
    old = f"{by}-old"
    try:
        rename(name, old)
    except TableNotFound:
        return rename(by, name)
    try:
        renamed = rename(by, name)
    except BaseException:
        rename(old, name)
        raise
    drop(old)
    return renamed


def copy_table(catalog: Catalog, source: Table, name: str, where: FilterLike) -> Table:
    """Copy the rows of a table; see `Catalog.copy_table`."""
    from morrow.writers.operations.partition_filters import build_partition_filter
    from morrow.writers.target import WriteTarget

    build_partition_filter(WriteTarget.of(check_instance(source, Table, "source")._metadata), None, where, "copy_table")
    made = not catalog.has_table(name)
    if made:
        first = source.schemas()[-1]
        from morrow.engine.schema.creation import build_first_schema  # imports much that reads do not need

        copied = build_first_schema(
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
    """Raise `InvalidArgument` if the columns, keys or buckets of the tables differ."""
    if source.path == target.path:
        raise InvalidArgument(f"{source.path}: a table cannot be copied to itself")
    ours, theirs = source.schemas()[-1], target.schemas()[-1]
    # Alterations leave gaps in the ids of members, which a new table does not have.
    types, there = ({each.name: assign_type_ids(each.type, repeat(0)) for each in of.fields} for of in (ours, theirs))
    different = (
        ("primary keys", set(ours.primary_keys) != set(theirs.primary_keys)),
        ("partition columns", ours.partition_keys != theirs.partition_keys),
        ("columns", any(there.get(name) != kind for name, kind in types.items())),
        ("number of buckets", ours.options.get(BUCKET.key) != theirs.options.get(BUCKET.key)),
    )
    for what, is_so in different:
        if is_so:
            raise InvalidArgument(f"{target.path}: the table exists, with other {what} than {source.path}")
