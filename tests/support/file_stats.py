"""File statistics as Paimon writes them: lowest and highest value and number of nulls of each column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from morrow.engine.format import types as t
from tests.support.binary_row import binary_rows

UNBOUNDED = (
    t.BinaryType,
    t.VarBinaryType,
    t.BlobType,
    t.ArrayType,
    t.VectorType,
    t.MapType,
    t.MultisetType,
    t.RowType,
    t.VariantType,
)


@dataclass(frozen=True)
class ColumnStats:
    """Minimum, maximum and null count of each column of a file, each as a table of one row."""

    types: Mapping[str, t.DataType]
    minimum: Mapping[str, pa.Array]
    maximum: Mapping[str, pa.Array]
    nulls: Mapping[str, int]

    def record(self, names: Sequence[str]) -> dict[str, Any]:
        """Build the ``_KEY_STATS`` or ``_VALUE_STATS`` of these columns."""
        kinds = [self.types[name] for name in names]
        low, high = (binary_rows([side[n] for n in names], kinds, 1)[0] for side in (self.minimum, self.maximum))
        return stats_record(low, high, [self.nulls[name] for name in names])


def column_stats(table: pa.Table, fields: Sequence[t.DataField]) -> ColumnStats:
    """Compute the statistics that Paimon collects from a written file; binary and nested types lack bounds."""
    bounds = {f.name: _bounds(table.column(f.name), f.type) for f in fields}
    return ColumnStats(
        types={f.name: f.type for f in fields},
        minimum={name: low for name, (low, _) in bounds.items()},
        maximum={name: high for name, (_, high) in bounds.items()},
        nulls={f.name: table.column(f.name).null_count for f in fields},
    )


def _bounds(column: pa.ChunkedArray, kind: t.DataType) -> tuple[pa.Array, pa.Array]:
    arrow = kind.arrow()
    if isinstance(kind, UNBOUNDED):
        return pa.nulls(1, arrow), pa.nulls(1, arrow)
    low, high = pc.min_max(column).as_py().values() if not pa.types.is_temporal(arrow) else _temporal_bounds(column)
    if isinstance(kind, (t.FloatType, t.DoubleType)) and low is not None:
        if pc.any(pc.is_nan(column)).as_py():
            low, high = (high if low != low else low), float("nan")
        low = -0.0 if low == 0 else low
        high = 0.0 if high == 0 else high
    return pa.array([low], arrow), pa.array([high], arrow)


def _temporal_bounds(column: pa.ChunkedArray) -> tuple[Any, Any]:
    """Return the bounds of dates and times as scalars, since Python's datetime lacks nanoseconds."""
    bounds = pc.min_max(column)
    return bounds["min"], bounds["max"]


def stats_record(low: bytes, high: bytes, nulls: list[int]) -> dict[str, Any]:
    return {"_MIN_VALUES": low, "_MAX_VALUES": high, "_NULL_COUNTS": nulls}
