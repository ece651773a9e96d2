"""Splits: parts of a scan that other processes read, and the methods that divide a scan into them.

A split holds a plan of a few files, so that its reader plans nothing and reads the snapshot of the scan, whatever is
committed meanwhile. It pickles without secrets. All versions of a key are in one split. The rows of all splits of a
scan together are the rows of the scan, in its order unless they were shuffled. Tasks of Ray, Dask and Daft read splits.
"""

from __future__ import annotations

import random
from abc import abstractmethod
from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

from morrow.engine.arguments import MAX_ROWS, check_instance
from morrow.engine.errors import ColumnNotFound, InvalidArgument, Unsupported
from morrow.engine.options.declarations import MEMORY, BadValue
from morrow.engine.plan.filter import FilterLike, combine_filters, parse_filter
from morrow.engine.plan.predicate import ALWAYS
from morrow.engine.plugins import require_extra
from morrow.engine.redaction import clean_text, format_columns, suggest_name
from morrow.engine.structs import replace
from morrow.engine.units import format_count, format_size
from morrow.scans.arguments import check_batch_rows, check_columns
from morrow.scans.nested_columns import Path, build_member, make_member_field, read_member
from morrow.scans.result import Rows

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

    from morrow.engine.format.types import DataField
    from morrow.engine.io.store import FileStore
    from morrow.engine.plan.scan_plan import DataFile, ScanPlan
    from morrow.readers.execution.section_pieces import Piece
    from morrow.scans.torch_datasets import TorchRows

DEFAULT_SPLIT_BYTES = 128 << 20
"""Approximate bytes of files per split unless the caller gives a number, as Paimon's `source.split.target-size`."""

DEFAULT_CHUNK_ROWS = 1 << 14
"""Approximate stored rows of a chunk that PyTorch's datasets shuffle: opening a file costs little beside the rows."""


class Split(Rows):
    """A part of a scan. Returned by `Scan.splits`, `Scan.shard` and `Scan.slice`; it pickles without secrets."""

    def __init__(
        self,
        plans: Sequence[ScanPlan],
        store: FileStore,
        fields: tuple[DataField, ...],
        title: str,
        paths: tuple[Path, ...] = (),
    ) -> None:
        self._plans, self._store, self._stored, self._title = tuple(plans), store, fields, title
        self._paths = paths
        """The members of ROW columns that are returned instead of the columns that are read; empty: the columns."""

    @property
    def fields(self) -> tuple[DataField, ...]:
        """The columns of the rows, in their Paimon types."""
        return tuple(map(make_member_field, self._paths)) if self._paths else self._stored

    @property
    def title(self) -> str:
        """The table's path."""
        return self._title

    @property
    def plans(self) -> tuple[ScanPlan, ...]:
        """The plans of the rows."""
        return self._plans

    @property
    def _files(self) -> Iterator[DataFile]:
        return (file for plan in self._plans for part in plan.parts for file in part.files)

    @property
    def paths(self) -> list[str]:
        """The paths of the data files."""
        return list(dict.fromkeys(self._store.url(file.path) for file in self._files))

    @property
    def stored_rows(self) -> int:
        """Rows in the files, before versions are merged, rows filtered, and other splits' rows left out."""
        return sum(file.row_count for file in self._files)

    @property
    def size(self) -> int:
        """Bytes of the files."""
        return sum(file.size for file in self._files)

    @property
    def snapshot_id(self) -> int | None:
        """The id of the snapshot that is read, None for a split without files."""
        return next((plan.snapshot.id for plan in self._plans if plan.snapshot is not None), None)

    def to_batches(self, batch_rows: int | None = None) -> Iterator[pa.RecordBatch]:
        """Yield rows as record batches, with memory bounded independently of the split's size."""
        from morrow.readers.execution import execute

        rows = check_batch_rows(batch_rows) or execute.DEFAULT_BATCH_ROWS
        found = chain.from_iterable(execute.to_batches(plan, self._store, rows) for plan in self._plans)
        return map(self._conform, found)

    def rows(self, batch_rows: int | None = None) -> Iterator[dict[str, Any]]:
        """Yield rows as dicts of Python values. Values of BLOB columns are `morrow.Blob`, which read on demand."""
        from morrow.readers.execution.blob_columns import ask_descriptors, to_blobs

        if self._paths or not self._plans:
            yield from super().rows(batch_rows)
            return
        plans = [ask_descriptors(plan) for plan in self._plans]
        described = Split(plans, self._store, self._stored, self._title)
        yield from to_blobs(plans[0], Rows.rows(described, batch_rows), self._store)

    def to_arrow(self) -> pa.Table:
        """Return all rows as an Arrow table with exactly `schema`."""
        import pyarrow as pa

        from morrow.readers.execution import execute

        if not self.fields:
            return pa.table({"none": pa.nulls(self.count())}).select([])
        found = [execute.to_arrow(plan, self._store) for plan in self._plans]
        batches = (batch for table in found for batch in table.to_batches())
        return pa.Table.from_batches(map(self._conform, batches), self.schema)

    def to_polars(self) -> pl.DataFrame:
        """Return all rows as a Polars DataFrame (MAP and MULTISET as lists of key, value structs)."""
        import polars as pl

        from morrow.engine.format.types import to_polars_schema
        from morrow.readers.execution import execute

        empty = pl.DataFrame(schema=to_polars_schema(self._stored))
        if not self._stored:
            return pl.DataFrame(height=self.count())
        found = pl.concat([empty, *(execute.to_polars(plan, self._store) for plan in self._plans)])
        return found.select(build_member(path).alias(path[-1].name) for path in self._paths) if self._paths else found

    def count(self) -> int:
        """Return the number of rows, from metadata if possible."""
        from morrow.readers.execution import execute

        return sum(execute.count(plan, self._store) for plan in self._plans)

    def narrowed(self, columns: Sequence[str] | None = None, filter: FilterLike | None = None) -> Split:
        """Return a split of the same files with fewer columns and rows; both refer to this split's columns.

        Raises:
            ColumnNotFound: a column that this split does not have.
            InvalidArgument: a filter on a split with a limit, since filtering after the limit differs.
            Unsupported: a split of members of columns.
        """
        if self._paths:
            raise Unsupported("narrowing a split of members of columns", hint="scan again with these columns")
        by_name = {field.name: field for field in self._stored}
        names = tuple(by_name) if columns is None else check_columns(columns)
        for name in names:
            if name not in by_name:
                raise ColumnNotFound(
                    f"there is no column {name!r}; {suggest_name(name, by_name)}{format_columns(by_name)}"
                )
        plans = self._plans
        if filter is not None:
            if any(plan.limit is not None for plan in plans):
                raise InvalidArgument("a split of a scan with a limit cannot be narrowed by a filter")
            narrower = parse_filter(filter, self._stored)
            plans = tuple(replace(plan, filter=combine_filters(plan.filter, narrower)) for plan in plans)
        narrow = [plan.with_columns(names) for plan in plans]
        return Split(narrow, self._store, tuple(by_name[name] for name in names), self._title)

    def _conform(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Convert a batch of a plan to `schema`: columns of a fallback branch may be NOT NULL where main's are not."""
        import pyarrow as pa

        if not self._paths:
            return batch if batch.schema.equals(self.schema) else batch.cast(self.schema)
        return pa.RecordBatch.from_arrays([read_member(batch, path) for path in self._paths], schema=self.schema)

    def __repr__(self) -> str:
        files = format_count(len(self.paths), "file")
        return clean_text(f"Split({self._title!r}, snapshot={self.snapshot_id}, {files}, {format_size(self.size)})")


class Divisible(Rows):
    """Rows of a plan that can be divided into splits."""

    @property
    @abstractmethod
    def store(self) -> FileStore:
        """The store of the plan's files."""

    plan: Any
    """The plan; a subclass makes it when it is first used."""

    def splits(
        self,
        n: int | None = None,
        *,
        bytes: int | str | None = None,
        rows: int | None = None,
        seed: int | None = None,
        buckets: Collection[int] | None = None,
    ) -> list[Split]:
        """Divide the scan into parts that other processes read, each about as large as the others.

        Each split has `to_arrow`, `to_polars`, `to_batches` and the other forms of rows. Splits are small values that
        pickle without secrets, and read the scan's snapshot. Together they hold exactly the rows of the scan, in its
        order unless `seed` is given. Files are cut at any row, but all versions of a key are in one split.

        Args:
            n: the maximum number of splits. There are fewer if the table has fewer files, keys or rows.
            bytes: the approximate bytes of files per split, also as text (``"64 mb"``); 128 MiB if nothing is given.
            rows: the approximate number of stored rows per split.
            seed: shuffles the splits; the same seed gives the same order. Combine it with `rows` to train a model.
            buckets: read only these buckets.

        Raises:
            InvalidArgument: several of `n`, `bytes` and `rows`, or one that is not positive.
            SnapshotExpired, CorruptFile, FileMissing, StorageError: the plan cannot be made.
        """
        from morrow.readers.execution.section_pieces import divide_pieces

        plan = self._select_buckets(buckets)
        pieces = self._list_pieces(plan, *self._measure(plan, n, bytes, rows))
        if pieces is None:
            return [self._make_split((plan,))]
        groups = _count_groups(pieces, n, bytes, rows)
        found = [self._join(group) for group in divide_pieces(pieces, groups)]
        if seed is not None:
            random.Random(check_instance(seed, int, "seed")).shuffle(found)
        return found

    def shard(self, index: int, count: int) -> Split:
        """Return one of `count` parts of the scan, the `index`-th from 0; the last parts of a small table are empty.

        Workers that each make the scan have to name the same snapshot: ``t.scan(snapshot=7).shard(rank, world_size)``.

        Raises:
            InvalidArgument: an index that is not below the count. Others as `splits`.
        """
        check_instance(index, int, "index")
        if not 0 <= index < _check_positive(count, "count"):
            raise InvalidArgument(f"index is at least 0 and below count ({count}), not {index}")
        found = self.splits(count)
        return found[index] if index < len(found) else self._make_split(())

    def slice(self, start: int, stop: int) -> Split:
        """Return the rows at the positions from `start` to `stop`, without it, in the order of the scan.

        Deleted rows have no position. Only the files of these rows are read.

        Raises:
            InvalidArgument: positions that are negative or in the wrong order.
            Unsupported: a filter, or files whose rows are merged: positions are known only after they were read.
        """
        from morrow.readers.execution.section_pieces import list_pieces, slice_pieces

        if not 0 <= check_instance(start, int, "start") <= check_instance(stop, int, "stop") <= MAX_ROWS:
            raise InvalidArgument(f"start and stop are positions, 0 <= start <= stop, not {start} and {stop}")
        plan = self.plan
        stop = stop if plan.limit is None else min(stop, plan.limit)
        found = slice_pieces(list_pieces(plan, self.store), start, stop, self.store) if _is_unfiltered(plan) else None
        if found is None:
            raise Unsupported(
                "a slice by positions of rows that are filtered or merged",
                where=self.title,
                hint="use splits or shard, or compact the table fully",
            )
        return self._join(found)

    def file_splits(self) -> list[Split]:
        """Return a split for each data file, or for each set of files whose rows are merged. Errors as of `splits`."""
        pieces = self._list_pieces(self.plan, None, None)
        return [self._make_split((self.plan,))] if pieces is None else [self._join([piece]) for piece in pieces]

    def to_torch(
        self,
        batch_rows: int | None = None,
        *,
        seed: int | None = None,
        chunk_rows: int = DEFAULT_CHUNK_ROWS,
        mixed_chunks: int = 8,
        rank: int | None = None,
        world_size: int | None = None,
    ) -> TorchRows:
        """Return the scan as an `IterableDataset` of PyTorch, read in parallel by ranks and workers of a `DataLoader`.

        Every rank and worker reads other rows. Ranks have to read the same snapshot. Start workers by
        ``multiprocessing_context="forkserver"`` or ``"spawn"``: a forked process cannot read.

        Args:
            batch_rows: yield batches of this number of rows, as dicts of columns: numbers, booleans and lists of equal
                length as tensors, others as lists. Then pass ``batch_size=None`` to the `DataLoader`. None: yield dicts
                of rows.
            seed: shuffles chunks of neighbouring rows, and the rows of chunks that are read together. `set_epoch`
                chooses another order. None keeps the order of the scan.
            chunk_rows: approximate stored rows per chunk. Smaller chunks are shuffled better and read slower.
            mixed_chunks: the number of chunks whose rows are shuffled together, in memory.
            rank, world_size: the number of this rank and of all ranks; by default those of `torch.distributed`.

        Raises:
            Unsupported: PyTorch is not installed; install ``morrow[torch]``.
            InvalidArgument: a number that is not positive, or a rank that is not below `world_size`.
        """
        with require_extra("to_torch", "torch", "torch"):
            from morrow.scans.torch_datasets import TorchRows

        return TorchRows(
            self.splits(rows=_check_positive(chunk_rows, "chunk_rows")),
            batch_rows=check_batch_rows(batch_rows),
            seed=None if seed is None else check_instance(seed, int, "seed"),
            mixed_chunks=_check_positive(mixed_chunks, "mixed_chunks"),
            rank=rank,
            world_size=world_size,
        )

    def to_ray(self, n: int | None = None, **options: Any) -> Any:
        """Return the scan as a Ray dataset, whose tasks read splits.

        Args:
            n: the maximum number of read tasks; by default one for about 128 MiB of files.
            options: arguments of `ray.data.read_datasource`, such as ``ray_remote_args``.

        Raises:
            Unsupported: Ray is not installed; install ``morrow[ray]``. Others as `splits`.
        """
        return _make_ray_dataset(self.splits(n), self.schema, **options)

    def to_dask(self, n: int | None = None) -> Any:
        """Return the scan as a Dask DataFrame of at most `n` partitions, by default of about 128 MiB of files each.

        Raises:
            Unsupported: Dask or pandas is not installed; install ``morrow[dask]``. Others as `splits`.
        """
        return _make_dask_frame(self.splits(n), self._make_split(()))

    def to_daft(self, n: int | None = None) -> Any:
        """Return the scan as a Daft DataFrame, read by at most `n` tasks, by default one for about 128 MiB of files.

        Raises:
            Unsupported: Daft is not installed; install ``morrow[daft]``. Others as `splits`.
        """
        return _make_daft_frame(self.splits(n), self.schema)

    def _select_buckets(self, buckets: Collection[int] | None) -> ScanPlan:
        plan: ScanPlan = self.plan
        if buckets is None:
            return plan
        given = check_instance(buckets, Collection, "buckets")
        wanted = {check_instance(bucket, int, "each of buckets") for bucket in given}

        def select(part: ScanPlan) -> ScanPlan:
            fallback = None if part.fallback is None else select(part.fallback)
            sections = tuple(section for section in part.sections if section.bucket in wanted)
            return replace(part, sections=sections, fallback=fallback)

        return select(plan)

    def _measure(
        self, plan: ScanPlan, n: int | None, bytes: int | str | None, rows: int | None
    ) -> tuple[int | None, int | None]:
        """Check the sizes, and return the bytes and stored rows to which sections of merged rows are cut."""
        if sum(each is not None for each in (n, bytes, rows)) > 1:
            raise InvalidArgument("give one of n, bytes and rows")
        if rows is not None:
            return None, _check_positive(rows, "rows")
        if n is not None:
            size = sum(section.size for part in plan.parts for section in part.sections)
            return size // _check_positive(n, "n"), None
        return _parse_bytes(bytes), None

    def _list_pieces(self, plan: ScanPlan, bytes_each: int | None, rows_each: int | None) -> list[Piece] | None:
        """Return the pieces of a plan; None if a limit requires that one reader reads it."""
        from morrow.readers.execution.section_pieces import list_pieces, slice_pieces

        if plan.limit is None:
            return list_pieces(plan, self.store, bytes_each, rows_each)
        found = list_pieces(plan, self.store)
        return slice_pieces(found, 0, plan.limit, self.store) if _is_unfiltered(plan) else None

    def _join(self, pieces: Sequence[Piece]) -> Split:
        from morrow.readers.execution.section_pieces import join_pieces

        return self._make_split(join_pieces(pieces))

    def _make_split(self, plans: tuple[ScanPlan, ...]) -> Split:
        return Split(plans, self.store, tuple(self.fields), self.title)


def _count_groups(pieces: Sequence[Piece], n: int | None, bytes: int | str | None, rows: int | None) -> int:
    if n is not None:
        return n
    if rows is not None:
        return -(-sum(piece.rows for piece in pieces) // rows)
    return -(-sum(piece.size for piece in pieces) // _parse_bytes(bytes))


def _parse_bytes(bytes: int | str | None) -> int:
    if bytes is None:
        return DEFAULT_SPLIT_BYTES
    if not isinstance(bytes, str):
        return _check_positive(bytes, "bytes")
    try:
        return _check_positive(MEMORY.parse(bytes), "bytes")
    except BadValue as error:
        raise InvalidArgument(f"bytes is a number, or text such as '64 mb', not {bytes!r}") from error


def _check_positive(value: int, what: str) -> int:
    if check_instance(value, int, what) < 1:
        raise InvalidArgument(f"{what} is a number of 1 or more, not {value}")
    return value


def _is_unfiltered(plan: ScanPlan) -> bool:
    return plan.filter.predicate == ALWAYS and not plan.filter.residuals


# --- other libraries, whose tasks read splits ---


def _make_ray_dataset(splits: Sequence[Split], schema: pa.Schema, **options: Any) -> Any:
    """Return a Ray dataset whose tasks read these splits; see `Scan.to_ray`."""
    with require_extra("to_ray", "ray", "ray"):
        import ray.data
        from ray.data import Datasource
        from ray.data.block import BlockMetadata
        from ray.data.datasource import ReadTask

    class MorrowSource(Datasource):  # type: ignore[misc]  # Ray is not there when types are checked
        """The splits of a scan."""

        def get_read_tasks(self, *_: Any, **__: Any) -> list[ReadTask]:
            return [
                ReadTask(
                    partial(_read_tables, split),
                    BlockMetadata(num_rows=None, size_bytes=split.size, input_files=split.paths, exec_stats=None),
                    schema=schema,
                )
                for split in splits
            ]

        def estimate_inmemory_data_size(self) -> int:
            return sum(split.size for split in splits)

        def get_name(self) -> str:
            return "Morrow"

    if not splits:
        return ray.data.from_arrow(schema.empty_table())
    return ray.data.read_datasource(MorrowSource(), **options)


def _read_tables(split: Split) -> Iterator[pa.Table]:
    """Yield the rows of a split as tables, at least one, from which Ray takes the schema."""
    import pyarrow as pa

    empty = True
    for batch in split.to_batches():
        empty = False
        yield pa.Table.from_batches([batch], split.schema)
    if empty:
        yield split.schema.empty_table()


def _make_dask_frame(splits: Sequence[Split], empty: Split) -> Any:
    """Return a Dask DataFrame with a partition for each split; `empty` is a split of the same columns without rows."""
    with require_extra("to_dask", "dask", "dask"):
        import dask.dataframe
    meta = empty.to_pandas()
    if not splits:
        return dask.dataframe.from_pandas(meta, npartitions=1)
    return dask.dataframe.from_map(_read_frame, list(splits), meta=meta, label="morrow")


def _read_frame(split: Split) -> Any:
    return split.to_pandas()


def _make_daft_frame(splits: Sequence[Split], schema: pa.Schema) -> Any:
    """Return a Daft DataFrame whose tasks read these splits; see `Scan.to_daft`."""
    with require_extra("to_daft", "daft", "daft"):
        import daft
        from daft.io.source import DataSource, DataSourceTask
        from daft.recordbatch import RecordBatch

    rows = daft.Schema.from_pyarrow_schema(schema)

    class Task(DataSourceTask):  # type: ignore[misc]  # Daft is not there when types are checked
        """The rows of a split."""

        def __init__(self, split: Split) -> None:
            self._split = split

        @property
        def schema(self) -> Any:
            return rows

        async def read(self) -> AsyncIterator[RecordBatch]:
            for batch in self._split.to_batches():
                yield RecordBatch.from_arrow_record_batches([batch], batch.schema)

    class Source(DataSource):  # type: ignore[misc]  # Daft is not there when types are checked
        """The splits of a scan."""

        @property
        def name(self) -> str:
            return "Morrow"

        @property
        def schema(self) -> Any:
            return rows

        async def get_tasks(self, pushdowns: Any) -> AsyncIterator[Task]:  # noqa: ARG002  # Daft applies them itself
            for split in splits:
                yield Task(split)

    return Source().read()
