"""Reads changes: rows led by their kind, in the order in which they were committed.

The first column is ``rowkind``, text: +I, -U, +U or -D, as in the table ``$audit_log`` of Paimon and in Flink.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

import numpy as np
import polars as pl
import pyarrow as pa

from morrow.engine.forks import check_process, in_one_process
from morrow.engine.format.row_kinds import DELETE, INSERT, NAMES, kind_name
from morrow.engine.format.schema import ROWKIND, VALUE_KIND, VALUE_KIND_FIELD
from morrow.engine.format.types import DataField, arrow_schema
from morrow.engine.io.store import FileStore
from morrow.engine.names import COUNT, NEW_ROW, OLD_ROW, cols
from morrow.engine.plan.changes import ROWKIND_FIELD, Changes, Difference, FileChanges
from morrow.engine.plan.scan_plan import DataFile, ScanPlan, Section
from morrow.engine.values import replace
from morrow.readers.casts.dtypes import to_arrow_table
from morrow.readers.execution import execute
from morrow.readers.execution.changelog import NO_ROW, Comparison, changelog, rows_at
from morrow.readers.execution.section_frames import empty_frame, filtered
from morrow.readers.expressions import polars as expressions
from morrow.readers.files.file_errors import reading_files
from morrow.readers.files.file_frames import file_frame
from morrow.readers.files.streaming import batches


def to_polars(parts: Sequence[Changes], fields: Sequence[DataField], store: FileStore) -> pl.DataFrame:
    """Reads all changes, columns ``rowkind`` and `fields`.

    Raises:
        CorruptFile, FileMissing, Unsupported: a file that cannot be read.
    """
    check_process()
    frames = [frame for part in parts for frame in _frames(part, fields, store, _whole)]
    return pl.concat([empty_frame((ROWKIND_FIELD, *fields)).collect(), *frames])


def to_arrow(parts: Sequence[Changes], fields: Sequence[DataField], store: FileStore) -> pa.Table:
    """Reads all changes as an Arrow table."""
    return to_arrow_table(to_polars(parts, fields, store), (ROWKIND_FIELD, *fields))


def to_batches(
    parts: Sequence[Changes], fields: Sequence[DataField], store: FileStore, batch_rows: int = execute.BATCH_ROWS
) -> Iterator[pa.RecordBatch]:
    """Yields changes as record batches, one part after another; a difference of snapshots is held in memory whole.

    A forked process cannot go on with it: see `check_process`.
    """
    return in_one_process(_to_batches(parts, fields, store, batch_rows))


def _to_batches(
    parts: Sequence[Changes], fields: Sequence[DataField], store: FileStore, batch_rows: int
) -> Iterator[pa.RecordBatch]:
    def in_batches(frame: pl.LazyFrame) -> Iterator[pl.DataFrame]:
        return batches(frame, batch_rows)

    for part in parts:
        for frame in _frames(part, fields, store, in_batches):
            table = to_arrow_table(frame, (ROWKIND_FIELD, *fields))
            yield from table.to_batches(max_chunksize=batch_rows)


def batch_reader(
    parts: Sequence[Changes], fields: Sequence[DataField], store: FileStore, batch_rows: int = execute.BATCH_ROWS
) -> pa.RecordBatchReader:
    """Returns `to_batches` as an Arrow stream."""
    schema = arrow_schema((ROWKIND_FIELD, *fields))
    return pa.RecordBatchReader.from_batches(schema, to_batches(parts, fields, store, batch_rows))


Collect = Callable[[pl.LazyFrame], Iterator[pl.DataFrame]]


def _whole(frame: pl.LazyFrame) -> Iterator[pl.DataFrame]:
    yield frame.collect()


def _frames(part: Changes, fields: Sequence[DataField], store: FileStore, collect: Collect) -> Iterator[pl.DataFrame]:
    names = [ROWKIND, *(field.name for field in fields)]
    if isinstance(part, Difference):
        differing = _differing(part, store)
        yield from collect(
            expressions.matching(part.filter, part.after.schema.fields, differing.lazy()).select(cols(names))
        )
        return
    plan = part.plan
    frame_of = _changed if isinstance(part, FileChanges) else _inserted
    read = [plan.schema.by_name[name] for name in plan.read_columns]
    for sections in execute.groups(plan.sections):
        with reading_files(plan, sections, read, store):
            for frame in collect(frame_of(plan, sections, store)):
                yield frame.select(cols(names))


# --- files of changes ---


def _changed(plan: ScanPlan, sections: Sequence[Section], store: FileStore) -> pl.LazyFrame:
    """Returns the rows of files, one file after another, that satisfy the plan's filter."""
    frame = pl.concat(
        [_scanned(plan, section, group, store) for section in sections for group in _alike(section.files)]
    )
    read = [plan.schema.by_name[name] for name in plan.read_columns]
    return expressions.having(plan.filter.residuals, read, frame)


def _alike(files: Sequence[DataFile]) -> Iterator[list[DataFile]]:
    """Groups neighbouring files that one scan can read."""
    for _, group in groupby(files, key=lambda file: (file.schema_id, file.format, file.write_columns)):
        yield list(group)


def _scanned(plan: ScanPlan, section: Section, files: Sequence[DataFile], store: FileStore) -> pl.LazyFrame:
    fields = tuple(plan.schema.by_name[name] for name in plan.read_columns)
    if not plan.schema.primary_keys:
        return _with_kind(filtered(plan, file_frame(plan, section, files, fields, store)), pl.lit(NAMES[INSERT]))
    frame = filtered(plan, file_frame(plan, section, files, (*fields, VALUE_KIND_FIELD), store))
    return _with_kind(frame, kind_name()).drop(VALUE_KIND)


def _with_kind(frame: pl.LazyFrame, kind: pl.Expr) -> pl.LazyFrame:
    return frame.select(kind.alias(ROWKIND), pl.all())


def _inserted(plan: ScanPlan, sections: Sequence[Section], store: FileStore) -> pl.LazyFrame:
    """Returns the rows of a plan as insertions."""
    part = replace(plan, sections=tuple(sections), fallback=None)
    return _with_kind(execute.lazy(part, store), pl.lit(NAMES[INSERT]))


# --- differences of snapshots ---


def _differing(part: Difference, store: FileStore) -> pl.DataFrame:
    """Returns the difference of two snapshots: ``rowkind`` and all columns."""
    before, after = (execute.to_polars(plan, store) for plan in (part.before, part.after))
    if not part.key:
        return _counted(before, after)
    kinds = pl.lit(INSERT, pl.Int8).alias(VALUE_KIND)
    rows = pl.concat([before, after]).with_columns(kinds)
    key = cols(part.key)
    keys = [frame.select(key).with_row_index(number) for frame, number in ((before, OLD_ROW), (after, NEW_ROW))]
    both = keys[0].join(keys[1], on=key, how="full", coalesce=True, nulls_equal=True).sort(key)
    old, new = (both[name].cast(pl.Int64).fill_null(NO_ROW).to_numpy().copy() for name in (OLD_ROW, NEW_ROW))
    new[new >= 0] += before.height
    comparison = Comparison(part.after.schema.fields, by_bits=True)
    changes = changelog(rows, old, new, np.ones(len(old), bool), comparison)
    return changes.select(kind_name(), pl.exclude(VALUE_KIND))


def _counted(before: pl.DataFrame, after: pl.DataFrame) -> pl.DataFrame:
    """Counts rows without a key: rows more frequent now are insertions, rows less frequent are deletions."""
    names = after.columns
    rows = pl.concat([before.with_columns(pl.lit(-1).alias(COUNT)), after.with_columns(pl.lit(1).alias(COUNT))])
    counted = rows.group_by(cols(names), maintain_order=True).agg(pl.col(COUNT).sum()).filter(pl.col(COUNT) != 0)
    repeated = rows_at(counted, np.repeat(np.arange(counted.height), np.abs(counted[COUNT].to_numpy())))
    kind = pl.when(pl.col(COUNT) > 0).then(pl.lit(NAMES[INSERT])).otherwise(pl.lit(NAMES[DELETE]))
    return repeated.select(kind.alias(ROWKIND), *cols(names))
