"""Many small sections scanned or read together: thousands of partitions cost little more than their files.

A scan per section would cost Polars more than the reading. Files of one shape are scanned together, across partitions;
the position of a row identifies its file, and so the values of its partition.

Sections that are read whole are one scan, too. The oldest file of every section comes first, then the second oldest,
and so on. With the section number as the first column of the key, the oldest files are then one long sorted run, and
all others are few runs. The live rows become masks of each section, which are cached.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import groupby

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from morrow.engine.errors import CorruptFile
from morrow.engine.format.arrow_buffers import make_series
from morrow.engine.format.binary_row import decode_columns
from morrow.engine.format.row_kinds import RETRACT_BIT
from morrow.engine.format.schema import VALUE_KIND, VALUE_KIND_FIELD
from morrow.engine.format.types import DataField, IntType
from morrow.engine.io.store import FileStore
from morrow.engine.names import POSITION, clear_pattern_name, cols, reserve_name
from morrow.engine.plan.predicate import ALWAYS
from morrow.engine.plan.pruning import project_predicate
from morrow.engine.plan.scan_plan import DataFile, ScanPlan, Section, SectionKind
from morrow.readers.casts.dtypes import to_polars_dtype
from morrow.readers.execution.section_frames import MAX_SMALL_ROWS, filter_frame, scan_section
from morrow.readers.expressions import polars as expressions
from morrow.readers.files.file_frames import list_virtual_columns, read_files_at_once, scan_files
from morrow.readers.files.registry import find_file_reader, is_scanned
from morrow.readers.files.streaming import translate_file_errors
from morrow.readers.masks import Mask, concat_masks
from morrow.readers.masks.bitmasks import make_uniform_mask
from morrow.readers.masks.live_rows import (
    compute_live_masks,
    find_cached_masks,
    find_winners,
    keep_live_masks,
    to_masks,
)
from morrow.readers.masks.packed_keys import INTEGERS, KeyPacking
from morrow.readers.masks.section_keys import BOUNDED_TYPES, SectionKeys, order_by_age
from morrow.readers.merges.version_masks import is_folded

MIN_SCANNED_SECTIONS = 8
"""Minimum sections to scan together; fewer are scanned one by one, so that users' later filters prune partitions."""

MAX_SCANNED_SECTION_ROWS = 1 << 17
"""Maximum stored rows of a section scanned with others; the cost of a separate scan is negligible for larger ones."""

Masked = tuple[Section, tuple[Mask, ...]]


def scan_sections(plan: ScanPlan, sections: Iterable[Masked], store: FileStore) -> list[pl.LazyFrame]:
    """Return the live rows of sections that satisfy the pushable part of the filter, columns `plan.read_columns`."""
    all_sections = list(sections)
    joined = [each for each in all_sections if _is_small(each[0])] if _is_scanned_together(plan, store) else []
    if len(joined) < MIN_SCANNED_SECTIONS:
        return [scan_section(plan, section, masks, store) for section, masks in all_sections]
    small = {id(section) for section, _ in joined}
    others = [scan_section(plan, s, masks, store) for s, masks in all_sections if id(s) not in small]
    return [*(_scan_group(plan, group, store) for group in _group_by_shape(plan, joined)), *others]


def _is_scanned_together(plan: ScanPlan, store: FileStore) -> bool:
    """Return whether sections of this plan are scanned together.

    Positions through several files depend on their row counts, which would take requests to remote stores; and a limit
    should stop at the first files.
    """
    limited = plan.limit is not None and plan.filter.predicate == ALWAYS
    fields = [plan.schema.by_name[name] for name in plan.read_columns]
    return store.is_local and not limited and bool(fields) and not list_virtual_columns(plan, fields)


def _is_small(section: Section) -> bool:
    whole = section.kind in (SectionKind.RAW, SectionKind.MERGE) and section.row_count <= MAX_SCANNED_SECTION_ROWS
    return whole and all(is_scanned(file.format, file.path) for file in section.files)


class _Member(msgspec.Struct, frozen=True):
    """A file with its mask, and the number of its section's partition within the group."""

    file: DataFile
    mask: Mask
    section: Section
    with_kind: bool


def _group_by_shape(plan: ScanPlan, sections: Sequence[Masked]) -> Iterator[list[_Member]]:
    """Group files of one shape, up to the number of rows that Polars can number cheaply."""
    members = [
        _Member(file, mask, section, _has_retractions(plan, section, file))
        for section, masks in sections
        for file, mask in zip(section.files, masks, strict=True)
    ]

    def shape(member: _Member) -> tuple[object, ...]:
        return member.file.format, member.file.schema_id, member.file.write_columns or (), member.with_kind

    for _, alike in groupby(sorted(members, key=shape), key=shape):
        group: list[_Member] = []
        rows = 0
        for member in alike:
            if group and rows + member.file.row_count > MAX_SMALL_ROWS:
                yield group
                group, rows = [], 0
            group.append(member)
            rows += member.file.row_count
        yield group


def _has_retractions(plan: ScanPlan, section: Section, file: DataFile) -> bool:
    return section.kind is SectionKind.RAW and plan.drops_retractions and file.may_hold_retractions


def _scan_group(plan: ScanPlan, group: Sequence[_Member], store: FileStore) -> pl.LazyFrame:
    fields = [plan.schema.by_name[name] for name in plan.read_columns]
    keys = [field for field in fields if field.name in plan.schema.partition_keys]
    stored = [field for field in fields if field.name not in plan.schema.partition_keys]
    files = [member.file for member in group]
    mask = concat_masks(files, [member.mask for member in group])
    with_kind = group[0].with_kind
    read = [*stored, VALUE_KIND_FIELD] if with_kind else stored
    numbered = bool(keys) or mask is not None
    frame = scan_files(plan, group[0].section, files, read, store, position=numbered, live=mask)
    # Conditions on columns of files are pushed into the scans; the whole filter is tested once all columns are present.
    partial = project_predicate(plan.filter.predicate, frozenset(field.name for field in stored))
    if partial != ALWAYS:
        frame = frame.filter(expressions.compile(partial, plan.schema.fields))
    if with_kind:
        frame = frame.filter((pl.col(VALUE_KIND) & RETRACT_BIT) == 0)
    if mask is not None:
        frame = frame.filter(pl.lit(mask).gather(pl.col(POSITION)))
    if keys:
        frame = filter_frame(plan, frame.with_columns(_partition_columns(plan, group, keys)))
    return frame.select(cols(plan.read_columns))


def _partition_columns(plan: ScanPlan, group: Sequence[_Member], keys: Sequence[DataField]) -> Iterator[pl.Expr]:
    """Yield the partition's values of each row, looked up by its position."""
    rows = list(dict.fromkeys(member.section.partition_row for member in group))
    number = {row: i for i, row in enumerate(rows)}
    numbers = np.array([number[member.section.partition_row] for member in group], np.uint32)
    of_position = pl.lit(pl.Series(np.repeat(numbers, [member.file.row_count for member in group])))
    names = plan.schema.partition_keys
    types = [plan.schema.by_name[name].type for name in names]
    wanted = [names.index(field.name) for field in keys]
    for field, values in zip(keys, decode_columns(rows, types, where=plan.table, columns=wanted)):
        column = pl.lit(values.cast(to_polars_dtype(field.type)).alias(""))
        yield column.gather(of_position.gather(pl.col(POSITION))).alias(field.name)


MIN_READ_SECTIONS = 8
"""Minimum sections to read together; fewer are read one by one."""

MAX_READ_SECTION_ROWS = 1 << 17
"""Maximum stored rows of a section that is read with others."""

MAX_READ_GROUP_ROWS = 1 << 21
"""Approximate maximum of stored rows read at once."""

SECTION = reserve_name("section")


def find_joinable(plan: ScanPlan, sections: Sequence[Section], store: FileStore) -> list[Section]:
    """Return the small sections that are best read together; empty if there are too few."""
    fields = [plan.schema.by_name[name] for name in plan.read_columns]
    if not store.is_local or list_virtual_columns(plan, fields):
        return []
    found = [section for section in sections if _is_joinable(plan, section)]
    return found if len(found) >= MIN_READ_SECTIONS else []


def _is_joinable(plan: ScanPlan, section: Section) -> bool:
    if section.row_count > MAX_READ_SECTION_ROWS or section.cut is not None or is_folded(plan, section):
        return False
    if any(find_file_reader(file.format, file.path).read_each is None for file in section.files):
        return False
    if section.kind is SectionKind.RAW:
        return not any(
            file.deletion is not None or (plan.drops_retractions and file.may_hold_retractions)
            for file in section.files
        )
    # A number cannot replace a key column that also orders versions.
    return section.kind is SectionKind.MERGE and plan.merge is not None


def read_joined_rows(plan: ScanPlan, sections: Sequence[Section], store: FileStore) -> list[pl.DataFrame]:
    """Return all rows of these sections, columns `plan.read_columns`, and cache the masks of MERGE sections."""
    frames = []
    for alike in _group_read(plan, sections, store):
        with translate_file_errors(plan, alike.sections, alike.wanted, store):
            frames.append(alike.live_rows())
    return frames


def join_masks(plan: ScanPlan, sections: Sequence[Section], store: FileStore) -> None:
    """Make and cache the masks of the MERGE sections that can be read together."""
    unknown = [s for s in sections if s.kind is SectionKind.MERGE and find_cached_masks(plan, s, store) is None]
    merging = find_joinable(plan, unknown, store)
    if len(merging) < MIN_READ_SECTIONS:
        return
    for group in _group_by_size(merging):
        files = _Files(plan, group, store, ())
        with translate_file_errors(plan, group, files.keys.key_fields, store):
            files.live_rows()


def _group_read(plan: ScanPlan, sections: Sequence[Section], store: FileStore) -> list[_Files]:
    wanted = tuple(plan.schema.by_name[name] for name in plan.read_columns)

    def kind(section: Section) -> tuple[str, bool]:
        return section.kind, section.kind is SectionKind.MERGE and find_cached_masks(plan, section, store) is not None

    grouped = [list(alike) for _, alike in groupby(sorted(sections, key=kind), key=kind)]
    return [_Files(plan, group, store, wanted) for alike in grouped for group in _group_by_size(alike)]


def _group_by_size(sections: Sequence[Section]) -> list[list[Section]]:
    groups: list[list[Section]] = []
    rows = 0
    for section in sections:
        if not groups or rows + section.row_count > MAX_READ_GROUP_ROWS:
            groups.append([])
            rows = 0
        groups[-1].append(section)
        rows += section.row_count
    return groups


class _JoinedKeys(SectionKeys, frozen=True, dict=True):
    """The keys of several sections, treated as one section."""

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


def _pack_numbers(fields: Sequence[DataField], keys: pl.DataFrame) -> pl.DataFrame:
    """Pack keys (a section number and `fields`) into one number each if all are integers; else return `keys`."""
    if not all(isinstance(field.type, INTEGERS) for field in fields):
        return keys
    packing = KeyPacking((DataField(-1, SECTION, IntType(nullable=False)), *fields), {})
    numbers = packing.pack(keys.select(packing.expressions), (), ())
    return keys if numbers is None else make_series(numbers).alias("key").to_frame()


class _Files(msgspec.Struct, frozen=True, dict=True):
    """The files of sections of one kind, either all with known masks or all without."""

    plan: ScanPlan
    sections: list[Section]
    store: FileStore
    wanted: tuple[DataField, ...]

    @cached_property
    def merges(self) -> bool:
        return self.sections[0].kind is SectionKind.MERGE

    @cached_property
    def decides(self) -> bool:
        """Whether masks must be computed from the keys."""
        return self.merges and find_cached_masks(self.plan, self.sections[0], self.store) is None

    @cached_property
    def members(self) -> list[tuple[int, int, int]]:
        """Age, section and file of each file, in the order in which their rows are read: the oldest of all first."""
        return sorted(
            (age, number, file)
            for number, section in enumerate(self.sections)
            for age, file in enumerate(order_by_age(section) if self.merges else range(len(section.files)))
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
        """Read all rows in the order of `members`, files of one shape together."""

        def shape(number: int) -> tuple[object, ...]:
            file = self.files[number]
            return file.format, file.schema_id, file.write_columns or ()

        shapes = [list(alike) for _, alike in groupby(sorted(range(len(self.files)), key=shape), key=shape)]
        read = [
            read_files_at_once(self.plan, [self.files[number] for number in alike], fields, self.store)[0]
            for alike in shapes
        ]
        if len(read) == 1:
            return read[0]
        order = np.concatenate([np.repeat(alike, [self.heights[number] for number in alike]) for alike in shapes])
        return pl.concat(read)[np.argsort(order, kind="stable")]

    def _decided(self, rows: pl.DataFrame) -> pl.Series:
        """Return the live rows, and cache the masks."""
        keys, heights = self.keys, self.heights
        numbers = np.repeat(np.array([number for _, number, _ in self.members], np.int32), heights)
        by_key = rows.select(cols(field.name for field in keys.key_fields))
        self._check_bounds(by_key)
        by_key = _pack_numbers(keys.key_fields, pl.DataFrame([pl.Series(SECTION, numbers), *by_key.iter_columns()]))
        ages = [age for age, _, _ in self.members]
        runs = [int(height) for height in np.bincount(ages, heights)]
        live = find_winners(keys, rows, by_key, runs)
        pieces: dict[int, dict[int, npt.NDArray[np.bool_]]] = {}
        start = 0
        for (_, number, file), height in zip(self.members, heights):
            pieces.setdefault(number, {})[file] = live[start : start + height]
            start += height
        for number, masks in pieces.items():
            found = to_masks([masks[file] for file in sorted(masks)])
            keep_live_masks(self.plan, self.sections[number], self.store, found)
        return pl.Series(live)

    def _check_bounds(self, keys: pl.DataFrame) -> None:
        """Check the first and last row of each file against the key bounds of its section.

        Raises:
            CorruptFile: a key lies outside.
        """
        first_key = self.keys.key_fields[:1]
        if not first_key or not isinstance(first_key[0].type, BOUNDED_TYPES):
            return
        column, ends = clear_pattern_name(keys.to_series()), np.cumsum(self.heights)
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
            number: compute_live_masks(self.plan, section, self.store) for number, section in enumerate(self.sections)
        }
        each = [masks[number][file] for _, number, file in self.members]
        if all(mask is None for mask in each):
            return None
        return pl.concat(
            make_uniform_mask(True, height) if mask is None else mask.alias("")
            for mask, height in zip(each, self.heights)
        )

    def _constants(self) -> list[pl.Series]:
        """Return the wanted columns of partitions."""
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
            each.cast(to_polars_dtype(field.type)).gather(of_row).alias(field.name)
            for field, each in zip(fields, values)
        ]
