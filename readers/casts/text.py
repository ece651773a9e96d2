"""Casts to CHAR and VARCHAR, with the text that Java writes."""

from __future__ import annotations

import re
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from morrow.engine.format.java_floats import double_text, float_text
from morrow.readers.casts.base import Cast, numbers, over_distinct, sized_text
from morrow.readers.casts.numeric import unscaled_integers
from morrow.readers.casts.temporal import clock_times

FRACTION_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}
FOUR_DIGIT_YEARS = 10_000
SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]")
"""A UTF-16 surrogate in three UTF-8 bytes: one replacement character in Java, three in Python."""


def integer_to_text(array: pa.Array, cast: Cast) -> pa.Array:
    return sized_text(array.cast(pa.string()), cast.target)


def boolean_to_text(array: pa.Array, cast: Cast) -> pa.Array:
    return sized_text(pc.if_else(array, "true", "false"), cast.target)


def double_to_text(array: pa.Array, cast: Cast) -> pa.Array:
    """Formats each distinct value once: no kernel makes Java's digits."""
    return sized_text(over_distinct(array, double_text, pa.string()), cast.target)


def float_to_text(array: pa.Array, cast: Cast) -> pa.Array:
    """Formats each distinct value once: no kernel makes Java's digits."""
    return sized_text(over_distinct(array, float_text, pa.string()), cast.target)


def decimal_to_text(array: pa.Array, cast: Cast) -> pa.Array:
    """Formats all digits of the scale, never an exponent (Arrow's own text has one for small numbers)."""
    scale = array.type.scale
    text = unscaled_integers(array).cast(pa.string())
    if scale:
        negative = pc.starts_with(text, "-")
        digits = pc.utf8_lpad(pc.utf8_ltrim(text, "-"), scale + 1, "0")
        before, after = pc.utf8_slice_codeunits(digits, 0, -scale), pc.utf8_slice_codeunits(digits, -scale)
        text = pc.binary_join_element_wise(pc.if_else(negative, "-", ""), before, ".", after, "")
    return sized_text(text, cast.target)


def date_to_text(array: pa.Array, _cast: Cast) -> pa.Array:
    """Formats ``2020-02-29``; of a year beyond 9999 the last four digits."""
    return _arrow_text(_day(pl.Series(array)))


def timestamp_to_text(array: pa.Array, cast: Cast) -> pa.Array:
    """Formats ``2020-02-29 10:11:12.5``: as many digits as the precision says, more where the value has them."""
    clock = clock_times(array, cast)
    digits = FRACTION_DIGITS[clock.type.unit]
    series = pl.Series(clock)
    text = _day(series) + series.dt.strftime(f" %H:%M:%S%.{digits}f" if digits else " %H:%M:%S")
    spare = digits - cast.source.precision
    if spare > 0:
        text = text.str.replace(rf"0{{1,{spare}}}$", "")
    return _arrow_text(text)


def time_to_text(array: pa.Array, cast: Cast) -> pa.Array:
    """Formats ``10:11:12``, and above precision 0 a fraction of one to three digits: ``10:11:12.0``."""
    series = pl.Series(array)
    text = series.dt.strftime("%H:%M:%S")
    if cast.source.precision:
        fraction = pl.Series(numbers(array) % 1000).cast(pl.String).str.zfill(3)
        text = text + "." + fraction.str.replace(r"0{1,2}$", "").str.slice(0, cast.source.precision)
    return _arrow_text(text)


def _day(series: pl.Series) -> pl.Series:
    year = (series.dt.year() % FOUR_DIGIT_YEARS).cast(pl.String).str.zfill(4)
    text: pl.Series = year + series.dt.strftime("-%m-%d")
    return text


def _arrow_text(series: pl.Series) -> pa.Array:
    return series.to_arrow(compat_level=pl.CompatLevel.oldest()).cast(pa.string())


def text_to_text(array: pa.Array, cast: Cast) -> pa.Array:
    return sized_text(array, cast.target)


def binary_to_text(array: pa.Array, _cast: Cast) -> pa.Array:
    """Decodes UTF-8, ignoring the target's length; invalid bytes become the replacement character."""
    try:
        return array.cast(pa.string())
    except pa.ArrowInvalid:
        return over_distinct(array, _decoded, pa.string())


def _decoded(value: Any) -> str:
    return SURROGATE.sub("\ufffd".encode(), value).decode("utf-8", "replace")
