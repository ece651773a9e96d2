"""The modules of commands, each imported when one of its commands runs."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from morrow.cli import differences, maintenance, metadata, queries, warehouse, writing

__all__ = ["differences", "maintenance", "metadata", "queries", "warehouse", "writing"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f"{__package__}.{name}")
