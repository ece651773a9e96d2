"""Sort compaction: rewrites the rows of whole partitions in a clustering order.

A partition that fits into memory is sorted there. A larger one is split, by a sample of its rows, into ranges of the
sort key that each fit (about equal numbers of rows or of bytes, ``sort-compaction.range-strategy``); one pass puts
every row into the temporary file of its range, then the ranges are sorted and written one after another.

The messages delete the files that were read and add the sorted ones, which makes an OVERWRITE snapshot as Paimon's own
sort compaction does. Unlike Paimon's, rows added or changed concurrently are not overwritten: added files stay, and a
changed file is a conflict.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from morrow.engine.errors import ColumnNotFound, InvalidArgument, Unsupported
from morrow.engine.format.data_file_meta import DataFileMeta, FileSource
from morrow.engine.format.deletion_index import INDEX_TYPE
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.format.types import DataField
from morrow.engine.io.system_errors import system_errors
from morrow.engine.names import CURVE, col, cols, unnamed
from morrow.engine.options.declared.compaction import SORT_COMPACTION_RANGE_STRATEGY, ZORDER_VAR_LENGTH_CONTRIBUTION
from morrow.writers.append.curves import CURVES, check_sortable
from morrow.writers.append.stored import AppendFiles, check_rewritable
from morrow.writers.append.writer import UNAWARE
from morrow.writers.buckets.restored import BucketState, restored_partitions
from morrow.writers.commit import TableCommit
from morrow.writers.commit.messages import CommitMessage
from morrow.writers.files import Placement, write_files
from morrow.writers.files.deletion_vectors import DeletionMaintainer
from morrow.writers.target import WriteTarget

ORDER = "order"
STRATEGIES = (ORDER, *CURVES)
LEAST_CURVE_COLUMNS = {"zorder": 1, "hilbert": 2}
SIZE, QUANTITY = "size", "quantity"
SAMPLES = 16
"""Positions sampled in a partition before it is sorted in ranges: each costs the decoding of a row group."""
SAMPLES_AT_ONCE = 2
"""Row groups held in memory while sampling."""
SAMPLE_ROWS = 4096
"""Rows taken from each sampled row group."""
SHARE = 4
"""A range is one part in this many of the write buffer: sorting and encoding take as much memory again, and more."""

Numbers = npt.NDArray[np.int64]


def sort_compact(
    target: WriteTarget,
    snapshot: Snapshot | None,
    order_by: Sequence[str],
    strategy: str = ORDER,
    *,
    partitions: Sequence[bytes] | None = None,
) -> list[CommitMessage]:
    """Sorts the rows of whole partitions.

    Args:
        order_by: columns, none of them a partition key.
        strategy: ``order`` (by the first column, then the second, ...), ``zorder``, or ``hilbert`` (two columns at
            least).
        partitions: sort only these (BinaryRows); None: all.

    Returns: one message for each partition. All new files are durable.

    Raises:
        InvalidArgument: an unknown strategy, or one that does not suit the columns. ColumnNotFound.
        Unsupported: tables with keys, with fixed buckets, or whose rows have ids; columns without order.
        CorruptFile, FileMissing: a file that cannot be read. StorageError: after any error nothing new stays.
    """
    sorter = Sorter.of(target, order_by, strategy)
    messages: list[CommitMessage] = []
    try:
        for place, state in restored_partitions(target, snapshot, partitions).items():
            if state.files:
                messages.append(sort_partition(target, place, state, sorter))
    except BaseException:
        TableCommit(target).abort(messages)
        raise
    return messages


@dataclass(frozen=True)
class Sorter:
    """The order of rows: `key` makes the columns that are compared, nulls first."""

    fields: tuple[DataField, ...]
    strategy: str
    text_bytes: int
    by_size: bool

    @classmethod
    def of(cls, target: WriteTarget, order_by: Sequence[str], strategy: str) -> Sorter:
        where, schema = target.where, target.schema
        strategy = strategy.strip().lower()
        if strategy not in STRATEGIES:
            raise InvalidArgument(f"{where}: the sort strategy {strategy!r}; known: {', '.join(STRATEGIES)}")
        if target.keyed or target.options.bucket != UNAWARE:
            raise Unsupported("sort compaction of a table with keys or fixed buckets", where=where)
        check_rewritable(target)
        columns = tuple(dict.fromkeys(order_by))
        least = LEAST_CURVE_COLUMNS.get(strategy, 1)
        if len(columns) < least:
            raise InvalidArgument(
                f"{where}: sorting by {strategy} takes at least {least} column(s), not {len(columns)}"
            )
        for name in columns:
            if name not in schema.by_name:
                raise ColumnNotFound(f"{where}: there is no column {name!r} to sort by")
            if name in schema.partition_keys:
                raise InvalidArgument(f"{where}: sorting by the partition key {name!r} has no effect; leave it out")
        fields = tuple(schema.by_name[name] for name in columns)
        check_sortable(fields, where)
        text_bytes = target.write.given.get(ZORDER_VAR_LENGTH_CONTRIBUTION)
        by_size = target.write.given.get(SORT_COMPACTION_RANGE_STRATEGY) == SIZE
        return cls(fields, strategy, max(text_bytes, 1), by_size)

    def key(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Returns the columns that rows are compared by."""
        columns = [rows[field.name] for field in self.fields]
        if self.strategy == ORDER:
            return pl.DataFrame(columns)
        columns = list(map(unnamed, columns))
        places = CURVES[self.strategy](columns, [field.type for field in self.fields], self.text_bytes)
        return places.rename(CURVE).to_frame()

    def sorted(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Returns the rows sorted, stably."""
        order = pl.Series(_order(self.key(rows)))
        return rows.select(pl.all().gather(order))


def _order(key: pl.DataFrame) -> Numbers:
    """Returns the row numbers in the order of the keys; the sort is stable."""
    order = key.select(pl.arg_sort_by(cols(key.columns), maintain_order=True)).to_series()
    return order.cast(pl.Int64).to_numpy()


def sort_partition(target: WriteTarget, place: Placement, state: BucketState, sorter: Sorter) -> CommitMessage:
    """Sorts the rows of one partition. Raises as `sort_compact`."""
    stored = stored_rows(target, place, state)
    return sorted_message(target, place, state, write_sorted(target, place, _in_order(stored, sorter)))


def stored_rows(target: WriteTarget, place: Placement, state: BucketState) -> AppendFiles:
    """Returns a reader of the rows of a partition."""
    vectors = None
    if target.write.deletion_vectors:
        vectors = DeletionMaintainer(target, place.partition, place.bucket, state.index_files, rolling=True)
    return AppendFiles(target, place, state.files, vectors)


def write_sorted(target: WriteTarget, place: Placement, frames: Iterable[pl.DataFrame]) -> list[DataFileMeta]:
    """Writes files of these rows, which arrive sorted."""
    return write_files(target, place, frames, level=0, source=FileSource.APPEND, first_sequence=0)


def sorted_message(
    target: WriteTarget, place: Placement, state: BucketState, written: Iterable[DataFileMeta]
) -> CommitMessage:
    """Returns the message that replaces all files of the partition by these."""
    dead = tuple(file for file in state.index_files if file.index_type == INDEX_TYPE)
    return CommitMessage(
        partition=place.partition,
        bucket=place.bucket,
        total_buckets=target.options.bucket,
        new_files=tuple(written),
        deleted_files=state.files,
        deleted_index_files=dead,
    )


def _in_order(stored: AppendFiles, sorter: Sorter) -> Iterator[pl.DataFrame]:
    """Yields all live rows, sorted, in frames that are sorted one after another."""
    bounds = range_bounds(stored, sorter)
    if bounds is None:
        frames = list(stored.frames())
        if frames:
            yield sorter.sorted(pl.concat(frames))
        return
    yield from _by_range(stored, sorter, bounds)


def range_bounds(stored: AppendFiles, sorter: Sorter) -> pl.DataFrame | None:
    """Returns the keys between adjacent ranges, each of which fits into memory; None: all rows fit."""
    rows = sum(file.row_count for file in stored.files)
    sample = _sample(stored)
    bytes_per_row = max(sample.estimated_size() / max(sample.height, 1), 1)
    budget = stored.target.write.write_buffer // SHARE
    ranges = max(1, -(-int(rows * bytes_per_row) // max(budget, 1)))
    return None if ranges == 1 else _bounds(sample, sorter, min(ranges, sample.height))


def _sample(stored: AppendFiles) -> pl.DataFrame:
    """Returns rows from positions spread over the files."""
    total = sum(file.row_count for file in stored.files)
    step = max(-(-total // SAMPLES), SAMPLE_ROWS)
    frames = []
    begin = 0
    for file in stored.files:
        first = -begin % step
        frames += [stored.lazy(file).slice(start, SAMPLE_ROWS) for start in range(first, file.row_count, step)]
        begin += file.row_count
    parts = (frames[at : at + SAMPLES_AT_ONCE] for at in range(0, len(frames), SAMPLES_AT_ONCE))
    return pl.concat([sample for part in parts for sample in stored.collect(part)])


def _bounds(sample: pl.DataFrame, sorter: Sorter, ranges: int) -> pl.DataFrame:
    """Returns the keys between adjacent ranges, ascending: one less than there are ranges."""
    key = sorter.key(sample)
    order = _order(key)
    weights = _row_bytes(sample) if sorter.by_size else np.ones(sample.height)
    done = np.cumsum(weights[order])
    ends = np.searchsorted(done, done[-1] * np.arange(1, ranges) / ranges)
    chosen = pl.Series(order[np.unique(ends)])
    return key.select(pl.all().gather(chosen))


def _row_bytes(rows: pl.DataFrame) -> npt.NDArray[np.float64]:
    """Returns the approximate size of each row in bytes: texts by their length."""
    texts = [name for name, dtype in rows.schema.items() if dtype in (pl.String, pl.Binary)]
    others = 8 * (rows.width - len(texts)) + 1
    if not texts:
        return np.full(rows.height, float(others))
    sizes = [
        (col(name).str.len_bytes() if rows.schema[name] == pl.String else col(name).bin.size())
        .cast(pl.Int64)
        .fill_null(0)
        for name in texts
    ]
    return rows.select(pl.sum_horizontal(sizes)).to_series().to_numpy() + float(others)


def _by_range(stored: AppendFiles, sorter: Sorter, bounds: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """Yields the rows range by range, each sorted, by way of temporary files."""
    with tempfile.TemporaryDirectory(prefix="morrow-sort-") as name:
        folder = Path(name)
        files: list[list[Path]] = [[] for _ in range(bounds.height + 1)]
        for number, rows in enumerate(stored.frames()):
            for chosen, part in ranges_apart(rows, sorter, bounds):
                path = folder / f"{chosen}-{number}.arrow"
                with system_errors(name, pl.exceptions.PolarsError):
                    part.write_ipc(path, compression="lz4")
                files[chosen].append(path)
        for paths in files:
            if paths:
                yield sorter.sorted(pl.concat([pl.read_ipc(path) for path in paths]))
                for path in paths:
                    path.unlink()


def ranges_apart(rows: pl.DataFrame, sorter: Sorter, bounds: pl.DataFrame) -> Iterator[tuple[int, pl.DataFrame]]:
    """Yields the rows of each range: those up to the first bound, those after it up to the second, and so on."""
    if not rows.height:
        return
    key = sorter.key(rows)
    # Rows sort before an equal bound, so the number of a row's range is the number of bounds sorted before it.
    order = _order(pl.concat([key, bounds]))
    is_bound = order >= rows.height
    range_of = np.empty(rows.height, np.int64)
    range_of[order[~is_bound]] = np.cumsum(is_bound)[~is_bound]
    by_range = np.argsort(range_of, kind="stable")
    numbers, starts = np.unique(range_of[by_range], return_index=True)
    for number, start, stop in zip(numbers.tolist(), starts, [*starts[1:], rows.height]):
        chosen = pl.Series(by_range[start:stop])
        yield number, rows.select(pl.all().gather(chosen))
