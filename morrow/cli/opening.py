"""Tables and catalogs as commands open them, with what is said before the command.

What names a table is its folder or URL, or ``db.table`` of a catalog: that of ``--warehouse`` and ``--catalog``, of the
environment (MORROW_WAREHOUSE, MORROW_CATALOG_...), or of a profile (``--profile``, MORROW_PROFILE); see
`morrow.opening`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from types import MappingProxyType

import morrow
from morrow.engine.catalog.settings import WAREHOUSE
from morrow.engine.errors import InvalidArgument, TableNotFound
from morrow.opening import from_environment, load_profile, open_with

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


def knows_names() -> bool:
    """Returns whether there is a catalog that ``db.table`` names are looked up in."""
    return bool(_options.get())


def is_name(text: str) -> bool:
    """Returns whether text is ``db.table`` and not a path: a path of one part with a dot is written ``./a.b``."""
    return "." in text.strip(".") and not text.startswith(".") and "/" not in text and os.sep not in text


def open_table(path: str, branch: str | None = None) -> morrow.Table:
    """Opens the table of a folder, URL or name; raises as `morrow.open` and `Catalog.table` do."""
    if is_name(path) and knows_names():
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
    if not knows_names():
        raise InvalidArgument("no warehouse is known: give --warehouse, or set MORROW_WAREHOUSE")
    return open_with(_options.get(), _allowed.get())


def place(text: str) -> tuple[morrow.Catalog, str]:
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
