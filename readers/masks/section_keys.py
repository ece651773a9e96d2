"""What tells the versions of a section's keys apart: its key columns, ages and row kinds, read by key range."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import polars as pl

from morrow.engine.errors import CorruptFile
from morrow.engine.format.schema import SEQUENCE_NUMBER, SEQUENCE_NUMBER_FIELD, VALUE_KIND_FIELD
from morrow.engine.format.types import DataField
from morrow.engine.io.store import FileStore
from morrow.engine.merge.spec import MergeSpec
from morrow.engine.plan.scan_plan import DataFile, ScanPlan, Section
from morrow.readers.blame import reading_files
from morrow.readers.file_frames import POSITION, file_frame
from morrow.readers.masks.key_ranges import RANGED_TYPES, KeyRange, key_ranges
from morrow.readers.masks.packing import KeyPacking

RANGE_WORKERS = 2
"""Key ranges merged at once; each holds the keys of about `RANGE_ROWS` rows."""

WORTH_CUTTING = 1 << 19
"""Rows of a section from which on they are worked on in several parts."""
SAMPLED = 1 << 10
"""Every so many rows one key is looked at to find the middle."""


def oldest_first(section: Section) -> list[int]:
    """The numbers of the section's files by age: rows of older files come first, so that places decide."""
    return sorted(range(len(section.files)), key=lambda i: _age(section.files[i]))


def _age(file: DataFile) -> tuple[int, int]:
    return file.min_sequence, file.max_sequence


@dataclass(frozen=True)
class SectionKeys:
    """The keys of one section; `files` are its files, oldest first."""

    plan: ScanPlan
    section: Section
    store: FileStore
    files: tuple[DataFile, ...]

    @classmethod
    def of(cls, plan: ScanPlan, section: Section, store: FileStore) -> SectionKeys:
        return cls(plan, section, store, tuple(section.files[i] for i in oldest_first(section)))

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
    def age(self) -> tuple[str, ...]:
        """The columns that decide between versions before the place of the row does."""
        return (*self.spec.sequence, *([SEQUENCE_NUMBER] if self.by_number else []))

    @cached_property
    def descending(self) -> tuple[bool, ...]:
        """The sort order of each column of `age`."""
        return tuple(self.spec.descending and name != SEQUENCE_NUMBER for name in self.age)

    @cached_property
    def packing(self) -> KeyPacking | None:
        if self.spec.sequence and set(self.spec.sequence) & set(self.spec.key):
            return None
        return KeyPacking.of(self.key_fields, self.section.key_low, self.section.key_high)

    @property
    def everything(self) -> KeyRange:
        """All keys in one range."""
        return KeyRange(files=tuple(range(len(self.files))))

    @cached_property
    def ranges(self) -> list[KeyRange]:
        """The key ranges in which several files meet; rows outside of them have one version."""
        return self.ranges_of(None)

    def ranges_of(self, most_rows: int | None) -> list[KeyRange]:
        """The same in ranges of about so many rows."""
        names = self._stored_names()
        return key_ranges(self.files, self.key_fields[0], names, self.store, not self.with_kind, most_rows)

    def levels(self, files: Sequence[int], heights: Sequence[int]) -> npt.NDArray[np.integer] | None:
        """The level of each row of these files; None where it says nothing about which rows count."""
        levels = [self.files[number].level for number in files]
        if not self.spec.looks_up or len({level for level in levels if level > 0}) < 2:
            return None
        return np.repeat(np.array(levels, np.int32), heights)

    def each_range(self, work: Callable[[KeyRange], None]) -> None:
        """Do the work for all ranges, some at once; ranges share no row."""
        if len(self.ranges) == 1:
            work(self.ranges[0])
            return
        with ThreadPoolExecutor(RANGE_WORKERS) as pool:
            list(pool.map(work, self.ranges))

    def _stored_names(self) -> list[str]:
        identity = self.key_fields[0].id
        stored = {i: next(f.name for f in fields if f.id == identity) for i, fields in self.plan.file_fields.items()}
        return [stored[file.schema_id] for file in self.files]

    def read(self, part: KeyRange, packing: KeyPacking | None) -> list[pl.DataFrame]:
        """The deciding columns of each file in the range, with positions unless the range is everything."""
        fields = (*self.key_fields, *self.other_fields)
        frames = []
        for number in part.files:
            frame = file_frame(
                self.plan, self.section, [self.files[number]], fields, self.store, position=not part.whole
            )
            frame = part.within(frame, self.key_fields[0].name)
            if packing is not None:
                others = [f.name for f in self.other_fields] + ([] if part.whole else [POSITION])
                frame = frame.select(*packing.expressions, *others)
            frames.append(frame)
        with reading_files(self.plan, [self.section], fields, self.store):
            read = pl.collect_all(frames)
        if part.whole:
            self.checked_heights(read)
        return read

    def read_whole(self, names: Sequence[str]) -> list[pl.DataFrame]:
        """All rows of each file with the deciding columns and `names`."""
        values = (self.plan.schema.by_name[name] for name in names)
        fields = tuple(dict.fromkeys((*self.key_fields, *self.other_fields, *values)))
        frames = [file_frame(self.plan, self.section, [file], fields, self.store) for file in self.files]
        with reading_files(self.plan, [self.section], fields, self.store):
            read = pl.collect_all(frames)
        self.checked_heights(read)
        return read

    def parts(self, frames: Sequence[pl.DataFrame]) -> list[list[pl.DataFrame]]:
        """All rows of the files in parts that share no key, to be worked on at once: each file cut at one key.

        The keys may be packed: equal keys are then equal words, which go to the same part. One part where that does
        not pay, or where the keys turn out not to be sorted.
        """
        first = self.key_fields[0].name
        rows = sum(frame.height for frame in frames)
        whole = [list(frames)]
        if rows < WORTH_CUTTING or not isinstance(self.key_fields[0].type, RANGED_TYPES):
            return whole
        if any(frame[first].null_count() for frame in frames):  # texts that packing does not tell apart
            return whole
        sample = pl.concat([frame[first].gather_every(SAMPLED) for frame in frames]).sort()
        pivot = sample[len(sample) // 2]
        cuts = [int(frame[first].search_sorted(pivot, side="left")) for frame in frames]
        lower = [frame[:cut] for frame, cut in zip(frames, cuts)]
        upper = [frame[cut:] for frame, cut in zip(frames, cuts)]
        sorted_apart = all((part[first] < pivot).all() for part in lower) and all(
            (part[first] >= pivot).all() for part in upper
        )
        return [lower, upper] if sorted_apart else whole

    def deciding(self, frame: pl.DataFrame) -> pl.DataFrame:
        """What `read` returns, with `packing`, of rows that are in memory with all their columns."""
        if self.packing is None:
            return self.unpacked(frame)
        return frame.select(*self.packing.expressions, *(field.name for field in self.other_fields))

    def unpacked(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The same without packing."""
        return frame.select(*self.spec.key, *(field.name for field in self.other_fields))

    def keyed(
        self, frames: Sequence[pl.DataFrame], unpacked: Callable[[], Sequence[pl.DataFrame]]
    ) -> tuple[pl.DataFrame, pl.DataFrame]:
        """All rows of `frames` one after another, and their keys: packed into one number each where that is exact.

        Args:
            frames: deciding columns, keys as `packing` has them.
            unpacked: gives the frames with the keys as they are, where packing proves to be inexact.
        """
        versions = pl.concat(frames)
        keys = self.packed(versions)
        if keys is None:
            if self.packing is not None:
                versions = pl.concat(unpacked())
            keys = versions.select(self.spec.key)
        return versions, keys

    def packed(self, versions: pl.DataFrame) -> pl.DataFrame | None:
        if self.packing is None or self.section.key_low is None or self.section.key_high is None:
            return None
        packed = self.packing.pack(versions, self.section.key_low, self.section.key_high)
        return None if packed is None else pl.DataFrame({"key": packed})

    def checked_heights(self, frames: Sequence[pl.DataFrame]) -> list[int]:
        """How many rows each file has. Raises `CorruptFile` if that is not what its manifest entry says."""
        for file, frame in zip(self.files, frames):
            if frame.height != file.row_count:
                raise CorruptFile(file.path, f"{frame.height} rows where the manifest says {file.row_count}")
        return [frame.height for frame in frames]
