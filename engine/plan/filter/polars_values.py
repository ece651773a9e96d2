"""Reading of literals in Polars expressions as values of a column's type, where neither side is rounded."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np

from morrow.engine.format.types import (
    BooleanType,
    DataField,
    DateType,
    DecimalType,
    FloatType,
    LocalZonedTimestampType,
    TimestampType,
    TimeType,
    arrow_time_unit,
)
from morrow.engine.plan.filter.literals import (
    BINARY_TYPES,
    EPOCH,
    FLOAT_TYPES,
    INTEGER_BITS,
    STRING_TYPES,
    TIMESTAMP_TYPES,
)
from morrow.engine.plan.filter.polars_form import opened
from morrow.engine.plan.filter.terms import (
    EXACT_FLOAT_INTEGERS,
)
from morrow.engine.plan.predicate import Value
from morrow.engine.units import NANOS_PER_MICRO

MICROS = {"Milliseconds": 1000, "Microseconds": 1}


UNIT_OF_COLUMN = {"s": "Milliseconds", "ms": "Milliseconds", "us": "Microseconds", "ns": "Nanoseconds"}
"""Polars has no seconds."""


def literal_value(literal: Any, column: DataField) -> Value | None:
    """Returns the literal if Polars compares it with the column without rounding either; None for null as well."""
    origin, content = opened(literal)
    name, value = opened(content)
    if value is None or origin not in ("Dyn", "Scalar"):
        return None
    read = next((read for kinds, read in _READERS if isinstance(column.type, kinds)), None)
    return read(origin, name, value, column) if read else None


def _read_integer(_origin: str, name: str, value: Any, _column: DataField) -> Value | None:
    return int(value) if name in ("Int", "Int8", "Int16", "Int32", "Int64") else None


def _read_float(origin: str, name: str, value: Any, column: DataField) -> Value | None:
    """Reads a float: a plain Python float takes the column's type, a typed literal keeps its own."""
    if name == "Int" and abs(value) <= EXACT_FLOAT_INTEGERS:
        return float(value)
    if name not in ("Float", "Float32", "Float64") or not math.isfinite(value):
        return None
    if name == "Float32" or (origin == "Dyn" and isinstance(column.type, FloatType)):
        rounded = float(np.float32(value))
        return rounded if math.isfinite(rounded) else None
    return float(value)


def _read_decimal(_origin: str, name: str, value: Any, _column: DataField) -> Value | None:
    if name != "Decimal":
        return None
    unscaled, _precision, scale = value
    return Decimal(f"{unscaled}E-{scale}")


def _read_timestamp(_origin: str, name: str, value: Any, column: DataField) -> Value | None:
    """Reads a timestamp: Polars compares in the coarser unit, so only a literal exact in the column's unit passes."""
    assert isinstance(column.type, (TimestampType, LocalZonedTimestampType))
    if name != "Datetime":
        return None
    number, unit, zone = value
    zoned = isinstance(column.type, LocalZonedTimestampType)
    if unit not in MICROS or (zone is not None) is not zoned or (zoned and zone != {"inner": "UTC"}):
        return None
    of_column = UNIT_OF_COLUMN[arrow_time_unit(column.type.precision)]
    micros = number * MICROS[unit]
    if of_column not in MICROS or MICROS[unit] > MICROS[of_column] or micros % MICROS[of_column]:
        return None
    moment = EPOCH + dt.timedelta(microseconds=micros)
    return moment.replace(tzinfo=dt.UTC) if zoned else moment


def _read_time(_origin: str, name: str, value: Any, _column: DataField) -> Value | None:
    if name != "Time" or value % NANOS_PER_MICRO:
        return None
    return (EPOCH + dt.timedelta(microseconds=value // NANOS_PER_MICRO)).time()


def _read_date(_origin: str, name: str, value: Any, _column: DataField) -> Value | None:
    return EPOCH.date() + dt.timedelta(days=value) if name == "Date" else None


_READERS: tuple[tuple[type | tuple[type, ...], Callable[[str, str, Any, DataField], Value | None]], ...] = (
    (tuple(INTEGER_BITS), _read_integer),
    (FLOAT_TYPES, _read_float),
    (DecimalType, _read_decimal),
    (TIMESTAMP_TYPES, _read_timestamp),
    (TimeType, _read_time),
    (DateType, _read_date),
    (STRING_TYPES, lambda _origin, name, value, _column: value if name in ("Str", "String") else None),
    (BINARY_TYPES, lambda _origin, name, value, _column: bytes(value) if name == "Binary" else None),
    (BooleanType, lambda _origin, name, value, _column: value if name == "Boolean" else None),
)
