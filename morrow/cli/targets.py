"""Tables, catalogs and scans that the arguments of a command name.

A table is named by its folder or URL, or as ``db.table`` of a catalog. The catalog is that of ``--warehouse`` and
``--catalog``, of the environment (MORROW_WAREHOUSE, MORROW_CATALOG_...), or of a profile (``--profile``,
MORROW_PROFILE); see `morrow.catalogs.profiles`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from types import MappingProxyType

import morrow
from morrow.catalogs.profiles import from_environment, load_profile, open_with
from morrow.engine.catalog.names import parse_object_name
from morrow.engine.catalog.settings import WAREHOUSE
from morrow.engine.errors import InvalidArgument, TableNotFound, Unsupported
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.time_travel import TravelArguments
from morrow.scans.system_tables import SystemScan
from morrow.scans.table_scan import Scan
from morrow.tables.format_table import FormatTable, ObjectTable
from morrow.tables.table import Table

DATABASE_SUFFIX = ".db"

_allowed: ContextVar[tuple[str, ...]] = ContextVar("allowed roots", default=())
_options: ContextVar[Mapping[str, str]] = ContextVar("options of the catalog", default=MappingProxyType({}))


def begin(
    allowed_roots: Sequence[str], warehouse: str | None, profile: str | None, catalog: Mapping[str, str] | None = None
) -> None:
    """Takes in what is said before the command: trusted folders, and the catalog of names.

    Raises:
        InvalidArgument: a profile that is not there or cannot be read.
    """
    found = load_profile(profile)
    _allowed.set((*allowed_roots, *found.allowed_roots))
    options = {**found.options, **from_environment(os.environ), **(catalog or {})}
    _options.set({**options, WAREHOUSE.key: warehouse} if warehouse else options)


def use_warehouse(warehouse: str) -> None:
    """Names are of this warehouse: ``--warehouse`` after the command."""
    _options.set({**_options.get(), WAREHOUSE.key: warehouse})


def has_catalog() -> bool:
    """Returns whether there is a catalog that ``db.table`` names are looked up in."""
    return bool(_options.get())


def is_name(text: str) -> bool:
    """Returns whether text is ``db.table`` and not a path: a path of one part with a dot is written ``./a.b``."""
    return "." in text.strip(".") and not text.startswith(".") and "/" not in text and os.sep not in text


def open_table(path: str, branch: str | None = None) -> morrow.Table:
    """Opens the table of a folder, URL or name; raises as `morrow.open` and `Catalog.table` do."""
    if is_name(path) and has_catalog():
        return open_catalog().table(path, branch=branch)
    try:
        return morrow.open(path, branch=branch, allowed_roots=_allowed.get())
    except TableNotFound as error:
        if not is_name(path):
            raise
        raise TableNotFound(f"{error}; for the table {path} of a warehouse: --warehouse, MORROW_WAREHOUSE") from error


def open_catalog(path: str | None = None) -> morrow.Catalog:
    """Opens the catalog of a warehouse, by default the one that names are looked up in.

    Raises:
        InvalidArgument: there is none.
    """
    if path is not None:
        return morrow.Catalog(path, allowed_roots=_allowed.get())
    if not has_catalog():
        raise InvalidArgument("no warehouse is known: give --warehouse, or set MORROW_WAREHOUSE")
    return open_with(_options.get(), _allowed.get())


def resolve_name(text: str) -> tuple[morrow.Catalog, str]:
    """Returns catalog and ``db.table`` of a table that need not exist, from its name or path ``WAREHOUSE/db.db/table``.

    Raises:
        InvalidArgument: neither.
    """
    if is_name(text):
        return open_catalog(), text
    rest, _, table = text.rstrip("/").rpartition("/")
    root, _, database = rest.rpartition("/")
    if not (table and database.removesuffix(DATABASE_SUFFIX) and database.endswith(DATABASE_SUFFIX)):
        raise InvalidArgument(f"{text!r} is no place of a table: write db.table, or the path WAREHOUSE/db.db/table")
    return open_catalog(root or ("/" if rest.startswith("/") else ".")), f"{database.removesuffix('.db')}.{table}"


def open_named_table(path: str, at: TravelArguments) -> tuple[morrow.Table, str | None]:
    """Returns the table and branch that a path names, and the system table that the path ends with.

    Raises as `morrow.open`, and `InvalidArgument` where `at` names a branch, too.
    """
    name = parse_object_name(path)
    name.branch_or(at.get("branch"))  # one that `at` names is opened by the scan
    return open_table(name.table, branch=name.branch), name.system


def open_scan(
    path: str,
    at: TravelArguments,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    limit: int | None = None,
) -> Scan | SystemScan:
    """Returns the scan that the arguments describe, of a table, of the system table that the path ends with, or of a
    format table or object table of the catalog.
    """
    if parse_object_name(path).system is not None:
        return open_system_scan(path, None, at, columns, where, limit)
    try:
        return open_table_scan(path, at, columns, where, limit)
    except Unsupported:
        folder = None if at or not (is_name(path) and has_catalog()) else _find_folder_table(path)
        if folder is None:
            raise
        return folder.scan(columns, where, limit)


def _find_folder_table(name: str) -> FormatTable | ObjectTable | None:
    """Returns a format table or object table of the catalog; None for others."""
    catalog = open_catalog()
    for opened in (catalog.format_table, catalog.object_table):
        with suppress(InvalidArgument, Unsupported):
            return opened(name)
    return None


def open_system_scan(
    path: str,
    name: str | None,
    at: TravelArguments,
    columns: Sequence[str] | None,
    where: str | None,
    limit: int | None,
) -> SystemScan:
    """Returns the scan of a system table, named apart or at the end of the path; raises as `Table.system` does."""
    table, found = open_named_table(path, at)
    if name is not None and found is not None:
        raise InvalidArgument(f"{path} names the system table {found} already: leave {name} out")
    return table.system(name or found or "", columns, where, limit, **at)


def open_table_scan(
    path: str,
    at: TravelArguments,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    limit: int | None = None,
) -> Scan:
    """Returns the scan that the arguments describe; raises as `morrow.open` and `Table.scan` do."""
    table, system = open_named_table(path, at)
    if system is not None:
        raise InvalidArgument(f"{path} is a system table: this command is for tables")
    return table.scan(columns, where, limit, **at)


def get_metadata(source: Table | Scan) -> TableMetadata:
    """Tags, branches and the root of the table, which its public face does not tell."""
    return source._metadata
