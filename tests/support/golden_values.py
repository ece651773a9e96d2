"""Conversion of golden values to the oracle's values, and back.

Texts of times stay texts, since they sort as the times do.
"""

from __future__ import annotations

import json
import math
from decimal import Decimal
from typing import Any

from morrow.engine.format import types as t
from tests.support.canonical import float32

BINARY = (t.BinaryType, t.VarBinaryType)


def parsed(value: Any, kind: t.DataType) -> Any:
    if value is None:
        return None
    if isinstance(kind, (t.FloatType, t.DoubleType)):
        number = float(value)
        return float32(number) if isinstance(kind, t.FloatType) and math.isfinite(number) else number
    if isinstance(kind, t.DecimalType):
        return Decimal(value)
    if isinstance(kind, BINARY):
        return bytes.fromhex(value)
    if isinstance(kind, t.ArrayType):
        return [parsed(item, kind.element) for item in value]
    if isinstance(kind, t.MapType):
        return [(parsed(k, kind.key), parsed(v, kind.value)) for k, v in value]
    if isinstance(kind, t.RowType):
        return {f.name: parsed(item, f.type) for f, item in zip(kind.fields, value, strict=True)}
    return value


def shown(value: Any, kind: t.DataType) -> Any:
    """Convert a value to its form in golden files, with map entries sorted by their JSON text."""
    if value is None:
        return None
    if isinstance(kind, (t.FloatType, t.DoubleType)):
        return value if math.isfinite(value) else {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, "NaN")
    if isinstance(kind, t.DecimalType):
        return format(value, "f")
    if isinstance(kind, BINARY):
        return value.hex()
    if isinstance(kind, t.ArrayType):
        return [shown(item, kind.element) for item in value]
    if isinstance(kind, t.MapType):
        return sorted(([shown(k, kind.key), shown(v, kind.value)] for k, v in value), key=json.dumps)
    if isinstance(kind, t.RowType):
        return [shown(value[f.name], f.type) for f in kind.fields]
    return value
