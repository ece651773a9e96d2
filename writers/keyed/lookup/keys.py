"""Looks keys up in the files of a bucket: finds the newest version of each, and reads its values.

Paimon's writers use a hash table on local disk; here the sorted key columns themselves serve. Of each file only the key
columns are read, of Parquet files only the row groups between the least and the greatest wanted key; integer keys are
found by binary search, others by a join. Values are read for the rows found, and only when they are requested.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from morrow.engine.format.binary_row import decode_columns
from morrow.engine.format.data_file_meta import DataFileMeta
from morrow.engine.format.schema import SEQUENCE_NUMBER_FIELD, VALUE_KIND_FIELD
from morrow.engine.format.types import BooleanType, DataField, DoubleType, FloatType
from morrow.engine.names import FILE, KEY_ROW, POSITION, col, cols, series
from morrow.readers.casts.dtypes import polars_dtype
from morrow.readers.files.file_errors import reading_files
from morrow.readers.files.file_frames import file_frame
from morrow.readers.masks.ordering import sortable
from morrow.writers.files.deletion_vectors import DeletionMaintainer
from morrow.writers.files.placement import Placement
from morrow.writers.files.stored import StoredFiles
from morrow.writers.target import WriteTarget

PLACES = (KEY_ROW, FILE, POSITION)
"""The columns of results before the values: the row of the wanted key, the number of its file, and the position."""

WITHOUT_RANGE = (FloatType, DoubleType, BooleanType)
"""Types of a first key column whose bounds exclude nothing: NaN and -0.0 have an order of their own."""

MOST_OF_A_FILE = 0.9
"""The share of a file's range of keys from which a range of wanted ones is no reason to compare each key."""

Rows = npt.NDArray[np.int64]


def looked_up(
    target: WriteTarget,
    place: Placement,
    keys: pl.DataFrame,
    files: Sequence[DataFileMeta],
    vectors: DeletionMaintainer | None = None,
    columns: Sequence[str] = (),
) -> pl.DataFrame:
    """Returns the newest live version of each key in `files`, lower levels being newer.

    Args:
        keys: distinct keys, columns of the trimmed primary key, in any order; other columns are ignored.
        files: files of levels above 0, in which a level holds a key once.
        vectors: dead rows, which are not found.
        columns: the values to read of the rows found: columns of the table, ``_SEQUENCE_NUMBER``, ``_VALUE_KIND``.

    Returns: a row for each key found, in no particular order: `KEY_ROW`, `FILE`, `POSITION` (Int64), then `columns`.

    Raises:
        FileMissing, CorruptFile, StorageError: a data file or deletion vector cannot be read.
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
        places = {name: pl.Int64() for name in PLACES}
        return pl.DataFrame(schema={**places, **{field.name: polars_dtype(field.type) for field in self.values}})

    @cached_property
    def bounds(self) -> pl.Series | None:
        """The first key column of the least keys of all files, then of the greatest; None for types `WITHOUT_RANGE`."""
        if isinstance(self.fields[0].type, WITHOUT_RANGE):
            return None
        stored = [file.min_key for file in self.files] + [file.max_key for file in self.files]
        return decode_columns(stored, [field.type for field in self.fields], where=self.target.where)[0]

    def in_file(self, number: int, wanted: pl.DataFrame) -> pl.DataFrame:
        """Returns the results for the wanted keys in one file."""
        if self.bounds is not None:
            least, greatest = self.bounds[number], self.bounds[len(self.files) + number]
            wanted = wanted.filter(_between(wanted.to_series(0), least, greatest))
        if not wanted.height:
            return self.nothing
        keys = self._read(number, self.fields, self._range(number, wanted))
        rows, positions = _matches(keys, wanted, self.names)
        vector = None if self.vectors is None else self.vectors.vector(self.files[number].file_name)
        if vector is not None:
            live = vector.live(self.files[number].row_count)[positions]
            rows, positions = rows[live], positions[live]
        order = np.argsort(positions, kind="stable")
        rows, positions = rows[order], positions[order]
        hits = pl.DataFrame({KEY_ROW: rows, FILE: np.full(len(rows), number), POSITION: positions})
        return hits if not self.columns else hits.hstack(self._values(number, positions))

    def _range(self, number: int, wanted: pl.DataFrame) -> pl.Expr | None:
        """Returns what keeps the rows from the least wanted key to the greatest; None where those are most of a file.

        Row groups are left out by it; of others each row is compared, and kept ones copied.
        """
        if self.bounds is None:
            return None
        first = wanted.to_series(0)
        low, high = first.min(), first.max()
        if isinstance(low, int) and isinstance(high, int):
            least, greatest = self.bounds[number], self.bounds[len(self.files) + number]
            if high - low >= MOST_OF_A_FILE * (greatest - least):
                return None
        return _between(first, low, high)

    def _values(self, number: int, positions: Rows) -> pl.DataFrame:
        """Returns `columns` of these rows, which are in the order of the file."""
        if not len(positions):
            return self.nothing.select(cols(self.columns))
        chosen = np.zeros(self.files[number].row_count, bool)
        chosen[positions] = True
        return self._read(number, self.values, pl.lit(pl.Series(chosen)).gather(pl.col(POSITION))).select(
            cols(self.columns)
        )

    def _read(self, number: int, fields: tuple[DataField, ...], kept: pl.Expr | None) -> pl.DataFrame:
        plan, section, store = self.stored.plan, self.stored.section, self.target.store
        frame = file_frame(plan, section, [section.files[number]], fields, store, position=True)
        with reading_files(plan, [section], fields, store):
            return (frame if kept is None else frame.filter(kept)).collect()


def _between(column: pl.Series, least: Any, greatest: Any) -> pl.Expr:
    """Returns whether a column of this name and type lies between two values, both included."""
    return col(column.name).is_between(pl.lit(least, column.dtype), pl.lit(greatest, column.dtype))


def _matches(stored: pl.DataFrame, wanted: pl.DataFrame, names: Sequence[str]) -> tuple[Rows, Rows]:
    """Returns the wanted row and the position in the file of each key that is in both."""
    found = _by_search(stored, wanted, names) if len(names) == 1 else None
    if found is not None:
        return found
    joined = _comparable(stored, names, POSITION).join(_comparable(wanted, names, KEY_ROW), on=cols(names))
    return joined[KEY_ROW].to_numpy(), joined[POSITION].to_numpy().astype(np.int64)


def _by_search(stored: pl.DataFrame, wanted: pl.DataFrame, names: Iterable[str]) -> tuple[Rows, Rows] | None:
    """Returns `_matches` of one sorted integer column; None when it has another type, or is not sorted.

    The column is searched piece by piece, as it was read: no copy of it is made, and the pieces fit the processor's
    cache.
    """
    (name,) = names
    if not (stored[name].dtype.is_integer() or stored[name].dtype.is_temporal()):
        return None
    sought = series(wanted, name).to_physical().to_numpy()
    order = np.argsort(sought)
    sought = sought[order]
    hits, places = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    start, last = 0, None
    for piece in series(stored, name).to_physical().get_chunks():
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


def _comparable(frame: pl.DataFrame, names: Iterable[str], number: str) -> pl.DataFrame:
    return frame.select(*(sortable(frame[name]) for name in names), frame[number])
