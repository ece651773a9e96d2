"""Columns of pandas whose dtype stands for another type: pandas has no dates, and no nulls among its integers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from morrow.engine.format import types as t
from morrow.writers.rows.validation import check_objects

EXACT_INTEGERS = 1 << 53
"""Below it a float64 holds each integer."""
INTEGERS = (t.TinyIntType, t.SmallIntType, t.IntType, t.BigIntType)


def table_of_pandas(frame: Any, types: Mapping[str, t.DataType]) -> pa.Table:
    """Returns a pandas DataFrame as an Arrow table, NaN as null.

    Floats become int64 for integer columns where all are whole numbers that float64 holds exactly (an integer column
    with nulls is float64 in pandas); timestamps without zone become dates for DATE columns where all are midnight.
    Other columns keep the type that Arrow gives them.

    Args:
        types: the columns of the table to write, by name.
    """
    table = pa.Table.from_pandas(frame)
    for name, (_, column) in zip(table.column_names, frame.items()):
        if column.dtype == object:
            _check_objects(name, column, table)
    for i, (name, column) in enumerate(zip(table.column_names, table.columns, strict=True)):
        made = _as_meant(column, types.get(name))
        if made is not column:
            table = table.set_column(i, pa.field(name, made.type), made)
    return table


def _as_meant(column: pa.ChunkedArray, kind: t.DataType | None) -> pa.ChunkedArray:
    given = column.type
    if isinstance(kind, INTEGERS) and pa.types.is_float64(given):
        fit = pc.and_(pc.less(pc.abs(column), EXACT_INTEGERS), pc.equal(pc.floor(column), column))
        return column.cast(pa.int64()) if pc.all(fit).as_py() is not False else column
    if isinstance(kind, t.DateType) and pa.types.is_timestamp(given) and given.tz is None:
        days = column.cast(pa.date32(), safe=False)
        return days if pc.all(pc.equal(days.cast(given), column)).as_py() is not False else column
    return column


def _check_objects(name: str, column: Any, table: pa.Table) -> None:
    """Raises `TypeError` for values of several types in one column."""
    try:
        check_objects(column.where(column.notna(), None).tolist(), table.column(name).type)
    except TypeError as error:
        raise TypeError(f"column {name!r}: {error}") from None
