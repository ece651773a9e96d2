"""Row kinds as stored in ``_VALUE_KIND`` (+I 0, -U 1, +U 2, -D 3) and as shown in the column ``rowkind``."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from morrow.engine.format.schema import ROWKIND, VALUE_KIND

INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE = range(4)

RETRACT_BIT = 1
"""The bit mask of retractions (-U, -D), which are the odd kinds."""

NAMES: Mapping[int, str] = {INSERT: "+I", UPDATE_BEFORE: "-U", UPDATE_AFTER: "+U", DELETE: "-D"}


def build_rowkind() -> pl.Expr:
    """Return the column ``rowkind``, from ``_VALUE_KIND``."""
    return pl.col(VALUE_KIND).replace_strict(NAMES, return_dtype=pl.String).alias(ROWKIND)
