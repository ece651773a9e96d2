"""Java's ``toString`` for whole columns: the form of keys and statistics in ``$files``.

====================  =======================================================================
BOOLEAN               ``true``
integers, DATE, TIME  the number; a DATE is its epoch day, a TIME its millisecond of the day
FLOAT, DOUBLE         ``1.0E10``, ``NaN``: Java's digits
DECIMAL               all digits of its scale
CHAR, VARCHAR         itself
BINARY, VARBINARY     lower-case hex (Java shows ``[B@`` and an address, which is different in every process)
TIMESTAMP             ``2024-01-31T07:00``, then seconds if there are any, then 3, 6 or 9 digits; LTZ in UTC
====================  =======================================================================

Nested values lack statistics. Casts to STRING, which format partitions, have other forms (`morrow.readers.casts`).

Java's digits of FLOAT and DOUBLE are the fewest that read back, as Polars' are, from 1E-3 up to the limit beyond
which whole numbers are no longer all distinct; only the form differs (``1.0E7`` for ``10000000.0``). For other
values Java 8 to 17 sometimes writes more digits: `morrow.engine.format.java_floats` computes those once per value.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import polars as pl

from morrow.engine.format import types as t
from morrow.engine.format.binary_row import decode_columns
from morrow.engine.units import MILLIS_PER_SECOND, NANOS_PER_MICRO, NANOS_PER_MILLI
from morrow.readers.casts import cast_array
from morrow.readers.casts.dtypes import to_arrow_array, to_series

MIN_PLAIN = 1e-3
MAX_PLAIN = 1e7
FIRST_UNSAFE: Mapping[type[t.DataType], float] = {t.FloatType: 2.0**24, t.DoubleType: 2.0**53}
STRING = t.VarCharType()


def format_reals(values: pl.Series, kind: t.DataType) -> pl.Series:
    """Return the text of each value of a Float32 or Float64 series; null stays null."""
    size = values.abs()
    quick = ((size >= MIN_PLAIN) & (size < FIRST_UNSAFE[kind.__class__])) | (size == 0)
    texts = _format_shortest(values.set(~quick, None))
    if texts.null_count() == values.null_count():
        return texts
    others = values.set(quick, None)
    return texts.fill_null(to_series(values.name, cast_array(to_arrow_array(others, kind), kind, STRING), STRING))


def _format_shortest(values: pl.Series) -> pl.Series:
    plain = values.cast(pl.String)
    large = (values.abs() >= MAX_PLAIN).fill_null(False)
    if not large.any():
        return plain
    number = pl.DataFrame({"text": plain, "large": large}).lazy()
    parts = pl.col("text").str.extract_groups(r"^(-?\d)(\d*)(?:\.(\d*))?$").struct
    digits = pl.concat_str(parts.field("2"), parts.field("3").fill_null("")).str.strip_chars_end("0")
    fraction = pl.when(digits == "").then(pl.lit("0")).otherwise(digits)
    exponent = parts.field("2").str.len_bytes()
    return (
        number.select(
            pl.when("large").then(pl.format("{}.{}E{}", parts.field("1"), fraction, exponent)).otherwise("text")
        )
        .collect()
        .to_series()
    )


NULL = "null"
NANOS_PER_UNIT = {"ms": NANOS_PER_MILLI, "us": NANOS_PER_MICRO, "ns": 1}
NANOS_MASK = 0xFFFFFFFF
"""The part of a TIMESTAMP's slot that holds its nanoseconds within the millisecond."""
MICROS = 6
MAX_YEAR = 200_000
"""Maximum distance of a year from 1970; Polars cannot format years beyond it."""
MILLIS_PER_YEAR = 31_556_952_000


def to_java_sort_key(name: str) -> bytes:
    """Return a sort key that orders names as Java's strings, which compare by UTF-16 code units."""
    return name.encode("utf-16-be", "surrogatepass")


def format_values(values: pl.Series, kind: t.DataType) -> pl.Series:
    """Return the text of each value, a String series; null stays null.

    `values` are as `decode_columns` gives them.
    """
    return _FORMATTERS.get(kind.__class__, _format_nothing)(values, kind)


def format_stored_values(
    rows: pl.Series, types: Sequence[t.DataType], columns: Sequence[int], *, where: str
) -> list[pl.Series]:
    """Return the text of fields of stored rows (`morrow.engine.format.binary_row`), even beyond Polars' range.

    Args:
        types: the types of all fields. columns: the indexes of the fields wanted.

    Raises `CorruptFile`: a row does not have these fields.
    """
    finer = [i for i in columns if _has_nanos(types[i])]
    coarse = [t.TimestampType(precision=MICROS) if i in finer else kind for i, kind in enumerate(types)]
    slots = [t.BigIntType() if i in finer else kind for i, kind in enumerate(types)]
    values = decode_columns(rows, coarse, where=where, columns=columns, unrepresentable="null")
    beyond = dict(zip(finer, decode_columns(rows, slots, where=where, columns=finer), strict=True))
    return [
        format_local_date_time(value, (beyond[i] & NANOS_MASK) % NANOS_PER_MICRO)
        if i in beyond
        else format_values(value, types[i])
        for i, value in zip(columns, values, strict=True)
    ]


def _has_nanos(kind: t.DataType) -> bool:
    """Return whether Polars holds the type in nanoseconds, which only cover 1677 to 2262."""
    return isinstance(kind, (t.TimestampType, t.LocalZonedTimestampType)) and kind.precision > MICROS


def join_texts(parts: Sequence[tuple[str, pl.Series]], brackets: str, height: int) -> pl.Series:
    """Join prefixes and texts to ``{a=1, b=null}``, `height` rows; `brackets` are the two around them."""
    pieces: list[pl.Expr | pl.Series] = []
    for number, (prefix, texts) in enumerate(parts):
        pieces += [pl.lit((", " if number else brackets[0]) + prefix), texts.fill_null(NULL)]
    pieces.append(pl.lit(brackets[1] if parts else brackets))
    return pl.select(pl.concat_str(pieces)).to_series() if parts else pl.Series([brackets]).new_from_index(0, height)


def format_local_date_time(values: pl.Series, more_nanos: pl.Series | None = None) -> pl.Series:
    """Format a Datetime series as Java's LocalDateTime shows it: ``2024-01-31T07:00:00.5``.

    `more_nanos`: nanoseconds in addition to the microseconds. Times some 200,000 years from 1970 are null.
    """
    assert isinstance(values.dtype, pl.Datetime)
    nanos_per_tick = NANOS_PER_UNIT[values.dtype.time_unit]
    ticks_per_second = 1000 * NANOS_PER_MILLI // nanos_per_tick
    ticks = values.to_physical()
    limit = MAX_YEAR * MILLIS_PER_YEAR * NANOS_PER_MILLI // nanos_per_tick
    times = values.dt.replace_time_zone(None)
    if ticks.abs().max() is not None and not ticks.is_between(-limit, limit).all():
        times = times.set(~ticks.is_between(-limit, limit), None)
    extra = pl.lit(0, dtype=pl.Int64) if more_nanos is None else more_nanos
    frame = pl.DataFrame({"time": times, "ticks": ticks}).select(
        pl.col("time").dt.strftime("%Y-%m-%dT%H:%M").alias("minute"),
        pl.col("time").dt.second().alias("second"),
        (pl.col("ticks") % ticks_per_second * nanos_per_tick + extra).alias("nanos"),
    )
    minute, second, nanos = pl.col("minute"), pl.col("second"), pl.col("nanos")
    seconds = pl.format("{}:{}", minute, second.cast(pl.String).str.zfill(2))
    return frame.select(
        pl.when((second == 0) & (nanos == 0))
        .then(minute)
        .when(nanos == 0)
        .then(seconds)
        .when(nanos % NANOS_PER_MILLI == 0)
        .then(_format_fraction(seconds, nanos // NANOS_PER_MILLI, 3))
        .when(nanos % NANOS_PER_MICRO == 0)
        .then(_format_fraction(seconds, nanos // NANOS_PER_MICRO, 6))
        .otherwise(_format_fraction(seconds, nanos, 9))
    ).to_series()


def _format_fraction(seconds: pl.Expr, fraction: pl.Expr, digits: int) -> pl.Expr:
    return pl.format("{}.{}", seconds, fraction.cast(pl.String).str.zfill(digits))


def _format_plain(values: pl.Series, _kind: t.DataType) -> pl.Series:
    return values.cast(pl.String)


def _format_by_cast(values: pl.Series, kind: t.DataType) -> pl.Series:
    """Format by the cast to STRING, for types whose ``toString`` agrees with it."""
    string = t.VarCharType()
    return to_series(values.name, cast_array(to_arrow_array(values, kind), kind, string), string)


_FORMATTERS: dict[type[t.DataType], Callable[[pl.Series, Any], pl.Series]] = {
    **dict.fromkeys((t.BooleanType, t.TinyIntType, t.SmallIntType, t.IntType, t.BigIntType), _format_plain),
    **dict.fromkeys((t.CharType, t.VarCharType), _format_plain),
    **dict.fromkeys((t.FloatType, t.DoubleType), format_reals),
    t.DecimalType: _format_by_cast,
    **dict.fromkeys((t.BinaryType, t.VarBinaryType), lambda values, _: values.bin.encode("hex")),
    **dict.fromkeys((t.TimestampType, t.LocalZonedTimestampType), lambda values, _: format_local_date_time(values)),
    t.DateType: lambda values, _: values.to_physical().cast(pl.String),
    t.TimeType: lambda values, _: (values.to_physical() // NANOS_PER_MILLI).cast(pl.String),
}


def _format_nothing(values: pl.Series, _kind: t.DataType) -> pl.Series:
    return pl.Series(values.name, [None], dtype=pl.String).new_from_index(0, len(values))


def to_wall_clock(millis: Sequence[int | None]) -> pl.Series:
    """Convert epoch milliseconds to times without zone, in this process's zone: Datetime("ms"), null stays null.

    Creation times of files and tags are stored in the writer's zone, so all times of a table agree if its readers and
    writers share a zone. Each instant uses its own offset, including summer time.
    """
    offsets = {
        instant: _find_utc_offset(instant // MILLIS_PER_SECOND) for instant in set(millis) if instant is not None
    }
    local = [None if instant is None else instant + offsets[instant] * MILLIS_PER_SECOND for instant in millis]
    return pl.Series(local, dtype=pl.Int64).cast(pl.Datetime("ms"))


def _find_utc_offset(seconds: int) -> int:
    """Return seconds east of UTC at this instant."""
    try:
        return time.localtime(seconds).tm_gmtoff
    except (OverflowError, OSError):  # a time outside of this machine's calendar
        return 0
