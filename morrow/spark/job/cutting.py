"""Sections of many rows as several units of work: cut at keys, such that all versions of a key stay together.

The keys to cut at come from the statistics of row groups, where these are many enough, and else from the keys
themselves, of which the driver reads one column. A first column that hardly varies is passed over for the next one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

import msgspec
import polars as pl

from morrow.engine.errors import MorrowError
from morrow.engine.format.types import BinaryType, DataField, DataType, DecimalType, VarBinaryType
from morrow.engine.io.cache import ByteCache
from morrow.engine.io.store import FileStore
from morrow.engine.names import series
from morrow.engine.plan.filter import Filter, both
from morrow.engine.plan.predicate import Leaf, Op, columns, conjunction
from morrow.engine.plan.scan_plan import KeyCut, ScanPlan, Section, SectionKind
from morrow.engine.values import replace
from morrow.readers.files.file_errors import reading_files
from morrow.readers.files.file_frames import file_frame
from morrow.readers.masks.key_ranges import RANGED_TYPES, row_groups
from morrow.readers.masks.section_keys import SectionKeys
from morrow.spark.job.packing import section_weight

LEAST_ROWS = 1 << 17
"""Stored rows of a piece: smaller ones cost more to begin than they save."""

ENOUGH = 2
"""A column serves if it has keys to cut at for every second piece."""

SAMPLED = 64
"""Keys that are looked at for each piece."""

CUT_TYPES: tuple[type[DataType], ...] = (*RANGED_TYPES, DecimalType, BinaryType, VarBinaryType)
"""Types of keys that are cut at: literals of them compare as the keys do, exactly."""

_KNOWN: ByteCache[list[Section]] = ByteCache(64 << 20)
"""The pieces of sections, in bytes about: the same query is planned again and again."""
PIECE_BYTES = 1 << 9


@dataclass(frozen=True)
class _Keys:
    """Values of a key column in ascending order, each of which stands for so many rows; and the bounds of each file."""

    values: list[Any]
    rows: list[int]
    bounds: list[tuple[Any, Any]]

    def edges(self, pieces: int) -> list[Any]:
        """Returns values, each once and not the least, that cut the rows into about so many equal pieces."""
        total = sum(self.rows)
        found: list[Any] = []
        for value, before in zip(self.values, accumulate(self.rows, initial=0)):
            if value != self.values[0] and value not in found[-1:] and before * pieces >= total * (len(found) + 1):
                found.append(value)
        return found


def cut(plan: ScanPlan, section: Section, store: FileStore, limit: int) -> Sequence[Section]:
    """Returns the section in pieces of about `limit` bytes that share no key; whole, where it cannot be cut.

    It cannot where a file is damaged or gone: the task that reads it says so.
    """
    pieces = min(section_weight(section) // limit, section.row_count // LEAST_ROWS)
    if section.kind is not SectionKind.MERGE or section.cut is not None or pieces <= 1:
        return [section]

    def make() -> tuple[list[Section], int]:
        found = list(_cut(plan, section, store, pieces))
        return found, sum(PIECE_BYTES * (len(piece.files) + 1) for piece in found)

    try:
        return _KNOWN.get_or_make((store.url(plan.table), plan.schema.layout, section, pieces), make)
    except MorrowError:
        return [section]


def narrowed(plan: ScanPlan, section: Section) -> ScanPlan:
    """Returns the plan of one section: of one that is cut, with the filter that keeps its keys."""
    plan = replace(plan, sections=(section,))
    if section.cut is None:
        return plan
    column, low, high = section.cut.column, section.cut.low, section.cut.high
    kept = conjunction(
        *([] if low is None else [Leaf(column, Op.GE, (low,))]),  # type: ignore[arg-type]  # none of `CUT_TYPES`
        *([] if high is None else [Leaf(column, Op.LT, (high,))]),  # type: ignore[arg-type]  # has such values
    )
    return replace(plan, filter=both(plan.filter, Filter(kept, (), columns(kept), str(kept))))


def _cut(plan: ScanPlan, section: Section, store: FileStore, pieces: int) -> Iterator[Section]:
    keys = SectionKeys.of(plan, section, store)
    best: tuple[DataField, _Keys, list[Any]] | None = None
    for field, found in _samples(keys, pieces):
        edges = found.edges(pieces)
        if best is None or len(edges) > len(best[2]):
            best = field, found, edges
        if (len(edges) + 1) * ENOUGH >= pieces:
            break
    if best is None or not best[2]:
        yield section
        return
    field, found, edges = best
    filled = [(file, *bounds) for file, bounds in zip(keys.files, found.bounds) if file.row_count]
    for low, high in pairwise([None, *edges, None]):
        files = [f for f, least, most in filled if (low is None or most >= low) and (high is None or least < high)]
        yield msgspec.structs.replace(section, files=tuple(files), cut=KeyCut(field.name, low, high))


def _samples(keys: SectionKeys, pieces: int) -> Iterator[tuple[DataField, _Keys]]:
    """Yields what is known of key columns, that which costs least first."""
    known = _by_row_groups(keys, pieces)
    if known is not None:
        yield keys.key_fields[0], known
    yield from (
        (field, _by_rows(keys, field, pieces)) for field in keys.key_fields if isinstance(field.type, CUT_TYPES)
    )


def _by_row_groups(keys: SectionKeys, pieces: int) -> _Keys | None:
    """Returns the least keys of row groups; None where these are few, or have no statistics of the first column."""
    field = keys.key_fields[0]
    if not isinstance(field.type, RANGED_TYPES):
        return None
    groups = []
    for number, (file, name) in enumerate(zip(keys.files, keys.stored_names())):
        found = row_groups(number, file, name, keys.store)
        if not found:
            return None
        groups.append(found)
    listed = sorted(((group.low, group.rows) for found in groups for group in found), key=lambda each: each[0])
    largest = max(rows for _, rows in listed)
    if largest * pieces > sum(rows for _, rows in listed) * ENOUGH:
        return None
    bounds = [(min(group.low for group in found), max(group.high for group in found)) for found in groups]
    return _Keys([low for low, _ in listed], [rows for _, rows in listed], bounds)


def _by_rows(keys: SectionKeys, field: DataField, pieces: int) -> _Keys:
    """Returns a sample of the values of a key column."""
    frames = [file_frame(keys.plan, keys.section, [file], [field], keys.store) for file in keys.files]
    step = keys.section.row_count // (pieces * SAMPLED) + 1
    with reading_files(keys.plan, [keys.section], [field], keys.store):
        found = [series(frame, field.name) for frame in pl.collect_all(frames)]
    keys.checked_heights([column.to_frame() for column in found])
    values = pl.concat(found).gather_every(step).sort().to_list()
    bounds: list[tuple[Any, Any]] = [(column.min(), column.max()) for column in found]
    return _Keys(values, [step] * len(values), bounds)
