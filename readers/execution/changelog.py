"""Changes of keys as changelog rows: +I, -U with +U, -D."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from morrow.engine.format.row_kinds import DELETE, INSERT, RETRACT_BIT, UPDATE_AFTER, UPDATE_BEFORE
from morrow.engine.format.schema import VALUE_KIND
from morrow.engine.format.types import DataField, DoubleType, FloatType, MapType, MultisetType
from morrow.engine.names import series

Rows = npt.NDArray[np.int64]
NO_ROW = -1


@dataclass(frozen=True)
class Comparison:
    """A comparison of rows by some columns; the order of a map's entries does not matter.

    As in Paimon, changelogs that compaction makes compare FLOAT and DOUBLE by value: NaN differs from NaN, and zeros
    are equal. `by_bits`: as differences of snapshots do, where NaN is NaN, and 0.0 is not -0.0.
    """

    fields: tuple[DataField, ...]
    by_bits: bool = False

    def differs(self, before: pl.DataFrame, after: pl.DataFrame) -> npt.NDArray[np.bool_]:
        """Returns for each row whether any column differs."""
        changed = np.zeros(before.height, bool)
        for field in self.fields:
            old, new = (_in_one_order(field, series(frame, field.name)) for frame in (before, after))
            changed |= old.ne_missing(new).to_numpy()
            if isinstance(field.type, (FloatType, DoubleType)):
                more = (old == 0) & (1 / old != 1 / new) if self.by_bits else old.is_nan()
                changed |= more.fill_null(False).to_numpy()
        return changed


def _in_one_order(field: DataField, column: pl.Series) -> pl.Series:
    return column.list.sort() if isinstance(field.type, (MapType, MultisetType)) else column


def changelog(
    rows: pl.DataFrame, before: Rows, after: Rows, considered: npt.NDArray[np.bool_], comparison: Comparison | None
) -> pl.DataFrame:
    """Returns the changes of keys, in the order of the keys.

    Args:
        rows: rows with their ``_VALUE_KIND``.
        before, after: for each key, its row before and after the change, `NO_ROW` for none; a retraction is none.
        considered: the keys whose changes are returned.
        comparison: updates in which it finds no difference are left out.

    Returns: rows of the same columns; ``_VALUE_KIND`` is that of the change.
    """
    retracts = (rows[VALUE_KIND].to_numpy() & RETRACT_BIT) != 0
    was, now = (considered & (ends >= 0) & ~retracts[ends] for ends in (before, after))
    updated = was & now
    differing = updated.copy()
    if comparison is not None:
        keys = np.flatnonzero(updated)
        differing[keys] = comparison.differs(rows_at(rows, before[keys]), rows_at(rows, after[keys]))
    return _in_key_order(
        rows,
        (
            (was & ~updated, before, DELETE),
            (differing, before, UPDATE_BEFORE),
            (differing, after, UPDATE_AFTER),
            (now & ~updated, after, INSERT),
        ),
    )


def _in_key_order(rows: pl.DataFrame, groups: Sequence[tuple[npt.NDArray[np.bool_], Rows, int]]) -> pl.DataFrame:
    """Returns the rows of each group of keys with its row kind; groups of one key keep their order."""
    keys = [np.flatnonzero(chosen) for chosen, _, _ in groups]
    order = np.argsort(np.concatenate(keys), kind="stable")
    numbers = np.concatenate([ends[own] for own, (_, ends, _) in zip(keys, groups)])[order]
    kinds = np.repeat(np.array([kind for _, _, kind in groups], np.int8), [len(own) for own in keys])[order]
    return rows_at(rows, numbers).with_columns(pl.Series(VALUE_KIND, kinds))


def rows_at(rows: pl.DataFrame, numbers: Rows) -> pl.DataFrame:
    """Returns the rows with these numbers, in that order."""
    return rows.select(pl.all().gather(pl.Series(numbers, dtype=pl.Int64)))
