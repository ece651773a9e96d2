"""Columns that data files do not hold as they are presented: row kinds as text, row ids and snapshot numbers.

``rowkind`` comes from ``_VALUE_KIND``; rows of append tables are insertions. In append tables, ``_ROW_ID`` is the row's
number in its file after the file's first row id, and ``_SEQUENCE_NUMBER`` the snapshot that wrote the file, unless
the file carries them for rows that it took over from other files.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from morrow.engine.format.row_kinds import INSERT, NAMES, kind_name
from morrow.engine.format.schema import ROW_ID_FIELD, ROWKIND_FIELD, SEQUENCE_NUMBER_FIELD, VALUE_KIND_FIELD
from morrow.engine.format.types import DataField
from morrow.engine.names import col
from morrow.engine.plan.scan_plan import DataFile, ScanPlan

TRACKED = (ROW_ID_FIELD, SEQUENCE_NUMBER_FIELD)
"""Columns that files of tables with row tracking may hold besides the table's columns."""


def virtual_columns(plan: ScanPlan, fields: Sequence[DataField]) -> tuple[DataField, ...]:
    """Returns the columns that have to be computed."""
    known = (ROWKIND_FIELD,) if plan.schema.primary_keys else (ROWKIND_FIELD, *TRACKED)
    return tuple(field for field in fields if field in known)


def depend_on_file(plan: ScanPlan, fields: Sequence[DataField]) -> bool:
    """Returns whether one of the columns is computed from its file's metadata, so that each file is read by itself."""
    return any(field in TRACKED for field in virtual_columns(plan, fields))


def need_positions(plan: ScanPlan, fields: Sequence[DataField]) -> bool:
    """Returns whether rows have to be numbered, file by file."""
    return ROW_ID_FIELD in virtual_columns(plan, fields)


def made_from(plan: ScanPlan, file: DataFile, fields: Sequence[DataField]) -> tuple[DataField, ...]:
    """Returns the columns to read of the file for these columns: stored ones, and the inputs of virtual ones."""
    made = virtual_columns(plan, fields)
    carried = [field for field in made if field in TRACKED and _is_carried(file, field)]
    kinds = [VALUE_KIND_FIELD] if ROWKIND_FIELD in made and plan.schema.primary_keys else []
    return tuple(dict.fromkeys((*(field for field in fields if field not in made), *carried, *kinds)))


def make(plan: ScanPlan, file: DataFile, field: DataField, position: pl.Expr) -> pl.Expr:
    """Computes the column from the columns of `made_from`; null where the file has no row ids.

    Args:
        position: the row's 0-based number in the file.
    """
    if field == ROWKIND_FIELD:
        return kind_name() if plan.schema.primary_keys else pl.lit(NAMES[INSERT]).alias(field.name)
    if field == ROW_ID_FIELD:
        assigned = position.cast(pl.Int64) + pl.lit(file.first_row_id, dtype=pl.Int64)
    else:
        assigned = pl.lit(file.max_sequence, dtype=pl.Int64)
    value = pl.coalesce(col(field.name), assigned) if _is_carried(file, field) else assigned
    return value.alias(field.name)


def _is_carried(file: DataFile, field: DataField) -> bool:
    return file.write_columns is not None and field.name in file.write_columns
