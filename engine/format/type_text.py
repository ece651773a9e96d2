"""The text form of atomic data types, as in SQL: ``DECIMAL(10, 2) NOT NULL``."""

from __future__ import annotations

import re

from morrow.engine.errors import Unsupported
from morrow.engine.format.types import (
    ARROW_MICROS_PRECISION,
    MAX_DECIMAL_PRECISION,
    MAX_LENGTH,
    MAX_TIME_PRECISION,
    BigIntType,
    BinaryType,
    BlobType,
    BooleanType,
    CharType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntType,
    LocalZonedTimestampType,
    SmallIntType,
    TimestampType,
    TimeType,
    TinyIntType,
    VarBinaryType,
    VarCharType,
    VariantType,
    _SizedType,
)

SIZED_TYPES: dict[str, type[_SizedType]] = {t.keyword: t for t in (CharType, VarCharType, BinaryType, VarBinaryType)}


PLAIN_TYPES: dict[str, type[DataType]] = {
    **{t.keyword: t for t in (BooleanType, TinyIntType, SmallIntType, IntType, BigIntType, FloatType, DoubleType)},
    **{t.keyword: t for t in (DateType, VariantType, BlobType)},
    "INTEGER": IntType,
    "DOUBLE PRECISION": DoubleType,
    "STRING": VarCharType,
    "BYTES": VarBinaryType,
}


# As text: `re` compiles it when it is first used, for types that schema files do not write as they are here.
_ATOMIC = r"""(?xi) \s* (?P<name>[A-Za-z_]+ (?:\s+PRECISION)?) \s*
        (?: \( \s* (?P<first>\d+) \s* (?: , \s* (?P<second>\d+) \s* )? \) )? \s*
        (?P<zone> WITH \s+ LOCAL \s+ TIME \s+ ZONE | WITHOUT \s+ TIME \s+ ZONE | WITH \s+ TIME \s+ ZONE )? \s*
        (?P<null> NOT \s+ NULL | NULL )? \s*"""
NOT_NULL = " NOT NULL"


def parse_atomic(text: str, *, where: str | None = None) -> DataType:
    """Parses an atomic type such as ``TIMESTAMP(3) WITH LOCAL TIME ZONE NOT NULL``.

    Raises:
        Unsupported: the text names no type of the specification that Morrow knows.
    """
    plain = PLAIN_TYPES.get(text.removesuffix(NOT_NULL))
    if plain is not None:
        return plain(nullable=not text.endswith(NOT_NULL))
    match = re.fullmatch(_ATOMIC, text)
    if match is None:
        raise Unsupported(f"the type {text!r}", where=where)
    name = re.sub(r"\s+", " ", match["name"]).upper()
    sizes = [int(size) for size in (match["first"], match["second"]) if size is not None]
    zone = re.sub(r"\s+", " ", match["zone"] or "").upper()
    kind = _atomic_of(name, sizes, zone)
    if kind is None:
        raise Unsupported(f"the type {text!r}", where=where)
    return kind.with_nullable((match["null"] or "").upper()[:3] != "NOT")


def _atomic_of(name: str, sizes: list[int], zone: str) -> DataType | None:
    if name in ("TIMESTAMP", "TIMESTAMP_LTZ") and len(sizes) <= 1:
        precision = sizes[0] if sizes else ARROW_MICROS_PRECISION
        if precision > MAX_TIME_PRECISION:
            return None
        if name == "TIMESTAMP_LTZ" or zone == "WITH LOCAL TIME ZONE":
            return LocalZonedTimestampType(precision=precision)
        return TimestampType(precision=precision) if zone in ("", "WITHOUT TIME ZONE") else None
    if name == "TIME" and len(sizes) <= 1 and zone in ("", "WITHOUT TIME ZONE"):
        precision = sizes[0] if sizes else 0
        return TimeType(precision=precision) if precision <= MAX_TIME_PRECISION else None
    if zone:
        return None
    if name in ("DECIMAL", "NUMERIC", "DEC"):
        precision, scale = ([*sizes, 0] if sizes else [10, 0])[:2]
        in_range = 1 <= precision <= MAX_DECIMAL_PRECISION and scale <= precision
        return DecimalType(precision=precision, scale=scale) if in_range else None
    if name in SIZED_TYPES and len(sizes) <= 1:
        length = sizes[0] if sizes else 1
        return SIZED_TYPES[name](length=length) if length <= MAX_LENGTH else None
    return PLAIN_TYPES[name]() if name in PLAIN_TYPES and not sizes else None
