"""Values of VARIANT: conversion of Python values and JSON to their bytes, and back.

    rows = morrow.open("warehouse/db.db/events").to_arrow()
    morrow.variant.to_python(rows["payload"])  # None, numbers, text, lists, dicts, ...
    morrow.variant.get(rows["payload"], "$.items[0].price")  # the same column of parts
    morrow.variant.encode({"a": 1})  # (value, metadata)

A column is an Arrow struct of two binary members, value and metadata, in the Parquet variant encoding.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from morrow.engine.errors import Unsupported
from morrow.engine.format.types import ArrayType, DataType, MapType, RowType, VariantType, has_type
from morrow.engine.format.variant import decode, encode

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

    Column: TypeAlias = pa.Array | pa.ChunkedArray | pl.Series

__all__ = ["decode", "encode", "from_python", "get", "get_text", "is_null", "parse_json", "to_json", "to_python"]


def _to_array(column: Any) -> pa.Array:
    import pyarrow as pa

    if hasattr(column, "to_arrow"):
        column = column.to_arrow()
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def from_python(values: Sequence[object]) -> pa.Array:
    """Return Python values as a column of variants; None is a null row. Text stays text.

    Raises `InvalidArgument`: a value of a type that no VARIANT holds; the message names the row.
    """
    from morrow.engine.format.variant_building import encode_values

    return encode_values(values)


def parse_json(texts: Column | Sequence[str | None], *, errors: bool = True) -> pa.Array:
    """Return JSON texts as a column of variants; null stays null.

    `errors`: raise for text that is not JSON; if False, it becomes null.

    Raises `InvalidArgument`: a text is not JSON, or an object has a member twice; the message names the row.
    """
    import pyarrow as pa

    from morrow.engine.format.variant_json import encode_json_column

    array = pa.array(texts, pa.string()) if isinstance(texts, (list, tuple)) else _to_array(texts)
    return encode_json_column(array, errors=errors)


def to_json(variants: Column) -> pa.Array:
    """Return the JSON text of a column of variants, as Java Paimon writes it. Raises `CorruptFile`, `Unsupported`."""
    import pyarrow as pa

    from morrow.engine.format import variant_arrays

    return variant_arrays.to_json(_to_array(variants)).cast(pa.string())


def to_python(variants: Column) -> list[Any]:
    """Return the Python values of a column of variants; None for null. Raises `CorruptFile`, `Unsupported`."""
    rows = _to_array(variants).to_pylist()
    return [None if row is None else decode(row["value"], row["metadata"]) for row in rows]


def to_values(column: Column, kind: DataType) -> list[Any]:
    """Return the Python values of a column of any type, with those of the variants within.

    Raises:
        Unsupported: Python cannot hold a value, such as nanoseconds without pandas, or years after 9999.
    """
    try:
        values = _to_array(column).to_pylist()
    except (ValueError, OverflowError) as error:
        hint = "pip install 'morrow[pandas]' for nanoseconds, or read by to_arrow or to_polars"
        raise Unsupported(f"{kind} as Python values ({error})", hint=hint) from error
    return [_decode(value, kind) for value in values] if has_type(kind, VariantType) else values


def _decode(value: Any, kind: DataType) -> Any:
    if value is None or not has_type(kind, VariantType):
        return value
    if isinstance(kind, VariantType):
        return decode(value["value"], value["metadata"])
    if isinstance(kind, RowType):
        return {field.name: _decode(value[field.name], field.type) for field in kind.fields}
    if isinstance(kind, MapType):
        return [(key, _decode(each, kind.value)) for key, each in value]
    assert isinstance(kind, ArrayType)
    return [_decode(each, kind.element) for each in value]


def get(variants: Column, path: str) -> pa.Array:
    """Return the values at a path such as ``$.a[0]['b c']`` as a column of variants; null if a row has none.

    Raises:
        InvalidArgument: not a path. CorruptFile, Unsupported: invalid bytes.
    """
    from morrow.engine.format import variant_arrays

    return variant_arrays.extract(_to_array(variants), variant_arrays.parse_path(path))


def get_text(variants: Column, path: str) -> pa.Array:
    """Return the values at a path as text: text as it is, other values as JSON, null for null. Raises as `get`."""
    import pyarrow as pa

    from morrow.engine.format import variant_arrays

    return variant_arrays.extract_text(_to_array(variants), variant_arrays.parse_path(path)).cast(pa.string())


def is_null(variants: Column) -> pa.Array:
    """Return whether each value is the null of JSON; False for rows that are null. Raises `CorruptFile`."""
    import pyarrow as pa

    from morrow.engine.format import variant_arrays

    return pa.array(variant_arrays.find_nulls(_to_array(variants)))
