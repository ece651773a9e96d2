"""The casts that allow a column to change its type: Paimon's rules as a table.

Source: the casting rules of Paimon 1.4.2 where a rule allows the cast and code for it exists. Nested types change by
their members only.
"""

from __future__ import annotations

from collections.abc import Mapping

from morrow.engine.format.types import DataType, VarCharType

TEXTS = "CHAR VARCHAR"
BYTES = "BINARY VARBINARY"
INTEGERS = "TINYINT SMALLINT INT BIGINT"
NUMBERS = f"{INTEGERS} DECIMAL FLOAT DOUBLE"
NESTED = "ARRAY MAP ROW"

WIDENING: Mapping[str, str] = {
    "CHAR": "CHAR",
    "VARCHAR": TEXTS,
    "BINARY": "BINARY",
    "VARBINARY": BYTES,
    "DECIMAL": NUMBERS,
    "TINYINT": "TINYINT",
    "SMALLINT": "TINYINT SMALLINT",
    "INT": "TINYINT SMALLINT INT",
    "BIGINT": INTEGERS,
    "FLOAT": f"{INTEGERS} DECIMAL FLOAT",
    "DOUBLE": NUMBERS,
    "DATE": "TIMESTAMP",
    "TIME": "TIMESTAMP",
    "TIMESTAMP": "TIMESTAMP TIMESTAMP_LTZ",
    "TIMESTAMP_LTZ": "TIMESTAMP TIMESTAMP_LTZ",
}
"""Target -> sources, always allowed."""

EXPLICIT: Mapping[str, str] = {
    "CHAR": f"{TEXTS} BOOLEAN {BYTES} {NUMBERS} {NESTED}",
    "VARCHAR": f"BOOLEAN {BYTES} {NUMBERS} {NESTED}",
    "BOOLEAN": f"{TEXTS} {INTEGERS}",
    "BINARY": f"{TEXTS} {BYTES}",
    "VARBINARY": TEXTS,
    "DECIMAL": f"{TEXTS} BOOLEAN",
    "TINYINT": f"{TEXTS} BOOLEAN {NUMBERS}",
    "SMALLINT": f"{TEXTS} BOOLEAN {NUMBERS}",
    "INT": f"{TEXTS} BOOLEAN {NUMBERS} TIMESTAMP TIMESTAMP_LTZ",
    "BIGINT": f"{TEXTS} BOOLEAN {NUMBERS} TIMESTAMP TIMESTAMP_LTZ",
    "FLOAT": f"{TEXTS} BOOLEAN {NUMBERS}",
    "DOUBLE": f"{TEXTS} BOOLEAN",
    "DATE": f"{TEXTS} TIMESTAMP_LTZ",
    "TIME": f"{TEXTS} TIMESTAMP_LTZ",
    "TIMESTAMP": f"{TEXTS} INT BIGINT DATE TIME",
    "TIMESTAMP_LTZ": f"{TEXTS} INT BIGINT DATE TIME",
}
"""Target -> sources, allowed unless the option ``disable-explicit-type-casting`` is on."""

TO_STRING = "DATE TIME TIMESTAMP TIMESTAMP_LTZ"
"""Types that may only become a nullable STRING: Java has no cast to a text of limited length, nor to one NOT NULL."""


def can_cast(source: DataType, target: DataType, *, explicit: bool) -> bool:
    """Returns whether a column of type `source` may become `target`; nullability is not considered."""
    if source.text() == target.text():
        return True
    if explicit and source.keyword in TO_STRING.split() and target.keyword == VarCharType.keyword:
        return target == VarCharType()
    allowed = WIDENING.get(target.keyword, "").split()
    if explicit:
        allowed += EXPLICIT.get(target.keyword, "").split()
    return source.keyword in allowed
