"""The payload sent to the executors: sections of a plan as bytes, and the other inputs of a task.

A section is a MessagePack array of its members; values of the partition and keys are BinaryRows, as in manifests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import msgspec

from morrow.engine.format.binary_row import Value, decode_row
from morrow.engine.format.binary_row_encode import encode_row
from morrow.engine.format.types import DataType
from morrow.engine.io.resolve import resolve, verify_of
from morrow.engine.io.secrets import lend
from morrow.engine.io.store import FileStore
from morrow.engine.plan.scan_plan import DataFile, ScanPlan, Section, SectionKind


class _Encoded(msgspec.Struct, frozen=True, array_like=True):
    kind: SectionKind
    bucket: int
    files: tuple[DataFile, ...]
    partition: bytes
    key_low: bytes | None
    key_high: bytes | None


_DECODER = msgspec.msgpack.Decoder(_Encoded)


@dataclass(frozen=True)
class Job:
    """A plan without its sections, and the store of its files: the input that all tasks of a read share.

    The secrets of a store are excluded; see `morrow.secrets` for how tasks find them.
    """

    plan: ScanPlan
    location: str
    storage_options: Mapping[str, str] = field(repr=False)
    verify: str | None = None

    @classmethod
    def of(cls, plan: ScanPlan, store: FileStore) -> Job:
        bare = replace(plan, sections=(), steps=(), fallback=None)
        return cls(bare, store.url(""), lend(store.storage_options), verify_of(store))

    def store(self) -> FileStore:
        return resolve(self.location or "/", self.storage_options, self.verify)[0]

    def plan_of(self, sections: Sequence[bytes]) -> ScanPlan:
        """Returns the plan of these encoded sections."""
        return replace(self.plan, sections=tuple(decoded(section, self.plan) for section in sections))


def encoded(section: Section, plan: ScanPlan) -> bytes:
    """Encodes a section of `plan` as bytes."""
    key = _key_types(plan)
    return msgspec.msgpack.encode(
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
    found = _DECODER.decode(data)
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
