"""The public names of Morrow with their signatures, as text, printed by ``python -m tests.support.public_api``.

Public are the names that `MODULES` list, and the public methods and properties of `CLASSES`.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import morrow
from morrow.engine import errors
from morrow.scans import changes, system_tables
from morrow.tables import alteration, history, writer
from morrow.writers.operations.merge import Merge

MODULES = ("morrow", "morrow.compat.pypaimon", "morrow.duckdb", "morrow.secrets", "morrow.spark", "morrow.testing")
CLASSES = (
    morrow.Catalog,
    morrow.Table,
    morrow.Scan,
    system_tables.SystemScan,
    changes.Changes,
    changes.ChangeStream,
    writer.Writer,
    writer.Committer,
    Merge,
    alteration.Alteration,
    history.Tags,
    history.Branches,
    history.SnapshotList,
)


def lines() -> Iterator[str]:
    """Yield one line for each public function, class, method and property."""
    for name in MODULES:
        module = __import__(name, fromlist=["x"])
        for member in sorted(getattr(module, "__all__", ())):
            yield from _member(f"{name}.{member}", getattr(module, member))
    for each in CLASSES:
        yield f"class {each.__name__}{_signature(each)}"
        for member, value in sorted(_public(each).items()):
            yield f"    {member}: {_kind(value)}"
    for name, error in sorted(vars(errors).items()):
        if isinstance(error, type) and issubclass(error, errors.MorrowError):
            yield f"error {name}({', '.join(base.__name__ for base in error.__bases__)})"


def _member(name: str, value: Any) -> Iterator[str]:
    if inspect.isfunction(value):
        yield f"def {name}{_signature(value)}"
    elif not inspect.ismodule(value):
        yield name


def _public(each: type) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for base in reversed(each.__mro__[:-1]):
        if base.__module__.startswith("morrow"):
            found |= {name: value for name, value in vars(base).items() if not name.startswith("_")}
    return found


def _kind(value: Any) -> str:
    if isinstance(value, property):
        return "property"
    value = getattr(value, "__func__", value)
    return _signature(value) if callable(value) else "attribute"


def _signature(value: Any) -> str:
    return str(inspect.signature(value)).replace("'", "")


if __name__ == "__main__":
    print("\n".join(lines()))
