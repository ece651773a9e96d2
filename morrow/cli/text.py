"""Arrow columns as exact text, a column at a time: cells of tables and CSV, and JSON.

| type                | text                                           | in JSON                      |
|---------------------|------------------------------------------------|------------------------------|
| boolean, integer    | ``true``, ``-7``                               | as they are                  |
| FLOAT, DOUBLE       | the shortest that reads back as the same value | as they are, or a string:    |
|                     |                                                | ``NaN``, ``Infinity``        |
| DECIMAL             | all digits of its scale                        | a string                     |
| DATE                | ``2024-05-14``                                 | a string                     |
| TIME                | ``12:00:00.000``                               | a string                     |
| TIMESTAMP           | ``2024-05-14T12:00:00.000000``, digits by unit | a string                     |
| TIMESTAMP LTZ       | the same in UTC with ``Z``                     | a string                     |
| BINARY, BYTES, BLOB | lower-case hex                                 | a string                     |
| ARRAY               | JSON                                           | an array                     |
| MAP, MULTISET       | JSON                                           | an array of ``[key, value]`` |
| ROW, VARIANT        | JSON                                           | an object                    |
| null                | stays null                                     | ``null``                     |
"""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from morrow.engine.errors import Unsupported

TEXT = pa.large_string()
FRACTION_DIGITS = {"s": "", "ms": "%.3f", "us": "%.6f", "ns": "%.9f"}
NOT_FINITE = {"inf": "Infinity", "-inf": "-Infinity"}

Test = Callable[[pa.DataType], bool]
Leaf = Callable[[pl.Series, pa.DataType], pl.Series]


def texts(array: pa.Array) -> pa.Array:
    """Returns the values as text (large_string); nulls stay null.

    Raises:
        Unsupported: a type that Morrow's tables do not have (an interval, a union: only SQL makes them).
    """
    array = _plain(array)
    if _is_nested(array.type):
        return pc.if_else(array.is_valid(), json_texts(array), pa.scalar(None, TEXT))
    for test, leaf in LEAVES:
        if test(array.type):
            series = pl.Series(pl.from_arrow(array))
            return leaf(series, array.type).to_arrow().cast(TEXT)
    raise Unsupported(
        f"the type {array.type} in a text format", hint="cast the column to VARCHAR, or take --format arrow"
    )


def json_texts(array: pa.Array) -> pa.Array:
    """Returns the values as JSON (large_string); a null is the text ``null``, so no result is null.

    Raises:
        Unsupported: as `texts`.
    """
    array = _plain(array)
    for test, nested in NESTED:
        if test(array.type):
            return _null_text(pc.if_else(array.is_valid(), nested(array), pa.scalar(None, TEXT)))
    found = texts(array)
    if pa.types.is_floating(array.type):
        finite = pc.is_finite(array.cast(pa.float64()))
        found = pc.if_else(finite, found, _joined('"', found, '"'))
    elif not (pa.types.is_integer(array.type) or pa.types.is_boolean(array.type)):
        found = _quoted(found)
    return _null_text(found)


def json_lines(batch: pa.RecordBatch) -> memoryview:
    """Returns the rows as JSON objects in UTF-8, one per line.

    Raises:
        Unsupported: as `texts`.
    """
    members = [(name, json_texts(column)) for name, column in zip(batch.schema.names, batch.columns, strict=True)]
    lines = _joined(_object(members, len(batch)), "\n")
    _, offsets, data = lines.buffers()
    return memoryview(data or b"")[: memoryview(offsets).cast("q")[len(lines)]]


def _plain(array: pa.Array) -> pa.Array:
    """Returns the array without dictionary, extension type, or list types that differ in layout only."""
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_fixed_size_list(array.type):
        array = array.cast(pa.list_(array.type.value_field))
    return array


def _is_nested(kind: pa.DataType) -> bool:
    return any(test(kind) for test, _ in NESTED)


# Values without members


def _cast(series: pl.Series, _: pa.DataType) -> pl.Series:
    found: pl.Series = series.cast(pl.String)
    return found


def _float(series: pl.Series, kind: pa.DataType) -> pl.Series:
    found: pl.Series = _cast(series, kind).replace(NOT_FINITE)
    return found


def _hex(series: pl.Series, _: pa.DataType) -> pl.Series:
    return series.bin.encode("hex")


def _time(series: pl.Series, kind: pa.DataType) -> pl.Series:
    return series.dt.strftime("%H:%M:%S" + FRACTION_DIGITS[kind.unit])


def _timestamp(series: pl.Series, kind: pa.DataType) -> pl.Series:
    zone = "" if kind.tz is None else "Z"
    utc = series if kind.tz is None else series.dt.convert_time_zone("UTC")
    return utc.dt.strftime("%Y-%m-%dT%H:%M:%S" + FRACTION_DIGITS[kind.unit] + zone)


def _is_binary(kind: pa.DataType) -> bool:
    tests = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary)
    return any(test(kind) for test in tests)


def _is_cast(kind: pa.DataType) -> bool:
    tests = (pa.types.is_boolean, pa.types.is_integer, pa.types.is_decimal, pa.types.is_date, pa.types.is_null)
    return any(test(kind) for test in (*tests, pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view))


LEAVES: tuple[tuple[Test, Leaf], ...] = (
    (_is_cast, _cast),
    (pa.types.is_floating, _float),
    (_is_binary, _hex),
    (pa.types.is_time, _time),
    (pa.types.is_timestamp, _timestamp),
)


# Values with members, as JSON


def _list(array: pa.Array) -> pa.Array:
    return _bracketed(array, json_texts(array.flatten()))


def _map(array: pa.MapArray) -> pa.Array:
    lists = array.cast(pa.list_(pa.struct([("key", array.type.key_type), ("value", array.type.item_type)])))
    keys, values = lists.flatten().flatten()
    return _bracketed(lists, _joined("[", json_texts(keys), ",", json_texts(values), "]"))


def _struct(array: pa.StructArray) -> pa.Array:
    members = zip((field.name for field in array.type), array.flatten(), strict=True)
    return _object([(name, json_texts(column)) for name, column in members], len(array))


def _bracketed(array: pa.Array, members: pa.Array) -> pa.Array:
    """Returns ``[a,b]`` for each list of `array`; `members` are the texts of all its elements, one after the other."""
    lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int64())
    lists = pa.LargeListArray.from_arrays(offsets, members)
    return _joined("[", pc.binary_join(lists, pa.scalar(",", TEXT)), "]")


def _object(members: list[tuple[str, pa.Array]], rows: int) -> pa.Array:
    parts: list[pa.Array | str] = []
    for name, values in members:
        parts += [("," if parts else "{") + json.dumps(name, ensure_ascii=False) + ":", values]
    return _joined(*parts, "}") if parts else pa.array(["{}"] * rows, TEXT)


NESTED: tuple[tuple[Test, Callable[[pa.Array], pa.Array]], ...] = (
    (pa.types.is_map, _map),
    (lambda kind: pa.types.is_list(kind) or pa.types.is_large_list(kind), _list),
    (pa.types.is_struct, _struct),
)


def _quoted(strings: pa.Array) -> pa.Array:
    """Returns JSON strings; Polars escapes inside objects only, so the string is cut out of ``{"v":"..."}``."""
    encoded = pl.Series("v", pl.from_arrow(strings), dtype=pl.String).to_frame().to_struct().struct.json_encode()
    quoted = encoded.str.slice(len('{"v":')).str.head(-1)
    return pc.if_else(strings.is_valid(), quoted.to_arrow().cast(TEXT), pa.scalar(None, TEXT))


def _joined(*parts: pa.Array | str) -> pa.Array:
    return pc.binary_join_element_wise(
        *(pa.scalar(p, TEXT) if isinstance(p, str) else p for p in parts), pa.scalar("", TEXT)
    )


def _null_text(strings: pa.Array) -> pa.Array:
    return pc.fill_null(strings, pa.scalar("null", TEXT))
