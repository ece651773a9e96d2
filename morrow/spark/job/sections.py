"""Sections of a plan as units of work, and the jobs that process them.

A section is a MessagePack array of its members; values of the partition and keys are BinaryRows, as in manifests.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from morrow.engine.format.binary_row import Value, decode_row
from morrow.engine.format.binary_row_encode import encode_row
from morrow.engine.format.types import DataType
from morrow.engine.io.store import FileStore
from morrow.engine.plan.scan_plan import DataFile, KeyCut, ScanPlan, Section, SectionKind
from morrow.engine.values import replace
from morrow.spark.job import wire
from morrow.spark.job.cutting import cut, narrowed
from morrow.spark.job.packing import packed_sections, task_bytes
from morrow.spark.job.registry import Work
from morrow.spark.job.run import run_tasks
from morrow.spark.job.wire import StoreAccess
from morrow.spark.sessions import cores

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
    """A plan without its sections, and the store of its files: what all tasks of a read share."""

    plan: ScanPlan
    store: StoreAccess

    @classmethod
    def of(cls, plan: ScanPlan, store: FileStore) -> ScanJob:
        return cls(replace(plan, sections=(), steps=(), fallback=None), StoreAccess.of(store))

    def units(self, sections: Iterable[Section]) -> list[bytes]:
        """Returns sections of the plan as units of work."""
        return [encoded(section, self.plan) for section in sections]

    def plans_of(self, units: Sequence[bytes]) -> list[ScanPlan]:
        """Returns the plans of the sections in these units: one for those that are whole, one for each that is cut."""
        sections = [decoded(unit, self.plan) for unit in units]
        whole = tuple(section for section in sections if section.cut is None)
        apart = [narrowed(self.plan, section) for section in sections if section.cut is not None]
        return [*([replace(self.plan, sections=whole)] if whole else []), *apart]


def run_sections(
    work: Work,
    plan: ScanPlan,
    sections: Sequence[Section],
    store: FileStore,
    columns: StructType | str,
    spark: SparkSession,
) -> DataFrame:
    """Returns a DataFrame of the work's results for these sections, `columns` of it; each section is processed once.

    Large ones that merge are cut, so that several tasks do so.
    """
    job = ScanJob.of(plan, store)
    limit = task_bytes(sections, cores(spark))
    groups = packed_sections([piece for each in sections for piece in cut(plan, each, store, limit)], limit)
    size = sum(section.size for section in sections)
    return run_tasks(spark, work, job, (job.units(group) for group in groups), columns, size)


def encoded(section: Section, plan: ScanPlan) -> bytes:
    """Encodes a section of `plan` as bytes."""
    key = _key_types(plan)
    return wire.encoded(
        _Encoded(
            section.kind,
            section.bucket,
            tuple(section.files),
            section.partition_row,
            _row(section.key_low, key),
            _row(section.key_high, key),
            None if section.cut is None else _cut_as_rows(section.cut, plan),
        )
    )


def decoded(data: bytes, plan: ScanPlan) -> Section:
    """Decodes a section that was `encoded` for this plan."""
    found = wire.decoded(data, _Encoded)
    key = _key_types(plan)
    return Section(
        found.kind,
        decode_row(found.partition, _partition_types(plan), where=plan.table),
        found.bucket,
        found.files,
        None if found.key_low is None else decode_row(found.key_low, key, where=plan.table),
        None if found.key_high is None else decode_row(found.key_high, key, where=plan.table),
        found.partition,
        None if found.cut is None else _cut_of_rows(found.cut, plan),
    )


def _cut_as_rows(keys: KeyCut, plan: ScanPlan) -> tuple[str, bytes | None, bytes | None]:
    kind = [plan.schema.by_name[keys.column].type]
    low, high = (None if value is None else encode_row((value,), kind) for value in (keys.low, keys.high))
    return keys.column, low, high


def _cut_of_rows(encoded: tuple[str, bytes | None, bytes | None], plan: ScanPlan) -> KeyCut:
    column, *rows = encoded
    kind = [plan.schema.by_name[column].type]
    low, high = (None if row is None else decode_row(row, kind, where=plan.table)[0] for row in rows)
    return KeyCut(column, low, high)


def _row(values: tuple[Value | None, ...] | None, types: Sequence[DataType]) -> bytes | None:
    return None if values is None else encode_row(values, types)


def _partition_types(plan: ScanPlan) -> list[DataType]:
    return [plan.schema.by_name[name].type for name in plan.schema.partition_keys]


def _key_types(plan: ScanPlan) -> list[DataType]:
    return [plan.schema.by_name[name].type for name in plan.schema.trimmed_primary_keys]
