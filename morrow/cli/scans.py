"""From arguments of the command line to a table and a scan."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import morrow
from morrow.cli.opening import is_name, knows_names, open_catalog, open_table
from morrow.engine.catalog.names import object_name
from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.time_travel import TravelArguments
from morrow.scans.system import SystemScan
from morrow.scans.table_scan import Scan
from morrow.tables.format_table import FormatTable, ObjectTable
from morrow.tables.table import Table


def table_of(path: str, at: TravelArguments) -> tuple[morrow.Table, str | None]:
    """Returns the table and branch that a path names, and the system table that the path ends with.

    Raises as `morrow.open`, and `InvalidArgument` where `at` names a branch, too.
    """
    name = object_name(path)
    name.branch_or(at.get("branch"))  # one that `at` names is opened by the scan
    return open_table(name.table, branch=name.branch), name.system


def rows_of(
    path: str,
    at: TravelArguments,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    limit: int | None = None,
) -> Scan | SystemScan:
    """Returns the scan that the arguments describe, of a table, of the system table that the path ends with, or of a
    format table or object table of the catalog.
    """
    if object_name(path).system is not None:
        return system_scan_of(path, None, at, columns, where, limit)
    try:
        return scan_of(path, at, columns, where, limit)
    except Unsupported:
        folder = None if at or not (is_name(path) and knows_names()) else _folder(path)
        if folder is None:
            raise
        return folder.scan(columns, where, limit)


def _folder(name: str) -> FormatTable | ObjectTable | None:
    """Returns a format table or object table of the catalog; None for others."""
    catalog = open_catalog()
    for opened in (catalog.format_table, catalog.object_table):
        with suppress(InvalidArgument, Unsupported):
            return opened(name)
    return None


def system_scan_of(
    path: str,
    name: str | None,
    at: TravelArguments,
    columns: Sequence[str] | None,
    where: str | None,
    limit: int | None,
) -> SystemScan:
    """Returns the scan of a system table, named apart or at the end of the path; raises as `Table.system` does."""
    table, found = table_of(path, at)
    if name is not None and found is not None:
        raise InvalidArgument(f"{path} names the system table {found} already: leave {name} out")
    return table.system(name or found or "", columns, where, limit, **at)


def scan_of(
    path: str,
    at: TravelArguments,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    limit: int | None = None,
) -> Scan:
    """Returns the scan that the arguments describe; raises as `morrow.open` and `Table.scan` do."""
    table, system = table_of(path, at)
    if system is not None:
        raise InvalidArgument(f"{path} is a system table: this command is for tables")
    return table.scan(columns, where, limit, **at)


def metadata_of(source: Table | Scan) -> TableMetadata:
    """Tags, branches and the root of the table, which its public face does not tell."""
    return source._metadata
