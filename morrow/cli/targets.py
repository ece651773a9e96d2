"""Resolution of command arguments to tables, catalogs and scans.

A table is named by its folder or URL, or as ``db.table`` of a catalog. The catalog is given by ``--warehouse`` and
``--catalog``, by the environment (MORROW_WAREHOUSE, MORROW_CATALOG_...), or by a profile (``--profile``,
MORROW_PROFILE); see `morrow.catalogs.profiles`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from types import MappingProxyType

import morrow
from morrow.catalogs.catalog import open_with
from morrow.catalogs.profiles import from_environment, load_profile
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
    """Store the options before the command: trusted folders, and the catalog of names.

    Raises `InvalidArgument`: the profile does not exist or cannot be read.
    """
    found = load_profile(profile)
    _allowed.set((*allowed_roots, *found.allowed_roots))
    options = {**found.options, **from_environment(os.environ), **(catalog or {})}
    _options.set({**options, WAREHOUSE.key: warehouse} if warehouse else options)


def use_warehouse(warehouse: str) -> None:
    """Resolve names in this warehouse, for ``--warehouse`` after the command."""
    _options.set({**_options.get(), WAREHOUSE.key: warehouse})


def has_catalog() -> bool:
    """Return whether there is a catalog for ``db.table`` names."""
    return bool(_options.get())


def is_name(text: str) -> bool:
    """Return whether text is ``db.table`` and not a path. A relative path with a dot must be written ``./a.b``."""
    return "." in text.strip(".") and not text.startswith(".") and "/" not in text and os.sep not in text


def open_table(path: str, branch: str | None = None) -> morrow.Table:
    """Open the table of a folder, URL or name. Raises as `morrow.open` and `Catalog.table`."""
    if is_name(path) and has_catalog():
        return open_catalog().table(path, branch=branch)
    try:
        return morrow.open(path, branch=branch, allowed_roots=_allowed.get())
    except TableNotFound as error:
        if not is_name(path):
            raise
        raise TableNotFound(f"{error}; for the table {path} of a warehouse: --warehouse, MORROW_WAREHOUSE") from error


def open_catalog(path: str | None = None) -> morrow.Catalog:
    """Open the catalog of a warehouse, by default the catalog of names.

    Raises:
        InvalidArgument: no catalog is given.
    """
    if path is not None:
        return morrow.Catalog(path, allowed_roots=_allowed.get())
    if not has_catalog():
        raise InvalidArgument("no warehouse is known: give --warehouse, or set MORROW_WAREHOUSE")
    return open_with(_options.get(), _allowed.get())


def resolve_name(text: str) -> tuple[morrow.Catalog, str]:
    """Return catalog and ``db.table`` of a table from its name or path ``WAREHOUSE/db.db/table``. It need not exist.

    Raises `InvalidArgument`: the text is neither a name nor such a path.
    """
    if is_name(text):
        return open_catalog(), text
    rest, _, table = text.rstrip("/").rpartition("/")
    root, _, database = rest.rpartition("/")
    if not (table and database.removesuffix(DATABASE_SUFFIX) and database.endswith(DATABASE_SUFFIX)):
        raise InvalidArgument(f"{text!r} is not a table: write db.table, or the path WAREHOUSE/db.db/table")
    return open_catalog(root or ("/" if rest.startswith("/") else ".")), f"{database.removesuffix('.db')}.{table}"


def open_named_table(path: str, at: TravelArguments) -> tuple[morrow.Table, str | None]:
    """Return the table and branch that a path names, and the system table that the path ends with.

    Raises as `morrow.open`, and `InvalidArgument` if `at` names a branch, too.
    """
    name = parse_object_name(path)
    name.branch_or(at.get("branch"))  # raises if both name a branch; the scan opens the one of `at`
    return open_table(name.table, branch=name.branch), name.system


def open_scan(
    path: str,
    at: TravelArguments,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    limit: int | None = None,
) -> Scan | SystemScan:
    """Return the scan that the arguments describe: of a table, of the system table at the end of the path, or of a
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
    """Return a format table or object table of the catalog, None for other tables."""
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
    """Return the scan of a system table, named separately or at the end of the path. Raises as `Table.system`."""
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
    """Return the scan that the arguments describe. Raises as `morrow.open` and `Table.scan`."""
    table, system = open_named_table(path, at)
    if system is not None:
        raise InvalidArgument(f"{path} is a system table: this command is for tables")
    return table.scan(columns, where, limit, **at)


def get_metadata(source: Table | Scan) -> TableMetadata:
    """Return the table's metadata (tags, branches, root), which is not public."""
    return source._metadata
