"""Sort compaction, which rewrites whole partitions in a clustering order such as a space-filling curve.

A partition that fits into memory is sorted there. A larger one is split, by a sample of its rows, into ranges of the
sort key that each fit (about equal numbers of rows or of bytes, ``sort-compaction.range-strategy``). One pass writes
every row to the temporary file of its range, then the ranges are sorted and written one after another.

The messages delete the files that were read and add the sorted ones, in an OVERWRITE snapshot as in Paimon. Unlike in
Paimon, rows added or changed concurrently are not overwritten: added files stay, and a changed file is a conflict.

Space-filling curves map rows to positions on a line, so that rows with close values in several columns are close. Every
column is converted to bytes that compare as its values, the most significant first, nulls least. Numbers, times and
BOOLEAN take 8 bytes, text and binary their first ``zorder.var-length-contribution`` (Hilbert: 8). A position is

* z-order: the bits of the columns in turns; columns of fewer bytes drop out when theirs are used up
* Hilbert: the same after Skilling's transform (J. Skilling, "Programming the Hilbert curve", 2004)

Paimon does the same except for DECIMAL (its bytes do not compare), the last bits of FLOAT and DOUBLE, and the sign of
numbers on the Hilbert curve; there Morrow keeps rows closer.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from morrow.engine.errors import ColumnNotFound, InvalidArgument, Unsupported
from morrow.engine.format import types as t
from morrow.engine.format.deletion_vectors import INDEX_TYPE
from morrow.engine.format.file_index.keys import KINDS, MAX_LONG_DECIMAL, to_column_keys, to_ragged
from morrow.engine.format.manifest_entries import DataFileMeta, FileSource
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.io.store import translate_system_errors
from morrow.engine.names import CURVE, clear_pattern_name, col, cols
from morrow.engine.options.declared.maintenance import SORT_COMPACTION_RANGE_STRATEGY, ZORDER_VAR_LENGTH_CONTRIBUTION
from morrow.writers.append.bucket_compaction import AppendFiles, check_rewritable, list_carried_fields
from morrow.writers.buckets.modes import BucketMode, determine_bucket_mode
from morrow.writers.buckets.routers import BucketState, restore_partitions
from morrow.writers.commit.messages import CommitMessage
from morrow.writers.commit.table_commit import TableCommit
from morrow.writers.files.blob_files import select_filed_vectors
from morrow.writers.files.data_files import Placement, delete_files, write_files
from morrow.writers.files.deletion_vectors import DeletionMaintainer
from morrow.writers.target import WriteTarget

U8 = npt.NDArray[np.uint8]
U64 = npt.NDArray[np.uint64]

WORD_BYTES = 8
WORD_BITS = 64
SIGN = np.uint64(1 << 63)
TEXT_BYTES = 8
"""Default of ``zorder.var-length-contribution``."""
CHUNK_ROWS = 1 << 13
"""Rows whose bits are unpacked at once. Every bit then takes a byte, and all should fit into the cache."""


def check_sortable(fields: Sequence[t.DataField], where: str) -> None:
    """Raise `Unsupported` for columns whose values cannot be ordered."""
    for field in fields:
        if type(field.type) not in KINDS:
            raise Unsupported(f"sorting by the column {field.name!r} of type {field.type}", where=where)


def compute_z_order(
    columns: Sequence[pl.Series], types: Sequence[t.DataType], text_bytes: int = TEXT_BYTES
) -> pl.Series:
    """Return the position of each row on the z-order curve, as Binary that compares byte by byte."""
    return _compute_in_chunks(
        lambda parts: interleave_bits([_to_ordered_bytes(p, k, text_bytes) for p, k in zip(parts, types)]), columns
    )


def compute_hilbert_order(columns: Sequence[pl.Series], types: Sequence[t.DataType]) -> pl.Series:
    """Return the position of each row on the Hilbert curve, as Binary that compares byte by byte."""

    def places(parts: Sequence[pl.Series]) -> U8:
        words = [
            _to_ordered_bytes(part, kind, WORD_BYTES).view(">u8")[:, 0].astype(np.uint64)
            for part, kind in zip(parts, types)
        ]
        return interleave_bits(
            [word.astype(">u8").view(np.uint8).reshape(-1, WORD_BYTES) for word in transpose_axes(words)]
        )

    return _compute_in_chunks(places, columns)


CURVES: Mapping[str, Callable[[Sequence[pl.Series], Sequence[t.DataType], int], pl.Series]] = {
    "zorder": compute_z_order,
    "hilbert": lambda columns, types, _: compute_hilbert_order(columns, types),
}


def interleave_bits(columns: Sequence[U8]) -> U8:
    """Interleave the bits of matrices, row by row: all first bits, then all second bits and so on."""
    unpacked = [np.unpackbits(column, axis=1) for column in columns]
    if len({column.shape[1] for column in columns}) == 1:
        return np.packbits(np.stack(unpacked, axis=2).reshape(len(columns[0]), -1), axis=1)
    bits = np.concatenate(unpacked, axis=1)
    widths = [column.shape[1] * 8 for column in columns]
    places = [(bit, number) for number, width in enumerate(widths) for bit in range(width)]
    order = sorted(range(len(places)), key=places.__getitem__)
    return np.packbits(bits[:, order], axis=1)


def transpose_axes(axes: Sequence[U64]) -> list[U64]:
    """Return Skilling's transform of coordinates. Interleaving the bits of the results gives the Hilbert index."""
    x = [axis.copy() for axis in axes]
    for bit in range(WORD_BITS - 1, 0, -1):
        x[0] ^= _mask_bits_below(x[0], bit)
        for axis in x[1:]:
            inverted = _mask_bits_below(axis, bit)
            swapped = (x[0] ^ axis) & (np.uint64((1 << bit) - 1) ^ inverted)
            axis ^= swapped
            x[0] ^= swapped ^ inverted
    for before, axis in pairwise(x):
        axis ^= before
    flips = np.zeros_like(x[0])
    for bit in range(WORD_BITS - 1, 0, -1):
        flips ^= _mask_bits_below(x[-1], bit)
    return [axis ^ flips for axis in x]


def _mask_bits_below(words: U64, bit: int) -> U64:
    """Return for each word all bits below `bit` if that bit is set, otherwise 0."""
    is_set = words >> np.uint64(bit) & np.uint64(1)
    mask: U64 = (np.uint64(0) - is_set) & np.uint64((1 << bit) - 1)
    return mask


def _compute_in_chunks(places: Callable[[Sequence[pl.Series]], U8], columns: Sequence[pl.Series]) -> pl.Series:
    parts = []
    for start in range(0, columns[0].len(), CHUNK_ROWS):
        matrix = places([column.slice(start, CHUNK_ROWS) for column in columns])
        parts.append(_to_binary(matrix))
    return pl.concat(parts) if parts else pl.Series([], dtype=pl.Binary)


def _to_binary(matrix: U8) -> pl.Series:
    rows, width = matrix.shape
    buffers = [None, pa.py_buffer(np.ascontiguousarray(matrix))]
    return pl.Series(pa.FixedSizeBinaryArray.from_buffers(pa.binary(width), rows, buffers), dtype=pl.Binary)


def _to_ordered_bytes(column: pl.Series, kind: t.DataType, text_bytes: int) -> U8:
    """Return the values as a row of bytes each."""
    if isinstance(kind, t.DecimalType) and kind.precision > MAX_LONG_DECIMAL:
        column, kind = column.cast(pl.Float64), t.DoubleType()
    keys = to_column_keys(column, kind)
    if keys.keys.dtype == pl.Binary:
        text = to_ragged(keys.keys)
        matrix = np.zeros((keys.row_count, text_bytes), np.uint8)
        for at in range(text_bytes):
            longer = np.flatnonzero(text.sizes > at)
            matrix[keys.rows[longer], at] = text.data[text.starts[longer] + at]
        return matrix
    words = np.zeros(keys.row_count, np.uint64)
    words[keys.rows] = keys.keys.to_numpy().astype(np.int64).view(np.uint64) ^ SIGN
    return words.astype(">u8").view(np.uint8).reshape(-1, WORD_BYTES)


ORDER = "order"
STRATEGIES = (ORDER, *CURVES)
MIN_CURVE_COLUMNS = {"zorder": 1, "hilbert": 2}
SIZE, QUANTITY = "size", "quantity"
MAX_SAMPLES = 16
"""Maximum positions sampled in a partition that is sorted in ranges. Each costs the decoding of a row group."""
MAX_SAMPLES_IN_MEMORY = 2
"""Maximum row groups in memory during sampling."""
SAMPLE_ROWS = 4096
"""Rows taken from each sampled row group."""
RANGES_PER_WRITE_BUFFER = 4
"""The write buffer divided by this is the size of a range: sorting and encoding take more memory than its rows."""

Numbers = npt.NDArray[np.int64]


def sort_compact(
    target: WriteTarget,
    snapshot: Snapshot | None,
    order_by: Sequence[str],
    strategy: str = ORDER,
    *,
    partitions: Sequence[bytes] | None = None,
) -> list[CommitMessage]:
    """Sort the rows of whole partitions.

    Args:
        order_by: columns, none of them a partition key.
        strategy: ``order`` (by the first column, then the second, ...), ``zorder``, or ``hilbert`` (two columns at
            least).
        partitions: the partitions to sort (BinaryRows); None: all.

    Returns: one message for each partition. All new files are durable.

    Raises:
        InvalidArgument: an unknown strategy, or a strategy that does not fit the columns. ColumnNotFound.
        Unsupported: tables with keys, with fixed buckets, or whose rows have ids; columns without order.
        CorruptFile, FileMissing: a file that cannot be read. StorageError: after any error nothing new stays.
    """
    sorter = Sorter.of(target, order_by, strategy)
    messages: list[CommitMessage] = []
    try:
        for place, state in restore_partitions(target, snapshot, partitions).items():
            if state.files:
                messages.append(sort_partition(target, place, state, sorter))
    except BaseException:
        TableCommit(target).abort(messages)
        raise
    return messages


@dataclass(frozen=True)
class Sorter:
    """Order of rows by the columns that `key` returns, nulls first."""

    fields: tuple[t.DataField, ...]
    strategy: str
    text_bytes: int
    by_size: bool

    @classmethod
    def of(cls, target: WriteTarget, order_by: Sequence[str], strategy: str) -> Sorter:
        where, schema = target.where, target.schema
        strategy = strategy.strip().lower()
        if strategy not in STRATEGIES:
            raise InvalidArgument(f"{where}: the sort strategy {strategy!r}; known: {', '.join(STRATEGIES)}")
        if determine_bucket_mode(target) is not BucketMode.UNAWARE:
            raise Unsupported("sort compaction of a table with keys or fixed buckets", where=where)
        check_rewritable(target)
        columns = tuple(dict.fromkeys(order_by))
        least = MIN_CURVE_COLUMNS.get(strategy, 1)
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
        """Return the columns that rows are compared by."""
        columns = [rows[field.name] for field in self.fields]
        if self.strategy == ORDER:
            return pl.DataFrame(columns)
        columns = list(map(clear_pattern_name, columns))
        places = CURVES[self.strategy](columns, [field.type for field in self.fields], self.text_bytes)
        return places.rename(CURVE).to_frame()

    def sorted(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the rows, sorted stably."""
        order = pl.Series(_order(self.key(rows)))
        return rows.select(pl.all().gather(order))


AUTO, HILBERT_COLUMNS = "auto", 5
"""Value of ``clustering.strategy`` by which the number of columns decides, and the number from which it is hilbert."""


def find_clustering(target: WriteTarget) -> Sorter | None:
    """Return the order in which each commit's rows are written (``clustering.columns``); None if they stay unsorted.

    Rows stay unsorted if incremental clustering sorts them later, if they are in buckets or get ids, and beside BLOBs.

    Raises: as `sort_compact`.
    """
    unsorted = determine_bucket_mode(target) is not BucketMode.UNAWARE or target.write.incremental_clustering
    dedicated = target.filed_blobs or select_filed_vectors(target, target.schema.fields)
    return None if unsorted or target.options.row_tracking or dedicated else _make_clustering_sorter(target)


def _make_clustering_sorter(target: WriteTarget) -> Sorter | None:
    """Return the order of ``clustering.columns``; None without columns other than partition keys."""
    names = [name for name in target.write.clustering_columns if name not in target.schema.partition_keys]
    if not names:
        return None
    strategy = target.write.clustering_strategy
    if strategy == AUTO:
        strategy = ORDER if len(names) == 1 else "zorder" if len(names) < HILBERT_COLUMNS else "hilbert"
    return Sorter.of(target, names, strategy)


def sort_new_files(
    target: WriteTarget, place: Placement, files: Sequence[DataFileMeta], sorter: Sorter
) -> list[DataFileMeta]:
    """Replace files that no snapshot has yet by files with the same rows in this order.

    Raises: as `sort_compact`; then the given files stay.
    """
    stored = AppendFiles(target, place, tuple(files), None)
    made = write_sorted(target, place, _sort_in_memory(stored, sorter))
    delete_files(target, place, files)
    return made


def cluster_files(
    target: WriteTarget, place: Placement, files: Sequence[DataFileMeta], vectors: DeletionMaintainer | None, level: int
) -> list[DataFileMeta]:
    """Write the live rows of files in the order of ``clustering.columns``, to files of this level.

    Raises: as `sort_compact`; then the given files stay.
    """
    stored = AppendFiles(target, place, tuple(files), vectors)
    sorter = _make_clustering_sorter(target)
    frames = stored.frames() if sorter is None else _sort_in_memory(stored, sorter)
    return write_sorted(target, place, frames, level=level, source=FileSource.COMPACT)


def _order(key: pl.DataFrame) -> Numbers:
    """Return the row numbers in the order of the keys; the sort is stable."""
    order = key.select(pl.arg_sort_by(cols(key.columns), maintain_order=True)).to_series()
    return order.cast(pl.Int64).to_numpy()


def sort_partition(target: WriteTarget, place: Placement, state: BucketState, sorter: Sorter) -> CommitMessage:
    """Sort the rows of one partition. Raises as `sort_compact`."""
    stored = open_partition_rows(target, place, state)
    return build_sorted_message(target, place, state, write_sorted(target, place, _sort_in_memory(stored, sorter)))


def open_partition_rows(target: WriteTarget, place: Placement, state: BucketState) -> AppendFiles:
    """Return a reader of the rows of a partition."""
    vectors = None
    if target.write.deletion_vectors:
        vectors = DeletionMaintainer(target, place.partition, place.bucket, state.index_files, rolling=True)
    return AppendFiles(target, place, state.files, vectors)


def write_sorted(
    target: WriteTarget,
    place: Placement,
    frames: Iterable[pl.DataFrame],
    *,
    level: int = 0,
    source: FileSource = FileSource.APPEND,
) -> list[DataFileMeta]:
    """Write these sorted rows to files."""
    return write_files(target, place, frames, level=level, source=source, columns=list_carried_fields(target))


def build_sorted_message(
    target: WriteTarget, place: Placement, state: BucketState, written: Iterable[DataFileMeta]
) -> CommitMessage:
    """Return the message that replaces all files of the partition with these."""
    dead = tuple(file for file in state.index_files if file.index_type == INDEX_TYPE)
    return CommitMessage(
        partition=place.partition,
        bucket=place.bucket,
        total_buckets=target.options.bucket,
        new_files=tuple(written),
        deleted_files=state.files,
        deleted_index_files=dead,
    )


def _sort_in_memory(stored: AppendFiles, sorter: Sorter) -> Iterator[pl.DataFrame]:
    """Yield all live rows, sorted, in several frames."""
    bounds = choose_range_bounds(stored, sorter)
    if bounds is None:
        frames = list(stored.frames())
        if frames:
            yield sorter.sorted(pl.concat(frames))
        return
    yield from _sort_by_range(stored, sorter, bounds)


def choose_range_bounds(stored: AppendFiles, sorter: Sorter) -> pl.DataFrame | None:
    """Return the bounds between ranges that each fit into memory; None if all rows fit."""
    rows = sum(file.row_count for file in stored.files)
    sample = _sample(stored)
    bytes_per_row = max(sample.estimated_size() / max(sample.height, 1), 1)
    budget = stored.target.write.write_buffer // RANGES_PER_WRITE_BUFFER
    ranges = max(1, -(-int(rows * bytes_per_row) // max(budget, 1)))
    return None if ranges == 1 else _pick_bounds(sample, sorter, min(ranges, sample.height))


def _sample(stored: AppendFiles) -> pl.DataFrame:
    """Return rows from positions spread over the files."""
    total = sum(file.row_count for file in stored.files)
    step = max(-(-total // MAX_SAMPLES), SAMPLE_ROWS)
    frames = []
    begin = 0
    for file in stored.files:
        first = -begin % step
        frames += [stored.lazy(file).slice(start, SAMPLE_ROWS) for start in range(first, file.row_count, step)]
        begin += file.row_count
    parts = (frames[at : at + MAX_SAMPLES_IN_MEMORY] for at in range(0, len(frames), MAX_SAMPLES_IN_MEMORY))
    return pl.concat([sample for part in parts for sample in stored.collect(part)])


def _pick_bounds(sample: pl.DataFrame, sorter: Sorter, ranges: int) -> pl.DataFrame:
    """Return the ascending bounds between `ranges` ranges: one less than there are ranges."""
    key = sorter.key(sample)
    order = _order(key)
    weights = _estimate_row_bytes(sample) if sorter.by_size else np.ones(sample.height)
    done = np.cumsum(weights[order])
    ends = np.searchsorted(done, done[-1] * np.arange(1, ranges) / ranges)
    chosen = pl.Series(order[np.unique(ends)])
    return key.select(pl.all().gather(chosen))


def _estimate_row_bytes(rows: pl.DataFrame) -> npt.NDArray[np.float64]:
    """Return the approximate size of each row in bytes, with the length of texts."""
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


def _sort_by_range(stored: AppendFiles, sorter: Sorter, bounds: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """Yield the rows range by range, each sorted, using temporary files."""
    with tempfile.TemporaryDirectory(prefix="morrow-sort-") as name:
        folder = Path(name)
        files: list[list[Path]] = [[] for _ in range(bounds.height + 1)]
        for number, rows in enumerate(stored.frames()):
            for chosen, part in split_by_range(rows, sorter, bounds):
                path = folder / f"{chosen}-{number}.arrow"
                with translate_system_errors(name, pl.exceptions.PolarsError):
                    part.write_ipc(path, compression="lz4")
                files[chosen].append(path)
        for paths in files:
            if paths:
                yield sorter.sorted(pl.concat([pl.read_ipc(path) for path in paths]))
                for path in paths:
                    path.unlink()


def split_by_range(rows: pl.DataFrame, sorter: Sorter, bounds: pl.DataFrame) -> Iterator[tuple[int, pl.DataFrame]]:
    """Yield the rows of each range: up to the first bound, from there to the second, and so on."""
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
