"""Sections of a plan as units of work, and the jobs that process them.

A section is a MessagePack array of its members; values of the partition and keys are BinaryRows, as in manifests.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import msgspec

from morrow.engine.format.binary_row import Value, decode_row
from morrow.engine.format.binary_row_encode import encode_row
from morrow.engine.format.types import DataType
from morrow.engine.io.store import FileStore
from morrow.engine.plan.scan_plan import DataFile, ScanPlan, Section, SectionKind
from morrow.spark.job import wire
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

    def plan_of(self, units: Sequence[bytes]) -> ScanPlan:
        """Returns the plan of the sections in these units."""
        return replace(self.plan, sections=tuple(decoded(unit, self.plan) for unit in units))


def run_sections(
    work: Work,
    plan: ScanPlan,
    sections: Sequence[Section],
    store: FileStore,
    columns: StructType | str,
    spark: SparkSession,
) -> DataFrame:
    """Returns a DataFrame of the work's results for these sections, `columns` of it; each section is processed once."""
    job = ScanJob.of(plan, store)
    groups = packed_sections(sections, task_bytes(sections, cores(spark)))
    size = sum(section.size for section in sections)
    return run_tasks(spark, work, job, [job.units(group) for group in groups], columns, size)


def encoded(section: Section, plan: ScanPlan) -> bytes:
    """Encodes a section of `plan` as bytes."""
    key = _key_types(plan)
    return wire.encoded(
        _Encoded(
            section.kind,
            section.bucket,
            section.files,
            section.partition_row,
            _row(section.key_low, key),
            _row(section.key_high, key),
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
    )


def _row(values: tuple[Value | None, ...] | None, types: Sequence[DataType]) -> bytes | None:
    return None if values is None else encode_row(values, types)


def _partition_types(plan: ScanPlan) -> list[DataType]:
    return [plan.schema.by_name[name].type for name in plan.schema.partition_keys]


def _key_types(plan: ScanPlan) -> list[DataType]:
    return [plan.schema.by_name[name].type for name in plan.schema.trimmed_primary_keys]
