"""Casts among BOOLEAN, integers, FLOAT, DOUBLE and DECIMAL.

Integers wrap when narrowed. FLOAT and DOUBLE become integers towards zero, saturated at INT (TINYINT, SMALLINT, INT)
or BIGINT, and NaN becomes 0; TINYINT and SMALLINT then wrap. DECIMAL rounds half up (away from zero) to the target
scale and is null when the target precision does not hold it.
"""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Context, Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from morrow.engine.format import types as t
from morrow.engine.format.java_floats import double_text
from morrow.readers.casts.base import Cast, like, numbers, over_distinct

MAX_DECIMAL128 = 38
MAX_DECIMAL256 = 76
LONG_DIGITS = 19
COMPACT_DIGITS = 18
"""Up to this precision Java keeps the unscaled value in a long and divides it as a double."""

WIDE = Context(prec=400, Emax=10**6, Emin=-(10**6), rounding=ROUND_HALF_UP)


def integer_to_number(array: pa.Array, cast: Cast) -> pa.Array:
    """Casts integers to integers (wrapping), FLOAT and DOUBLE (nearest)."""
    return array.cast(cast.target.arrow(), safe=False)


def approximate_to_integer(array: pa.Array, cast: Cast) -> pa.Array:
    """Casts FLOAT and DOUBLE to integers: towards zero, saturated; NaN is 0."""
    bits = 64 if isinstance(cast.target, t.BigIntType) else 32
    values = numbers(array).astype(np.float64)
    low, high = -(2.0 ** (bits - 1)), 2.0 ** (bits - 1)
    inside = (values >= low) & (values < high)
    result = np.where(inside, values, 0.0).astype(np.int64)
    result[values >= high] = 2 ** (bits - 1) - 1
    result[values < low] = -(2 ** (bits - 1))
    return like(result, array, pa.int64()).cast(cast.target.arrow(), safe=False)


def approximate_to_approximate(array: pa.Array, cast: Cast) -> pa.Array:
    """Casts FLOAT to DOUBLE, and DOUBLE to FLOAT: nearest, infinite beyond its range."""
    return array.cast(cast.target.arrow(), safe=False)


def boolean_to_number(array: pa.Array, cast: Cast) -> pa.Array:
    """Casts TRUE to 1, FALSE to 0."""
    ones = array.cast(pa.int64())
    return integer_to_decimal(ones, cast) if isinstance(cast.target, t.DecimalType) else ones.cast(cast.target.arrow())


def integer_to_boolean(array: pa.Array, _cast: Cast) -> pa.Array:
    """Casts 0 to FALSE, all other integers to TRUE."""
    return pc.not_equal(array, pa.scalar(0, array.type))


def integer_to_decimal(array: pa.Array, cast: Cast) -> pa.Array:
    """Casts integers to DECIMAL; null where the integer has more digits than the target has before the point."""
    return rescale_decimal(array.cast(pa.int64()).cast(pa.decimal128(LONG_DIGITS, 0)), cast)


def approximate_to_decimal(array: pa.Array, cast: Cast) -> pa.Array:
    """Rounds DOUBLE's text half up to a decimal, once per distinct value. NaN and infinities fail."""
    values = array.cast(pa.float64())
    cast.require(array, pc.is_finite(values), "a DECIMAL is finite")
    target = cast.target
    return over_distinct(values, lambda x: fit(Decimal(double_text(x)), target.precision, target.scale), target.arrow())


def fit(value: Decimal, precision: int, scale: int) -> Decimal | None:
    """Returns `value` rounded half up to `scale`; None when it then has more than `precision` digits."""
    if value.adjusted() > MAX_DECIMAL128:
        return None
    rounded = value.quantize(Decimal(1).scaleb(-scale), context=WIDE)
    return None if rounded and rounded.adjusted() + scale >= precision else rounded


def decimal_to_integer(array: pa.Array, cast: Cast) -> pa.Array:
    """Casts towards zero, then keeps the low bits (64, and of those the target's)."""
    whole = pc.trunc(array.cast(pa.decimal256(MAX_DECIMAL256, array.type.scale)))
    whole = whole.cast(pa.decimal256(MAX_DECIMAL256, 0))
    # A decimal256 is four little-endian longs, the lowest first.
    low = np.frombuffer(whole.buffers()[1], dtype="<i8")[4 * whole.offset :: 4][: len(whole)]
    return like(low, array, pa.int64()).cast(cast.target.arrow(), safe=False)


def decimal_to_approximate(array: pa.Array, cast: Cast) -> pa.Array:
    """Returns the nearest DOUBLE (of a quotient of doubles up to 18 digits, as Java computes it), and from it FLOAT."""
    scale = array.type.scale
    if array.type.precision <= COMPACT_DIGITS:
        unscaled = unscaled_integers(array).cast(pa.int64())
        doubles = like(numbers(unscaled).astype(np.float64) / 10**scale, array, pa.float64())
    else:
        doubles = over_distinct(array, float, pa.float64())
    return doubles.cast(cast.target.arrow(), safe=False)


def unscaled_integers(array: pa.Array) -> pa.Array:
    """Returns the digits without the point, as DECIMAL(p, 0): the same bytes."""
    type = pa.decimal128(array.type.precision, 0)
    return pa.Array.from_buffers(type, len(array), array.buffers(), array.null_count, array.offset)


def rescale_decimal(array: pa.Array, cast: Cast) -> pa.Array:
    """Casts DECIMAL to DECIMAL: half up to the target's scale, null where the target's precision is too small."""
    precision, scale = cast.target.precision, cast.target.scale
    if scale < array.type.scale:
        # One digit more than the source may be needed: 99.995 becomes 100.00.
        wide = pa.decimal256(MAX_DECIMAL256, array.type.scale)
        rounded = pc.round(array.cast(wide), ndigits=scale, round_mode="half_towards_infinity")
        array = rounded.cast(pa.decimal256(MAX_DECIMAL256, scale))
    digits_before = array.type.precision - array.type.scale
    if digits_before > precision - scale:
        limit = pa.scalar(Decimal(10) ** (precision - scale), array.type)
        array = pc.if_else(pc.less(pc.abs(array), limit), array, pa.scalar(None, array.type))
    return array.cast(cast.target.arrow())
