"""Dates of ORC files on which all readers agree, as statistics tell.

Paimon counts days in the proleptic Gregorian calendar. Other readers take the count for one of the Julian calendar,
before that ended in October 1582, so that a date is another one to them.
"""

from __future__ import annotations

from datetime import date

import polars as pl

from morrow.engine.format.schema import TableSchema
from morrow.engine.format.types import DateType
from morrow.engine.names import MODERN_DATES
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.predicate import Leaf, Op
from morrow.engine.plan.stats_pruning import keep_mask, value_stats

ORC = r"(?i)\.orc$"

FIRST_MODERN = date(1583, 1, 1)
"""Some weeks after the calendars meet: writers may have told bounds in either of them, or in a time zone."""

ROW = "_ROW"


def lacks_statistics(schema: TableSchema, entries: pl.DataFrame) -> bool:
    """Returns whether dates of ORC files may be read, and nothing tells of them: statistics were not asked for."""
    told = "_VALUE_STATS" in entries.columns or MODERN_DATES in entries.columns
    if told or not any(isinstance(field.type, DateType) for field in schema.fields):
        return False
    return bool(entries["_FILE_NAME"].str.contains(ORC).any())


def with_modern_dates(metadata: TableMetadata, entries: pl.DataFrame) -> pl.DataFrame:
    """Adds `MODERN_DATES`: of ORC files, the DATE columns that surely hold no date before `FIRST_MODERN`.

    Where no file has any, or the statistics are not there, the entries stay as they are.
    """
    if "_VALUE_STATS" not in entries.columns:
        return entries
    is_orc = entries["_FILE_NAME"].str.contains(ORC)
    if not is_orc.any():
        return entries
    parts = []
    for (schema_id,), group in entries.with_row_index(ROW).filter(is_orc).group_by(["_SCHEMA_ID"]):
        types = {field.name: field.type for field in metadata.schema(int(str(schema_id))).fields}
        dates = [name for name, kind in types.items() if isinstance(kind, DateType)]
        if not dates:
            continue
        stats = value_stats(group, types, dates, where=metadata.where)
        modern = [~keep_mask(Leaf(name, Op.LT, (FIRST_MODERN,)), stats) for name in dates]
        names = [pl.when(pl.Series(flags)).then(pl.lit(name)) for name, flags in zip(dates, modern)]
        lists = pl.select(pl.concat_list(names).list.drop_nulls()).to_series()
        parts.append(pl.DataFrame([group[ROW], lists.alias(MODERN_DATES)]))
    if not parts:
        return entries
    return entries.with_row_index(ROW).join(pl.concat(parts), on=ROW, how="left", maintain_order="left").drop(ROW)
