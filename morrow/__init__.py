"""Morrow reads and writes Apache Paimon tables, with Arrow, Polars, DuckDB and Spark.

    import morrow
    morrow.read("warehouse/db.db/orders", ["id", "amount"], "amount > 10", as_of="2024-05-14")  # a Polars DataFrame
    morrow.scan("warehouse/db.db/orders").group_by("id").len().collect()  # a Polars LazyFrame
    t = morrow.open("warehouse/db.db/orders")  # its schema, history, rows and changes

Polars, DuckDB, pandas and Spark are imported on first use, never by ``import morrow``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import ModuleType

    from morrow.catalogs.catalog import Catalog, sql
    from morrow.catalogs.profiles import open_catalog
    from morrow.engine import errors
    from morrow.engine.errors import MorrowError
    from morrow.engine.format.blob_values import Blob
    from morrow.scans.table_scan import Scan
    from morrow.session import (  # morrow.open is the name users look for
        clear_caches,
        open,
        read,
        scan,
        use_cache_folder,
    )
    from morrow.tables.table import Table

__version__ = "0.1.0"

__all__ = [
    "Blob",
    "Catalog",
    "MorrowError",
    "Scan",
    "Table",
    "clear_caches",
    "errors",
    "open",
    "open_catalog",
    "read",
    "scan",
    "sql",
    "use_cache_folder",
]

_HOMES = {
    "Blob": "morrow.engine.format.blob_values",
    "Catalog": "morrow.catalogs.catalog",
    "MorrowError": "morrow.engine.errors",
    "Scan": "morrow.scans.table_scan",
    "Table": "morrow.tables.table",
    "clear_caches": "morrow.session",
    "open": "morrow.session",
    "open_catalog": "morrow.catalogs.profiles",
    "read": "morrow.session",
    "scan": "morrow.session",
    "sql": "morrow.catalogs.catalog",
    "use_cache_folder": "morrow.session",
}
_MODULES = {
    "duckdb": "morrow.duckdb",
    "errors": "morrow.engine.errors",
    "secrets": "morrow.secrets",
    "spark": "morrow.spark",
    "variant": "morrow.variant",
}


def __getattr__(name: str) -> Any:
    # PEP 562: public names load their modules on first use, so that importing morrow is fast.
    if name in _MODULES:
        return _import_module(_MODULES[name])
    if name in _HOMES:
        return getattr(_import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'morrow' has no attribute {name!r}")


def _import_module(module: str) -> ModuleType:
    import gc

    if not gc.isenabled():
        return _import_checked(module)
    # Imported modules are never freed, so the collector would traverse all objects of Polars and pyarrow in vain.
    gc.disable()
    try:
        return _import_checked(module)
    finally:
        gc.enable()


def _import_checked(module: str) -> ModuleType:
    """Import a module. If a library is too old, raise `Unsupported` instead of the import's error."""
    from importlib import import_module

    from morrow.engine.plugins import expect_new_libraries

    with expect_new_libraries():
        return import_module(module)


def __dir__() -> list[str]:
    return sorted({*__all__, *_MODULES, "__version__"})
