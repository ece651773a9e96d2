"""Conversion of Arrow columns to exact text, a column at a time: cells of tables and CSV, and JSON.

 type                | text                                           | in JSON                      |
---------------------|------------------------------------------------|------------------------------|
 boolean, integer    | ``true``, ``-7``                               | as they are                  |
 FLOAT, DOUBLE       | the shortest that reads back as the same value | as they are, or a string:    |
                     |                                                | ``NaN``, ``Infinity``        |
 DECIMAL             | all digits of its scale                        | a string                     |
 DATE                | ``2024-05-14``                                 | a string                     |
 TIME                | ``12:00:00.000``                               | a string                     |
 TIMESTAMP           | ``2024-05-14T12:00:00.000000``, digits by unit | a string                     |
 TIMESTAMP LTZ       | the same in UTC with ``Z``                     | a string                     |
 BINARY, BYTES, BLOB | lower-case hex                                 | a string                     |
 ARRAY               | JSON                                           | an array                     |
 MAP, MULTISET       | JSON                                           | an array of ``[key, value]`` |
 ROW                 | JSON                                           | an object                    |
 VARIANT             | JSON                                           | the value                    |
 null                | stays null                                     | ``null``                     |
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import polars as pl
import pyarrow as pa

from morrow.engine.errors import Unsupported
from morrow.engine.format.arrow_buffers import to_series

TEXT = pa.large_string()
FRACTION_DIGITS = {"s": "", "ms": "%.3f", "us": "%.6f", "ns": "%.9f"}
TICKS_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
DAY_SECONDS, CYCLE_YEARS, CYCLE_DAYS = 86_400, 400, 146_097
"""The calendar repeats every 400 years."""
HOUR_SECONDS = 3_600
YEAR_DIGITS, LAST_YEAR = 4, 9999
"""The last year that is written without a sign, as in ISO 8601 and Java."""
NOT_FINITE = {"inf": "Infinity", "-inf": "-Infinity"}

Test = Callable[[pa.DataType], bool]
Leaf = Callable[[pl.Series, pa.DataType], pl.Series]


def format_plain(array: pa.Array) -> pa.Array:
    """Return the values of an array of `normalize_array` as text (large_string); nulls stay null.

    Raises `Unsupported`: a type that only SQL produces and tables lack, such as an interval or a union.
    """
    for test, leaf in LEAVES:
        if test(array.type):
            return leaf(to_series(_count_ticks(array)), array.type).to_arrow(compat_level=pl.CompatLevel.oldest())
    raise Unsupported(
        f"the type {array.type} in a text format", hint="cast the column to VARCHAR, or take --format arrow"
    )


def normalize_array(array: pa.Array) -> pa.Array:
    """Return the array without dictionaries, extension types, and list types that differ only in layout."""
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


def _format_float(series: pl.Series, kind: pa.DataType) -> pl.Series:
    found: pl.Series = _cast(series, kind).replace(NOT_FINITE)
    return found


def _format_hex(series: pl.Series, _: pa.DataType) -> pl.Series:
    return series.bin.encode("hex")


def _count_ticks(array: pa.Array) -> pa.Array:
    """Return times as numbers, since 24:00:00 is a valid time in DuckDB and PostgreSQL but null in Polars."""
    if not pa.types.is_time(array.type):
        return array
    return array.view(pa.int32() if pa.types.is_time32(array.type) else pa.int64())


def _format_time(series: pl.Series, kind: pa.DataType) -> pl.Series:
    hour = HOUR_SECONDS * TICKS_PER_SECOND[kind.unit]
    ticks = series.cast(pl.Int64)
    within = (ticks % hour * (HOUR_SECONDS * TICKS_PER_SECOND["ns"] // hour)).cast(pl.Time)
    return (ticks // hour).cast(pl.String).str.zfill(2) + within.dt.strftime(":%M:%S" + FRACTION_DIGITS[kind.unit])


def _format_date(series: pl.Series, _: pa.DataType) -> pl.Series:
    return _format_days(series, pl.Date(), 1, "")


def _format_timestamp(series: pl.Series, kind: pa.DataType) -> pl.Series:
    form = "T%H:%M:%S" + FRACTION_DIGITS[kind.unit] + ("" if kind.tz is None else "Z")
    utc = series if kind.tz is None else series.dt.convert_time_zone("UTC")
    if kind.unit == "ns":  # limited to the years 1677 to 2262
        return utc.dt.strftime("%Y-%m-%d" + form)
    unit: Literal["us", "ms"] = "us" if kind.unit == "us" else "ms"  # Polars lacks seconds
    return _format_days(utc, pl.Datetime(unit), DAY_SECONDS * TICKS_PER_SECOND[unit], form)


def _format_days(series: pl.Series, kind: pl.DataType, ticks_per_day: int, time: str) -> pl.Series:
    """Format dates or timestamps with `ticks_per_day`, including years for which Polars panics.

    Years outside 1970 to 2369 are formatted by the equivalent year in this cycle, which has the same days.
    """
    ticks, cycle = series.to_physical().cast(pl.Int64), CYCLE_DAYS * ticks_per_day
    near = (ticks % cycle).cast(kind)
    year = near.dt.year().cast(pl.Int64) + ticks // cycle * CYCLE_YEARS
    years, after, before = pl.col("year"), pl.col("year") > LAST_YEAR, pl.col("year") < 0
    sign = pl.when(after).then(pl.lit("+")).when(before).then(pl.lit("-")).otherwise(pl.lit(""))
    rest = near.dt.strftime("-%m-%d" + time)
    return year.to_frame("year").select(sign + years.abs().cast(pl.String).str.zfill(YEAR_DIGITS) + rest).to_series()


def _is_binary(kind: pa.DataType) -> bool:
    tests = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary)
    return any(test(kind) for test in tests)


def _is_cast(kind: pa.DataType) -> bool:
    tests = (pa.types.is_boolean, pa.types.is_integer, pa.types.is_decimal, pa.types.is_date64, pa.types.is_null)
    return any(test(kind) for test in (*tests, pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view))


LEAVES: tuple[tuple[Test, Leaf], ...] = (
    (_is_cast, _cast),
    (pa.types.is_floating, _format_float),
    (_is_binary, _format_hex),
    (pa.types.is_time, _format_time),
    (pa.types.is_date32, _format_date),
    (pa.types.is_timestamp, _format_timestamp),
)
