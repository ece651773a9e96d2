"""Tables and catalogs as commands open them, with what is said before the command.

What names a table is its folder or URL, or ``db.table`` of a warehouse: that of ``--warehouse``, of the environment's
MORROW_WAREHOUSE, or of a profile (``--profile``, MORROW_PROFILE): a table of the file MORROW_PROFILES, or else of
``morrow/profiles.toml`` in the user's folder for settings (``$XDG_CONFIG_HOME``, ``~/.config``):

    [default]
    warehouse = "s3://bucket/warehouse"
    allowed_roots = ["s3://bucket/external"]
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from pathlib import Path

import morrow
from morrow.engine.errors import InvalidArgument, TableNotFound

DATABASE_SUFFIX = ".db"
DEFAULT_PROFILE = "default"
MEMBERS = ("warehouse", "allowed_roots")

_allowed: ContextVar[tuple[str, ...]] = ContextVar("allowed roots", default=())
_warehouse: ContextVar[str | None] = ContextVar("warehouse", default=None)


def begin(allowed_roots: Sequence[str], warehouse: str | None, profile: str | None) -> None:
    """Takes in what is said before the command: trusted folders, and the warehouse of names.

    Raises:
        InvalidArgument: a profile that is not there or cannot be read.
    """
    found = _profile(profile)
    _allowed.set((*allowed_roots, *found.get("allowed_roots", ())))
    _warehouse.set(warehouse or found.get("warehouse") or None)


def use_warehouse(warehouse: str) -> None:
    """Names are of this warehouse: ``--warehouse`` after the command."""
    _warehouse.set(warehouse)


def warehouse() -> str | None:
    """Returns the warehouse that ``db.table`` names are looked up in; None where none was given."""
    return _warehouse.get()


def is_name(text: str) -> bool:
    """Returns whether text is ``db.table`` and not a path: a path of one part with a dot is written ``./a.b``."""
    return "." in text.strip(".") and not text.startswith(".") and "/" not in text and os.sep not in text


def open_table(path: str, branch: str | None = None) -> morrow.Table:
    """Opens the table of a folder, URL or name; raises as `morrow.open` and `Catalog.table` do."""
    if is_name(path) and warehouse() is not None:
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
    found = path or warehouse()
    if found is None:
        raise InvalidArgument("no warehouse is known: give --warehouse, or set MORROW_WAREHOUSE")
    return morrow.Catalog(found, allowed_roots=_allowed.get())


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


def _profile(name: str | None) -> Mapping[str, str]:
    """Returns the members of the named profile, or of ``default`` where the file has one."""
    home = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    file = Path(os.environ.get("MORROW_PROFILES") or home / "morrow" / "profiles.toml")
    try:
        profiles = tomllib.loads(file.read_text()) if name is not None or file.exists() else {}
    except (OSError, ValueError) as error:
        raise InvalidArgument(f"the profiles in {file}: {error}") from error
    if name is not None and name not in profiles:
        raise InvalidArgument(f"no profile {name!r} in {file}; there are {', '.join(sorted(profiles)) or 'none'}")
    found = profiles.get(name or DEFAULT_PROFILE, {})
    where = f"the profile {name or DEFAULT_PROFILE!r} in {file}"
    if not isinstance(found, dict):
        raise InvalidArgument(f"{where} is no table")
    if unknown := sorted(set(found) - set(MEMBERS)):
        raise InvalidArgument(f"{where}: unknown {', '.join(unknown)}; known are {', '.join(MEMBERS)}")
    roots = found.get("allowed_roots", [])
    if not isinstance(found.get("warehouse", ""), str) or not (
        isinstance(roots, list) and all(isinstance(root, str) for root in roots)
    ):
        raise InvalidArgument(f"{where}: warehouse is text, allowed_roots a list of texts")
    return found
