"""Many small sections read whole, together: thousands of partitions or buckets cost little more than their files.

All files of one shape are one scan. The oldest file of every section comes first, then the second oldest, and so on, so
that the number of the section, as the first column of the key, makes one long sorted run of the oldest files, and few
runs of all others. What is found of the keys becomes masks of each section, which are cached.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import groupby

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from morrow.engine.errors import CorruptFile
from morrow.engine.format.arrow_buffers import series_of
from morrow.engine.format.binary_row import decode_columns
from morrow.engine.format.types import DataField, IntType
from morrow.engine.io.store import FileStore
from morrow.engine.names import cols, own, unnamed
from morrow.engine.plan.scan_plan import DataFile, ScanPlan, Section, SectionKind
from morrow.readers.casts.dtypes import polars_dtype
from morrow.readers.files.file_errors import reading_files
from morrow.readers.files.file_frames import files_at_once
from morrow.readers.files.registry import file_reader
from morrow.readers.files.virtual_columns import virtual_columns
from morrow.readers.masks import Mask
from morrow.readers.masks.bits import uniform
from morrow.readers.masks.live import cached_merged, keep_merged, live_masks
from morrow.readers.masks.packing import INTEGERS, KeyPacking
from morrow.readers.masks.section_keys import BOUNDED_TYPES, SectionKeys, oldest_first
from morrow.readers.masks.superseded import as_masks, winners
from morrow.readers.merges.version_masks import is_folded

LEAST_SECTIONS = 8
"""Fewer sections are read one by one."""

MOST_ROWS = 1 << 17
"""Stored rows of a section that is read with others."""

GROUP_ROWS = 1 << 21
"""About how many stored rows are read at once."""

SECTION = own("section")


def joinable(plan: ScanPlan, sections: Sequence[Section], store: FileStore) -> list[Section]:
    """Returns the sections that are best read together: small ones of any number, or none."""
    fields = [plan.schema.by_name[name] for name in plan.read_columns]
    if not store.is_local or virtual_columns(plan, fields):
        return []
    found = [section for section in sections if _joins(plan, section)]
    return found if len(found) >= LEAST_SECTIONS else []


def _joins(plan: ScanPlan, section: Section) -> bool:
    if section.row_count > MOST_ROWS or section.cut is not None or is_folded(plan, section):
        return False
    if any(file_reader(file.format, file.path).read_each is None for file in section.files):
        return False
    if section.kind is SectionKind.RAW:
        return not any(
            file.deletion is not None or (plan.drops_retractions and file.may_hold_retractions)
            for file in section.files
        )
    # A key column that orders versions as well is one that no number replaces.
    return section.kind is SectionKind.MERGE and plan.merge is not None


def joined_rows(plan: ScanPlan, sections: Sequence[Section], store: FileStore) -> list[pl.DataFrame]:
    """Returns all rows of these sections, columns `plan.read_columns`, and caches the masks of those that merge."""
    frames = []
    for alike in _groups(plan, sections, store):
        with reading_files(plan, alike.sections, alike.wanted, store):
            frames.append(alike.live_rows())
    return frames


def join_masks(plan: ScanPlan, sections: Sequence[Section], store: FileStore) -> None:
    """Makes and caches the masks of the sections that merge, of those that can be read together."""
    unknown = [s for s in sections if s.kind is SectionKind.MERGE and cached_merged(plan, s, store) is None]
    merging = joinable(plan, unknown, store)
    if len(merging) < LEAST_SECTIONS:
        return
    for group in _by_size(merging):
        files = _Files(plan, group, store, ())
        with reading_files(plan, group, files.keys.key_fields, store):
            files.live_rows()


def _groups(plan: ScanPlan, sections: Sequence[Section], store: FileStore) -> list[_Files]:
    wanted = tuple(plan.schema.by_name[name] for name in plan.read_columns)

    def kind(section: Section) -> tuple[str, bool]:
        return section.kind, section.kind is SectionKind.MERGE and cached_merged(plan, section, store) is not None

    grouped = [list(alike) for _, alike in groupby(sorted(sections, key=kind), key=kind)]
    return [_Files(plan, group, store, wanted) for alike in grouped for group in _by_size(alike)]


def _by_size(sections: Sequence[Section]) -> list[list[Section]]:
    groups: list[list[Section]] = []
    rows = 0
    for section in sections:
        if not groups or rows + section.row_count > GROUP_ROWS:
            groups.append([])
            rows = 0
        groups[-1].append(section)
        rows += section.row_count
    return groups


class _JoinedKeys(SectionKeys, frozen=True, dict=True):
    """The keys of several sections as those of one."""

    sections: Sequence[Section] = ()

    @cached_property
    def by_number(self) -> bool:
        return any(SectionKeys.of(self.plan, section, self.store).by_number for section in self.sections)

    @cached_property
    def key_fields(self) -> tuple[DataField, ...]:
        partition = self.plan.schema.partition_keys
        return tuple(self.plan.schema.by_name[name] for name in self.spec.key if name not in partition)

    @cached_property
    def packing(self) -> KeyPacking | None:
        return None


def _as_numbers(fields: Sequence[DataField], keys: pl.DataFrame) -> pl.DataFrame:
    """Returns keys, of a section number and `fields`, as one number each where those are integers; else unchanged."""
    if not all(isinstance(field.type, INTEGERS) for field in fields):
        return keys
    packing = KeyPacking((DataField(-1, SECTION, IntType(nullable=False)), *fields), {})
    numbers = packing.pack(keys.select(packing.expressions), (), ())
    return keys if numbers is None else series_of(numbers).alias("key").to_frame()


class _Files(msgspec.Struct, frozen=True, dict=True):
    """The files of sections of one kind, of which masks are known or of which none is."""

    plan: ScanPlan
    sections: list[Section]
    store: FileStore
    wanted: tuple[DataField, ...]

    @cached_property
    def merges(self) -> bool:
        return self.sections[0].kind is SectionKind.MERGE

    @cached_property
    def decides(self) -> bool:
        """Whether masks are to be made of the keys."""
        return self.merges and cached_merged(self.plan, self.sections[0], self.store) is None

    @cached_property
    def members(self) -> list[tuple[int, int, int]]:
        """Age, section and file of each file, in the order in which their rows are read: the oldest of all first."""
        return sorted(
            (age, number, file)
            for number, section in enumerate(self.sections)
            for age, file in enumerate(oldest_first(section) if self.merges else range(len(section.files)))
        )

    @cached_property
    def files(self) -> tuple[DataFile, ...]:
        return tuple(self.sections[number].files[file] for _, number, file in self.members)

    @cached_property
    def keys(self) -> _JoinedKeys:
        return _JoinedKeys(self.plan, self.sections[0], self.store, self.files, self.sections)

    def live_rows(self) -> pl.DataFrame:
        partition = self.plan.schema.partition_keys
        stored = [field for field in self.wanted if field.name not in partition]
        deciding = (*self.keys.key_fields, *self.keys.other_fields) if self.decides else ()
        rows = self._read(tuple(dict.fromkeys((*deciding, *stored))))
        live = self._decided(rows) if self.decides else self._known() if self.merges else None
        if not self.wanted:
            return rows.select([])
        rows = rows.with_columns(self._constants()).select(cols(field.name for field in self.wanted))
        return rows if live is None else rows.filter(live)

    @cached_property
    def heights(self) -> list[int]:
        return [file.row_count for file in self.files]

    def _read(self, fields: tuple[DataField, ...]) -> pl.DataFrame:
        """Reads all rows in the order of `members`: files of one shape at once."""

        def shape(number: int) -> tuple[object, ...]:
            file = self.files[number]
            return file.format, file.schema_id, file.write_columns or ()

        shapes = [list(alike) for _, alike in groupby(sorted(range(len(self.files)), key=shape), key=shape)]
        read = [
            files_at_once(self.plan, [self.files[number] for number in alike], fields, self.store)[0]
            for alike in shapes
        ]
        if len(read) == 1:
            return read[0]
        order = np.concatenate([np.repeat(alike, [self.heights[number] for number in alike]) for alike in shapes])
        return pl.concat(read)[np.argsort(order, kind="stable")]

    def _decided(self, rows: pl.DataFrame) -> pl.Series:
        """Returns the live rows; the masks are cached."""
        keys, heights = self.keys, self.heights
        numbers = np.repeat(np.array([number for _, number, _ in self.members], np.int32), heights)
        by_key = rows.select(cols(field.name for field in keys.key_fields))
        self._check_bounds(by_key)
        by_key = _as_numbers(keys.key_fields, pl.DataFrame([pl.Series(SECTION, numbers), *by_key.iter_columns()]))
        ages = [age for age, _, _ in self.members]
        runs = [int(height) for height in np.bincount(ages, heights)]
        live = winners(keys, rows, by_key, runs)
        pieces: dict[int, dict[int, npt.NDArray[np.bool_]]] = {}
        start = 0
        for (_, number, file), height in zip(self.members, heights):
            pieces.setdefault(number, {})[file] = live[start : start + height]
            start += height
        for number, masks in pieces.items():
            found = as_masks([masks[file] for file in sorted(masks)])
            keep_merged(self.plan, self.sections[number], self.store, found)
        return pl.Series(live)

    def _check_bounds(self, keys: pl.DataFrame) -> None:
        """Checks the first and last row of each file against the key bounds of its section.

        Raises:
            CorruptFile: a key lies outside.
        """
        first_key = self.keys.key_fields[:1]
        if not first_key or not isinstance(first_key[0].type, BOUNDED_TYPES):
            return
        column, ends = unnamed(keys.to_series()), np.cumsum(self.heights)
        held = np.flatnonzero(self.heights)
        sections = [self.sections[self.members[i][1]] for i in held]
        lows, highs = (
            pl.Series([None if bound is None else bound[0] for bound in bounds], dtype=column.dtype)
            for bounds in ([s.key_low for s in sections], [s.key_high for s in sections])
        )
        firsts, lasts = column[ends[held] - np.array(self.heights)[held]], column[ends[held] - 1]
        outside = ((firsts < lows) | (lasts > highs)).fill_null(False).arg_true()
        if len(outside):
            at = outside[0]
            found, said = f"{firsts[at]!r} to {lasts[at]!r}", f"{lows[at]!r} to {highs[at]!r}"
            path = self.files[held[at]].path
            raise CorruptFile(path, f"its keys go from {found}, outside of the manifest's {said}")

    def _known(self) -> pl.Series | None:
        masks: dict[int, tuple[Mask, ...]] = {
            number: live_masks(self.plan, section, self.store) for number, section in enumerate(self.sections)
        }
        each = [masks[number][file] for _, number, file in self.members]
        if all(mask is None for mask in each):
            return None
        return pl.concat(
            uniform(True, height) if mask is None else mask.alias("") for mask, height in zip(each, self.heights)
        )

    def _constants(self) -> list[pl.Series]:
        """Returns the wanted columns of partitions."""
        names = self.plan.schema.partition_keys
        fields = [field for field in self.wanted if field.name in names]
        if not fields:
            return []
        rows = list(dict.fromkeys(section.partition_row for section in self.sections))
        number = {row: i for i, row in enumerate(rows)}
        of_file = [number[self.sections[section].partition_row] for _, section, _ in self.members]
        of_row = pl.Series(np.repeat(np.array(of_file, np.uint32), self.heights))
        types = [self.plan.schema.by_name[name].type for name in names]
        wanted = [names.index(field.name) for field in fields]
        values = decode_columns(rows, types, where=self.plan.table, columns=wanted)
        return [
            each.cast(polars_dtype(field.type)).gather(of_row).alias(field.name) for field, each in zip(fields, values)
        ]
