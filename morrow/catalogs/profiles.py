"""`morrow.open_catalog`: catalogs by their options, from arguments, the environment, or a profile.

A profile is a table of the file that MORROW_PROFILES names, or else of ``morrow/profiles.toml`` in the user's folder
for settings (``$XDG_CONFIG_HOME``, ``~/.config``):

    [default]
    warehouse = "s3://bucket/warehouse"
    allowed_roots = ["s3://bucket/external"]

    [prod]
    metastore = "rest"
    uri = "https://catalog.example.com"
    warehouse = "lake"
    token.provider = "bear"

In the environment an option is MORROW_CATALOG_ and its key in capitals, with ``_`` for a dash and ``__`` for a dot:
``MORROW_CATALOG_DLF__ACCESS_KEY_ID`` is ``dlf.access-key-id``.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from morrow.catalogs.catalog import Catalog, open_with
from morrow.engine.arguments import check_mapping
from morrow.engine.catalog.filesystem import FilesystemCatalog
from morrow.engine.catalog.settings import METASTORE, URI, WAREHOUSE
from morrow.engine.errors import InvalidArgument
from morrow.engine.io.resolve import Roots, resolve_roots
from morrow.session import Verify

PREFIX = "MORROW_CATALOG_"
DEFAULT = "default"
ALLOWED_ROOTS = "allowed_roots"


@dataclass(frozen=True)
class Profile:
    """A profile: the options of a catalog, and the folders that its data files may lie in."""

    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    allowed_roots: tuple[str, ...] = ()


def open_catalog(
    options: Mapping[str, object] | None = None,
    *,
    profile: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    allowed_roots: Roots = (),
    verify: Verify | None = None,
) -> Catalog:
    """Open a catalog by its options, spelt as Paimon spells them; see docs/catalogs.md.

    morrow.open_catalog({"metastore": "jdbc", "uri": "jdbc:sqlite:/data/catalog.db", "warehouse": "/data/warehouse"})
    morrow.open_catalog(profile="prod")

    Args:
        options: ``metastore`` (``filesystem`` by default, ``hive``, ``jdbc``, ``rest``), ``uri``, ``warehouse``,
            options of the store, ``table-default.*`` and others. Missing options come from the environment
            (``MORROW_CATALOG_URI``, ...), then from the profile.
        profile: the name of a profile. None: ``default`` if it exists and no `options` are given.
        storage_options, allowed_roots, verify: as for `morrow.open`, for all tables.

    Raises:
        InvalidArgument: an option is missing, unknown or has an invalid value, or the profile does not exist.
        Unsupported: an unknown kind of catalog, or a driver that is not installed; the message names the driver.
        StorageError: the catalog does not answer.
    """
    given = check_mapping(options, "options")
    found = load_profile(profile) if profile is not None or not given else Profile()
    chosen = {**found.options, **from_environment(os.environ), **given}
    if not any(option.key in chosen for option in (METASTORE, URI, WAREHOUSE)):
        raise InvalidArgument("no catalog is named: give the options metastore, uri and warehouse, or a profile")
    return open_with(chosen, (*found.allowed_roots, *resolve_roots(allowed_roots)), storage_options, verify)


def find_storage_options(catalog: Catalog) -> Mapping[str, str] | None:
    """Return the store options of a warehouse folder; None if its store does not have options."""
    files = catalog._catalog
    assert isinstance(files, FilesystemCatalog)
    return files.store.storage_options or None


def from_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the catalog options that environment variables set."""
    return {
        name.removeprefix(PREFIX).lower().replace("__", ".").replace("_", "-"): value
        for name, value in environment.items()
        if name.startswith(PREFIX) and len(name) > len(PREFIX)
    }


def load_profile(name: str | None) -> Profile:
    """Return the named profile. Without a name, return ``default`` if it exists, else an empty profile.

    Raises `InvalidArgument`: the profile does not exist or cannot be read.
    """
    home = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    file = Path(os.environ.get("MORROW_PROFILES") or home / "morrow" / "profiles.toml")
    try:
        profiles = tomllib.loads(file.read_text()) if name is not None or file.exists() else {}
    except FileNotFoundError as error:
        hint = "MORROW_PROFILES names another file; docs/catalogs.md describes profiles"
        raise InvalidArgument(f"there is no profile {name!r}, since there is no {file}; {hint}") from error
    except OSError as error:
        raise InvalidArgument(f"the profiles in {file}: {error.strerror}") from error
    except ValueError as error:
        raise InvalidArgument(f"the profiles in {file}: {error}") from error
    if name is not None and name not in profiles:
        raise InvalidArgument(f"no profile {name!r} in {file}; there are {', '.join(sorted(profiles)) or 'none'}")
    found = profiles.get(name or DEFAULT, {})
    where = f"the profile {name or DEFAULT!r} in {file}"
    if not isinstance(found, dict):
        raise InvalidArgument(f"{where} is not a table")
    roots = found.pop(ALLOWED_ROOTS, [])
    if not (isinstance(roots, list) and all(isinstance(root, str) for root in roots)):
        raise InvalidArgument(f"{where}: {ALLOWED_ROOTS} is a list of texts")
    return Profile(dict(_flatten(found, "", where)), tuple(roots))


def _flatten(table: Mapping[str, Any], prefix: str, where: str) -> Iterator[tuple[str, str]]:
    """Yield the options of a table; ``token.provider = "bear"`` is a table in TOML but one option in Morrow."""
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flatten(value, f"{prefix}{key}.", where)
        elif isinstance(value, (str, int, float)):
            yield f"{prefix}{key}", str(value).lower() if isinstance(value, bool) else str(value)
        else:
            raise InvalidArgument(f"{where}: {prefix}{key} is a text, a number, true or false")
