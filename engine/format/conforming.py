"""Frames of metadata files as decoded, in the columns of their kind, whatever generation of the format wrote them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import polars as pl

from morrow.engine.errors import CorruptFile, Unsupported
from morrow.engine.format.manifest_columns import NULLABLE_COLUMNS, OPTIONAL_COLUMNS
from morrow.engine.format.slips import refuse_slips
from morrow.engine.names import col


def conformed(
    frame: pl.DataFrame, columns: Mapping[str, pl.DataType | type[pl.DataType]], version: int, path: str
) -> pl.DataFrame:
    """Returns the frame with exactly these columns.

    Raises:
        CorruptFile: a column is missing, misnamed, of another type or null. Unsupported: a version after `version`.
    """
    stored = {column.name: column for column in frame.get_columns()}
    schema = {name: column.dtype for name, column in stored.items()}
    refuse_missing(schema, columns, path)
    _refuse_misnamed(schema, columns, path)
    newest = stored["_VERSION"].max() if frame.height else None
    if isinstance(newest, int) and newest > version:
        raise Unsupported(f"manifest version {newest}", where=path, hint="upgrade Morrow")
    try:
        found = [_conform(stored.get(name), name, dtype, frame.height) for name, dtype in columns.items()]
    except pl.exceptions.PolarsError as error:
        raise CorruptFile(path, f"a column has the wrong type ({error})") from error
    for column, dtype in zip(found, columns.values(), strict=True):
        if column.dtype != dtype:
            raise CorruptFile(path, f"the column {column.name} is of type {column.dtype}, not {dtype}")
        if column.name not in NULLABLE_COLUMNS and column.null_count():
            raise CorruptFile(path, f"the column {column.name} holds a null")
    return pl.DataFrame(found)


def refuse_missing(names: Collection[str], columns: Iterable[str], path: str) -> None:
    """Refuses a file without one of the columns that every generation has. Raises `CorruptFile`."""
    missing = [name for name in columns if name not in names and name not in OPTIONAL_COLUMNS]
    if missing:
        raise CorruptFile(path, f"the column {missing[0]} is missing")


def _refuse_misnamed(
    schema: Mapping[str, pl.DataType], columns: Mapping[str, pl.DataType | type[pl.DataType]], path: str
) -> None:
    """Refuses a column, or a member of one, that is one slip away from a known one that is missing."""
    refuse_slips(schema, columns, path)
    for name, wanted in columns.items():
        found = _members(schema.get(name))
        if found:
            refuse_slips(found, _members(wanted), path)


def _members(dtype: object) -> dict[str, object]:
    if isinstance(dtype, pl.List):
        return _members(dtype.inner)
    return {field.name: field.dtype for field in dtype.fields} if isinstance(dtype, pl.Struct) else {}


def _conform(column: pl.Series | None, name: str, dtype: pl.DataType | type[pl.DataType], height: int) -> pl.Series:
    if column is None:
        return pl.Series(name, [None], dtype=dtype).new_from_index(0, height)
    actual = column.dtype
    if actual == dtype:
        return column
    if isinstance(actual, pl.Datetime) and actual.time_zone not in (None, "UTC"):
        column = column.dt.replace_time_zone(None)
    # For structs, only the cast of an expression adds the members that an old version lacks.
    return column.to_frame().select(col(name).cast(dtype)).to_series() if actual.is_nested() else column.cast(dtype)
