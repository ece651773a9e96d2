"""The partitions of a read: made by the planner, read on the executors."""

from __future__ import annotations

import pickle
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from morrow.engine.format.schema import ROWKIND
from morrow.engine.format.types import DataField
from morrow.engine.io.resolve import resolve, verify_of
from morrow.engine.io.secrets import lend
from morrow.engine.io.store import FileStore
from morrow.engine.plan.changes import ROWKIND_FIELD, Changes, Difference, FileChanges, FullRows
from morrow.engine.plan.scan_plan import ScanPlan, Section, SectionKind
from morrow.spark.source.plain import Piece
from morrow.spark.types.to_spark import as_spark, travel_schema, without_not_null

MOST_BYTES = 64 << 20
"""The bytes of files that a task gets together; a section that merges is never divided."""
OPENING_BYTES = 1 << 20
"""The bytes counted for each file on top of its own."""
LEAST_BYTES = 8 * OPENING_BYTES
"""The least bytes that are worth a task of their own."""
TASKS = 8
"""The number of tasks where there is enough to do: the planner's process does not know how many run at once."""

RETRACTIONS = pa.array(["-U", "-D"])

Part: TypeAlias = ScanPlan | Changes


@dataclass(frozen=True)
class Work:
    """The work of one task: `fields` of these parts, in order. `with_kinds`: rows of changes are led by their kinds;
    otherwise retractions are left out.
    """

    parts: tuple[Part, ...]
    fields: tuple[DataField, ...]
    location: str
    storage_options: Mapping[str, str] = field(repr=False)
    with_kinds: bool = False
    verify: str | None = None


def pieces(plan: ScanPlan, store: FileStore) -> list[Piece]:
    """Divides a plan into partitions."""
    return [_piece((part,), plan.fields, store, with_kinds=False) for part in _plans(plan)]


def change_pieces(
    parts: Sequence[Changes], fields: tuple[DataField, ...], store: FileStore, *, with_kinds: bool
) -> list[Piece]:
    """Divides changes, given in order, into partitions that read these columns.

    Changes of a key keep their order: one task reads those of a bucket, snapshot after snapshot.
    """
    if any(isinstance(part, Difference) for part in parts):
        # A difference is computed as a whole, in order with the changes before and after it.
        return [_piece(parts, fields, store, with_kinds=with_kinds)]
    full: list[tuple[Changes, ...]] = [
        (FullRows(plan),) for part in parts if isinstance(part, FullRows) for plan in _plans(part.plan)
    ]
    files = _by_bucket([part for part in parts if isinstance(part, FileChanges)])
    return [_piece(group, fields, store, with_kinds=with_kinds) for group in (*full, *files)]


def _piece(parts: Sequence[Part], fields: tuple[DataField, ...], store: FileStore, *, with_kinds: bool) -> Piece:
    options = lend(store.storage_options)
    return Piece(pickle.dumps(Work(tuple(parts), fields, store.url(""), options, with_kinds, verify_of(store))))


def batches(piece: Piece) -> Iterator[pa.RecordBatch]:
    """Yields the rows of a piece, in the Arrow types that Spark takes.

    Raises:
        CorruptFile, FileMissing, StorageError: a file cannot be read.
    """
    work: Work = pickle.loads(piece.work)
    store = resolve(work.location or "/", work.storage_options, work.verify)[0]
    schema = travel_schema(without_not_null((ROWKIND_FIELD, *work.fields) if work.with_kinds else work.fields))
    for batch in _stored(work, store):
        yield as_spark(batch, schema)


def _stored(work: Work, store: FileStore) -> Iterator[pa.RecordBatch]:
    # Imported where rows are read: planners do not need it.
    from morrow.readers import changes, execute

    for part in work.parts:
        if isinstance(part, ScanPlan):
            yield from execute.to_batches(part, store)
            continue
        for batch in changes.to_batches([part], work.fields, store):
            yield batch if work.with_kinds else _without_retractions(batch)


def _without_retractions(batch: pa.RecordBatch) -> pa.RecordBatch:
    kept = batch.filter(pc.invert(pc.is_in(batch[ROWKIND], value_set=RETRACTIONS)))
    return kept.drop_columns([ROWKIND])


# --- Dividing work among tasks ---


def _plans(plan: ScanPlan) -> Iterator[ScanPlan]:
    """Yields the plan as one plan for each task."""
    for part in plan.parts:
        limit = _task_bytes(part.sections)
        units = [[piece] for section in part.sections for piece in _divided(section, limit)]
        for sections in _packed(units, limit):
            yield replace(part, sections=tuple(sections), steps=(), fallback=None)


def _by_bucket(parts: Sequence[FileChanges]) -> Iterator[tuple[FileChanges, ...]]:
    """Yields the files of changes for each task; buckets of tables with a key stay whole."""
    limit = _task_bytes([section for part in parts for section in part.plan.sections])
    units: dict[Hashable, list[Section]] = {}
    plans: dict[int, ScanPlan] = {}
    for part in parts:
        keyed = bool(part.plan.schema.primary_keys)
        for section in part.plan.sections:
            for piece in [section] if keyed else _divided(section, limit):
                plans[id(piece)] = part.plan
                units.setdefault((section.partition_row, section.bucket) if keyed else id(piece), []).append(piece)
    for sections in _packed(units.values(), limit):
        yield tuple(FileChanges(replace(plans[id(s)], sections=(s,), steps=(), fallback=None)) for s in sections)


def _packed(units: Iterable[Sequence[Section]], limit: int) -> Iterator[list[Section]]:
    """Yields groups of about `limit` bytes of indivisible units."""
    held: list[Section] = []
    size = 0
    for unit in units:
        weight = sum(map(_weight, unit))
        if held and size + weight > limit:
            yield held
            held, size = [], 0
        held += unit
        size += weight
    if held:
        yield held


def _divided(section: Section, limit: int) -> Iterator[Section]:
    """Divides a section whose files are read one by one, and so by any number of tasks."""
    if section.kind is not SectionKind.RAW or _weight(section) <= limit:
        yield section
        return
    yield from (msgspec.structs.replace(section, files=(file,)) for file in section.files)


def _task_bytes(sections: Sequence[Section]) -> int:
    return min(MOST_BYTES, max(sum(map(_weight, sections)) // TASKS, LEAST_BYTES))


def _weight(section: Section) -> int:
    return section.size + len(section.files) * OPENING_BYTES
