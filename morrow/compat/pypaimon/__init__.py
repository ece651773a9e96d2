"""pypaimon's public interface over Morrow: change the import, keep the program.

    from morrow.compat.pypaimon import CatalogFactory, Schema  # from pypaimon import CatalogFactory, Schema

pypaimon's module paths work as well: ``from morrow.compat.pypaimon.schema.data_types import DataField``. Errors are
Morrow's: pypaimon's names of exceptions are other names of them. What Morrow does not do raises `Unsupported`, which
names its own way. Tables and catalogs have the attribute `morrow`, with Morrow's own methods.

The layer is thin: reads are Morrow's scans, writes are Morrow's writers.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_HOMES = {
    "catalogs": (
        "Catalog",
        "CatalogFactory",
        "Database",
        "BranchAlreadyExistException",
        "BranchNotExistException",
        "CatalogException",
        "ColumnAlreadyExistException",
        "ColumnNotExistException",
        "DatabaseAlreadyExistException",
        "DatabaseNotExistException",
        "TableAlreadyExistException",
        "TableNotExistException",
        "TagAlreadyExistException",
        "TagNotExistException",
    ),
    "predicates": ("Predicate", "PredicateBuilder"),
    "scans": ("DataSplit", "Plan", "ReadBuilder", "Split", "StreamReadBuilder", "TableRead", "TableScan"),
    "schemas": (
        "ArrayType",
        "AtomicType",
        "DataField",
        "DataType",
        "Identifier",
        "MapType",
        "Move",
        "MultisetType",
        "PyarrowFieldParser",
        "RowType",
        "Schema",
        "SchemaChange",
        "SpecialFields",
        "TableSchema",
        "VectorType",
    ),
    "tables": (
        "Consumer",
        "ConsumerManager",
        "CoreOptions",
        "FileStoreTable",
        "Options",
        "SnapshotManager",
        "Tag",
        "TagManager",
    ),
    "updates": ("TableUpdate", "WhenMatched", "WhenNotMatched"),
    "writes": ("BatchWriteBuilder", "CommitMessage", "StreamWriteBuilder", "TableCommit", "TableWrite"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = sorted(_HOME_OF)

_PATHS = {
    "api.api_response": "catalogs",
    "branch.branch_manager": "tables",
    "catalog.catalog": "catalogs",
    "catalog.catalog_exception": "catalogs",
    "catalog.catalog_factory": "catalogs",
    "catalog.database": "catalogs",
    "common.identifier": "schemas",
    "common.options": "tables",
    "common.options.core_options": "tables",
    "common.options.options": "tables",
    "common.predicate": "predicates",
    "common.predicate_builder": "predicates",
    "consumer.consumer": "tables",
    "consumer.consumer_manager": "tables",
    "read.plan": "scans",
    "read.read_builder": "scans",
    "read.split": "scans",
    "read.stream_read_builder": "scans",
    "read.table_read": "scans",
    "read.table_scan": "scans",
    "schema.data_types": "schemas",
    "schema.schema": "schemas",
    "schema.schema_change": "schemas",
    "schema.schema_manager": "tables",
    "schema.table_schema": "schemas",
    "snapshot.snapshot": "tables",
    "snapshot.snapshot_manager": "tables",
    "table.data_evolution_merge_into": "updates",
    "table.file_store_table": "tables",
    "table.special_fields": "schemas",
    "table.table": "tables",
    "tag.tag": "tables",
    "tag.tag_manager": "tables",
    "write.commit_message": "writes",
    "write.table_commit": "writes",
    "write.table_update": "updates",
    "write.table_write": "writes",
    "write.write_builder": "writes",
}
"""pypaimon's modules, and the modules here that have their names."""
_PACKAGES = frozenset(path[:at] for path in _PATHS for at, sign in enumerate(path) if sign == ".")


def __getattr__(name: str) -> Any:
    if name in _HOME_OF:
        return getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__


class _PathFinder(MetaPathFinder, Loader):
    """A finder of modules with pypaimon's paths, which have the names of the modules here."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,  # noqa: ARG002
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        name = fullname.removeprefix(f"{__name__}.")
        if name == fullname or name not in (*_PATHS, *_PACKAGES):
            return None
        return ModuleSpec(fullname, self, is_package=name in _PACKAGES)

    def create_module(self, spec: ModuleSpec) -> None:  # noqa: ARG002
        return None

    def exec_module(self, module: ModuleType) -> None:
        home = _PATHS.get(module.__name__.removeprefix(f"{__name__}."))
        if home is not None:
            found = vars(import_module(f"{__name__}.{home}"))
            vars(module).update({name: value for name, value in found.items() if not name.startswith("_")})


sys.meta_path.append(_PathFinder())
