"""Arrow columns of values without members as text; how they are written is told in `morrow.cli.text`."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl
import pyarrow as pa

from morrow.engine.errors import Unsupported
from morrow.engine.format.arrow_buffers import polars_series

TEXT = pa.large_string()
FRACTION_DIGITS = {"s": "", "ms": "%.3f", "us": "%.6f", "ns": "%.9f"}
NOT_FINITE = {"inf": "Infinity", "-inf": "-Infinity"}

Test = Callable[[pa.DataType], bool]
Leaf = Callable[[pl.Series, pa.DataType], pl.Series]


def plain_texts(array: pa.Array) -> pa.Array:
    """Returns the values of an array of `plain` as text (large_string); nulls stay null.

    Raises:
        Unsupported: a type that Morrow's tables do not have (an interval, a union: only SQL makes them).
    """
    for test, leaf in LEAVES:
        if test(array.type):
            return leaf(polars_series(array), array.type).to_arrow(compat_level=pl.CompatLevel.oldest())
    raise Unsupported(
        f"the type {array.type} in a text format", hint="cast the column to VARCHAR, or take --format arrow"
    )


def plain(array: pa.Array) -> pa.Array:
    """Returns the array without dictionary, extension type, or list types that differ in layout only."""
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_fixed_size_list(array.type):
        array = array.cast(pa.list_(array.type.value_field))
    return array


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
