"""Pieces of a plan that are read independently: sections, cut at keys or at rows, and packed by weight.

A section of many rows is cut at keys into several pieces, so that all versions of a key stay together. The keys come
from statistics of row groups if there are enough groups, else from the keys themselves: one column is read. If the
first column has too few values, the next one is read. Files that are read one by one are cut at any row.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby, pairwise
from typing import Any, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from morrow.engine.errors import MorrowError
from morrow.engine.format.types import BinaryType, DataField, DataType, DecimalType, VarBinaryType
from morrow.engine.io.store import FileStore
from morrow.engine.names import get_series
from morrow.engine.plan.filter import Filter, combine_filters
from morrow.engine.plan.predicate import Leaf, Op, combine_predicates
from morrow.engine.plan.scan_plan import DataFile, KeyCut, ScanPlan, Section, SectionKind
from morrow.engine.structs import replace
from morrow.readers.files.file_frames import scan_files, translate_file_errors
from morrow.readers.masks.live_rows import compute_live_masks
from morrow.readers.masks.section_cache import SECTIONS, make_cache_key
from morrow.readers.masks.section_keys import RANGED_TYPES, SectionKeys, read_row_groups

T = TypeVar("T")

OPENING_BYTES = 1 << 20
"""The cost of opening a file, in bytes read."""

MIN_CUT_ROWS = 1 << 17
"""The minimum stored rows of a piece: smaller pieces cost more to start than they save."""

MAX_PIECES_PER_KEY = 2
"""The maximum pieces per distinct key. A column qualifies if it has a key to cut at for every second piece."""

SAMPLES_PER_PIECE = 64
"""The number of keys to sample for each piece."""

CUT_TYPES: tuple[type[DataType], ...] = (*RANGED_TYPES, DecimalType, BinaryType, VarBinaryType)
"""Types of key columns to cut at: their literals compare exactly as the keys do."""

MERGED = SectionKind.MERGE, SectionKind.POSTPONED
"""The kinds of sections whose rows are known only after they are merged."""

PIECE_BYTES = 1 << 9
"""Approximate memory of a cached piece of a section, and of each of its files; the same query is planned repeatedly."""


@dataclass(frozen=True)
class _Keys:
    """Sampled values of a key column in ascending order, the rows that each represents, and the bounds of each file."""

    values: list[Any]
    rows: list[int]
    bounds: list[tuple[Any, Any]]

    def edges(self, pieces: int) -> list[Any]:
        """Return distinct values, without the least, that cut the rows into about `pieces` equal pieces."""
        total = sum(self.rows)
        found: list[Any] = []
        for value, before in zip(self.values, accumulate(self.rows, initial=0)):
            if value != self.values[0] and value not in found[-1:] and before * pieces >= total * (len(found) + 1):
                found.append(value)
        return found


def cut_section(plan: ScanPlan, section: Section, store: FileStore, pieces: int) -> Sequence[Section]:
    """Cut a section into about `pieces` pieces that share no key, or return it whole if that is impossible.

    Pieces have at least `MIN_CUT_ROWS` stored rows.

    A section with a damaged or missing file is not cut: the task that reads it raises the error.
    """
    pieces = min(pieces, section.row_count // MIN_CUT_ROWS)
    if section.kind is not SectionKind.MERGE or section.cut is not None or pieces <= 1:
        return [section]

    def make() -> tuple[list[Section], int]:
        found = list(_cut(plan, section, store, pieces))
        return found, sum(PIECE_BYTES * (len(piece.files) + 1) for piece in found)

    try:
        cut: list[Section] = SECTIONS.get_or_make(make_cache_key("pieces", plan, store, section, pieces), make)
        return cut
    except MorrowError:
        return [section]


def narrow_plan(plan: ScanPlan, section: Section) -> ScanPlan:
    """Return the plan of one section. For a piece, its filter keeps only the piece's keys."""
    plan = replace(plan, sections=(section,))
    if section.cut is None:
        return plan
    column, low, high = section.cut.column, section.cut.low, section.cut.high
    kept = combine_predicates(
        *([] if low is None else [Leaf(column, Op.GE, (low,))]),  # type: ignore[arg-type]  # the types of `CUT_TYPES`
        *([] if high is None else [Leaf(column, Op.LT, (high,))]),  # type: ignore[arg-type]  # have no such values
    )
    return replace(plan, filter=combine_filters(plan.filter, Filter.of_predicate(kept)))


def _cut(plan: ScanPlan, section: Section, store: FileStore, pieces: int) -> Iterator[Section]:
    keys = SectionKeys.of(plan, section, store)
    best: tuple[DataField, _Keys, list[Any]] | None = None
    for field, found in _sample_keys(keys, pieces):
        edges = found.edges(pieces)
        if best is None or len(edges) > len(best[2]):
            best = field, found, edges
        if (len(edges) + 1) * MAX_PIECES_PER_KEY >= pieces:
            break
    if best is None or not best[2]:
        yield section
        return
    field, found, edges = best
    filled = [(file, *bounds) for file, bounds in zip(keys.files, found.bounds) if file.row_count]
    for low, high in pairwise([None, *edges, None]):
        files = [f for f, least, most in filled if (low is None or most >= low) and (high is None or least < high)]
        yield msgspec.structs.replace(section, files=tuple(files), cut=KeyCut(field.name, low, high))


def _sample_keys(keys: SectionKeys, pieces: int) -> Iterator[tuple[DataField, _Keys]]:
    """Yield samples of key columns, the cheapest first."""
    known = _sample_row_groups(keys, pieces)
    if known is not None:
        yield keys.key_fields[0], known
    yield from (
        (field, _sample_rows(keys, field, pieces)) for field in keys.key_fields if isinstance(field.type, CUT_TYPES)
    )


def _sample_row_groups(keys: SectionKeys, pieces: int) -> _Keys | None:
    """Return the minimum keys of row groups; None if there are too few, or without statistics of the first column."""
    field = keys.key_fields[0]
    if not isinstance(field.type, RANGED_TYPES):
        return None
    groups = []
    for number, (file, name) in enumerate(zip(keys.files, keys.stored_names())):
        found = read_row_groups(number, file, name, keys.store)
        if not found:
            return None
        groups.append(found)
    listed = sorted(((group.low, group.rows) for found in groups for group in found), key=lambda each: each[0])
    largest = max(rows for _, rows in listed)
    if largest * pieces > sum(rows for _, rows in listed) * MAX_PIECES_PER_KEY:
        return None
    bounds = [(min(group.low for group in found), max(group.high for group in found)) for found in groups]
    return _Keys([low for low, _ in listed], [rows for _, rows in listed], bounds)


def _sample_rows(keys: SectionKeys, field: DataField, pieces: int) -> _Keys:
    """Return a sample of the values of a key column."""
    frames = [scan_files(keys.plan, keys.section, [file], [field], keys.store) for file in keys.files]
    step = keys.section.row_count // (pieces * SAMPLES_PER_PIECE) + 1
    with translate_file_errors(keys.plan, [keys.section], [field], keys.store):
        found = [get_series(frame, field.name) for frame in pl.collect_all(frames)]
    keys.checked_heights([column.to_frame() for column in found])
    values = pl.concat(found).gather_every(step).sort().to_list()
    bounds: list[tuple[Any, Any]] = [(column.min(), column.max()) for column in found]
    return _Keys(values, [step] * len(values), bounds)


def pack_units(units: Iterable[T], weight: Callable[[T], int], limit: int) -> Iterator[list[T]]:
    """Yield groups of neighbouring units with a total weight of about `limit`; a heavier unit is alone."""
    held: list[T] = []
    size = 0
    for unit in units:
        if held and size + weight(unit) > limit:
            yield held
            held, size = [], 0
        held.append(unit)
        size += weight(unit)
    if held:
        yield held


def split_section(section: Section, limit: int) -> Iterator[Section]:
    """Split a section whose files are read separately, and so by any number of tasks."""
    if section.kind is not SectionKind.RAW or compute_weight(section) <= limit:
        yield section
        return
    for files in pack_units(section.files, _compute_file_weight, limit):
        yield msgspec.structs.replace(section, files=tuple(files))


def compute_weight(section: Section) -> int:
    return section.size + len(section.files) * OPENING_BYTES


def _compute_file_weight(file: DataFile) -> int:
    return file.size + OPENING_BYTES


def plan_pieces(plan: ScanPlan, sections: Sequence[Section]) -> list[ScanPlan]:
    """Return plans for these sections: one for all whole sections, one for each piece of a section cut at keys."""
    whole = tuple(section for section in sections if section.cut is None)
    apart = [narrow_plan(plan, section) for section in sections if section.cut is not None]
    return [*([replace(plan, sections=whole)] if whole else []), *apart]


class Piece(msgspec.Struct, frozen=True):
    """The rows [`first`, `last`) of a section, counted over stored rows; `plan` is its plan without sections.

    Only pieces that are `divisible` have other bounds than the whole section.
    """

    plan: ScanPlan
    section: Section
    first: int
    last: int

    @property
    def rows(self) -> int:
        return self.last - self.first

    @property
    def size(self) -> int:
        """The bytes of the piece's share of the files."""
        first, last = _find_read_rows(self.section)
        return self.section.size if self.rows == last - first else self.section.size * self.rows // (last - first)

    @property
    def divisible(self) -> bool:
        """Whether any range of rows can be read: rows of one file, or of files that are stitched together."""
        return self.section.kind not in MERGED and self.section.row_count > 0

    @property
    def cut_section(self) -> Section:
        """The section, with all rows outside of the piece marked as dead."""
        return self.section.with_rows(self.first, self.last) if self.divisible else self.section


def _find_read_rows(section: Section) -> tuple[int, int]:
    return (0, section.row_count) if section.kind in MERGED else section.read_rows


def list_pieces(
    plan: ScanPlan, store: FileStore, bytes_each: int | None = None, rows_each: int | None = None
) -> list[Piece]:
    """Return the smallest pieces of a plan, in its order: files, sections, and pieces of sections of many rows.

    `bytes_each`, `rows_each`: approximate bytes or stored rows of such pieces; without both, sections are not cut.
    """
    return [
        Piece(template, piece, *_find_read_rows(piece))
        for part in plan.parts
        for template in (replace(part, sections=(), steps=(), fallback=None, limit=None),)
        for section in part.sections
        for piece in _list_sections(part, section, store, bytes_each, rows_each)
    ]


def _list_sections(
    plan: ScanPlan, section: Section, store: FileStore, bytes_each: int | None, rows_each: int | None
) -> Iterable[Section]:
    if section.kind is SectionKind.RAW:
        return (msgspec.structs.replace(section, files=(file,)) for file in section.files)
    whole = msgspec.structs.replace(section, files=tuple(section.files))  # packed files pickle with the whole plan's
    by_size = 1 if bytes_each is None else section.size // max(bytes_each, 1)
    by_rows = 1 if rows_each is None else section.row_count // rows_each
    return cut_section(plan, whole, store, max(by_size, by_rows))


def divide_pieces(pieces: Sequence[Piece], groups: int) -> list[list[Piece]]:
    """Divide pieces, in order, into at most `groups` groups of about as many stored rows; none is empty.

    Pieces that are divisible are cut exactly. Other pieces belong to the group in which their middle row lies.
    """
    total = sum(piece.rows for piece in pieces)
    groups = max(min(groups, total), 1)
    found: list[list[Piece]] = [[] for _ in range(groups)]
    bounds = [total * number // groups for number in range(groups + 1)]
    start = 0
    for piece in pieces:
        end = start + piece.rows
        if not piece.divisible:
            found[min(_find_group(bounds, (start + end) // 2), groups - 1)].append(piece)
        else:
            for number in range(_find_group(bounds, start), _find_group(bounds, end - 1) + 1):
                first, last = max(start, bounds[number]), min(end, bounds[number + 1])
                offset = piece.first - start
                found[number].append(msgspec.structs.replace(piece, first=first + offset, last=last + offset))
        start = end
    return [group for group in found if group]


def _find_group(bounds: Sequence[int], row: int) -> int:
    """Return the last group that begins at or before this row."""
    return bisect_right(bounds, row) - 1


def slice_pieces(pieces: Iterable[Piece], first: int, last: int, store: FileStore) -> list[Piece] | None:
    """Return the pieces with the rows [`first`, `last`) of a read without a filter, counted over its rows.

    Returns None if the rows of a piece are known only after reading its data: merged versions, or retractions.
    """
    found, start = [], 0
    for piece in pieces:
        if start >= last:
            break
        live = _find_live(piece, store)
        if live is None:
            return None
        end = start + len(live)
        kept = live[max(first - start, 0) : max(last - start, 0)]
        if len(kept):
            found.append(msgspec.structs.replace(piece, first=int(kept[0]), last=int(kept[-1]) + 1))
        start = end
    return found


def _find_live(piece: Piece, store: FileStore) -> Sequence[int] | npt.NDArray[np.integer] | None:
    """Return the positions of the live rows of a piece; None if metadata and deletion vectors do not tell them."""
    section = piece.section
    retracts = piece.plan.drops_retractions and any(file.may_hold_retractions for file in section.files)
    if section.kind in MERGED or retracts:
        return None
    masks = [mask for mask in compute_live_masks(piece.plan, section, store) if mask is not None]
    if not masks:
        return range(piece.first, piece.last)
    return np.flatnonzero(np.logical_and.reduce([mask.to_numpy() for mask in masks]))


def join_pieces(pieces: Iterable[Piece]) -> tuple[ScanPlan, ...]:
    """Return the plans that read pieces, in this order: neighbours of one part of a plan are read together."""
    return tuple(
        found
        for _, group in groupby(pieces, key=lambda piece: id(piece.plan))
        for members in (list(group),)
        for found in plan_pieces(members[0].plan, [piece.cut_section for piece in members])
    )
