"""The work of tasks that turn updated rows into versions that the merge engine folds into exactly these rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.names import FAILED, KIND
from morrow.spark.job.registry import Run, Work
from morrow.spark.job.table import TableAccess
from morrow.writers.operations.new_versions import check_assignable, check_deletions, new_versions
from morrow.writers.target import WriteTarget

UPDATE, DELETE = "+U", "-D"


@dataclass(frozen=True)
class VersionJob:
    """What all tasks share: the table, its columns in the order of the rows, and the name of the statement."""

    table: TableAccess
    columns: tuple[str, ...]
    command: str


def new_name(number: int) -> str:
    """Returns the name in Spark of a column's new value."""
    return f"c{number}"


def old_name(number: int) -> str:
    """Returns the name in Spark of a column's value before the statement."""
    return f"o{number}"


def versions(job: VersionJob, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yields the kind of each row and its new values; `FAILED` says why, where no version can express the update."""
    target = job.table.target()
    for batch in batches:
        rows = pa.Table.from_batches([batch])
        kinds = rows.column(KIND)
        others = rows.filter(pc.not_equal(kinds, UPDATE))
        updated = rows.filter(pc.equal(kinds, UPDATE))
        columns = {new_name(at): name for at, name in enumerate(job.columns)}
        try:
            check_deletions(target, _named(others.filter(pc.equal(others.column(KIND), DELETE)), columns))
            made = _versions(job, target, updated, columns)
            failed = None
        except (InvalidArgument, Unsupported) as error:
            made, failed = updated, f"{type(error).__name__}: {error}"
        kept = [KIND, *columns]
        for part in (others.select(kept), made.select(kept)):
            yield from part.append_column(FAILED, pa.repeat(pa.scalar(failed, pa.string()), len(part))).to_batches()


def _versions(job: VersionJob, target: WriteTarget, rows: pa.Table, columns: Mapping[str, str]) -> pa.Table:
    before = _named(rows, {old_name(at): name for at, name in enumerate(job.columns)})
    after = _named(rows, columns)
    changed = {name for name in job.columns if _differ(before.column(name), after.column(name))}
    check_assignable(target, changed, job.command)
    made = new_versions(target, before, after, changed)
    for at, name in enumerate(job.columns):
        place = rows.column_names.index(new_name(at))
        rows = rows.set_column(place, rows.schema.field(place), made.column(name).cast(rows.schema.field(place).type))
    return rows


def _named(rows: pa.Table, names: Mapping[str, str]) -> pa.Table:
    return rows.select(list(names)).rename_columns(list(names.values()))


def _differ(before: pa.ChunkedArray, after: pa.ChunkedArray) -> bool:
    """Whether any two values at the same place are not the same; two nulls are."""
    one, other = (pl.Series("", pl.from_arrow(each)) for each in (before, after))
    return bool(one.ne_missing(other).any())


WORKS: Mapping[Work, Run] = {Work.VERSIONS: versions}
