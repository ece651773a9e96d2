"""Sections read to memory or scanned, in the ways that `strategy` chooses; rows counted by metadata and masks.

Many small sections are scanned or read together: thousands of partitions cost little more than their files. A scan
per section would cost Polars more than the reading. Files of one shape are scanned together, across partitions;
the position of a row identifies its file, and so the values of its partition.

Sections that are read together are one scan, too. The oldest file of every section comes first, then the second oldest,
and so on. With the section number as the first column of the key, the oldest files are then one long sorted run, and
all others are few runs. The live rows become masks of each section, which are cached.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import cached_property
from itertools import groupby
from typing import Any, TypeVar

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
from morrow.engine.polars_threads import open_threads
from morrow.engine.structs import replace
from morrow.readers.casts.dtypes import to_polars_dtype
from morrow.readers.execution import strategy
from morrow.readers.execution.lookups import MAX_FOUND_ROWS, look_up_rows
from morrow.readers.execution.section_frames import filter_frame, scan_section
from morrow.readers.execution.strategy import (
    Choice,
    Way,
    count_dead_rows,
    find_joinable,
    find_wanted_keys,
    is_complete,
    is_counted,
    scan_masks,
)
from morrow.readers.expressions import polars as expressions
from morrow.readers.files.file_frames import (
    read_files_at_once,
    scan_files,
    translate_file_errors,
    translate_section_errors,
)
from morrow.readers.files.source import FetchedStore, open_fetched_store
from morrow.readers.masks import Mask, concat_masks
from morrow.readers.masks.live_rows import (
    Live,
    compute_live_masks,
    find_cached_masks,
    find_live_rows,
    find_winners,
    keep_live_masks,
    read_first,
    split_rows,
    to_masks,
)
from morrow.readers.masks.packed_keys import INTEGERS, KeyPacking, find_cuts, slice_frames
from morrow.readers.masks.section_cache import make_uniform_mask
from morrow.readers.masks.section_keys import BOUNDED_TYPES, SectionKeys, order_by_age

Masked = tuple[Section, tuple[Mask, ...]]


def scan_sections(
    plan: ScanPlan, choices: Iterable[tuple[Choice, tuple[Mask, ...]]], store: FileStore
) -> list[pl.LazyFrame]:
    """Return the live rows of sections that satisfy the pushable part of the filter, columns `plan.read_columns`."""
    together: list[Masked] = []
    alone: list[Masked] = []
    for choice, masks in choices:
        (together if choice.way is Way.SCAN_TOGETHER else alone).append((choice.section, masks))
    grouped = [_scan_group(plan, group, store) for group in _group_by_shape(plan, together)]
    return [*grouped, *(scan_section(plan, section, masks, store) for section, masks in alone)]


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
            if group and rows + member.file.row_count > strategy.MAX_SMALL_ROWS:
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


MAX_READ_GROUP_ROWS = 1 << 21
"""Approximate maximum of stored rows read at once."""

SECTION = reserve_name("section")


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
    if len(merging) < strategy.MIN_READ_SECTIONS:
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
        live = self._decide(rows) if self.decides else self._find_known() if self.merges else None
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

    def _decide(self, rows: pl.DataFrame) -> pl.Series:
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

        Raises `CorruptFile`: a key lies outside.
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

    def _find_known(self) -> pl.Series | None:
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


PART_WORKERS = 2
"""Number of parts of a section processed at once."""

SECTION_WORKERS = 2
"""Number of sections read at once."""

MIN_THREADED_ROWS = 1 << 16
"""Minimum rows to use threads: for fewer rows, two threads that alternate in the interpreter are slower than one."""

T = TypeVar("T")


def read_sections(plan: ScanPlan, choices: Sequence[Choice], store: FileStore) -> list[pl.DataFrame]:
    """Return all rows of sections that are chosen to be read at once, columns `plan.read_columns`.

    From a remote store, files that are read whole are requested before the first is decoded.
    """
    by_way = {way: [choice.section for choice in choices if choice.way is way] for way in READERS}
    with nullcontext(store) if store.is_local else open_fetched_store(store) as source:
        if isinstance(source, FetchedStore):
            for choice in choices:
                if choice.way is not Way.REFRESH:
                    source.expect(choice.section.files)
        return [
            frame
            for way, sections in by_way.items()
            if sections
            for frame in READERS[way](plan, sections, store if way is Way.REFRESH else source)
        ]


def look_up_sections(
    plan: ScanPlan, choices: Sequence[Choice], store: FileStore
) -> tuple[list[pl.DataFrame], list[Choice]]:
    """Return the rows of sections that are chosen to be looked up, and the choices for all other sections.

    The rows have the columns `plan.read_columns`, and the filter is true for them. If more than `MAX_FOUND_ROWS` stored
    rows have the wanted keys, the remaining sections are scanned.
    """
    wanted = find_wanted_keys(plan)
    looked_up = [choice for choice in choices if choice.way is Way.LOOK_UP]
    if wanted is None or not looked_up:
        return [], list(choices)
    found: dict[int, pl.DataFrame] = {}
    rows = 0

    def look_up(section: Section) -> pl.DataFrame | None:
        return look_up_rows(plan, section, wanted, store, MAX_FOUND_ROWS)

    for start in range(0, len(looked_up), SECTION_WORKERS):
        several = [choice.section for choice in looked_up[start : start + SECTION_WORKERS]]
        for section, each in zip(several, _read_each(look_up, several, store)):
            if each is not None:
                found[id(section)] = each
                rows += each.height
        if rows > MAX_FOUND_ROWS:
            break
    others = [
        replace(choice, way=Way.SCAN) if choice.way is Way.LOOK_UP else choice
        for choice in choices
        if id(choice.section) not in found
    ]
    return list(found.values()), others


def read_whole_sections(plan: ScanPlan, sections: Sequence[Section], store: FileStore) -> list[pl.DataFrame]:
    """Return all rows of MERGE sections, read whole."""

    def read(section: Section) -> pl.DataFrame:
        found = _read_whole(plan, section, store)
        if isinstance(store, FetchedStore):
            store.drop(section.files)
        return found

    return _read_each(read, sections, store)


def _read_whole(plan: ScanPlan, section: Section, store: FileStore) -> pl.DataFrame:
    if not plan.folds(section):
        return _read_newest(plan, section, store)
    from morrow.readers.merges.sections import fold_section

    return fold_section(plan, section, store)


def _read_refreshed(plan: ScanPlan, sections: Sequence[Section], store: FileStore) -> list[pl.DataFrame]:
    from morrow.readers.merges.sections import fold_cached

    return _read_each(lambda section: fold_cached(plan, section, store), sections, store)


def _read_each(read: Callable[[Section], T], sections: Sequence[Section], store: FileStore) -> list[T]:
    rows = sum(section.row_count for section in sections)
    threads = SECTION_WORKERS if rows >= MIN_THREADED_ROWS or not store.is_local else 1
    return _map_parts(read, sections, threads=threads)


def _read_newest(plan: ScanPlan, section: Section, store: FileStore) -> pl.DataFrame:
    """Return the newest version of every key."""
    keys = SectionKeys.of(plan, section, store)
    if keys.with_vectors:
        known = compute_live_masks(plan, section, store)
        (found,) = split_rows(keys, [(plan.read_columns, [known[i] for i in order_by_age(section)])])
        return found
    read = keys.read_whole(read_first(keys, plan.read_columns))
    threads = PART_WORKERS if section.row_count >= MIN_THREADED_ROWS else 1
    deciding = _map_parts(keys.deciding, read, threads=threads)
    rows = find_cuts(deciding, keys.key_fields[0])

    def live(part: Sequence[pl.DataFrame], keyed: Sequence[pl.DataFrame]) -> Live:
        return find_live_rows(keys, keyed, lambda: [keys.unpacked(frame) for frame in part])

    parts = _map_parts(live, slice_frames(read, rows), slice_frames(deciding, rows), threads=threads)
    masks = to_masks([np.concatenate(pieces) for pieces in zip(*parts)])
    (found,) = split_rows(keys, [(plan.read_columns, masks)], read)
    by_file = dict(zip(order_by_age(section), masks))
    keep_live_masks(plan, section, store, [by_file[i] for i in range(len(section.files))])
    return found


def _map_parts(do: Callable[..., T], *parts: Sequence[Any], threads: int) -> list[T]:
    """Call `do` for each of the parts, several at once in threads, and return the results in order."""
    if threads == 1 or len(parts[0]) < 2:
        return list(map(do, *parts))
    with open_threads(threads) as pool:
        return list(pool.map(do, *parts))


DECODERS = 2
"""Number of file groups decoded at once; Polars decodes the columns of each group on all cores."""
MAX_GROUP_BYTES, MAX_GROUP_FILES = 8 << 20, 64
"""Approximate maximum of bytes, and maximum number of files, decoded together."""

MASK_REQUESTS = 16
"""Number of sections whose masks are read at once."""


def read_fetched_rows(plan: ScanPlan, sections: Sequence[Section], store: FileStore) -> list[pl.DataFrame]:
    """Return the live rows of sections that do not fold, columns `plan.read_columns`, by groups of files."""
    with open_threads(MASK_REQUESTS) as pool:  # deletion vectors arrive while files do
        masks = list(pool.map(lambda section: scan_masks(plan, section, store), sections))
    groups = list(_group_files(zip(sections, masks)))

    def rows(group: Sequence[Masked]) -> pl.DataFrame:
        frames = [scan_section(plan, section, masks, store) for section, masks in group]
        found = (frames[0] if len(frames) == 1 else pl.concat(frames)).collect()
        if isinstance(store, FetchedStore):
            store.drop(file for section, _ in group for file in section.files)
        return found

    with open_threads(DECODERS) as pool:
        return list(pool.map(rows, groups))


def _group_files(parts: Iterator[Masked]) -> Iterator[list[Masked]]:
    """Group the files of sections, in their order; a section may be divided among groups."""
    group: list[Masked] = []
    size = files = 0
    for section, masks in parts:
        start = 0
        for end, file in enumerate(section.files, 1):
            size, files = size + file.size, files + 1
            if size >= MAX_GROUP_BYTES or files == MAX_GROUP_FILES:
                yield [*group, _slice_section(section, masks, start, end)]
                group, size, files, start = [], 0, 0, end
        if start < len(section.files):
            group.append(_slice_section(section, masks, start, len(section.files)))
    if group:
        yield group


def _slice_section(section: Section, masks: tuple[Mask, ...], start: int, end: int) -> Masked:
    return msgspec.structs.replace(section, files=section.files[start:end]), masks[start:end]


READERS: Mapping[Way, Callable[[ScanPlan, Sequence[Section], FileStore], list[pl.DataFrame]]] = {
    Way.READ_TOGETHER: read_joined_rows,
    Way.FETCH: read_fetched_rows,
    Way.READ_WHOLE: read_whole_sections,
    Way.REFRESH: _read_refreshed,
}
"""The function that reads sections into memory, for each way."""


def check_complete(plan: ScanPlan, store: FileStore, rows: int) -> None:
    """Check a full read against the manifests' row counts; masks are cached by now, so this reads nothing.

    Raises `CorruptFile`: a data file holds more or fewer rows than its manifest entry says.
    """
    known = all(is_counted(part, section) for part in plan.parts for section in part.sections)
    if is_complete(plan) and known:
        expected = sum(_count_section_rows(one, section, store) for one in plan.parts for section in one.sections)
        if rows != expected:
            raise CorruptFile(plan.table, f"its data files gave {rows} rows where the manifests say {expected}")


def count_rows(plan: ScanPlan, section: Section, store: FileStore) -> int:
    """Count the live rows of one section, reading as little as possible.

    Deletion vectors are checked against the metadata's counts if this costs no request.
    """
    if store.is_local and is_counted(plan, section) and section.kind is SectionKind.RAW:
        compute_live_masks(plan, section, store)
    return _count_section_rows(plan, section, store)


def _count_section_rows(plan: ScanPlan, section: Section, store: FileStore) -> int:
    if section.kind is SectionKind.MERGE:
        masks = scan_masks(plan, section, store)
        unmerged = sum(f.row_count if m is None else int(m.sum()) for f, m in zip(section.files, masks))
        return unmerged + _count_merged_rows(plan, section, store)
    if is_counted(plan, section):
        return sum(f.row_count - count_dead_rows(f.deletion) for f in section.files)
    with translate_section_errors(plan, [section], store):
        frame = scan_section(plan, section, scan_masks(plan, section, store), store)
        return int(frame.select(pl.len()).collect().item())


def _count_merged_rows(plan: ScanPlan, section: Section, store: FileStore) -> int:
    if not plan.folds(section):
        return 0
    # Imported here: the functions of merge engines import libraries that other tables do not need.
    from morrow.readers.merges.sections import count_merged

    return count_merged(plan, section, store)
