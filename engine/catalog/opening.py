"""Kinds of catalogs by their name, the option ``metastore``: those of Morrow, and of other packages.

A kind is a function that makes a catalog of its `Settings`. Other packages register theirs by the entry point
``morrow.catalogs``, under the name of the metastore.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.metadata import entry_points
from typing import TypeAlias, cast

from morrow.engine.catalog.protocol import Catalog
from morrow.engine.catalog.settings import METASTORE, Settings
from morrow.engine.errors import Unsupported
from morrow.engine.plugins import CATALOGS, plugin
from morrow.engine.telling import did_you_mean

CatalogMaker: TypeAlias = Callable[[Settings], Catalog]

BUILT_IN = {
    "filesystem": "morrow.engine.catalog.filesystem:opened",
    "hive": "morrow.engine.catalog.hive.catalog:opened",
    "jdbc": "morrow.engine.catalog.jdbc.catalog:opened",
    "rest": "morrow.engine.catalog.rest.catalog:opened",
}
"""Kind -> the function that makes it, whose module is imported when it is used."""
WITHOUT = {
    "dlf": "a catalog of DLF by its own client",
}
"""Kinds that Paimon has and Morrow does not -> what they are."""
INSTEAD = "open its tables by their folders, or name them in a catalog with metastore=jdbc or metastore=rest"


def open_catalog(settings: Settings) -> Catalog:
    """Returns the catalog that the settings describe.

    Raises:
        Unsupported: an unknown metastore, or one whose driver is not installed.
        InvalidArgument: an option that is missing, unknown, or has a value of no meaning.
        StorageError: the catalog does not answer.
    """
    kind = settings.given.get(METASTORE).strip().lower()
    home = BUILT_IN.get(kind)
    if home is not None:
        module, _, name = home.partition(":")
        return cast(CatalogMaker, getattr(import_module(module), name))(settings)
    made = plugin(CATALOGS, kind)
    if made is None:
        if kind in WITHOUT:
            raise Unsupported(f"metastore={kind!r}, {WITHOUT[kind]},", where="catalogs", hint=INSTEAD)
        known = sorted({*BUILT_IN, *entry_points(group=CATALOGS).names})
        hint = f"{did_you_mean(kind, known)}known are {', '.join(known)}"
        raise Unsupported(f"metastore={kind!r}", where="catalogs", hint=hint)
    return cast(CatalogMaker, made)(settings)
