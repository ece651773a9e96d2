"""Changelog rows, led by their kind, in the order in which they were committed.

The first column is ``rowkind``, text: +I, -U, +U or -D, as in the table ``$audit_log`` of Paimon and in Flink.
Changes of keys between two snapshots are +I, -U with +U, -D.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from morrow.engine.format.row_kinds import (
    DELETE,
    INSERT,
    NAMES,
    RETRACT_BIT,
    UPDATE_AFTER,
    UPDATE_BEFORE,
    build_rowkind,
)
from morrow.engine.format.schema import ROWKIND, VALUE_KIND, VALUE_KIND_FIELD
from morrow.engine.format.types import DataField, DoubleType, FloatType, MapType, MultisetType, to_arrow_schema
from morrow.engine.io.store import FileStore
from morrow.engine.names import COUNT, NEW_ROW, OLD_ROW, cols, get_series
from morrow.engine.plan.incremental import ROWKIND_FIELD, Changes, Difference, FileChanges
from morrow.engine.plan.scan_plan import DataFile, ScanPlan, Section
from morrow.engine.polars_threads import check_process, refuse_in_fork
from morrow.engine.structs import replace
from morrow.readers.casts.dtypes import to_arrow_table
from morrow.readers.execution import execute
from morrow.readers.execution.blob_columns import resolve_lazily
from morrow.readers.execution.section_frames import filter_frame, make_empty_frame
from morrow.readers.expressions import polars as expressions
from morrow.readers.files.file_frames import collect_batches, scan_files, translate_file_errors


def to_polars(parts: Sequence[Changes], fields: Sequence[DataField], store: FileStore) -> pl.DataFrame:
    """Read all changes, columns ``rowkind`` and `fields`.

    Raises `CorruptFile`, `FileMissing`, `Unsupported`: a file that cannot be read.
    """
    check_process()
    frames = [frame for part in parts for frame in _read_frames(part, fields, store, _collect_whole)]
    return pl.concat([make_empty_frame((ROWKIND_FIELD, *fields)).collect(), *frames])


def to_arrow(parts: Sequence[Changes], fields: Sequence[DataField], store: FileStore) -> pa.Table:
    """Read all changes as an Arrow table."""
    return to_arrow_table(to_polars(parts, fields, store), (ROWKIND_FIELD, *fields))


def to_batches(
    parts: Sequence[Changes],
    fields: Sequence[DataField],
    store: FileStore,
    batch_rows: int = execute.DEFAULT_BATCH_ROWS,
) -> Iterator[pa.RecordBatch]:
    """Yield changes as record batches, one part after another; a difference of snapshots is held in memory whole.

    A forked process cannot continue the iteration: see `check_process`.
    """
    return refuse_in_fork(_to_batches(parts, fields, store, batch_rows))


def _to_batches(
    parts: Sequence[Changes], fields: Sequence[DataField], store: FileStore, batch_rows: int
) -> Iterator[pa.RecordBatch]:
    def in_batches(frame: pl.LazyFrame) -> Iterator[pl.DataFrame]:
        return collect_batches(frame, batch_rows)

    for part in parts:
        for frame in _read_frames(part, fields, store, in_batches):
            table = to_arrow_table(frame, (ROWKIND_FIELD, *fields))
            yield from table.to_batches(max_chunksize=batch_rows)


def open_batch_reader(
    parts: Sequence[Changes],
    fields: Sequence[DataField],
    store: FileStore,
    batch_rows: int = execute.DEFAULT_BATCH_ROWS,
) -> pa.RecordBatchReader:
    """Return `to_batches` as an Arrow stream."""
    schema = to_arrow_schema((ROWKIND_FIELD, *fields))
    return pa.RecordBatchReader.from_batches(schema, to_batches(parts, fields, store, batch_rows))


Collect = Callable[[pl.LazyFrame], Iterator[pl.DataFrame]]


def _collect_whole(frame: pl.LazyFrame) -> Iterator[pl.DataFrame]:
    yield frame.collect()


def _read_frames(
    part: Changes, fields: Sequence[DataField], store: FileStore, collect: Collect
) -> Iterator[pl.DataFrame]:
    names = [ROWKIND, *(field.name for field in fields)]
    if isinstance(part, Difference):
        differing = _compare_snapshots(part, store)
        yield from collect(
            expressions.filter_rows(part.filter, part.after.schema.fields, differing.lazy()).select(cols(names))
        )
        return
    plan = part.plan
    frame_of = _scan_changed if isinstance(part, FileChanges) else _scan_inserted
    read = [plan.schema.by_name[name] for name in plan.read_columns]
    for sections in execute.group_sections(plan.sections):
        with translate_file_errors(plan, sections, read, store):
            for frame in collect(frame_of(plan, sections, store)):
                yield frame.select(cols(names))


# --- files of changes ---


def _scan_changed(plan: ScanPlan, sections: Sequence[Section], store: FileStore) -> pl.LazyFrame:
    """Return the rows of files, one file after another, that satisfy the plan's filter."""
    frame = pl.concat(
        [_scan_files(plan, section, group, store) for section in sections for group in _group_alike(section.files)]
    )
    read = [plan.schema.by_name[name] for name in plan.read_columns]
    frame = resolve_lazily(plan, frame, plan.read_columns, store)
    return expressions.filter_by_residuals(plan.filter.residuals, read, frame)


def _group_alike(files: Sequence[DataFile]) -> Iterator[list[DataFile]]:
    """Group neighbouring files that one scan can read."""
    for _, group in groupby(files, key=lambda file: (file.schema_id, file.format, file.write_columns)):
        yield list(group)


def _scan_files(plan: ScanPlan, section: Section, files: Sequence[DataFile], store: FileStore) -> pl.LazyFrame:
    fields = tuple(plan.schema.by_name[name] for name in plan.read_columns)
    if not plan.schema.primary_keys:
        return _add_kind(filter_frame(plan, scan_files(plan, section, files, fields, store)), pl.lit(NAMES[INSERT]))
    frame = filter_frame(plan, scan_files(plan, section, files, (*fields, VALUE_KIND_FIELD), store))
    return _add_kind(frame, build_rowkind()).drop(VALUE_KIND)


def _add_kind(frame: pl.LazyFrame, kind: pl.Expr) -> pl.LazyFrame:
    return frame.select(kind.alias(ROWKIND), pl.all())


def _scan_inserted(plan: ScanPlan, sections: Sequence[Section], store: FileStore) -> pl.LazyFrame:
    """Return the rows of a plan as insertions."""
    part = replace(plan, sections=tuple(sections), fallback=None)
    return _add_kind(execute.to_lazy(part, store), pl.lit(NAMES[INSERT]))


# --- differences of snapshots ---


def _compare_snapshots(part: Difference, store: FileStore) -> pl.DataFrame:
    """Return the difference of two snapshots: ``rowkind`` and all columns."""
    before, after = (execute.to_polars(plan, store) for plan in (part.before, part.after))
    if not part.key:
        return _count_differences(before, after)
    kinds = pl.lit(INSERT, pl.Int8).alias(VALUE_KIND)
    rows = pl.concat([before, after]).with_columns(kinds)
    key = cols(part.key)
    keys = [frame.select(key).with_row_index(number) for frame, number in ((before, OLD_ROW), (after, NEW_ROW))]
    both = keys[0].join(keys[1], on=key, how="full", coalesce=True, nulls_equal=True).sort(key)
    old, new = (both[name].cast(pl.Int64).fill_null(NO_ROW).to_numpy().copy() for name in (OLD_ROW, NEW_ROW))
    new[new >= 0] += before.height
    comparison = Comparison(part.after.schema.fields, by_bits=True)
    changes = build_changelog(rows, old, new, np.ones(len(old), bool), comparison)
    return changes.select(build_rowkind(), pl.exclude(VALUE_KIND))


def _count_differences(before: pl.DataFrame, after: pl.DataFrame) -> pl.DataFrame:
    """Compare rows without a key by their counts: more frequent rows are insertions, less frequent rows deletions."""
    names = after.columns
    rows = pl.concat([before.with_columns(pl.lit(-1).alias(COUNT)), after.with_columns(pl.lit(1).alias(COUNT))])
    counted = rows.group_by(cols(names), maintain_order=True).agg(pl.col(COUNT).sum()).filter(pl.col(COUNT) != 0)
    repeated = take_rows(counted, np.repeat(np.arange(counted.height), np.abs(counted[COUNT].to_numpy())))
    kind = pl.when(pl.col(COUNT) > 0).then(pl.lit(NAMES[INSERT])).otherwise(pl.lit(NAMES[DELETE]))
    return repeated.select(kind.alias(ROWKIND), *cols(names))


Rows = npt.NDArray[np.int64]
NO_ROW = -1


@dataclass(frozen=True)
class Comparison:
    """A comparison of rows by some columns; the order of a map's entries does not matter.

    By default FLOAT and DOUBLE are compared by value, as in Paimon's compaction changelogs: NaN differs from NaN, and
    0.0 equals -0.0. With `by_bits`, as for differences of snapshots, NaN equals NaN and 0.0 differs from -0.0.
    """

    fields: tuple[DataField, ...]
    by_bits: bool = False

    def differs(self, before: pl.DataFrame, after: pl.DataFrame) -> npt.NDArray[np.bool_]:
        """Return for each row whether any column differs."""
        changed = np.zeros(before.height, bool)
        for field in self.fields:
            old, new = (_sort_entries(field, get_series(frame, field.name)) for frame in (before, after))
            changed |= old.ne_missing(new).to_numpy()
            if isinstance(field.type, (FloatType, DoubleType)):
                more = (old == 0) & (1 / old != 1 / new) if self.by_bits else old.is_nan()
                changed |= more.fill_null(False).to_numpy()
        return changed


def _sort_entries(field: DataField, column: pl.Series) -> pl.Series:
    return column.list.sort() if isinstance(field.type, (MapType, MultisetType)) else column


def build_changelog(
    rows: pl.DataFrame, before: Rows, after: Rows, considered: npt.NDArray[np.bool_], comparison: Comparison | None
) -> pl.DataFrame:
    """Return the changes of keys, in the order of the keys.

    Args:
        rows: rows with their ``_VALUE_KIND``.
        before, after: for each key, its row before and after the change; `NO_ROW` if none, or if it is a retraction.
        considered: the keys whose changes are returned.
        comparison: leaves out updates without a difference.

    Returns: rows of the same columns; ``_VALUE_KIND`` is the kind of the change.
    """
    retracts = (rows[VALUE_KIND].to_numpy() & RETRACT_BIT) != 0
    was, now = (considered & (ends >= 0) & ~retracts[ends] for ends in (before, after))
    updated = was & now
    differing = updated.copy()
    if comparison is not None:
        keys = np.flatnonzero(updated)
        differing[keys] = comparison.differs(take_rows(rows, before[keys]), take_rows(rows, after[keys]))
    return _order_by_key(
        rows,
        (
            (was & ~updated, before, DELETE),
            (differing, before, UPDATE_BEFORE),
            (differing, after, UPDATE_AFTER),
            (now & ~updated, after, INSERT),
        ),
    )


def _order_by_key(rows: pl.DataFrame, groups: Sequence[tuple[npt.NDArray[np.bool_], Rows, int]]) -> pl.DataFrame:
    """Return the rows of each group of keys with its row kind; groups of one key keep their order."""
    keys = [np.flatnonzero(chosen) for chosen, _, _ in groups]
    order = np.argsort(np.concatenate(keys), kind="stable")
    numbers = np.concatenate([ends[own] for own, (_, ends, _) in zip(keys, groups)])[order]
    kinds = np.repeat(np.array([kind for _, _, kind in groups], np.int8), [len(own) for own in keys])[order]
    return take_rows(rows, numbers).with_columns(pl.Series(VALUE_KIND, kinds))


def take_rows(rows: pl.DataFrame, numbers: Rows) -> pl.DataFrame:
    """Return the rows with these numbers, in that order."""
    return rows.select(pl.all().gather(pl.Series(numbers, dtype=pl.Int64)))
