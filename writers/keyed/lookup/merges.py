"""Merges the rows of keys that leave level 0: the remaining row of each key, and its change.

All functions take one frame that has all rows of its keys, with the level of the file each comes from. A key's rows in
level 0 are new; its row in the lowest level above is its old row, since every merge there included the levels below it;
rows further down do not count.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from morrow.engine.errors import Unsupported
from morrow.engine.format.schema import SEQUENCE_NUMBER
from morrow.engine.names import KEY_NUMBER, KEY_ROW, RUN_LEVEL, cols
from morrow.readers.execution.changelog import NO_ROW, Comparison, Rows, changelog, rows_at
from morrow.readers.merges.engines import fold
from morrow.readers.merges.rounds import Rounds, by_falling
from morrow.readers.merges.versions import Versions
from morrow.writers.keyed.keys import sorted_rows, trimmed_key
from morrow.writers.keyed.lookup.keys import PLACES
from morrow.writers.keyed.merging import RETRACTS, merge_versions
from morrow.writers.target import WriteTarget

Lookup = Callable[[pl.DataFrame], pl.DataFrame]
"""Looks keys up above the compaction, as `morrow.writers.keyed.lookup.keys.looked_up` returns them."""


class Merged(NamedTuple):
    """One row per key, sorted, retractions included; and the changelog, which is empty where none is requested."""

    rows: pl.DataFrame
    changes: pl.DataFrame


@dataclass(frozen=True)
class KeyGroups:
    """The rows of a frame by key and, within a key, by level."""

    target: WriteTarget
    rows: pl.DataFrame
    order: Rows
    starts: Rows

    @classmethod
    def of(cls, target: WriteTarget, rows: pl.DataFrame) -> KeyGroups:
        order, starts = sorted_rows(trimmed_key(target), rows, [RUN_LEVEL], [False])
        return cls(target, rows, order.astype(np.int64, copy=False), starts.astype(np.int64, copy=False))

    @property
    def count(self) -> int:
        """The number of keys."""
        return len(self.starts)

    @cached_property
    def heights(self) -> Rows:
        """The number of rows of each key."""
        return np.diff(np.append(self.starts, len(self.order)))

    @cached_property
    def _levels(self) -> npt.NDArray[np.int32]:
        """The levels of the rows, in the order of the groups."""
        return self.rows[RUN_LEVEL].to_numpy()[self.order]

    @cached_property
    def new(self) -> Rows:
        """The number of rows of each key in level 0."""
        return np.add.reduceat(self._levels <= 0, self.starts, dtype=np.int64) if self.count else self.heights

    @cached_property
    def old(self) -> Rows:
        """The row of each key in the lowest level above 0, `NO_ROW` for none."""
        places = self.starts + self.new
        return np.where(self.new < self.heights, self.order[np.minimum(places, len(self.order) - 1)], NO_ROW)

    @cached_property
    def numbers(self) -> Rows:
        """The number of the key of each row."""
        numbers = np.empty(len(self.order), np.int64)
        numbers[self.order] = np.repeat(np.arange(self.count), self.heights)
        return numbers

    @cached_property
    def counting(self) -> npt.NDArray[np.bool_]:
        """Whether each row counts: those of level 0, and the one in the lowest level above."""
        counts = np.zeros(len(self.order), bool)
        counts[self.order] = self._levels <= 0
        counts[self.old[self.old >= 0]] = True
        return counts

    def versions(self) -> pl.DataFrame:
        """Returns the rows as version frames with the number of their key."""
        return self.rows.drop(RUN_LEVEL).with_columns(pl.Series(KEY_NUMBER, self.numbers))

    def places(self, merged: pl.DataFrame) -> Rows:
        """Returns the row of each key in merged rows, `NO_ROW` for none."""
        places = np.full(self.count, NO_ROW, np.int64)
        places[merged[KEY_NUMBER].to_numpy()] = np.arange(merged.height)
        return places

    def keys(self, numbers: Rows) -> pl.DataFrame:
        """Returns the key columns of these keys."""
        names = [key.name for key in trimmed_key(self.target)]
        rows = pl.Series(self.order[self.starts[numbers]])
        return self.rows.select(column.gather(rows) for column in cols(names))


def without_superseded(target: WriteTarget, rows: pl.DataFrame) -> pl.DataFrame:
    """Returns the rows that count, as a version frame, not merged yet."""
    groups = KeyGroups.of(target, rows)
    return rows.drop(RUN_LEVEL) if groups.counting.all() else rows.drop(RUN_LEVEL).filter(pl.Series(groups.counting))


def merged_with_lookup(
    target: WriteTarget, rows: pl.DataFrame, lookup: Lookup, *, with_changelog: bool, comparison: Comparison | None
) -> Merged:
    """Merges new rows with the old rows of their keys, from the compaction or above it.

    Args:
        rows: a version frame with the column ``RUN_LEVEL``.
        lookup: called with the keys that have no row above level 0 in `rows`; the columns of version frames, if it
            returns them, are merged in.
        with_changelog: whether to make a changelog of the keys with rows in level 0.
    """
    groups = KeyGroups.of(target, rows)
    versions = groups.versions()
    before = groups.old.copy()
    if not groups.counting.all():
        kept = np.flatnonzero(groups.counting)
        moved = np.full(len(groups.order), NO_ROW, np.int64)
        moved[kept] = np.arange(len(kept))
        versions = versions[kept]
        before = np.where(before >= 0, moved[before], NO_ROW)
    absent = np.flatnonzero(before < 0)
    found = lookup(groups.keys(absent))
    if found.width > len(PLACES):
        keys = absent[found[KEY_ROW].to_numpy()]
        before[keys] = versions.height + np.arange(len(keys))
        values = found.drop(PLACES).with_columns(pl.Series(KEY_NUMBER, keys))
        versions = pl.concat([versions, values.select(cols(versions.columns))])
    merged = _merged(target, versions)
    changes = merged[:0].drop(KEY_NUMBER)
    if with_changelog:
        after = groups.places(merged)
        after[after >= 0] += versions.height
        both = pl.concat([versions, merged]).drop(KEY_NUMBER)
        changes = changelog(both, before, after, groups.new > 0, comparison)
    return Merged(merged.drop(KEY_NUMBER), changes)


def merged_first_rows(target: WriteTarget, rows: pl.DataFrame, lookup: Lookup) -> Merged:
    """Returns the first row of every key, without the keys above the compaction; new keys are the changelog."""
    groups = KeyGroups.of(target, _insertions(target, rows))
    absent = np.flatnonzero(groups.old < 0)
    known = absent[lookup(groups.keys(absent))[KEY_ROW].to_numpy()]
    merged = merge_versions(target, groups.versions())
    numbers = merged[KEY_NUMBER].to_numpy()
    is_new = groups.old < 0
    is_new[known] = False
    gone = np.zeros(groups.count, bool)
    gone[known] = True
    merged = merged.drop(KEY_NUMBER)
    return Merged(merged.filter(pl.Series(~gone[numbers])), merged.filter(pl.Series(is_new[numbers])))


def _merged(target: WriteTarget, versions: pl.DataFrame) -> pl.DataFrame:
    """Returns `merge_versions`, in which single versions go through the merge as well.

    Even with a single version, partial-update drops columns whose sequence group is not set, and a retraction takes
    values back.
    """
    spec = target.merge
    assert spec is not None
    if not spec.folds:
        counting = versions.filter(~RETRACTS) if spec.ignore_delete else versions
        return merge_versions(target, counting)
    age = [*spec.sequence, SEQUENCE_NUMBER]
    descending = [*[spec.descending] * len(spec.sequence), False]
    order, starts = sorted_rows(trimmed_key(target), versions, age, descending)
    counts = np.diff(np.append(starts, len(order)))
    all_of_them = Versions(np.zeros(versions.height, bool), Rounds.of_sorted(order, counts))
    fields = [target.schema.by_name[column.name] for column in spec.columns]
    folded = fold(spec, fields, versions, all_of_them, where=target.where).select(cols(versions.columns))
    places = np.empty(len(counts), np.int64)
    places[by_falling(counts)] = np.arange(len(counts))
    return rows_at(folded, places)


def _insertions(target: WriteTarget, rows: pl.DataFrame) -> pl.DataFrame:
    """Returns the rows of a first-row table, which has no retractions."""
    spec = target.merge
    assert spec is not None
    if not rows.select(RETRACTS.any()).item():
        return rows
    if not spec.ignore_delete:
        raise Unsupported(
            "a retraction (-U or -D) in the merge engine first-row",
            where=target.where,
            hint="'ignore-delete' = 'true' leaves retractions out",
        )
    return rows.filter(~RETRACTS)


def merged_fully(target: WriteTarget, rows: pl.DataFrame, bottom: int, *, comparison: Comparison | None) -> Merged:
    """Merges all versions, and compares the keys with their rows in the level `bottom`."""
    groups = KeyGroups.of(target, rows)
    versions = groups.versions()
    at_bottom = np.flatnonzero((rows[RUN_LEVEL] == bottom).to_numpy())
    before = np.full(groups.count, NO_ROW, np.int64)
    before[groups.numbers[at_bottom]] = at_bottom
    merged = merge_versions(target, versions)
    after = groups.places(merged)
    after[after >= 0] += versions.height
    both = pl.concat([versions, merged]).drop(KEY_NUMBER)
    untouched = (before >= 0) & (groups.heights == 1)
    return Merged(merged.drop(KEY_NUMBER), changelog(both, before, after, ~untouched, comparison))
