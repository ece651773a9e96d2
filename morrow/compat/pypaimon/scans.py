"""pypaimon's read builders over Morrow's scans: plans whose splits are read here or in other processes.

A split is a part of a Morrow plan: some files of a bucket. It pickles without secrets. A `TableRead` applies its own
columns, filter and limit to the files of a split, whatever the split was planned for.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from itertools import groupby
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from morrow.compat.pypaimon.predicates import Predicate, PredicateBuilder
from morrow.compat.pypaimon.schemas import DataField, OutputColumn, Row, find_path, to_pypaimon_field
from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.format import types as t
from morrow.engine.format.schema import ROWKIND
from morrow.engine.options import Options
from morrow.engine.options.declared.scans import SOURCE_SPLIT_OPEN_FILE_COST, SOURCE_SPLIT_TARGET_SIZE
from morrow.engine.plan.scan_plan import DataFile, ScanPlan, Section, SectionKind
from morrow.engine.plugins import require_extra
from morrow.engine.redaction import PrintedText
from morrow.engine.structs import replace
from morrow.queries.incremental import parse_change_options
from morrow.readers.execution.section_pieces import Piece, join_pieces, list_pieces
from morrow.readers.system.audit_log import ROW_TRACKING
from morrow.scans.changes import Changes, ChangeStream
from morrow.scans.nested_columns import build_member, read_member
from morrow.scans.result import Rows
from morrow.scans.table_scan import Scan

if TYPE_CHECKING:
    import duckdb
    import pandas as pd
    import polars as pl

    from morrow.tables.table import Table

ROW_KIND_COLUMN = "_row_kind"
ADDED = pa.array(["+I", "+U"])
"""Kinds of the rows that a batch read of changes returns."""


class Source(Protocol):
    """The rows that a read builder reads."""

    @property
    def fields(self) -> Sequence[t.DataField]:
        """The columns."""

    @property
    def hidden(self) -> Sequence[t.DataField]:
        """Columns that are read only by name."""

    def rows(self, columns: Sequence[str], filter: pl.Expr | None, limit: int | None) -> Rows | pa.Table:
        """Return the rows that satisfy a filter, at most `limit`."""


@dataclass(frozen=True)
class TableSource:
    """The rows of a table, or the rows that it changed by `changes`; row ids are hidden columns, if it tracks them.

    `changes` are the options of a read between two snapshots, none for the rows of one snapshot.
    """

    table: Table
    changes: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def fields(self) -> Sequence[t.DataField]:
        return self.table.scan().fields

    @cached_property
    def hidden(self) -> Sequence[t.DataField]:
        scan = self.table.scan()
        return ROW_TRACKING.trailing if scan.request.options.row_tracking else ()

    def rows(self, columns: Sequence[str], filter: pl.Expr | None, limit: int | None) -> Rows | pa.Table:
        if self.changes:
            return self._read_changed_rows(columns, filter)[:limit]
        return self.table.scan(columns, filter, limit)

    def _read_changed_rows(self, columns: Sequence[str], filter: pl.Expr | None) -> pa.Table:
        """Return the rows that the changes between two snapshots added, as a batch read of Paimon does.

        Raises:
            Unsupported: a table with a primary key: Paimon merges the versions between the snapshots.
        """
        if self.table.primary_keys:
            raise Unsupported(
                "a read between two snapshots of a table with a primary key",
                where=self.table.path,
                hint="read each change by table.morrow.changes(from_snapshot, to_snapshot)",
            )
        asked = parse_change_options(self.table, self.changes) or {"from_snapshot": 1, "to_snapshot": 1, "mode": "diff"}
        rows = self.table.changes(**asked, columns=columns, filter=filter).to_arrow()
        return rows.filter(pc.is_in(rows[ROWKIND], ADDED)).drop_columns([ROWKIND])


@dataclass(frozen=True)
class SplitFile:
    """A data file of a split, as pypaimon names its members."""

    file: DataFile

    @property
    def file_name(self) -> str:
        return self.file.path.rpartition("/")[2]

    @property
    def file_path(self) -> str:
        return self.file.path

    @property
    def file_size(self) -> int:
        return self.file.size

    @property
    def row_count(self) -> int:
        return self.file.row_count

    @property
    def level(self) -> int:
        return self.file.level

    @property
    def schema_id(self) -> int:
        return self.file.schema_id

    @property
    def delete_row_count(self) -> int | None:
        return self.file.delete_rows

    @property
    def min_sequence_number(self) -> int:
        return self.file.min_sequence

    @property
    def max_sequence_number(self) -> int:
        return self.file.max_sequence

    @property
    def first_row_id(self) -> int | None:
        return self.file.first_row_id

    @property
    def write_cols(self) -> list[str] | None:
        return None if self.file.write_columns is None else [*self.file.write_columns]


@dataclass(frozen=True)
class Split:
    """Sections of one bucket that are read together. `template` is their plan without sections."""

    template: ScanPlan
    sections: tuple[Section, ...]

    @cached_property
    def files(self) -> list[SplitFile]:
        return [SplitFile(file) for section in self.sections for file in section.files]

    @property
    def partition(self) -> Row:
        row = Row(self.sections[0].partition)
        row.names = self.template.schema.partition_keys
        return row

    @property
    def bucket(self) -> int:
        return self.sections[0].bucket

    @property
    def row_count(self) -> int:
        """The rows in the files, before versions of a key are merged and deleted rows left out."""
        return sum(section.row_count for section in self.sections)

    @property
    def file_size(self) -> int:
        return sum(section.size for section in self.sections)

    @property
    def file_paths(self) -> list[str]:
        return [file.file_path for file in self.files]

    @property
    def snapshot_id(self) -> int | None:
        return None if self.template.snapshot is None else self.template.snapshot.id

    @property
    def raw_convertible(self) -> bool:
        """Whether every row that is not deleted is a row of the table."""
        return all(section.kind is SectionKind.RAW for section in self.sections)

    def merged_row_count(self) -> int | None:
        """Return the number of rows that a read without a filter returns; None if metadata does not show it."""
        gone = [0 if each.file.deletion is None else each.file.deletion.cardinality for each in self.files]
        if not self.raw_convertible or None in gone:
            return None
        return self.row_count - sum(number or 0 for number in gone)


DataSplit = Split


@dataclass(frozen=True)
class WholeSplit:
    """All rows of a source without data files, such as a system table."""

    source: Source = field(repr=False)

    files: tuple[SplitFile, ...] = ()
    partition: Row = field(default_factory=Row)
    bucket: int = 0
    row_count: int = 0
    raw_convertible: bool = True


@dataclass(frozen=True)
class ChangesSplit:
    """The changed rows of one snapshot of a stream, in the columns of the stream's scan."""

    changes: Changes = field(repr=False)


AnySplit = Split | WholeSplit | ChangesSplit


@dataclass(frozen=True)
class Plan:
    """A plan of a read."""

    _splits: Sequence[AnySplit]
    snapshot_id: int | None = None

    def splits(self) -> list[AnySplit]:
        """Return the parts of the plan, each for one call or process."""
        return list(self._splits)


def split_plan(plan: ScanPlan, target: int, open_cost: int) -> Iterator[Split]:
    """Divide a plan into splits of about `target` bytes; files count at least `open_cost` bytes."""
    for part in plan.parts:
        template = replace(part, sections=(), steps=(), fallback=None)
        pieces = (piece for section in part.sections for piece in _divide(section))
        for _, of_bucket in groupby(pieces, lambda piece: (piece.partition_row, piece.bucket)):
            packed: list[Section] = []
            size = 0
            for piece in of_bucket:
                cost = sum(max(file.size, open_cost) for file in piece.files)
                if packed and size + cost > target:
                    yield Split(template, tuple(packed))
                    packed, size = [], 0
                packed.append(piece)
                size += cost
            yield Split(template, tuple(packed))


def _divide(section: Section) -> Iterator[Section]:
    """Yield a section for each file if files can be read one by one, else the section itself."""
    if section.kind is not SectionKind.RAW or len(section.files) == 1:
        yield section
        return
    for file in section.files:
        yield replace(section, files=(file,))


class ReadBuilder:
    """A builder of scans and reads of one table."""

    def __init__(self, source: Source, options: Options) -> None:
        self._source = source
        self._options = options
        self._filters: dict[str, Predicate | None] = {}
        self._output: list[OutputColumn] | None = None
        self._limit: int | None = None

    def with_filter(self, predicate: Predicate | None) -> ReadBuilder:
        """Keep only rows for which a predicate is true."""
        self._filters["rows"] = predicate
        return self

    def with_partition_filter(self, partition_filter: Predicate | None) -> ReadBuilder:
        """Keep only partitions for which a predicate is true."""
        self._filters["partitions"] = partition_filter
        return self

    def with_projection(self, projection: Sequence[str] | Mapping[str, str] | None) -> ReadBuilder:
        """Read only these columns, or members of rows (``a.b``, named ``a_b``); a mapping gives the output names.

        Raises:
            ColumnNotFound: no such column. Unsupported: a key of a map, or a function.
        """
        if projection is None:
            self._output = None
            return self
        named = projection.items() if isinstance(projection, Mapping) else [(None, each) for each in projection]
        known = (*self._source.fields, *self._source.hidden)
        paths = [(name, find_path(each, known)) for name, each in named]
        self._output = [OutputColumn(name or "_".join(each.name for each in path), path) for name, path in paths]
        return self

    def with_read_type(self, read_type: Sequence[DataField]) -> ReadBuilder:
        """Read only these columns."""
        return self.with_projection([each.name for each in read_type])

    def with_limit(self, limit: int) -> ReadBuilder:
        """Read at most this many rows."""
        self._limit = limit
        return self

    def new_predicate_builder(self) -> PredicateBuilder:
        """Return a builder of predicates on the columns that are read."""
        return PredicateBuilder(self.read_type())

    def read_type(self) -> list[DataField]:
        """Return the columns that are read."""
        return [to_pypaimon_field(each.field) for each in self._outputs()]

    def _outputs(self) -> list[OutputColumn]:
        if self._output is None:
            return [OutputColumn(each.name, (each,)) for each in self._source.fields]
        return self._output

    @property
    def _filter(self) -> pl.Expr | None:
        both = PredicateBuilder.and_predicates([each for each in self._filters.values() if each is not None])
        members = {each.name: build_member(each.path) for each in self._output or () if len(each.path) > 1}
        return None if both is None else both.to_polars(members)

    def new_scan(self) -> TableScan:
        """Return a scan, which plans."""
        return TableScan(self._source, self._options, self._filter, self._limit)

    def new_read(self) -> TableRead:
        """Return a read, which reads splits."""
        return TableRead(self._source, self._outputs(), self._filter, self._limit)

    def explain(self, verbose: bool = False) -> PrintedText:  # noqa: ARG002  # a parameter of pypaimon
        """Explain the read, as `Scan.explain` does.

        Raises:
            Unsupported: a system table.
        """
        rows = self._source.rows([each.path[0].name for each in self._outputs()], self._filter, self._limit)
        if not isinstance(rows, Scan):
            raise Unsupported("explain of a system table or of changes")
        return rows.explain()


def choose_rows(pieces: Iterable[Piece], first: int, last: int) -> Iterator[Piece]:
    """Yield the pieces with the stored rows [`first`, `last`), which are counted through all pieces."""
    start = 0
    for piece in pieces:
        low, high = max(first - start, 0), min(last - start, piece.rows)
        if low < high:
            yield replace(piece, first=piece.first + low, last=piece.first + high)
        start += piece.rows


def _choose_files(plan: ScanPlan, number: int, count: int) -> ScanPlan:
    """Return the plan of a shard of a table with a primary key.

    If all files of the plan are read alone, Java's hashes of their names divide them, as in pypaimon, else buckets.
    """
    alone = plan.merge is not None and plan.merge.hides_level_zero
    if not alone or any(section.kind is not SectionKind.RAW for section in plan.sections):
        return replace(plan, sections=tuple(each for each in plan.sections if each.bucket % count == number))
    pieces = (piece for section in plan.sections for piece in _divide(section))
    return replace(plan, sections=tuple(each for each in pieces if _hash_name(each.files[0].path) % count == number))


def _hash_name(path: str) -> int:
    """Return the absolute value of the hash that Java has of a file's name."""
    units = np.frombuffer(path.rpartition("/")[2].encode("utf-16-le", "surrogatepass"), "<u2").tolist()
    found = reduce(lambda value, unit: (31 * value + unit) & 0xFFFFFFFF, units, 0)
    return abs(found - (found >> 31 << 32))


def check_shard(number: int, count: int) -> None:
    """Raise `InvalidArgument` if there is no shard of this number, from 0 on."""
    if not 0 <= number < count:
        raise InvalidArgument(f"the number of a shard is at least 0 and below their count ({count}), not {number}")


class TableScan:
    """A planner of reads."""

    def __init__(self, source: Source, options: Options, filter: pl.Expr | None, limit: int | None) -> None:
        self._source, self._options = source, options
        self._filter, self._limit = filter, limit
        self._shard: tuple[int, int] = (0, 1)
        self._slice: tuple[int, int] | None = None

    def with_shard(self, idx_of_this_subtask: int, number_of_para_subtasks: int) -> TableScan:
        """Plan one of `number_of_para_subtasks` parts, as pypaimon divides them.

        Tables without keys are divided by their stored rows, the others by buckets, or by files if each is read alone.

        Raises:
            InvalidArgument: an index that is not below the number.
        """
        check_shard(idx_of_this_subtask, number_of_para_subtasks)
        self._check_one_part(self._slice is None)
        self._shard = idx_of_this_subtask, number_of_para_subtasks
        return self

    def plan(self) -> Plan:
        """Plan the read of the newest snapshot, or of the one that the table's options name."""
        rows = self._source.rows([each.name for each in self._source.fields], self._filter, self._limit)
        if not isinstance(rows, Scan):
            return Plan([WholeSplit(self._source)])
        plans: Sequence[ScanPlan] = rows.plan.parts
        if rows.plan.schema.primary_keys:
            if self._slice is not None:
                plans = rows.slice(*self._slice).plans
            plans = [_choose_files(plan, *self._shard) for plan in plans]
        elif self._slice is not None or self._shard != (0, 1):
            plans = self._choose_rows(rows)
        sizes = self._options.get(SOURCE_SPLIT_TARGET_SIZE), self._options.get(SOURCE_SPLIT_OPEN_FILE_COST)
        plans = [replace(plan, fallback=None) for plan in plans]
        return Plan([split for plan in plans for split in split_plan(plan, *sizes)], rows.snapshot_id)

    def _choose_rows(self, rows: Scan) -> Sequence[ScanPlan]:
        """Return the plans of the stored rows of a slice, or of a shard. Tables with row ids are in their order."""
        pieces = list_pieces(rows.plan, rows.store)
        if any(piece.section.kind is SectionKind.STITCH for piece in pieces):
            pieces.sort(key=lambda piece: min(file.first_row_id or 0 for file in piece.section.files))
        number, count = self._shard
        each, more = divmod(sum(piece.rows for piece in pieces), count)
        start = number * each + min(number, more)
        return join_pieces(choose_rows(pieces, *(self._slice or (start, start + each + (number < more)))))

    def with_slice(self, start_pos: int, end_pos: int) -> TableScan:
        """Plan the stored rows at the positions from `start_pos` to `end_pos`, without it, before rows are left out.

        In tables with a primary key, positions count rows as `morrow.Scan.slice` does.

        Raises:
            InvalidArgument: no positions, or a shard as well.
        """
        if not 0 <= start_pos < end_pos:
            raise InvalidArgument(f"start_pos is at least 0 and less than end_pos ({end_pos}), not {start_pos}")
        self._check_one_part(self._shard == (0, 1))
        self._slice = start_pos, end_pos
        return self

    def _check_one_part(self, alone: bool) -> None:
        if not alone:
            raise InvalidArgument("with_shard and with_slice cannot be used simultaneously")


class TableRead:
    """A reader of splits."""

    def __init__(
        self,
        source: Source,
        output: Sequence[OutputColumn],
        filter: pl.Expr | None,
        limit: int | None,
        *,
        include_row_kind: bool = False,
    ) -> None:
        self._source, self._output, self._filter, self._limit = source, output, filter, limit
        self.include_row_kind = include_row_kind

    @property
    def read_type(self) -> list[t.DataField]:
        return [each.field for each in self._output]

    @cached_property
    def _columns(self) -> list[str]:
        return list(dict.fromkeys(each.path[0].name for each in self._output))

    @cached_property
    def _rows(self) -> Rows | pa.Table:
        return self._source.rows(self._columns, self._filter, self._limit)

    @property
    def _schema(self) -> pa.Schema:
        kinds = [pa.field(ROW_KIND_COLUMN, pa.string())] if self.include_row_kind else []
        return pa.schema([*kinds, *self._output_schema])

    @cached_property
    def _output_schema(self) -> pa.Schema:
        return t.to_arrow_schema([each.field for each in self._output])

    def to_arrow(self, splits: Sequence[AnySplit], *_: Any, **__: Any) -> pa.Table:
        """Read splits as one Arrow table. Options of parallelism are ignored: Morrow reads in parallel by itself."""
        return pa.Table.from_batches(self._batches(splits, whole=True), self._schema)

    def to_arrow_batch_reader(self, splits: Sequence[AnySplit], *_: Any, **__: Any) -> pa.RecordBatchReader:
        """Read splits as record batches, in bounded memory."""
        return pa.RecordBatchReader.from_batches(self._schema, self._batches(splits))

    def to_iterator(self, splits: Sequence[AnySplit]) -> Iterator[Row]:
        """Yield the rows one by one as Python values, slowly."""
        for batch in self._batches(splits):
            yield from map(Row, zip(*(column.to_pylist() for column in batch.columns)))

    def to_pandas(self, splits: Sequence[AnySplit], *_: Any, **__: Any) -> pd.DataFrame:
        """Read splits as a pandas DataFrame. Raises `Unsupported` without pandas."""
        with require_extra("to_pandas", "pandas", "pandas"):
            import pandas as pd  # noqa: F401
        return self.to_arrow(splits).to_pandas()

    def to_duckdb(
        self,
        splits: Sequence[AnySplit],
        table_name: str,
        connection: duckdb.DuckDBPyConnection | None = None,
        *_: Any,
        **__: Any,
    ) -> duckdb.DuckDBPyConnection:
        """Read splits as a table of a DuckDB connection, in memory by default, and return the connection."""
        import duckdb

        target = duckdb.connect() if connection is None else connection
        return target.register(table_name, self.to_arrow(splits))

    def to_ray(self, splits: Sequence[AnySplit], **_: Any) -> Any:
        """Read splits here as a Ray dataset. Raises `Unsupported` without Ray."""
        _require("to_ray", "ray", "install ray, or read with to_arrow, or on a cluster with morrow.spark.read")
        import ray.data

        return ray.data.from_arrow(self.to_arrow(splits))

    def to_torch(self, splits: Sequence[AnySplit], streaming: bool = False, **_: Any) -> TorchDataset:
        """Read splits here as a PyTorch dataset of dicts, by position.

        Raises:
            Unsupported: without PyTorch, or a streaming dataset.
        """
        _require("to_torch", "torch", "install torch, or iterate over to_arrow_batch_reader")
        if streaming:
            raise Unsupported("a streaming dataset", hint="iterate over to_arrow_batch_reader")
        return TorchDataset(self.to_arrow(splits))

    def _batches(self, splits: Sequence[AnySplit], *, whole: bool = False) -> Iterator[pa.RecordBatch]:
        """Yield the rows of splits; `whole`: all rows of a plan at once, which is faster."""
        left = self._limit
        for rows in self._parts(splits):
            batches = rows.to_arrow().to_batches() if whole and isinstance(rows, Rows) else rows.to_batches()
            for batch in batches:
                if left == 0:
                    return
                shown = self._arrange(pa.Table.from_batches([batch]).slice(0, left))
                left = None if left is None else left - shown.num_rows
                yield from shown.to_batches()

    def _parts(self, splits: Sequence[AnySplit]) -> Iterator[Rows | pa.Table]:
        """Yield the rows of splits. Splits of one plan are read together."""
        for key, group in groupby(splits, lambda split: split.template if isinstance(split, Split) else None):
            if key is None:
                yield from (each.changes if isinstance(each, ChangesSplit) else self._rows for each in group)
                continue
            asked = self._rows
            if not isinstance(asked, Scan):
                raise InvalidArgument("the splits are of another table; plan them with the scan of this read builder")
            sections = tuple(section for each in group if isinstance(each, Split) for section in each.sections)
            request = asked.request
            plan = replace(key, schema=request.read_schema, sections=sections, limit=self._limit)
            plan = replace(plan, columns=request.columns, filter=request.filter)
            yield Scan(asked._metadata, request, plan)

    def _arrange(self, rows: pa.Table) -> pa.Table:
        """Return the output columns of rows."""
        arrays = [read_member(rows, each.path) for each in self._output]
        if self.include_row_kind:
            kinds = rows[ROWKIND] if ROWKIND in rows.column_names else pa.chunked_array([["+I"] * rows.num_rows])
            arrays.insert(0, kinds)
        if not arrays:
            return rows.select([])
        return pa.Table.from_arrays(arrays, schema=self._schema)


def _require(method: str, module: str, hint: str) -> None:
    from importlib.util import find_spec

    if find_spec(module) is None:
        raise Unsupported(f"{method} without {module}", hint=hint)


@dataclass(frozen=True)
class TorchDataset:
    """A map-style dataset of PyTorch: rows as dicts, by position."""

    rows: pa.Table

    def __len__(self) -> int:
        return int(self.rows.num_rows)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Sequence[int]) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.rows.take(pa.array(indices, pa.int64())).to_pylist()
        return found


class StreamReadBuilder(ReadBuilder):
    """A builder of streams of changes."""

    def __init__(self, table: Table, options: Options) -> None:
        super().__init__(TableSource(table), options)
        self._table = table
        self._poll_millis = 1000
        self._with_kinds = False
        self._consumer_id: str | None = None

    def with_poll_interval_ms(self, poll_interval_ms: int) -> StreamReadBuilder:
        """Look for new snapshots once in this time."""
        self._poll_millis = poll_interval_ms
        return self

    def with_include_row_kind(self, include: bool = True) -> StreamReadBuilder:
        """Read the row kinds as the first column, ``_row_kind``."""
        self._with_kinds = include
        return self

    def with_consumer_id(self, consumer_id: str) -> StreamReadBuilder:
        """Record the progress under this consumer, and continue from it."""
        self._consumer_id = consumer_id
        return self

    def with_bucket_filter(self, bucket_filter: Callable[[int], bool]) -> StreamReadBuilder:
        """Raise `Unsupported`: streams of Morrow read all buckets."""
        raise Unsupported(
            f"the bucket filter {bucket_filter!r} of a stream", hint="give each reader a filter on partitions or keys"
        )

    def with_buckets(self, bucket_ids: Sequence[int]) -> StreamReadBuilder:
        """Raise `Unsupported`, as `with_bucket_filter`."""
        return self.with_bucket_filter(set(bucket_ids).__contains__)

    def new_streaming_scan(self) -> StreamingTableScan:
        """Return a scan that follows the table."""
        columns = list(dict.fromkeys(each.path[0].name for each in self._outputs()))
        filter = self._filter

        def begin() -> ChangeStream:
            return self._table.stream(columns=columns, filter=filter, consumer_id=self._consumer_id, wait=0, start=None)

        return StreamingTableScan(begin, self._poll_millis / 1000, has_consumer=self._consumer_id is not None)

    def new_read(self) -> TableRead:
        """Return a read of the stream's splits."""
        return TableRead(self._source, self._outputs(), None, None, include_row_kind=self._with_kinds)


class StreamingTableScan:
    """A stream of plans: all rows first, then the changes of each snapshot.

    The progress of a consumer is recorded when the next plan is requested.
    """

    def __init__(self, begin: Callable[[], ChangeStream], poll: float, *, has_consumer: bool) -> None:
        self._begin, self._poll, self._has_consumer = begin, poll, has_consumer

    @cached_property
    def _stream(self) -> ChangeStream:
        return self._begin()

    @property
    def next_snapshot_id(self) -> int:
        """The snapshot that is read next."""
        return self._stream.next_snapshot

    async def stream(self) -> AsyncIterator[Plan]:
        """Yield a plan for each snapshot that changes rows, for ever."""
        while True:
            try:
                found = next(self._stream)
            except StopIteration:
                await asyncio.sleep(self._poll)
                continue
            yield Plan([] if found.is_empty else [ChangesSplit(found)], found.snapshot_id)
            if self._has_consumer:
                self._stream.commit()

    def stream_sync(self) -> Iterator[Plan]:
        """Yield the same plans without an event loop of the caller."""
        plans = self.stream()
        loop = asyncio.new_event_loop()
        try:
            while True:
                yield loop.run_until_complete(anext(plans))
        finally:
            loop.close()
