"""Conversion of pypaimon's predicates, as `hook` sends them, to Polars expressions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from morrow.compat.pypaimon import Predicate

Tree = tuple[str, "str | None", Sequence[Any]]


def to_polars(tree: Tree) -> pl.Expr:
    """Build the expression. Raises `InvalidArgument` for a method without an equivalent."""
    return _to_predicate(tree).to_polars()


def _to_predicate(tree: Tree) -> Predicate:
    method, name, literals = tree
    return Predicate(method, None, name, literals if name is not None else list(map(_to_predicate, literals)))
