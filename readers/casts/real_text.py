"""The text of FLOAT and DOUBLE columns as Java writes it, for whole columns at once.

From 1E-3 up to where whole numbers are no longer all distinct, Java's digits are the fewest that read back, as are
Polars'; only their form differs (``1.0E7`` for ``10000000.0``). For other values Java 8 to 17 sometimes writes more
digits: those go through the long division of `morrow.engine.format.java_floats`, once for each value.
"""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from morrow.engine.format import types as t
from morrow.readers.casts import arrow_cast
from morrow.readers.casts.dtypes import to_arrow_array, to_series

LEAST = 1e-3
LARGEST_PLAIN = 1e7
FIRST_UNSAFE: Mapping[type[t.DataType], float] = {t.FloatType: 2.0**24, t.DoubleType: 2.0**53}
STRING = t.VarCharType()


def real_texts(values: pl.Series, kind: t.DataType) -> pl.Series:
    """Returns the text of each value of a Float32 or Float64 series; null stays null."""
    size = values.abs()
    quick = ((size >= LEAST) & (size < FIRST_UNSAFE[kind.__class__])) | (size == 0)
    texts = _shortest(values.set(~quick, None))
    if texts.null_count() == values.null_count():
        return texts
    others = values.set(quick, None)
    return texts.fill_null(to_series(values.name, arrow_cast(to_arrow_array(others, kind), kind, STRING), STRING))


def _shortest(values: pl.Series) -> pl.Series:
    plain = values.cast(pl.String)
    large = (values.abs() >= LARGEST_PLAIN).fill_null(False)
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
