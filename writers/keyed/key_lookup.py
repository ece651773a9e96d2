"""Key lookups in the upper levels of a merge tree, and merges of the rows of keys that leave level 0.

Paimon's writers use a hash table on local disk; Morrow searches the sorted key columns. Only the key columns of a file
are read, and in Parquet only the row groups between the least and the greatest wanted key. Integer keys are found by
binary search, others by a join. Values are only read for the rows found, and only if they are requested.

A merge takes one frame with all rows of its keys, and the level of each row's file. A key's rows in level 0 are new.
Its row in the lowest level above 0 is its old row, since every merge into that level included the levels below it. Rows
in higher levels do not count. A merge returns the remaining row of each key, and its change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from morrow.engine.errors import Unsupported
from morrow.engine.format.binary_row import decode_columns
from morrow.engine.format.manifest_entries import DataFileMeta
from morrow.engine.format.schema import SEQUENCE_NUMBER, SEQUENCE_NUMBER_FIELD, VALUE_KIND_FIELD
from morrow.engine.format.types import BooleanType, DataField, DoubleType, FloatType
from morrow.engine.names import FILE, KEY_NUMBER, KEY_ROW, POSITION, RUN_LEVEL, col, cols, get_series, join_by_names
from morrow.readers.casts.dtypes import to_polars_dtype
from morrow.readers.execution.changelog import NO_ROW, Comparison, Rows, build_changelog, take_rows
from morrow.readers.files.file_frames import scan_files, translate_file_errors
from morrow.readers.masks.ordering import to_sortable
from morrow.readers.merges.engines import fold
from morrow.readers.merges.version_masks import RETRACTS, Rounds, Versions, order_by_count
from morrow.writers.files.bucket_reader import StoredFiles
from morrow.writers.files.data_files import Placement
from morrow.writers.files.deletion_vectors import DeletionMaintainer
from morrow.writers.keyed.levels import sort_rows, trim_key
from morrow.writers.keyed.rewriter import merge_versions
from morrow.writers.target import WriteTarget

PLACE_COLUMNS = (KEY_ROW, FILE, POSITION)
"""The first columns of results: the row of the wanted key, the number of its file, and its position in the file."""

WITHOUT_RANGE = (FloatType, DoubleType, BooleanType)
"""Types of a first key column whose bounds are not used: NaN and -0.0 are ordered differently there."""

MAX_RANGE_SHARE = 0.9
"""Maximum share of a file's key range that the wanted range may cover to filter the file's rows by it."""

RowNumbers = npt.NDArray[np.int64]


def look_up_keys(
    target: WriteTarget,
    place: Placement,
    keys: pl.DataFrame,
    files: Sequence[DataFileMeta],
    vectors: DeletionMaintainer | None = None,
    columns: Sequence[str] = (),
) -> pl.DataFrame:
    """Return the newest live version of each key in `files`, lower levels being newer.

    Args:
        keys: distinct keys, columns of the trimmed primary key, in any order; other columns are ignored.
        files: files of levels above 0, in which a level holds a key once.
        vectors: deletion vectors, whose dead rows are not found.
        columns: the values to read of the rows found: columns of the table, ``_SEQUENCE_NUMBER``, ``_VALUE_KIND``.

    Returns: a row for each key found, in no particular order: `KEY_ROW`, `FILE`, `POSITION` (Int64), then `columns`.

    Raises `FileMissing`, `CorruptFile`, `StorageError`: a data file or deletion vector cannot be read.
    """
    search = _Search(target, StoredFiles(target, place, tuple(files)), vectors, tuple(columns))
    wanted = keys.select(cols(search.names)).with_columns(pl.Series(KEY_ROW, np.arange(keys.height, dtype=np.int64)))
    found = [search.nothing]
    numbers = sorted(range(len(files)), key=lambda number: files[number].level)
    for _, level in groupby(numbers, key=lambda number: files[number].level):
        here = [hits for number in level if (hits := search.in_file(number, wanted)).height]
        if here:
            taken = np.ones(keys.height, bool)
            for hits in here:
                taken[hits[KEY_ROW].to_numpy()] = False
            wanted = wanted.filter(pl.Series(taken[wanted[KEY_ROW].to_numpy()]))
            found += here
        if not wanted.height:
            break
    return pl.concat(found)


@dataclass(frozen=True)
class _Search:
    target: WriteTarget
    stored: StoredFiles
    vectors: DeletionMaintainer | None
    columns: tuple[str, ...]

    @property
    def files(self) -> tuple[DataFileMeta, ...]:
        return self.stored.files

    @cached_property
    def fields(self) -> tuple[DataField, ...]:
        schema = self.target.schema
        return tuple(schema.by_name[name] for name in schema.trimmed_primary_keys)

    @property
    def names(self) -> list[str]:
        return [field.name for field in self.fields]

    @cached_property
    def values(self) -> tuple[DataField, ...]:
        """The fields of `columns`."""
        system = {field.name: field for field in (SEQUENCE_NUMBER_FIELD, VALUE_KIND_FIELD)}
        return tuple(system.get(name) or self.target.schema.by_name[name] for name in self.columns)

    @property
    def nothing(self) -> pl.DataFrame:
        places = {name: pl.Int64() for name in PLACE_COLUMNS}
        return pl.DataFrame(schema={**places, **{field.name: to_polars_dtype(field.type) for field in self.values}})

    @cached_property
    def bounds(self) -> pl.Series | None:
        """The first key column of the least keys of all files, then of the greatest; None for types `WITHOUT_RANGE`."""
        if isinstance(self.fields[0].type, WITHOUT_RANGE):
            return None
        stored = [file.min_key for file in self.files] + [file.max_key for file in self.files]
        return decode_columns(stored, [field.type for field in self.fields], where=self.target.where)[0]

    def in_file(self, number: int, wanted: pl.DataFrame) -> pl.DataFrame:
        """Return the results for the wanted keys in one file."""
        if self.bounds is not None:
            least, greatest = self.bounds[number], self.bounds[len(self.files) + number]
            wanted = wanted.filter(_is_between(wanted.to_series(0), least, greatest))
        if not wanted.height:
            return self.nothing
        keys = self._read(number, self.fields, self._range(number, wanted))
        rows, positions = _match_keys(keys, wanted, self.names)
        vector = None if self.vectors is None else self.vectors.vector(self.files[number].file_name)
        if vector is not None:
            live = vector.live(self.files[number].row_count)[positions]
            rows, positions = rows[live], positions[live]
        order = np.argsort(positions, kind="stable")
        rows, positions = rows[order], positions[order]
        hits = pl.DataFrame({KEY_ROW: rows, FILE: np.full(len(rows), number), POSITION: positions})
        return hits if not self.columns else hits.hstack(self._values(number, positions))

    def _range(self, number: int, wanted: pl.DataFrame) -> pl.Expr | None:
        """Return a filter for the rows between the least and the greatest wanted key; None if these are most of the
        file.

        The filter skips row groups. In the other row groups each row is compared, and matching rows are copied.
        """
        if self.bounds is None:
            return None
        first = wanted.to_series(0)
        low, high = first.min(), first.max()
        if isinstance(low, int) and isinstance(high, int):
            least, greatest = self.bounds[number], self.bounds[len(self.files) + number]
            if high - low >= MAX_RANGE_SHARE * (greatest - least):
                return None
        return _is_between(first, low, high)

    def _values(self, number: int, positions: RowNumbers) -> pl.DataFrame:
        """Return `columns` of these rows, which are in the order of the file."""
        if not len(positions):
            return self.nothing.select(cols(self.columns))
        chosen = np.zeros(self.files[number].row_count, bool)
        chosen[positions] = True
        return self._read(number, self.values, pl.lit(pl.Series(chosen)).gather(pl.col(POSITION))).select(
            cols(self.columns)
        )

    def _read(self, number: int, fields: tuple[DataField, ...], kept: pl.Expr | None) -> pl.DataFrame:
        plan, section, store = self.stored.plan, self.stored.section, self.target.store
        frame = scan_files(plan, section, [section.files[number]], fields, store, position=True)
        with translate_file_errors(plan, [section], fields, store):
            return (frame if kept is None else frame.filter(kept)).collect()


def _is_between(column: pl.Series, least: Any, greatest: Any) -> pl.Expr:
    """Return whether a column of this name and type lies between two values, both included."""
    return col(column.name).is_between(pl.lit(least, column.dtype), pl.lit(greatest, column.dtype))


def _match_keys(stored: pl.DataFrame, wanted: pl.DataFrame, names: Sequence[str]) -> tuple[RowNumbers, RowNumbers]:
    """Return the wanted row and the position in the file of each key that is in both."""
    found = _search_sorted(stored, wanted, names) if len(names) == 1 else None
    if found is not None:
        return found
    joined = join_by_names(_to_sortable(stored, names, POSITION), _to_sortable(wanted, names, KEY_ROW), names)
    return joined[KEY_ROW].to_numpy(), joined[POSITION].to_numpy().astype(np.int64)


def _search_sorted(
    stored: pl.DataFrame, wanted: pl.DataFrame, names: Iterable[str]
) -> tuple[RowNumbers, RowNumbers] | None:
    """Return `_match_keys` of one sorted integer column; None if it has another type or is not sorted.

    The column is searched chunk by chunk: it is not copied, and the chunks fit the processor's cache.
    """
    (name,) = names
    if not (stored[name].dtype.is_integer() or stored[name].dtype.is_temporal()):
        return None
    sought = get_series(wanted, name).to_physical().to_numpy()
    order = np.argsort(sought)
    sought = sought[order]
    hits, places = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    start, last = 0, None
    for piece in get_series(stored, name).to_physical().get_chunks():
        there = piece.to_numpy()
        if not len(there):
            continue
        if not (there[1:] > there[:-1]).all() or (last is not None and there[0] <= last):
            return None
        low, high = np.searchsorted(sought, there[0]), np.searchsorted(sought, there[-1], "right")
        found = np.searchsorted(there, sought[low:high])
        same = np.flatnonzero(there[found] == sought[low:high])
        hits.append(order[low + same])
        places.append(start + found[same])
        start, last = start + len(there), there[-1]
    positions = stored[POSITION].gather(pl.Series(np.concatenate(places)))
    return wanted[KEY_ROW].to_numpy()[np.concatenate(hits)], positions.to_numpy().astype(np.int64)


def _to_sortable(frame: pl.DataFrame, names: Iterable[str], number: str) -> pl.DataFrame:
    return frame.select(*(to_sortable(frame[name]) for name in names), frame[number])


Lookup = Callable[[pl.DataFrame], pl.DataFrame]
"""A function that looks up keys above the compaction, with results as from `look_up_keys`."""


class MergeResult(NamedTuple):
    """One row per key, sorted, retractions included, and the changelog, which is empty if not requested."""

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
        order, starts = sort_rows(trim_key(target), rows, [RUN_LEVEL], [False])
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
        """The row of each key in the lowest level above 0, `NO_ROW` if there is none."""
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
        """Whether each row counts: all rows of level 0, and the one in the lowest level above."""
        counts = np.zeros(len(self.order), bool)
        counts[self.order] = self._levels <= 0
        counts[self.old[self.old >= 0]] = True
        return counts

    def versions(self) -> pl.DataFrame:
        """Return the rows as version frames with the number of their key."""
        return self.rows.drop(RUN_LEVEL).with_columns(pl.Series(KEY_NUMBER, self.numbers))

    def places(self, merged: pl.DataFrame) -> Rows:
        """Return the row of each key in merged rows, `NO_ROW` if there is none."""
        places = np.full(self.count, NO_ROW, np.int64)
        places[merged[KEY_NUMBER].to_numpy()] = np.arange(merged.height)
        return places

    def keys(self, numbers: Rows) -> pl.DataFrame:
        """Return the key columns of these keys."""
        names = [key.name for key in trim_key(self.target)]
        rows = pl.Series(self.order[self.starts[numbers]])
        return self.rows.select(column.gather(rows) for column in cols(names))


def drop_superseded(target: WriteTarget, rows: pl.DataFrame) -> pl.DataFrame:
    """Return the rows that count (see `KeyGroups`), as an unmerged version frame."""
    groups = KeyGroups.of(target, rows)
    return rows.drop(RUN_LEVEL) if groups.counting.all() else rows.drop(RUN_LEVEL).filter(pl.Series(groups.counting))


def merge_with_lookup(
    target: WriteTarget, rows: pl.DataFrame, lookup: Lookup, *, with_changelog: bool, comparison: Comparison | None
) -> MergeResult:
    """Merge new rows with the old rows of their keys, from the compaction or above it.

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
    if found.width > len(PLACE_COLUMNS):
        keys = absent[found[KEY_ROW].to_numpy()]
        before[keys] = versions.height + np.arange(len(keys))
        values = found.drop(PLACE_COLUMNS).with_columns(pl.Series(KEY_NUMBER, keys))
        versions = pl.concat([versions, values.select(cols(versions.columns))])
    merged = _merge_all_versions(target, versions)
    changes = merged[:0].drop(KEY_NUMBER)
    if with_changelog:
        after = groups.places(merged)
        after[after >= 0] += versions.height
        both = pl.concat([versions, merged]).drop(KEY_NUMBER)
        changes = build_changelog(both, before, after, groups.new > 0, comparison)
    return MergeResult(merged.drop(KEY_NUMBER), changes)


def merge_first_rows(target: WriteTarget, rows: pl.DataFrame, lookup: Lookup) -> MergeResult:
    """Return the first row of every key, without the keys above the compaction; new keys are the changelog."""
    groups = KeyGroups.of(target, _check_insertions(target, rows))
    absent = np.flatnonzero(groups.old < 0)
    known = absent[lookup(groups.keys(absent))[KEY_ROW].to_numpy()]
    merged = merge_versions(target, groups.versions())
    numbers = merged[KEY_NUMBER].to_numpy()
    is_new = groups.old < 0
    is_new[known] = False
    gone = np.zeros(groups.count, bool)
    gone[known] = True
    merged = merged.drop(KEY_NUMBER)
    return MergeResult(merged.filter(pl.Series(~gone[numbers])), merged.filter(pl.Series(is_new[numbers])))


def _merge_all_versions(target: WriteTarget, versions: pl.DataFrame) -> pl.DataFrame:
    """Merge as `merge_versions`, but merge single versions as well.

    Even for a single version, partial-update drops columns whose sequence group is not set, and a retraction takes
    values back.
    """
    spec = target.merge
    assert spec is not None
    if not spec.folds:
        counting = versions.filter(~RETRACTS) if spec.ignore_delete else versions
        return merge_versions(target, counting)
    age = [*spec.sequence, SEQUENCE_NUMBER]
    descending = [*[spec.descending] * len(spec.sequence), False]
    order, starts = sort_rows(trim_key(target), versions, age, descending)
    counts = np.diff(np.append(starts, len(order)))
    all_of_them = Versions(np.zeros(versions.height, bool), Rounds.of_sorted(order, counts))
    fields = [target.schema.by_name[column.name] for column in spec.columns]

    folded = fold(spec, fields, versions, all_of_them, where=target.where).select(cols(versions.columns))
    places = np.empty(len(counts), np.int64)
    places[order_by_count(counts)] = np.arange(len(counts))
    return take_rows(folded, places)


def _check_insertions(target: WriteTarget, rows: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of a first-row table; check that none is a retraction."""
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


def merge_fully(target: WriteTarget, rows: pl.DataFrame, bottom: int, *, comparison: Comparison | None) -> MergeResult:
    """Merge all versions, and compare the keys with their rows in the level `bottom`."""
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
    return MergeResult(merged.drop(KEY_NUMBER), build_changelog(both, before, after, ~untouched, comparison))
