"""The rows of keys that leave level 0, merged: what remains of each, and how it changed.

Everything here is about one frame that has all rows of its keys, with the level of the file each comes from. A key's
rows in level 0 are new; its row in the lowest level above is what it was, since every merge there took in what lay
below; rows further down do not count.
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
from morrow.readers.changelog import NO_ROW, Comparison, Rows, changelog, rows_at
from morrow.readers.merges.engines import fold
from morrow.readers.merges.rounds import Rounds, by_falling
from morrow.readers.merges.versions import Versions
from morrow.writers.lookup.keys import KEY_ROW, PLACES
from morrow.writers.merge_tree.keys import sorted_rows, trimmed_key
from morrow.writers.merge_tree.merging import RETRACTS, merge_versions
from morrow.writers.merge_tree.stored_runs import LEVEL
from morrow.writers.target import WriteTarget

KEY_NUMBER = "__morrow_key_number"
"""Column that numbers the keys of a frame in their order (Int64); merges carry it along."""

Lookup = Callable[[pl.DataFrame], pl.DataFrame]
"""Looks keys up above the compaction: as `morrow.writers.lookup.keys.looked_up` returns it."""


class Merged(NamedTuple):
    """One row per key, sorted, retractions included; and the changelog, which is empty where none is asked for."""

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
        order, starts = sorted_rows(trimmed_key(target), rows, [LEVEL], [False])
        return cls(target, rows, order.astype(np.int64, copy=False), starts.astype(np.int64, copy=False))

    @property
    def count(self) -> int:
        """How many keys there are."""
        return len(self.starts)

    @cached_property
    def heights(self) -> Rows:
        """How many rows each key has."""
        return np.diff(np.append(self.starts, len(self.order)))

    @cached_property
    def _levels(self) -> npt.NDArray[np.int32]:
        """The levels of the rows in order."""
        return self.rows[LEVEL].to_numpy()[self.order]

    @cached_property
    def new(self) -> Rows:
        """How many rows each key has in level 0."""
        return np.add.reduceat(self._levels <= 0, self.starts, dtype=np.int64) if self.count else self.heights

    @cached_property
    def old(self) -> Rows:
        """The row of each key in the lowest level above 0, `NO_ROW` for none."""
        places = self.starts + self.new
        return np.where(self.new < self.heights, self.order[np.minimum(places, len(self.order) - 1)], NO_ROW)

    @cached_property
    def numbers(self) -> Rows:
        """The key of each row, by its number."""
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
        """The rows as version frames with the number of their key."""
        return self.rows.drop(LEVEL).with_columns(pl.Series(KEY_NUMBER, self.numbers))

    def places(self, merged: pl.DataFrame) -> Rows:
        """The row of each key in merged rows, `NO_ROW` for none."""
        places = np.full(self.count, NO_ROW, np.int64)
        places[merged[KEY_NUMBER].to_numpy()] = np.arange(merged.height)
        return places

    def keys(self, numbers: Rows) -> pl.DataFrame:
        """The key columns of these keys."""
        names = [key.name for key in trimmed_key(self.target)]
        return self.rows.select(pl.col(names).gather(pl.Series(self.order[self.starts[numbers]])))


def without_superseded(target: WriteTarget, rows: pl.DataFrame) -> pl.DataFrame:
    """The rows that count, as a version frame, not merged yet."""
    groups = KeyGroups.of(target, rows)
    return rows.drop(LEVEL) if groups.counting.all() else rows.drop(LEVEL).filter(pl.Series(groups.counting))


def merged_with_lookup(
    target: WriteTarget, rows: pl.DataFrame, lookup: Lookup, *, told: bool, comparison: Comparison | None
) -> Merged:
    """New rows merged with what the keys were, in the compaction or above it.

    Args:
        rows: a version frame with the column ``LEVEL``.
        lookup: called with the keys that have no row above level 0 in `rows`; the columns of version frames, if it
            reads them, are merged in.
        told: whether to make a changelog of the keys with rows in level 0.
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
        versions = pl.concat([versions, values.select(versions.columns)])
    merged = _merged(target, versions)
    changes = merged[:0].drop(KEY_NUMBER)
    if told:
        after = groups.places(merged)
        after[after >= 0] += versions.height
        both = pl.concat([versions, merged]).drop(KEY_NUMBER)
        changes = changelog(both, before, after, groups.new > 0, comparison)
    return Merged(merged.drop(KEY_NUMBER), changes)


def merged_first_rows(target: WriteTarget, rows: pl.DataFrame, lookup: Lookup) -> Merged:
    """The first row of every key, without the keys that are above the compaction; new keys are the changelog."""
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
    """`merge_versions`, in which single versions go through the merge as well.

    Alone, too, partial-update leaves out what its sequence group is not set for, and a retraction takes values back.
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
    folded = fold(spec, fields, versions, all_of_them, where=target.where).select(versions.columns)
    places = np.empty(len(counts), np.int64)
    places[by_falling(counts)] = np.arange(len(counts))
    return rows_at(folded, places)


def _insertions(target: WriteTarget, rows: pl.DataFrame) -> pl.DataFrame:
    """The rows of a first-row table, which knows no retractions."""
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
    """All versions merged, and how the keys differ from their rows in the level `bottom`."""
    groups = KeyGroups.of(target, rows)
    versions = groups.versions()
    at_bottom = np.flatnonzero((rows[LEVEL] == bottom).to_numpy())
    before = np.full(groups.count, NO_ROW, np.int64)
    before[groups.numbers[at_bottom]] = at_bottom
    merged = merge_versions(target, versions)
    after = groups.places(merged)
    after[after >= 0] += versions.height
    both = pl.concat([versions, merged]).drop(KEY_NUMBER)
    untouched = (before >= 0) & (groups.heights == 1)
    return Merged(merged.drop(KEY_NUMBER), changelog(both, before, after, ~untouched, comparison))
