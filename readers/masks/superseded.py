"""Masks of a merge-on-read section: the newest version of each key is live, older ones are dead positions."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import polars as pl

from morrow.engine.errors import CorruptFile
from morrow.engine.format.schema import SEQUENCE_NUMBER, SEQUENCE_NUMBER_FIELD, VALUE_KIND, VALUE_KIND_FIELD
from morrow.engine.format.types import DataField
from morrow.engine.io.store import FileStore
from morrow.engine.merge.spec import MergeSpec
from morrow.engine.plan.scan_plan import DataFile, ScanPlan, Section
from morrow.readers.blame import reading_files
from morrow.readers.file_frames import POSITION, file_frame
from morrow.readers.masks.key_ranges import KeyRange, key_ranges
from morrow.readers.masks.ordering import last_of_each_key, unseen
from morrow.readers.masks.packing import KeyPacking
from morrow.readers.row_kinds import RETRACT_BIT

RANGE_WORKERS = 2
"""Key ranges merged at once; each holds the keys of about `RANGE_ROWS` rows."""

Live = list[npt.NDArray[np.bool_]]


def superseded_masks(plan: ScanPlan, section: Section, store: FileStore) -> tuple[pl.Series | None, ...]:
    """One live mask per file: true at the newest version of a key that is not a retraction.

    Raises:
        CorruptFile: a file does not hold as many rows as its manifest entry says.
    """
    # Rows of older files first: then the position decides between versions of a key.
    oldest_first = sorted(range(len(section.files)), key=lambda i: _age(section.files[i]))
    merge = _SectionMerge(plan, section, store, tuple(section.files[i] for i in oldest_first))
    live = merge.run()
    by_file = dict(zip(oldest_first, live))
    return tuple(None if by_file[i].all() else pl.Series(by_file[i]) for i in range(len(section.files)))


def _age(file: DataFile) -> tuple[int, int]:
    return file.min_sequence, file.max_sequence


@dataclass(frozen=True)
class _SectionMerge:
    """The merge of one section; `files` are oldest first."""

    plan: ScanPlan
    section: Section
    store: FileStore
    files: tuple[DataFile, ...]

    @property
    def spec(self) -> MergeSpec:
        assert self.plan.merge is not None
        return self.plan.merge

    @cached_property
    def by_number(self) -> bool:
        """Whether versions must be told apart by ``_SEQUENCE_NUMBER``: some file is not newer than all before it."""
        return not all(older.max_sequence < newer.min_sequence for older, newer in pairwise(self.files))

    @cached_property
    def with_kind(self) -> bool:
        return any(file.may_hold_retractions for file in self.files)

    @cached_property
    def key_fields(self) -> tuple[DataField, ...]:
        return tuple(self.plan.schema.by_name[name] for name in self.spec.key)

    @cached_property
    def other_fields(self) -> tuple[DataField, ...]:
        """What else decides: sequence fields, sequence number, row kind."""
        sequence = [self.plan.schema.by_name[name] for name in self.spec.sequence if name not in self.spec.key]
        numbers = [SEQUENCE_NUMBER_FIELD] if self.by_number else []
        return (*sequence, *numbers, *([VALUE_KIND_FIELD] if self.with_kind else []))

    @cached_property
    def packing(self) -> KeyPacking | None:
        if self.spec.sequence and set(self.spec.sequence) & set(self.spec.key):
            return None
        return KeyPacking.of(self.key_fields, self.section.key_low, self.section.key_high)

    def run(self) -> Live:
        live = [np.ones(file.row_count, bool) for file in self.files]
        ranges = key_ranges(self.files, self.key_fields[0], self._stored_names(), self.store, not self.with_kind)
        if len(ranges) == 1:
            self._merge(ranges[0], live)
        else:
            # Ranges share no row, so their threads write to different positions.
            with ThreadPoolExecutor(RANGE_WORKERS) as pool:
                list(pool.map(lambda part: self._merge(part, live), ranges))
        return live

    def _stored_names(self) -> list[str]:
        identity = self.key_fields[0].id
        stored = {i: next(f.name for f in fields if f.id == identity) for i, fields in self.plan.file_fields.items()}
        return [stored[file.schema_id] for file in self.files]

    def _merge(self, part: KeyRange, live: Live) -> None:
        """Mark the rows of one key range."""
        whole = part.low is None and part.high is None
        frames = self._read(part, whole, self.packing)
        alive = self._unseen(frames)
        if alive is None:
            bounds = np.cumsum([0, *(frame.height for frame in frames)])
            winners = np.zeros(bounds[-1], bool)
            winners[self._winners(part, frames, whole)] = True
            alive = [winners[start:end] for start, end in pairwise(bounds)]
        for number, frame, rows in zip(part.files, frames, alive):
            live[number][slice(None) if whole else frame[POSITION].to_numpy()] = rows

    def _unseen(self, frames: Sequence[pl.DataFrame]) -> Live | None:
        """The live rows when the order of the files alone decides and keys are close integers; else None."""
        name = self.spec.key[0]
        single = len(self.spec.key) == 1 and all(frame.schema[name].is_integer() for frame in frames)
        if not single or self.by_number or self.with_kind or self.spec.sequence:
            return None
        newest_first = unseen([frame[name].to_numpy() for frame in reversed(frames)])
        return None if newest_first is None else newest_first[::-1]

    def _winners(self, part: KeyRange, frames: Sequence[pl.DataFrame], whole: bool) -> npt.NDArray[np.integer]:
        """Rows (of all frames, one after another) that are rows of the table."""
        versions = pl.concat(frames)
        keys = self._packed(versions)
        if keys is None:
            if self.packing is not None:
                versions = pl.concat(self._read(part, whole, None))
            keys = versions.select(self.spec.key)
        candidates: npt.NDArray[np.integer] | None = None
        if self.with_kind and self.spec.ignore_delete:
            candidates = versions.select((pl.col(VALUE_KIND) & RETRACT_BIT) == 0).to_series().arg_true().to_numpy()
            versions, keys = versions[candidates], keys[candidates]
        numbers = [SEQUENCE_NUMBER] if self.by_number else []
        directions = [*[self.spec.descending] * len(self.spec.sequence), *[False] * len(numbers)]
        newest = last_of_each_key(keys, versions.select(*self.spec.sequence, *numbers), directions)
        if self.with_kind:
            newest = newest[(versions[VALUE_KIND].to_numpy()[newest] & RETRACT_BIT) == 0]
        return newest if candidates is None else candidates[newest]

    def _packed(self, versions: pl.DataFrame) -> pl.DataFrame | None:
        if self.packing is None or self.section.key_low is None or self.section.key_high is None:
            return None
        packed = self.packing.pack(versions, self.section.key_low, self.section.key_high)
        return None if packed is None else pl.DataFrame({"key": packed})

    def _read(self, part: KeyRange, whole: bool, packing: KeyPacking | None) -> list[pl.DataFrame]:
        """The deciding columns of each file in the range, with positions unless the range is everything."""
        fields = (*self.key_fields, *self.other_fields)
        frames = []
        for number in part.files:
            frame = file_frame(self.plan, self.section, [self.files[number]], fields, self.store, position=not whole)
            frame = _within(frame, self.key_fields[0].name, part)
            if packing is not None:
                others = [f.name for f in self.other_fields] + ([] if whole else [POSITION])
                frame = frame.select(*packing.expressions, *others)
            frames.append(frame)
        with reading_files(self.plan, [self.section], fields, self.store):
            read = pl.collect_all(frames)
        if whole:
            for number, collected in zip(part.files, read):
                self._check_rows(self.files[number], collected.height)
        return read

    def _check_rows(self, file: DataFile, rows: int) -> None:
        if rows != file.row_count:
            raise CorruptFile(file.path, f"{rows} rows where the manifest says {file.row_count}")


def _within(frame: pl.LazyFrame, column: str, part: KeyRange) -> pl.LazyFrame:
    if part.low is not None:
        frame = frame.filter(pl.col(column) >= part.low)
    return frame if part.high is None else frame.filter(pl.col(column) < part.high)
