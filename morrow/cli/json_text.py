"""Conversion of Arrow columns to JSON, a column at a time. `morrow.cli.plain_text` documents the format of values."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from morrow.cli.plain_text import TEXT, Test, format_plain, normalize_array
from morrow.engine.errors import CorruptFile, Unsupported


def format_nested(array: pa.Array) -> pa.Array:
    """Return nested values as JSON text; nulls stay null."""
    return pc.if_else(array.is_valid(), format_json(array), pa.scalar(None, TEXT))


def format_json(array: pa.Array) -> pa.Array:
    """Return the values as JSON (large_string). Nulls become the text ``null``, so the result has none.

    Raises `Unsupported`: as `morrow.cli.output.format_texts`.
    """
    array = normalize_array(array)
    for test, nested in NESTED:
        if test(array.type):
            return _fill_nulls(pc.if_else(array.is_valid(), nested(array), pa.scalar(None, TEXT)))
    found = format_plain(array)
    if pa.types.is_floating(array.type):
        finite = pc.is_finite(array.cast(pa.float64()))
        found = pc.if_else(finite, found, _join_texts('"', found, '"'))
    elif not (pa.types.is_integer(array.type) or pa.types.is_boolean(array.type)):
        found = _quote_strings(found)
    return _fill_nulls(found)


def format_json_lines(batch: pa.RecordBatch) -> memoryview:
    """Return the rows as JSON objects in UTF-8, one per line.

    Raises `Unsupported`: as `morrow.cli.output.format_texts`.
    """
    members = [(name, format_json(column)) for name, column in zip(batch.schema.names, batch.columns, strict=True)]
    lines = _join_texts(_format_object(members, len(batch)), "\n")
    _, offsets, data = lines.buffers()
    return memoryview(data or b"")[: memoryview(offsets).cast("q")[len(lines)]]


def _format_list(array: pa.Array) -> pa.Array:
    return _join_items(array, format_json(array.flatten()))


def _format_map(array: pa.MapArray) -> pa.Array:
    lists = array.cast(pa.list_(pa.struct([("key", array.type.key_type), ("value", array.type.item_type)])))
    keys, values = lists.flatten().flatten()
    return _join_items(lists, _join_texts("[", format_json(keys), ",", format_json(values), "]"))


def _format_struct(array: pa.StructArray) -> pa.Array:
    members = zip((field.name for field in array.type), array.flatten(), strict=True)
    return _format_object([(name, format_json(column)) for name, column in members], len(array))


def _is_variant(kind: pa.DataType) -> bool:
    """Return whether a type is that of VARIANT in Arrow: two byte strings."""
    if not pa.types.is_struct(kind) or {field.name for field in kind} != {"value", "metadata"}:
        return False
    return all(pa.types.is_binary(field.type) or pa.types.is_large_binary(field.type) for field in kind)


def _format_variants(array: pa.StructArray) -> pa.Array:
    """Return variants as JSON, and other rows of two byte strings of these names as objects."""
    from morrow.engine.format.variant_arrays import to_json

    try:
        return to_json(array)
    except (CorruptFile, Unsupported):
        return _format_struct(array)


def _join_items(array: pa.Array, members: pa.Array) -> pa.Array:
    """Return ``[a,b]`` for each list of `array`; `members` are the texts of all its elements, concatenated."""
    lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int64())
    lists = pa.LargeListArray.from_arrays(offsets, members)
    return _join_texts("[", pc.binary_join(lists, pa.scalar(",", TEXT)), "]")


def _format_object(members: list[tuple[str, pa.Array]], rows: int) -> pa.Array:
    parts: list[pa.Array | str] = []
    for name, values in members:
        parts += [("," if parts else "{") + json.dumps(name, ensure_ascii=False) + ":", values]
    return _join_texts(*parts, "}") if parts else pa.array(["{}"] * rows, TEXT)


NESTED: tuple[tuple[Test, Callable[[pa.Array], pa.Array]], ...] = (
    (pa.types.is_map, _format_map),
    (lambda kind: pa.types.is_list(kind) or pa.types.is_large_list(kind), _format_list),
    (_is_variant, _format_variants),
    (pa.types.is_struct, _format_struct),
)


def _quote_strings(strings: pa.Array) -> pa.Array:
    """Return JSON strings. Polars only escapes within objects, so the string is extracted from ``{"v":"..."}``."""
    encoded = pl.Series("v", pl.from_arrow(strings), dtype=pl.String).to_frame().to_struct().struct.json_encode()
    quoted = encoded.str.slice(len('{"v":')).str.head(-1)
    return pc.if_else(strings.is_valid(), quoted.to_arrow().cast(TEXT), pa.scalar(None, TEXT))


def _join_texts(*parts: pa.Array | str) -> pa.Array:
    return pc.binary_join_element_wise(
        *(pa.scalar(p, TEXT) if isinstance(p, str) else p for p in parts), pa.scalar("", TEXT)
    )


def _fill_nulls(strings: pa.Array) -> pa.Array:
    return pc.fill_null(strings, pa.scalar("null", TEXT))
