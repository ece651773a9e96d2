"""`sum` and `product` with Java's arithmetic: integers wrap, FLOAT has 32 bits, decimals have a precision.

One quirk of release 1.4.2 is kept: a sum of decimals of up to 18 digits may exceed its precision, but a sum of longer
ones that exceeds it is null, as is any product.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from morrow.engine.format import types as t
from tests.oracle.functions.base import Call, NullsAside

INTEGER_BITS = {t.TinyIntType: 8, t.SmallIntType: 16, t.IntType: 32, t.BigIntType: 64}
FLOATS = {t.FloatType: np.float32, t.DoubleType: np.float64}
MAX_COMPACT_PRECISION = 18
LONG_DIGITS = 2**63


class Integers:
    """Two's complement integers of a given width."""

    def __init__(self, kind: t.DataType) -> None:
        self.half: int = 2 ** (INTEGER_BITS[type(kind)] - 1)

    def _wrapped(self, value: int) -> int:
        return (value + self.half) % (2 * self.half) - self.half

    def add(self, a: int, b: int) -> int:
        return self._wrapped(a + b)

    def subtract(self, a: int, b: int) -> int:
        return self._wrapped(a - b)

    def negate(self, a: int) -> int:
        return self._wrapped(-a)

    def multiply(self, a: int, b: int) -> int:
        return self._wrapped(a * b)

    def divide(self, a: int, b: int) -> int:
        """Divide towards zero; raises ZeroDivisionError."""
        quotient = abs(a) // abs(b)
        return self._wrapped(quotient if (a < 0) == (b < 0) else -quotient)


class Floats:
    """IEEE 754 numbers, which have infinity and no errors."""

    def __init__(self, kind: t.DataType) -> None:
        self.number = FLOATS[type(kind)]

    def _computed(self, operation: Callable[[Any, Any], Any], a: float, b: float) -> float:
        with np.errstate(all="ignore"):
            return float(operation(self.number(a), self.number(b)))

    def add(self, a: float, b: float) -> float:
        return self._computed(np.add, a, b)

    def subtract(self, a: float, b: float) -> float:
        return self._computed(np.subtract, a, b)

    def negate(self, a: float) -> float:
        return -a

    def multiply(self, a: float, b: float) -> float:
        return self._computed(np.multiply, a, b)

    def divide(self, a: float, b: float) -> float:
        return self._computed(np.divide, a, b)


class Decimals:
    """Exact decimals that are rounded half up to the scale, and become null if they exceed the precision."""

    def __init__(self, kind: t.DataType) -> None:
        assert isinstance(kind, t.DecimalType)
        self.precision, self.scale = kind.precision, kind.scale

    def _rounded(self, value: Fraction) -> Decimal | None:
        scaled = abs(value) * 10**self.scale
        unscaled = int(scaled + Fraction(1, 2))
        if unscaled >= 10**self.precision:
            return None
        return self._decimal(unscaled if value >= 0 else -unscaled)

    def _decimal(self, unscaled: int) -> Decimal:
        return Decimal((int(unscaled < 0), tuple(int(d) for d in str(abs(unscaled))), -self.scale))

    def _summed(self, value: Fraction) -> Decimal | None:
        unscaled = int(value * 10**self.scale)
        if self.precision <= MAX_COMPACT_PRECISION and -LONG_DIGITS <= unscaled < LONG_DIGITS:
            return self._decimal(unscaled)
        return self._rounded(value)

    def add(self, a: Decimal, b: Decimal) -> Decimal | None:
        return self._summed(Fraction(a) + Fraction(b))

    def subtract(self, a: Decimal, b: Decimal) -> Decimal | None:
        return self._summed(Fraction(a) - Fraction(b))

    def negate(self, a: Decimal) -> Decimal | None:
        return self._rounded(-Fraction(a))

    def multiply(self, a: Decimal, b: Decimal) -> Decimal | None:
        return self._rounded(Fraction(a) * Fraction(b))

    def divide(self, a: Decimal, b: Decimal) -> Decimal | None:
        """Divide; raises ArithmeticError if the quotient is endless, and ZeroDivisionError."""
        quotient = Fraction(a) / Fraction(b)
        denominator = quotient.denominator
        for prime in (2, 5):
            while denominator % prime == 0:
                denominator //= prime
        if denominator != 1:
            raise ArithmeticError(f"{a} / {b} has no exact decimal result")
        return self._rounded(quotient)


def arithmetic(kind: t.DataType) -> Any:
    if isinstance(kind, t.DecimalType):
        return Decimals(kind)
    return Integers(kind) if type(kind) in INTEGER_BITS else Floats(kind)


class Sum(NullsAside):
    def __init__(self, call: Call) -> None:
        super().__init__(call)
        self.numbers = arithmetic(call.type)

    def combine(self, accumulator: Any, new: Any) -> Any:
        return self.numbers.add(accumulator, new)

    def retract(self, accumulator: Any, new: Any) -> Any:
        if new is None:
            return accumulator
        return self.numbers.negate(new) if accumulator is None else self.numbers.subtract(accumulator, new)


class Product(NullsAside):
    def __init__(self, call: Call) -> None:
        super().__init__(call)
        self.numbers = arithmetic(call.type)

    def combine(self, accumulator: Any, new: Any) -> Any:
        return self.numbers.multiply(accumulator, new)

    def retract(self, accumulator: Any, new: Any) -> Any:
        if accumulator is None or new is None:
            return accumulator
        return self.numbers.divide(accumulator, new)
