"""Scans: planned reads of a table, with its rows as Arrow, Polars, pandas, DuckDB or Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from morrow.engine.errors import ColumnNotFound, InvalidArgument, MorrowError
from morrow.engine.plan.filter import Filter, FilterLike, both, parse_filter
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.predicate import columns as columns_of
from morrow.engine.plan.request import ScanRequest
from morrow.engine.plan.scan_plan import ScanPlan
from morrow.engine.telling import did_you_mean, shown, shown_lines, the_columns
from morrow.engine.values import replace
from morrow.scans.planning import planned
from morrow.scans.rows import Rows
from morrow.scans.scan_arguments import checked_columns, checked_rows

if TYPE_CHECKING:
    import duckdb
    import polars as pl
    import pyarrow as pa
    import pyarrow.compute as pc

    from morrow.engine.format.types import DataField
    from morrow.engine.io.store import FileStore
    from morrow.engine.plan.planner import Outlines
    from morrow.readers.execution.dataset import PaimonDataset
    from morrow.readers.execution.verification.report import Verification


class Scan(Rows):
    """A read of a table: rows as Arrow, Polars, pandas, DuckDB or Spark. The plan is made once, on first use."""

    def __init__(self, metadata: TableMetadata, request: ScanRequest, plan: ScanPlan | None = None) -> None:
        self._metadata = metadata
        self._request = request
        self._given_plan = plan

    @cached_property
    def plan(self) -> ScanPlan:
        """The immutable plan: files, sections, the results of pruning."""
        if self._given_plan is not None:
            return self._given_plan
        return planned(self._metadata, self._request)

    def prepare(self) -> None:
        """Makes the plan now, which reads no rows."""
        _ = self.plan

    @property
    def store(self) -> FileStore:
        """The store of the plan's files."""
        return self._metadata.store

    @property
    def fields(self) -> tuple[DataField, ...]:
        """The columns of the rows, in their Paimon types; known without a plan."""
        return tuple(self._request.read_schema.by_name[name] for name in self._request.columns)

    @property
    def title(self) -> str:
        """The table's path."""
        return self._metadata.where

    @property
    def snapshot_id(self) -> int | None:
        """The id of the snapshot that is read, None for a table without snapshots."""
        return None if self._request.snapshot is None else self._request.snapshot.id

    def to_arrow(self) -> pa.Table:
        """Returns all rows as an Arrow table with exactly `schema`."""
        from morrow.readers.execution import execute

        return execute.to_arrow(self.plan, self._metadata.store)

    def to_batches(self, batch_rows: int | None = None) -> Iterator[pa.RecordBatch]:
        """Yields rows as record batches, in bounded memory whatever the table's size."""
        from morrow.readers.execution import execute

        return execute.to_batches(self.plan, self._metadata.store, checked_rows(batch_rows) or execute.BATCH_ROWS)

    def to_reader(self, batch_rows: int | None = None) -> pa.RecordBatchReader:
        """Returns `to_batches` as an Arrow record batch reader."""
        from morrow.readers.execution import execute

        return execute.batch_reader(self.plan, self._metadata.store, checked_rows(batch_rows) or execute.BATCH_ROWS)

    def to_polars(self) -> pl.DataFrame:
        """Returns all rows as a Polars DataFrame (MAP and MULTISET as lists of key, value structs)."""
        from morrow.readers.execution import execute

        return execute.to_polars(self.plan, self._metadata.store)

    def lazy(self) -> pl.LazyFrame:
        """Returns a Polars LazyFrame of this scan's snapshot, which is planned and read when it is collected.

        Columns, filters and limits set later reach the files as those of `Table.scan` do, also in tables whose rows are
        merged. Errors of files are raised on collect as by the other results, such as `CorruptFile`.
        """
        from morrow.readers.execution.lazy_scan import lazy_scan

        return lazy_scan(self.fields, self._planned, self._metadata.store, self.title)

    def _planned(
        self, columns: Sequence[str] | None, filter: pl.Expr | None, limit: int | None
    ) -> tuple[ScanPlan, pl.Expr | None]:
        """Plans what Polars asks for; returns the filter, too, if rows of the plan are still to be tested by it."""
        request = self._request
        names = request.columns if columns is None else tuple(columns)
        if limit is not None:
            least = limit if request.limit is None else min(limit, request.limit)
            return Scan(self._metadata, replace(request, columns=names, limit=least)).plan, filter
        if filter is None or request.limit is not None:
            return self.plan.with_columns(names), filter
        try:
            parsed = parse_filter(filter, self.fields)
        except MorrowError:  # Polars took it, and can test it on rows
            return self.plan.with_columns(names), filter
        exact = Filter(parsed.predicate, (), columns_of(parsed.predicate), parsed.text)
        narrowed = Scan(self._metadata, replace(request, columns=names, filter=both(request.filter, exact)))
        return narrowed.plan, filter if parsed.residuals else None

    def dataset(self) -> PaimonDataset:
        """Returns the scan as a pyarrow Dataset: columns and filters pushed into it narrow the scan."""
        from morrow.readers.execution.dataset import PaimonDataset

        metadata, store = self._metadata, self._metadata.store
        opened = metadata.branch, metadata.allowed_roots, store.checks_pages
        key = (store.url(metadata.root), *opened, self._request) if self._request.filter.is_identified else None

        def read(columns: Sequence[str] | None, filter: pc.Expression | None) -> pa.RecordBatchReader:
            return self.narrowed(columns, filter).to_reader()

        def plan(columns: Sequence[str] | None, filter: pc.Expression | None) -> tuple[ScanPlan, FileStore]:
            return self.narrowed(columns, filter).plan, self._metadata.store

        return PaimonDataset(self.schema, read, key, plan)

    def narrowed(self, columns: Sequence[str] | None = None, filter: FilterLike | None = None) -> Scan:
        """Returns a scan of the same snapshot with fewer columns and rows; both refer to this scan's output.

        Raises:
            ColumnNotFound: a column that this scan does not have.
            InvalidArgument: a filter on a scan with a limit, whose meaning it would change.
        """
        request = self._request
        if request.limit is not None and filter is not None:
            raise InvalidArgument("a scan with a limit cannot be narrowed by a filter")
        names = request.columns if columns is None else checked_columns(columns)
        for name in names:
            if name not in request.columns:
                hint = did_you_mean(name, request.columns)
                raise ColumnNotFound(f"there is no column {name!r}; {hint}{the_columns(request.columns)}")
        if filter is None:
            plan = self.plan.with_columns(names)
            return Scan(self._metadata, replace(request, columns=names), plan)
        narrower = parse_filter(filter, [request.read_schema.column(name) for name in request.columns])
        return Scan(self._metadata, replace(request, columns=names, filter=both(request.filter, narrower)))

    @property
    def request(self) -> ScanRequest:
        """The request: snapshot, schema, columns, filter and limit."""
        return self._request

    def adapted(self, change: Callable[[ScanRequest], ScanRequest]) -> Scan:
        """Returns a scan of the same snapshot whose request is changed by `change`."""
        return Scan(self._metadata, change(self._request))

    def asking(self, columns: tuple[str, ...], filter: Filter, limit: int | None) -> Scan:
        """Returns a scan of the same snapshot with these columns, filter and limit, which are not checked again."""
        return Scan(self._metadata, replace(self._request, columns=columns, filter=filter, limit=limit))

    def to_duckdb(self, connection: duckdb.DuckDBPyConnection | None = None) -> duckdb.DuckDBPyRelation:
        """Returns a DuckDB relation on `connection` (DuckDB's default connection when None)."""
        from morrow.readers.execution import duckdb_relation

        # Planning now raises Morrow's own errors: DuckDB wraps those of its scans.
        _ = self.plan
        # DuckDB would push its filters below the limit, so limited rows are handed over as they are.
        source = self.dataset() if self._request.limit is None else self.to_arrow()
        return duckdb_relation.relation(source, connection)

    def to_sql(self) -> str:
        """Returns this read as one statement for DuckDB over ``read_parquet``, which needs nothing of Morrow.

        Its rows are those of `to_arrow`, in no order, as long as the files of the snapshot exist. Merges are window and
        aggregate functions; positions that deletion vectors name dead are in the text.

        Raises:
            Unsupported: what SQL cannot say: files of other formats than Parquet, timestamps of more than microseconds,
                types without one in DuckDB, casts of older files' columns that DuckDB does otherwise than Paimon, some
                aggregate functions, conditions of Polars and pyarrow that are no predicates of columns and constants.
        """
        from morrow.readers.execution.plain_sql import plain_sql

        return plain_sql(self.plan, self._metadata.store)

    def count(self) -> int:
        """Returns the number of rows, from metadata where that suffices."""
        from morrow.readers.execution import execute
        from morrow.readers.execution.summaries import Summary, Summing, is_of_partitions, summarised

        if self._request.filter.columns and is_of_partitions(self._request.filter, self._request.schema):
            told = summarised(self._metadata, self._request, [Summary(Summing.COUNT)])
            if told is not None:
                return int(told.item())
        return execute.count(self.plan, self._metadata.store)

    def verify(self) -> int:
        """Reads every data file whole and checks it against its metadata and checksums; see `verification`.

        Returns: the number of files.

        Raises:
            FileMissing, CorruptFile: a file is gone, truncated or damaged; the message names the others.
            Unsupported: a file that cannot be read. SnapshotExpired: files are gone because the snapshot has been
            removed meanwhile. StorageError.
        """
        found = self.verification()
        found.raise_problems()
        return len(found.files)

    def verification(self) -> Verification:
        """Reads every data file whole and reports the damage file by file; `str` of the report is a readable text.

        Files: all live files of the snapshot (of a fallback branch: those that the scan reads), with a filter those
        that may hold matching rows. All columns are decoded, in every format, whatever the scan's columns. Checked
        against metadata: size, number of rows and of retractions, statistics of columns (bounds, nulls), NOT NULL,
        partition values, first and last key, order and uniqueness of keys, sequence numbers, deletion vectors and file
        indexes (for some values); in Parquet files the checksum of every page that has one.

        Scans check only sizes, numbers of rows and checksums of deletion vectors and blobs, and with
        ``open(..., verify="pages")`` those of the pages they read.

        Raises:
            SnapshotExpired: files are gone because the snapshot has been removed meanwhile.
            CorruptFile, FileMissing, Unsupported, UnsafePath: metadata that cannot be read. StorageError.
        """
        from morrow.readers.execution.verification.plans import verified_plan

        return verified_plan(self._metadata, self.plan)

    def explain(self) -> str:
        """Explains the read: files, sections, masks, bytes, pushed predicates, and the merge as SQL."""
        from morrow.engine.plan.explain import explain
        from morrow.readers.merges.sql import merge_text

        texts = [explain(self.plan), *map(merge_text, self.plan.parts)]
        return shown_lines("\n\n".join(text for text in texts if text))

    def __repr__(self) -> str:
        request = self._request
        parts = [repr(self._metadata.where), f"columns={list(request.columns)}"]
        if request.filter.text:
            parts.append(f"filter={request.filter.text!r}")
        if request.limit is not None:
            parts.append(f"limit={request.limit}")
        return shown(f"Scan({', '.join(parts)}, snapshot={self.snapshot_id})")

    def _repr_html_(self) -> str:
        from morrow.html.elements import element

        return element("pre", self.explain())


def planned_with(scan: Scan, outlines: Outlines) -> Scan:
    """Returns the scan with its plan; if that is not made yet, `outlines` may have manifests decoded elsewhere."""
    if scan._given_plan is not None or "plan" in scan.__dict__:
        return scan
    return Scan(scan._metadata, scan._request, planned(scan._metadata, scan._request, outlines))
