"""The partitions of a read: made by the planner, read on the executors."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence

from morrow.engine.format.types import DataField
from morrow.engine.io.store import FileStore
from morrow.engine.plan.changes import Changes, Difference, FileChanges, FullRows
from morrow.engine.plan.scan_plan import ScanPlan, Section
from morrow.engine.values import replace
from morrow.spark.job.packing import OPENING_BYTES, packed, packed_sections, section_weight, task_bytes
from morrow.spark.job.packing import pieces as pieces_of
from morrow.spark.job.registry import Work
from morrow.spark.job.sections import ScanJob
from morrow.spark.job.tasks import Tasks
from morrow.spark.job.wire import StoreAccess
from morrow.spark.sessions import UNKNOWN_CORES
from morrow.spark.source.plain import Piece
from morrow.spark.source.work import ChangesJob, unit

LEAST_BYTES = 8 * OPENING_BYTES
"""The least bytes that are worth a task of their own."""


def pieces(plan: ScanPlan, store: FileStore) -> list[Piece]:
    """Divides a plan into partitions."""
    made = []
    for part in plan.parts:
        job = ScanJob.of(part, store)
        tasks = Tasks.of(Work.SCAN, job)
        made += [Piece(tasks, job.units(sections)) for sections in _grouped(part.sections)]
    return made


def change_pieces(
    parts: Sequence[Changes], fields: tuple[DataField, ...], store: FileStore, *, with_kinds: bool
) -> list[Piece]:
    """Divides changes, given in order, into partitions that read these columns.

    Changes of a key keep their order: one task reads those of a bucket, snapshot after snapshot.
    """
    tasks = Tasks.of(Work.CHANGES, ChangesJob(fields, StoreAccess.of(store), with_kinds))
    return [Piece(tasks, [unit(group)]) for group in divided(parts)]


def divided(parts: Sequence[Changes]) -> Iterator[Sequence[Changes]]:
    """Yields the changes for each task."""
    if any(isinstance(part, Difference) for part in parts):
        # A difference is computed as a whole, in order with the changes before and after it.
        yield parts
        return
    for plan in (plan for part in parts if isinstance(part, FullRows) for plan in part.plan.parts):
        yield from ([FullRows(_of_sections(plan, sections))] for sections in _grouped(plan.sections))
    yield from _by_bucket([part for part in parts if isinstance(part, FileChanges)])


def _grouped(sections: Sequence[Section]) -> Iterator[list[Section]]:
    return packed_sections(sections, _limit(sections))


def _by_bucket(parts: Sequence[FileChanges]) -> Iterator[list[FileChanges]]:
    """Yields the files of changes for each task; buckets of tables with a key stay whole."""
    limit = _limit([section for part in parts for section in part.plan.sections])
    units: dict[Hashable, list[FileChanges]] = {}
    for part in parts:
        keyed = bool(part.plan.schema.primary_keys)
        for section in part.plan.sections:
            for piece in [section] if keyed else pieces_of(section, limit):
                key = (section.partition_row, section.bucket) if keyed else id(piece)
                units.setdefault(key, []).append(FileChanges(_of_sections(part.plan, [piece])))
    for group in packed(units.values(), _weight, limit):
        yield [part for unit in group for part in unit]


def _of_sections(plan: ScanPlan, sections: Sequence[Section]) -> ScanPlan:
    return replace(plan, sections=tuple(sections), steps=(), fallback=None)


def _weight(parts: Sequence[FileChanges]) -> int:
    return sum(section_weight(section) for part in parts for section in part.plan.sections)


def _limit(sections: Sequence[Section]) -> int:
    # The planner's process does not know how many tasks run at once.
    return task_bytes(sections, UNKNOWN_CORES, LEAST_BYTES)
