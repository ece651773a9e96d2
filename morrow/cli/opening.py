"""Tables and catalogs as commands open them, with what is said before the command."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar

import morrow

_allowed: ContextVar[tuple[str, ...]] = ContextVar("allowed roots", default=())


def allow(roots: Sequence[str]) -> None:
    """Trust these folders in what the command opens: ``morrow --allowed-root FOLDER ...``."""
    _allowed.set(tuple(roots))


def open_table(path: str, branch: str | None = None) -> morrow.Table:
    """`morrow.open`, and raises as that."""
    return morrow.open(path, branch=branch, allowed_roots=_allowed.get())


def open_catalog(warehouse: str) -> morrow.Catalog:
    """`morrow.Catalog`, and raises as that."""
    return morrow.Catalog(warehouse, allowed_roots=_allowed.get())
