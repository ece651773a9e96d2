"""A scan: what to read of a table, and the forms its rows come in."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from morrow.engine.errors import ColumnNotFound, InvalidArgument
from morrow.engine.plan.explain import explain
from morrow.engine.plan.fallback import plan_with_fallback
from morrow.engine.plan.filter import Filter, FilterLike, both, parse_filter
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.planner import ScanRequest
from morrow.engine.plan.scan_plan import ScanPlan
from morrow.engine.plan.time_travel import AsOf, Time, Travel, resolve, travel_of, travel_of_options

if TYPE_CHECKING:
    import duckdb
    import pandas as pd
    import polars as pl
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyspark.sql import DataFrame as SparkDataFrame
    from pyspark.sql import SparkSession

    from morrow.engine.format.types import DataField
    from morrow.engine.io.store import FileStore
    from morrow.readers.dataset import PaimonDataset


def make_scan(
    metadata: TableMetadata,
    *,
    columns: Sequence[str] | None = None,
    filter: FilterLike | None = None,
    limit: int | None = None,
    as_of: AsOf | None = None,
    snapshot: int | None = None,
    tag: str | None = None,
    timestamp: Time | None = None,
    watermark: int | None = None,
    travel: Travel | None = None,
) -> Scan:
    """Resolve snapshot and schema, and check columns, filter and limit against them; see `Table.scan`.

    `travel` is what the arguments from `as_of` on say, where that is known already.
    """
    newest = metadata.latest_schema()
    options = metadata.options(newest)
    if travel is None:
        travel = travel_of(as_of, snapshot=snapshot, tag=tag, timestamp=timestamp, watermark=watermark)
    if travel.is_latest:
        travel = travel_of_options(options.travel)
    found = resolve(metadata, travel)
    # Time travel reads with that snapshot's columns; options are those of today, as in Java.
    schema = newest if travel.is_latest or found is None else metadata.schema(found.schema_id)
    checked_limit(limit)
    names = tuple(schema.by_name) if columns is None else checked_columns(columns)
    for name in names:
        schema.column(name)
    parsed = parse_filter(filter, schema.fields)
    request = ScanRequest(schema, options, found, names, parsed, limit, travelled=not travel.is_latest)
    return Scan(metadata, request)


def checked_columns(columns: Sequence[str]) -> tuple[str, ...]:
    """A caller's list of column names. Raises `InvalidArgument` for what is none, or names a column twice."""
    if isinstance(columns, str):
        raise InvalidArgument(f"columns must be a list of names, not the text {columns!r}; write columns=[{columns!r}]")
    if not isinstance(columns, Iterable) or not all(isinstance(name, str) for name in columns):
        raise InvalidArgument(f"columns must be a list of column names, not {columns!r}")
    if len(set(columns)) != len(columns):
        raise InvalidArgument(f"columns names a column twice: {list(columns)}")
    return tuple(columns)


def checked_limit(limit: int | None) -> int | None:
    """A caller's limit. Raises `InvalidArgument` unless it is a number of rows."""
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 0):
        raise InvalidArgument(f"limit must be a number of rows, 0 or more, not {limit!r}")
    return limit


def checked_rows(batch_rows: int | None) -> int | None:
    """A caller's size of batches. Raises `InvalidArgument` unless it is a positive number."""
    if batch_rows is not None and (isinstance(batch_rows, bool) or not isinstance(batch_rows, int) or batch_rows < 1):
        raise InvalidArgument(f"batch_rows must be a number of rows, 1 or more, not {batch_rows!r}")
    return batch_rows


class Scan:
    """A planned read. Rows come as Arrow, Polars, pandas, DuckDB or Spark; the plan is made once, on first use."""

    def __init__(self, metadata: TableMetadata, request: ScanRequest, plan: ScanPlan | None = None) -> None:
        self._metadata = metadata
        self._request = request
        self._given_plan = plan

    @cached_property
    def plan(self) -> ScanPlan:
        """The immutable plan: files, sections, what pruning kept."""
        return self._given_plan or plan_with_fallback(self._metadata, self._request)

    def prepare(self) -> None:
        """Do now what needs no rows: make the plan."""
        _ = self.plan

    @property
    def store(self) -> FileStore:
        """Where the files of the plan lie."""
        return self._metadata.store

    @property
    def fields(self) -> tuple[DataField, ...]:
        """The columns of the rows, in their Paimon types; known without a plan."""
        return tuple(self._request.read_schema.by_name[name] for name in self._request.columns)

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the rows."""
        from morrow.engine.format.types import arrow_schema

        return arrow_schema(self.fields)

    @property
    def snapshot_id(self) -> int | None:
        """The snapshot that is read, None for a table without one."""
        return None if self._request.snapshot is None else self._request.snapshot.id

    def to_arrow(self) -> pa.Table:
        """All rows as an Arrow table with exactly `schema`."""
        from morrow.readers import execute

        return execute.to_arrow(self.plan, self._metadata.store)

    def to_batches(self, batch_rows: int | None = None) -> Iterator[pa.RecordBatch]:
        """Rows as record batches, in bounded memory whatever the table's size."""
        from morrow.readers import execute

        return execute.to_batches(self.plan, self._metadata.store, checked_rows(batch_rows) or execute.BATCH_ROWS)

    def to_reader(self, batch_rows: int | None = None) -> pa.RecordBatchReader:
        """`to_batches` as an Arrow record batch reader."""
        from morrow.readers import execute

        return execute.batch_reader(self.plan, self._metadata.store, checked_rows(batch_rows) or execute.BATCH_ROWS)

    def to_polars(self) -> pl.DataFrame:
        """All rows as a Polars DataFrame (MAP and MULTISET as lists of key, value structs)."""
        from morrow.readers import execute

        return execute.to_polars(self.plan, self._metadata.store)

    def lazy(self) -> pl.LazyFrame:
        """A Polars LazyFrame; masks are computed now, data is read when it is collected.

        If the snapshot has expired by then, the error that a file is missing is Polars' own, not `SnapshotExpired`.
        Columns chosen later reach the file scans. So do filters on files without a mask; on masked files give them to
        `Table.scan` instead, which tests them before the mask.
        """
        from morrow.readers import execute

        return execute.lazy(self.plan, self._metadata.store)

    def to_pandas(self) -> pd.DataFrame:
        """All rows as a pandas DataFrame of Arrow-backed columns: no type is lost, nulls stay nulls."""
        import pandas as pd

        return self.to_arrow().to_pandas(types_mapper=pd.ArrowDtype)

    def dataset(self) -> PaimonDataset:
        """The scan as a pyarrow Dataset: columns and filters pushed into it narrow the scan."""
        from morrow.readers.dataset import PaimonDataset

        key = (self._metadata.store.url(self._metadata.root), self._metadata.branch, self._request)

        def read(columns: Sequence[str] | None, filter: pc.Expression | None) -> pa.RecordBatchReader:
            return self.narrowed(columns, filter).to_reader()

        def plan(columns: Sequence[str] | None, filter: pc.Expression | None) -> tuple[ScanPlan, FileStore]:
            return self.narrowed(columns, filter).plan, self._metadata.store

        return PaimonDataset(self.schema, read, key, plan)

    def narrowed(self, columns: Sequence[str] | None = None, filter: FilterLike | None = None) -> Scan:
        """The same snapshot with fewer columns and rows: both must be of this scan's output.

        Raises:
            ColumnNotFound: a column that this scan does not have.
            InvalidArgument: this scan has a limit, which a later filter would change the meaning of.
        """
        request = self._request
        if request.limit is not None and filter is not None:
            raise InvalidArgument("a scan with a limit cannot be narrowed by a filter")
        names = request.columns if columns is None else checked_columns(columns)
        for name in names:
            if name not in request.columns:
                raise ColumnNotFound(f"there is no column {name!r}; the columns are {', '.join(request.columns)}")
        if filter is None:
            plan = self.plan.with_columns(names)
            return Scan(self._metadata, replace(request, columns=names), plan)
        narrower = parse_filter(filter, [request.read_schema.column(name) for name in request.columns])
        return Scan(self._metadata, replace(request, columns=names, filter=both(request.filter, narrower)))

    @property
    def request(self) -> ScanRequest:
        """What is asked for: snapshot, schema, columns, filter and limit."""
        return self._request

    def adapted(self, change: Callable[[ScanRequest], ScanRequest]) -> Scan:
        """The same snapshot read in another way."""
        return Scan(self._metadata, change(self._request))

    def asking(self, columns: tuple[str, ...], filter: Filter, limit: int | None) -> Scan:
        """The same snapshot with these columns and rows, which are known to be right."""
        return Scan(self._metadata, replace(self._request, columns=columns, filter=filter, limit=limit))

    def to_duckdb(self, connection: duckdb.DuckDBPyConnection | None = None) -> duckdb.DuckDBPyRelation:
        """A DuckDB relation on `connection` (DuckDB's default connection when None)."""
        from morrow.readers import duckdb_relation

        # What cannot be read is said here, by our errors: DuckDB wraps what its scans raise in its own.
        _ = self.plan
        # DuckDB would push its filters below the limit, so limited rows are handed over as they are.
        source = self.dataset() if self._request.limit is None else self.to_arrow()
        return duckdb_relation.relation(source, connection)

    def to_spark(self, spark: SparkSession) -> SparkDataFrame:
        """A Spark DataFrame, made by createDataFrame from Arrow: for results that fit the driver.

        Raises:
            Unsupported: a column whose type this version of Spark does not have (TIME before 4.1).
            InvalidArgument: the rows take more than 1 GiB; `morrow.spark.read` leaves them to the executors.
        """
        from morrow.readers.spark import handoff

        return handoff.to_spark(self.to_batches(), self.fields, spark, where=self._metadata.where)

    def count(self) -> int:
        """The number of rows, from metadata where that suffices."""
        from morrow.readers import execute

        return execute.count(self.plan, self._metadata.store)

    def verify(self) -> int:
        """Read every file of the plan whole and hold it against metadata and page checksums.

        Scans check sizes, counts and the checksums of deletion vectors, but no page checksums of Parquet files: a bit
        that flipped in a page may go unnoticed there, and is found here.

        Returns: the number of files checked.

        Raises:
            FileMissing, CorruptFile: the first file that is gone, truncated or damaged.
            SnapshotExpired: files are gone because the snapshot has been removed meanwhile.
        """
        from morrow.engine.plan.in_flight import in_flight
        from morrow.readers.file_frames import verify_file
        from morrow.readers.merges.version_masks import scan_masks

        store = self._metadata.store
        with in_flight(self.plan, store):
            for part in self.plan.parts:
                for section in part.sections:
                    scan_masks(part, section, store)
                    for file in section.files:
                        verify_file(part, file, store)
        return sum(len(part.files) for part in self.plan.parts)

    def explain(self) -> str:
        """What will be read and why: files, sections, masks, bytes, pushed predicates, and the merge as SQL."""
        from morrow.readers.merges.explain import merge_text

        texts = [explain(self.plan), *map(merge_text, self.plan.parts)]
        return "\n\n".join(text for text in texts if text)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        request = self._request
        parts = [repr(self._metadata.where), f"columns={list(request.columns)}"]
        if request.filter.text:
            parts.append(f"filter={request.filter.text!r}")
        if request.limit is not None:
            parts.append(f"limit={request.limit}")
        return f"Scan({', '.join(parts)}, snapshot={self.snapshot_id})"

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self.explain())}</pre>"
