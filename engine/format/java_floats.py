"""The text of FLOAT and DOUBLE as in Java (Float.toString, Double.toString of JDK 8 to 17).

Form: plain from 1E-3 up to below 1E7 (``0.001``, ``9999999.0``), else one digit before the point and ``E``
(``1.0E10``, ``9.999E-4``); always at least one digit after the point.

Digits: up to JDK 18, Java did not always write the shortest digits that read back (2.0E23 is
``1.9999999999999998E23``), so Python's shortest `repr` cannot be used. The value is f * 2**e. Digits come from a long
division of B by S, which stops when the remainder is within M, half the distance to the neighbouring floating-point
number:

* whole numbers below 2**63 are written exactly, without the digits below the precision of the value;
* for other values, the division stops as soon as the remainder is below M or above 10 * S - M. In E form at least two
  digits are written. Equality at the upper end stops only the division in big integers, not the one in 64 bits.
"""

from __future__ import annotations

import math
import struct

DOUBLE_FRACTION_BITS = 52
DOUBLE_BIAS = 1023
FLOAT_FRACTION_BITS = 23
FLOAT_BIAS = 127
MAX_WHOLE_EXPONENT = 62
MIN_WHOLE_EXPONENT = -21
LONG_BITS = 64
INT_BITS = 32
FIVE_POWERS_IN_LONG = 27
PLAIN_DIGITS = 8
"""Values with a decimal exponent from -2 to this limit (exclusive) are written without E."""

SPECIAL = {math.inf: "Infinity", -math.inf: "-Infinity"}


def format_double(value: float) -> str:
    """Return Java's text of a DOUBLE."""
    (bits,) = struct.unpack("<Q", struct.pack("<d", value))
    return _format_value(value, bits & (2**63 - 1), DOUBLE_FRACTION_BITS, DOUBLE_BIAS)


def format_float(value: float) -> str:
    """Return Java's text of a FLOAT, given as the equal Python float."""
    if math.isnan(value) or math.isinf(value):
        return format_double(value)
    (bits,) = struct.unpack("<I", struct.pack("<f", value))
    return _format_value(value, bits & (2**31 - 1), FLOAT_FRACTION_BITS, FLOAT_BIAS)


def _format_value(value: float, bits: int, fraction_bits: int, bias: int) -> str:
    if value != value:
        return "NaN"
    if value in SPECIAL:
        return SPECIAL[value]
    sign = "-" if math.copysign(1.0, value) < 0 else ""
    if bits == 0:
        return f"{sign}0.0"
    exponent, fraction = bits >> fraction_bits, bits & ((1 << fraction_bits) - 1)
    significant = fraction_bits + 1
    if exponent == 0:
        significant = fraction.bit_length()
        shift = fraction_bits + 1 - significant
        fraction <<= shift
        exponent = 1 - shift
    else:
        fraction |= 1 << fraction_bits
    digits, point = _compute_digits(fraction << (DOUBLE_FRACTION_BITS - fraction_bits), exponent - bias, significant)
    return sign + _format_digits(digits, point)


def _format_digits(digits: str, point: int) -> str:
    """Format digits d1 d2 d3 ..., worth 0.d1d2d3 * 10**point, in Java's form."""
    if 0 < point < PLAIN_DIGITS:
        return f"{digits[:point].ljust(point, '0')}.{digits[point:] or '0'}"
    if -3 < point <= 0:
        return f"0.{'0' * -point}{digits}"
    return f"{digits[0]}.{digits[1:] or '0'}E{point - 1}"


def _compute_digits(fraction: int, exponent: int, significant: int) -> tuple[str, int]:
    """Return digits and decimal point of fraction / 2**52 * 2**exponent, of which `significant` bits are known."""
    trailing = (fraction & -fraction).bit_length() - 1
    width = DOUBLE_FRACTION_BITS + 1 - trailing
    tiny = max(0, width - exponent - 1)
    if MIN_WHOLE_EXPONENT <= exponent <= MAX_WHOLE_EXPONENT and tiny == 0 and width < LONG_BITS:
        return _compute_whole_digits(fraction, exponent, significant)
    return _divide_digits(fraction >> trailing, width, tiny, exponent, significant, _estimate(fraction, exponent))


def _compute_whole_digits(fraction: int, exponent: int, significant: int) -> tuple[str, int]:
    shift = exponent - DOUBLE_FRACTION_BITS
    whole = fraction << shift if shift >= 0 else fraction >> -shift
    unknown = exponent - significant - 1 if exponent > significant else 0
    dropped = unknown * 1233 >> 12 if unknown > 1 else 0  # floor(unknown * log10(2))
    if dropped:
        whole, rest = divmod(whole, 10**dropped)
        whole += rest >= 10**dropped // 2
    text = str(whole)
    return text.rstrip("0"), len(text) + dropped


def _estimate(fraction: int, exponent: int) -> int:
    """Estimate the decimal exponent, with an error of at most one: a tangent of log10 at 1.5."""
    mantissa = fraction / (1 << DOUBLE_FRACTION_BITS)
    return math.floor((mantissa - 1.5) * 0.289529654 + 0.176091259 + exponent * 0.301029995663981)


def _count_five_bits(power: int) -> int:
    return (5**power).bit_length() if power < FIVE_POWERS_IN_LONG else power * 3


def _divide_digits(odd: int, width: int, tiny: int, exponent: int, significant: int, decimal: int) -> tuple[str, int]:
    b5, s5 = max(0, -decimal), max(0, decimal)
    b2, s2 = b5 + tiny + exponent, s5 + tiny
    m2 = b2 - significant
    b2 -= width - 1
    common = min(b2, s2)
    b2, s2, m2 = b2 - common, s2 - common, m2 - common
    if width == 1:
        m2 -= 1  # below a power of two, the neighbour is at half the distance
    if m2 < 0:
        b2, s2, m2 = b2 - m2, s2 - m2, 0
    b_bits, tens_bits = width + b2 + _count_five_bits(b5), s2 + 1 + _count_five_bits(s5 + 1)
    small = b_bits < LONG_BITS and tens_bits < LONG_BITS
    # Integers of 32 or 64 bits wrap around as in Java, which also affects the decisions based on them.
    sign_bit = 1 << ((INT_BITS if b_bits < INT_BITS and tens_bits < INT_BITS else LONG_BITS) - 1) if small else 0
    b, s, m = odd * 5**b5 << b2, 5**s5 << s2, 5**b5 << m2
    tens = s * 10
    made: list[int] = []

    q, b = divmod(b, s)
    b, m = 10 * b, 10 * m
    low, high = b < m, (_wrap(b + m, sign_bit) > tens if small else b + m >= tens)
    if q == 0 and not high:
        decimal -= 1
    else:
        made.append(q)
    if decimal < -3 or decimal >= PLAIN_DIGITS:
        low = high = False
    while not (low or high):
        q, b = divmod(b, s)
        b, m = 10 * b, 10 * m
        low, high = b < m, (_wrap(b + m, sign_bit) > tens if small else b + m >= tens)
        if _wrap(m, sign_bit) <= 0:
            low = high = True
        made.append(q)
    number = int("".join(map(str, made)))
    beyond_half = _wrap(_wrap(2 * b, sign_bit) - tens, sign_bit)
    if high and (not low or beyond_half > 0 or (beyond_half == 0 and number % 2)):
        number += 1
    text = str(number).rjust(len(made), "0")
    # Rounding up 99 adds one digit.
    return text.rstrip("0") or "0", decimal + 1 + len(text) - len(made)


def _wrap(value: int, sign_bit: int) -> int:
    return (value + sign_bit) % (2 * sign_bit) - sign_bit if sign_bit else value
