"""Sections of a plan as units of work: their encoding, and their distribution over tasks.

A section is a MessagePack array of its members; values of the partition and keys are BinaryRows, as in manifests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heapify, heapreplace
from typing import TYPE_CHECKING, TypeVar

import msgspec

from morrow.engine.format.binary_row import Value, decode_row
from morrow.engine.format.binary_row_encoder import encode_row
from morrow.engine.format.types import DataType
from morrow.engine.io.store import FileStore
from morrow.engine.plan.scan_plan import DataFile, KeyCut, ScanPlan, Section, SectionKind
from morrow.engine.structs import replace
from morrow.readers.execution.section_pieces import (
    OPENING_BYTES,
    compute_weight,
    cut_section,
    pack_units,
    plan_pieces,
    split_section,
)
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
    beneath: tuple[bytes, ...]


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
        return plan_pieces(self.plan, [decode_section(unit, self.plan) for unit in units])


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
    groups = pack_sections(
        [piece for each in sections for piece in cut_section(plan, each, store, compute_weight(each) // limit)], limit
    )
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
            tuple(encode_section(each, plan) for each in section.beneath),
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
        tuple(decode_section(each, plan) for each in found.beneath),
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


T = TypeVar("T")

MAX_TASK_BYTES = 64 << 20
"""The maximum bytes of files for one task; a section that needs merging is never split."""

TASKS_PER_CORE = 4
"""Tasks per core among which units are distributed, so that no core waits long for the last task."""


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


def compute_task_bytes(sections: Iterable[Section], tasks: int, least: int | None = None) -> int:
    """Return the bytes per task that occupy `tasks` tasks: `least` (`OPENING_BYTES`) to `MAX_TASK_BYTES`."""
    each = sum(map(compute_weight, sections)) // tasks
    return min(MAX_TASK_BYTES, max(each, OPENING_BYTES if least is None else least))
