"""Sections of a plan as units of work: encoding, division at keys, and packing by weight.

A section is a MessagePack array of its members; values of the partition and keys are BinaryRows, as in manifests.
A section of many rows is cut at keys into several units, so that all versions of a key stay together. The keys come
from statistics of row groups if there are enough groups, else from the keys themselves: the driver reads one
column. If the first column has too few values, it reads the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heapify, heapreplace
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import polars as pl

from morrow.engine.errors import MorrowError
from morrow.engine.format.binary_row import Value, decode_row
from morrow.engine.format.binary_row_encoder import encode_row
from morrow.engine.format.types import BinaryType, DataField, DataType, DecimalType, VarBinaryType
from morrow.engine.io.store import FileStore
from morrow.engine.names import get_series
from morrow.engine.plan.filter import Filter, combine_filters
from morrow.engine.plan.predicate import Leaf, Op, combine_predicates, find_columns
from morrow.engine.plan.scan_plan import DataFile, KeyCut, ScanPlan, Section, SectionKind
from morrow.engine.structs import replace
from morrow.readers.files.file_frames import scan_files, translate_file_errors
from morrow.readers.masks.section_cache import SECTIONS, make_cache_key
from morrow.readers.masks.section_keys import RANGED_TYPES, SectionKeys, read_row_groups
from morrow.spark.job import wire
from morrow.spark.job.execution import run_tasks
from morrow.spark.job.tasks import Work
from morrow.spark.job.wire import StoreAccess
from morrow.spark.sessions import count_cores

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


class _Encoded(msgspec.Struct, frozen=True, array_like=True):
    kind: SectionKind
    bucket: int
    files: tuple[DataFile, ...]
    partition: bytes
    key_low: bytes | None
    key_high: bytes | None
    cut: tuple[str, bytes | None, bytes | None] | None


@dataclass(frozen=True)
class ScanJob:
    """A plan without its sections, and the store of its files: the data shared by all tasks of a read."""

    plan: ScanPlan
    store: StoreAccess

    @classmethod
    def of(cls, plan: ScanPlan, store: FileStore) -> ScanJob:
        return cls(replace(plan, sections=(), steps=(), fallback=None), StoreAccess.of(store))

    def units(self, sections: Iterable[Section]) -> list[bytes]:
        """Encode sections of the plan as units of work."""
        return [encode_section(section, self.plan) for section in sections]

    def plans_of(self, units: Sequence[bytes]) -> list[ScanPlan]:
        """Return plans for the sections in these units: one for all whole sections, one for each piece of a section."""
        sections = [decode_section(unit, self.plan) for unit in units]
        whole = tuple(section for section in sections if section.cut is None)
        apart = [narrow_plan(self.plan, section) for section in sections if section.cut is not None]
        return [*([replace(self.plan, sections=whole)] if whole else []), *apart]


def run_sections(
    work: Work,
    plan: ScanPlan,
    sections: Sequence[Section],
    store: FileStore,
    columns: StructType | str,
    spark: SparkSession,
) -> DataFrame:
    """Return a DataFrame with the results, `columns`, of work on these sections. Each section is processed once.

    Large sections that need merging are cut, so that several tasks merge them.
    """
    job = ScanJob.of(plan, store)
    limit = compute_task_bytes(sections, count_cores(spark))
    groups = pack_sections([piece for each in sections for piece in cut(plan, each, store, limit)], limit)
    size = sum(section.size for section in sections)
    return run_tasks(spark, work, job, (job.units(group) for group in groups), columns, size)


def encode_section(section: Section, plan: ScanPlan) -> bytes:
    """Encode a section of `plan` as bytes."""
    key = _list_key_types(plan)
    return wire.encode_value(
        _Encoded(
            section.kind,
            section.bucket,
            tuple(section.files),
            section.partition_row,
            _encode_key(section.key_low, key),
            _encode_key(section.key_high, key),
            None if section.cut is None else _encode_cut(section.cut, plan),
        )
    )


def decode_section(data: bytes, plan: ScanPlan) -> Section:
    """Decode a section that `encode_section` has encoded for this plan."""
    found = wire.decode_value(data, _Encoded)
    key = _list_key_types(plan)
    return Section(
        found.kind,
        decode_row(found.partition, _partition_types(plan), where=plan.table),
        found.bucket,
        found.files,
        None if found.key_low is None else decode_row(found.key_low, key, where=plan.table),
        None if found.key_high is None else decode_row(found.key_high, key, where=plan.table),
        found.partition,
        None if found.cut is None else _decode_cut(found.cut, plan),
    )


def _encode_cut(keys: KeyCut, plan: ScanPlan) -> tuple[str, bytes | None, bytes | None]:
    kind = [plan.schema.by_name[keys.column].type]
    low, high = (None if value is None else encode_row((value,), kind) for value in (keys.low, keys.high))
    return keys.column, low, high


def _decode_cut(encoded: tuple[str, bytes | None, bytes | None], plan: ScanPlan) -> KeyCut:
    column, *rows = encoded
    kind = [plan.schema.by_name[column].type]
    low, high = (None if row is None else decode_row(row, kind, where=plan.table)[0] for row in rows)
    return KeyCut(column, low, high)


def _encode_key(values: tuple[Value | None, ...] | None, types: Sequence[DataType]) -> bytes | None:
    return None if values is None else encode_row(values, types)


def _partition_types(plan: ScanPlan) -> list[DataType]:
    return [plan.schema.by_name[name].type for name in plan.schema.partition_keys]


def _list_key_types(plan: ScanPlan) -> list[DataType]:
    return [plan.schema.by_name[name].type for name in plan.schema.trimmed_primary_keys]


MIN_CUT_ROWS = 1 << 17
"""The minimum stored rows of a piece: smaller pieces cost more to start than they save."""

MAX_PIECES_PER_KEY = 2
"""The maximum pieces per distinct key. A column qualifies if it has a key to cut at for every second piece."""

SAMPLES_PER_PIECE = 64
"""The number of keys to sample for each piece."""

CUT_TYPES: tuple[type[DataType], ...] = (*RANGED_TYPES, DecimalType, BinaryType, VarBinaryType)
"""Types of key columns to cut at: their literals compare exactly as the keys do."""

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


def cut(plan: ScanPlan, section: Section, store: FileStore, limit: int) -> Sequence[Section]:
    """Cut a section into pieces of about `limit` bytes that share no key, or return it whole if that is impossible.

    A section with a damaged or missing file is not cut: the task that reads it raises the error.
    """
    pieces = min(compute_weight(section) // limit, section.row_count // MIN_CUT_ROWS)
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
    return replace(plan, filter=combine_filters(plan.filter, Filter(kept, (), find_columns(kept), str(kept))))


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


T = TypeVar("T")

MAX_TASK_BYTES = 64 << 20
"""The maximum bytes of files for one task; a section that needs merging is never split."""

OPENING_BYTES = 1 << 20
"""The cost of opening a file, in bytes read."""

TASKS_PER_CORE = 4
"""Tasks per core among which units are distributed, so that no core waits long for the last task."""


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


def spread_units(units: Sequence[T], weight: Callable[[T], int], groups: int) -> list[list[T]]:
    """Distribute units over `groups` groups (fewer if there are fewer units) of similar weight, the heaviest first."""
    made: list[list[T]] = [[] for _ in range(min(groups, len(units)))]
    lightest = [(0, number) for number in range(len(made))]
    heapify(lightest)
    for unit in sorted(units, key=weight, reverse=True):
        size, number = lightest[0]
        made[number].append(unit)
        heapreplace(lightest, (size + weight(unit) + 1, number))
    return made


def pack_sections(sections: Sequence[Section], limit: int) -> Iterator[list[Section]]:
    """Yield groups of sections of about `limit` bytes; RAW sections may be split."""
    yield from pack_units(
        (piece for section in sections for piece in split_section(section, limit)), compute_weight, limit
    )


def split_section(section: Section, limit: int) -> Iterator[Section]:
    """Split a section whose files are read separately, and so by any number of tasks."""
    if section.kind is not SectionKind.RAW or compute_weight(section) <= limit:
        yield section
        return
    for files in pack_units(section.files, _compute_file_weight, limit):
        yield msgspec.structs.replace(section, files=tuple(files))


def compute_task_bytes(sections: Iterable[Section], tasks: int, least: int | None = None) -> int:
    """Return the bytes per task that occupy `tasks` tasks: `least` (`OPENING_BYTES`) to `MAX_TASK_BYTES`."""
    each = sum(map(compute_weight, sections)) // tasks
    return min(MAX_TASK_BYTES, max(each, OPENING_BYTES if least is None else least))


def compute_weight(section: Section) -> int:
    return section.size + len(section.files) * OPENING_BYTES


def _compute_file_weight(file: DataFile) -> int:
    return file.size + OPENING_BYTES
