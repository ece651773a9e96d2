"""Casts of columns whose type has changed since their file was written, with exactly Java Paimon's results."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from morrow.engine.format.types import DataType

if TYPE_CHECKING:
    from morrow.readers.casts.rules import cast_expression, is_allowed, polars_cast

__all__ = ["cast_array", "cast_expression", "is_allowed", "polars_cast"]

HOMES = {"cast_expression": "rules", "polars_cast": "rules", "is_allowed": "rules"}
"""The modules of lazily imported functions; most reads cast nothing and do not need them."""

A = TypeVar("A", pa.Array, pa.ChunkedArray)


def cast_array(array: A, source: DataType, target: DataType, *, where: str | None = None, zone: str = "UTC") -> A:
    """Cast a column to its type in the schema that is read.

    Args:
        array: values of `source.arrow()`; a chunked array is cast chunk by chunk.
        source: the type in the file's schema.
        target: the type in the read's schema.
        where: the name in errors, such as the table and column.
        zone: the session's zone, for casts between TIMESTAMP_LTZ and DATE, TIME, TIMESTAMP or text.

    Returns:
        An array of `target.arrow()`, of the same length. Null stays null; a DECIMAL that does not fit becomes null, as
        in Java.

    Raises:
        Unsupported: Java does not support the cast, fails on a value (such as text that is not a number), or Arrow
            cannot hold the value.
    """
    from morrow.readers.casts.base import Cast, apply
    from morrow.readers.casts.rules import require_allowed

    require_allowed(source, target, where=where)
    cast = Cast(source, target, zone, where)
    if isinstance(array, pa.ChunkedArray):
        return pa.chunked_array([apply(chunk, cast) for chunk in array.chunks], target.arrow())
    return apply(array, cast)


def __getattr__(name: str) -> Any:
    if name not in HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{HOMES[name]}"), name)
