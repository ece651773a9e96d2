"""Scans of a table: planned reads whose rows are Arrow, Polars, pandas, DuckDB or Spark data.

`make_scan` checks the arguments and chooses the snapshot. A scan is planned once, on first use. `DuckDBScan` runs
in DuckDB. Scans are cached by their arguments for repeated queries, until the newest schema or snapshot changes.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from morrow.engine.errors import ColumnNotFound, InvalidArgument, MorrowError, Unsupported
from morrow.engine.format.paths import MAIN_BRANCH
from morrow.engine.format.schema import refuse_unreadable
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.format.types import DataField
from morrow.engine.plan.branch_plans import derive_readable_schema, plan_with_fallback
from morrow.engine.plan.filter import Filter, FilterLike, combine_filters, parse_filter
from morrow.engine.plan.manifests import load_newest_state
from morrow.engine.plan.metadata import METADATA_CACHE, TableMetadata
from morrow.engine.plan.planner import Outlines, estimate_plan_bytes
from morrow.engine.plan.predicate import find_columns
from morrow.engine.plan.scan_plan import ScanPlan, ScanRequest, list_tracked_fields
from morrow.engine.plan.time_travel import NOW, Travel, parse_travel_options, resolve_main
from morrow.engine.redaction import PrintedText, clean_lines, clean_text, format_columns, get_logger, suggest_name
from morrow.engine.structs import replace
from morrow.engine.units import format_count, format_size
from morrow.scans.arguments import check_batch_rows, check_columns, check_limit
from morrow.scans.nested_columns import Path, build_member, make_member_field, read_member, split_nested_columns
from morrow.scans.result import Rows
from morrow.scans.splits import Divisible, Split

if TYPE_CHECKING:
    import duckdb
    import polars as pl
    import pyarrow as pa
    import pyarrow.compute as pc

    from morrow.engine.io.store import FileStore
    from morrow.readers.execution.datasets import PaimonDataset
    from morrow.readers.execution.verification import Verification


class Scan(Divisible):
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
        return plan_scan(self._metadata, self._request)

    def prepare(self) -> None:
        """Make the plan now, which reads no rows."""
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
        """Return all rows as an Arrow table with exactly `schema`."""
        from morrow.readers.execution import execute

        return execute.to_arrow(self.plan, self._metadata.store)

    def to_batches(self, batch_rows: int | None = None) -> Iterator[pa.RecordBatch]:
        """Yield rows as record batches, with memory bounded independently of the table's size."""
        from morrow.readers.execution import execute

        return execute.to_batches(
            self.plan, self._metadata.store, check_batch_rows(batch_rows) or execute.DEFAULT_BATCH_ROWS
        )

    def to_reader(self, batch_rows: int | None = None) -> pa.RecordBatchReader:
        """Return `to_batches` as an Arrow record batch reader."""
        from morrow.readers.execution import execute

        return execute.open_batch_reader(
            self.plan, self._metadata.store, check_batch_rows(batch_rows) or execute.DEFAULT_BATCH_ROWS
        )

    def to_polars(self) -> pl.DataFrame:
        """Return all rows as a Polars DataFrame (MAP and MULTISET as lists of key, value structs)."""
        from morrow.readers.execution import execute

        return execute.to_polars(self.plan, self._metadata.store)

    def rows(self, batch_rows: int | None = None) -> Iterator[dict[str, Any]]:
        """Yield rows as dicts of Python values. Values of BLOB columns are `morrow.Blob`, which read on demand."""
        from morrow.readers.execution.blob_columns import ask_descriptors, to_blobs

        plan = ask_descriptors(self.plan)
        described = Scan(self._metadata, self._request, plan)
        yield from to_blobs(plan, Rows.rows(described, batch_rows), self.store)

    def lazy(self) -> pl.LazyFrame:
        """Return a Polars LazyFrame of this scan's snapshot. Planning and reading happen on collect.

        Columns, filters and limits set on the frame prune files as the arguments of `Table.scan` do, even in tables
        with a primary key. Errors such as `CorruptFile` are raised on collect.
        """
        from morrow.readers.execution.execute import scan_lazily

        return scan_lazily(self.fields, self._plan, self._metadata.store, self.title)

    def _plan(
        self, columns: Sequence[str] | None, filter: pl.Expr | None, limit: int | None
    ) -> tuple[ScanPlan, pl.Expr | None]:
        """Plan the request of Polars. Return the filter, too, if rows of the plan must still be filtered."""
        request = self._request
        names = request.columns if columns is None else tuple(columns)
        if limit is not None:
            least = limit if request.limit is None else min(limit, request.limit)
            return Scan(self._metadata, replace(request, columns=names, limit=least)).plan, filter
        if filter is None or request.limit is not None:
            return self.plan.with_columns(names), filter
        try:
            parsed = parse_filter(filter, self.fields)
        except MorrowError:  # Polars accepted the filter and can apply it to rows
            return self.plan.with_columns(names), filter
        exact = Filter(parsed.predicate, (), find_columns(parsed.predicate), parsed.text)
        narrowed = Scan(self._metadata, replace(request, columns=names, filter=combine_filters(request.filter, exact)))
        return narrowed.plan, filter if parsed.residuals else None

    def dataset(self) -> PaimonDataset:
        """Return the scan as a pyarrow Dataset: columns and filters pushed into it narrow the scan."""
        from morrow.readers.execution.datasets import PaimonDataset

        metadata, store = self._metadata, self._metadata.store
        opened = metadata.branch, metadata.allowed_roots, store.checks_pages
        key = (store.url(metadata.root), *opened, self._request) if self._request.filter.is_identified else None

        def read(columns: Sequence[str] | None, filter: pc.Expression | None) -> pa.RecordBatchReader:
            return self.narrowed(columns, filter).to_reader()

        def plan(columns: Sequence[str] | None, filter: pc.Expression | None) -> tuple[ScanPlan, FileStore]:
            return self.narrowed(columns, filter).plan, self._metadata.store

        if self._request.limit is not None:
            return PaimonDataset(self.schema, read, key, plan, divide=lambda _: self.splits(1))
        fields = [self._request.read_schema.column(name) for name in self._request.columns]
        return PaimonDataset(
            self.schema,
            read,
            key,
            plan,
            fields=fields,
            keys=frozenset(self._request.schema.primary_keys),
            narrow=lambda columns, condition: self.narrowed(columns, condition).dataset(),
            summarize=self._summarize,
            divide=lambda condition: self.narrowed(None, condition).file_splits(),
        )

    def narrowed(self, columns: Sequence[str] | None = None, filter: FilterLike | None = None) -> Scan:
        """Return a scan of the same snapshot with fewer columns and rows. Columns and filter refer to this scan's
        output.

        Raises:
            ColumnNotFound: a column that this scan does not have.
            InvalidArgument: a filter on a scan with a limit, since filtering after the limit differs.
        """
        request = self._request
        if request.limit is not None and filter is not None:
            raise InvalidArgument("a scan with a limit cannot be narrowed by a filter")
        names = request.columns if columns is None else check_columns(columns)
        for name in names:
            if name not in request.columns:
                hint = suggest_name(name, request.columns)
                raise ColumnNotFound(f"there is no column {name!r}; {hint}{format_columns(request.columns)}")
        if filter is None:
            plan = self.plan.with_columns(names)
            return Scan(self._metadata, replace(request, columns=names), plan)
        narrower = parse_filter(filter, [request.read_schema.column(name) for name in request.columns])
        return Scan(self._metadata, replace(request, columns=names, filter=combine_filters(request.filter, narrower)))

    @property
    def request(self) -> ScanRequest:
        """The request: snapshot, schema, columns, filter and limit."""
        return self._request

    def adapted(self, change: Callable[[ScanRequest], ScanRequest]) -> Scan:
        """Return a scan of the same snapshot with the request that `change` returns."""
        return Scan(self._metadata, change(self._request))

    def with_tracked_columns(self, names: Sequence[str]) -> Scan:
        """Return the scan with these columns of row tracking, if the table has them."""
        known = list_tracked_fields(self._request.schema, self._request.options)
        added = tuple(field.name for field in known if field.name in names)
        return (
            self.adapted(lambda asked: replace(asked, columns=(*asked.columns, *added), extra=known)) if added else self
        )

    def asking(self, columns: tuple[str, ...], filter: Filter, limit: int | None) -> Scan:
        """Return a scan of the same snapshot with these columns, filter and limit, without checking them."""
        return Scan(self._metadata, replace(self._request, columns=columns, filter=filter, limit=limit))

    def to_duckdb(self, connection: duckdb.DuckDBPyConnection | None = None) -> duckdb.DuckDBPyRelation:
        """Return a DuckDB relation on `connection` (DuckDB's default connection when None)."""
        from morrow.readers.execution import duckdb_relation

        # Plan now, to raise Morrow's own errors; DuckDB wraps errors raised in its scans.
        _ = self.plan
        # DuckDB would push its filters below the limit, so limited rows are handed over as they are.
        source = self.dataset() if self._request.limit is None else self.to_arrow()
        return duckdb_relation.make_relation(source, connection)

    def to_sql(self) -> str:
        """Return this read as one DuckDB statement over ``read_parquet``, which runs without Morrow.

        It returns the rows of `to_arrow` in any order, as long as the snapshot's files exist. Merges become window and
        aggregate functions. Deleted positions of deletion vectors are part of the text.

        Raises:
            Unsupported: the read cannot be expressed in SQL: files in formats other than Parquet, timestamps finer than
                microseconds, types that DuckDB lacks, casts of older files that DuckDB computes differently from
                Paimon, some aggregate functions, and Polars or pyarrow conditions other than comparisons of columns
                with constants.
        """
        from morrow.readers.execution.plain_sql import build_plain_sql

        return build_plain_sql(self.plan, self._metadata.store)

    def count(self) -> int:
        """Return the number of rows, from metadata if possible."""
        from morrow.readers.execution import execute
        from morrow.readers.execution.statistics import Summary, Summing, is_of_partitions, summarize

        if self._request.filter.columns and is_of_partitions(self._request.filter, self._request.schema):
            told = summarize(self._metadata, self._request, [Summary(Summing.COUNT)])
            if told is not None:
                return int(told.item())
        return execute.count(self.plan, self._metadata.store)

    def _summarize(self, asked: Sequence[tuple[str, str | None]]) -> pa.Table | None:
        """Return aggregates of all rows; see `SummarizeFunction`."""
        import polars as pl

        from morrow.readers.casts.dtypes import to_arrow_table
        from morrow.readers.execution.statistics import Summary, Summing, list_result_fields, summarize

        if self._request.filter.columns:
            return None
        summaries = [Summary(Summing(function), column) for function, column in asked]
        rows = Summary(Summing.COUNT)
        others = [each for each in summaries if each != rows]
        told = summarize(self._metadata, self._request, others) if others else pl.DataFrame()
        if told is None:
            return None
        bounds, count = iter(told.get_columns()), self.count() if rows in summaries else 0
        columns = [pl.Series([count]) if each == rows else next(bounds) for each in summaries]
        fields = list_result_fields(self._request.schema, summaries)
        frame = pl.DataFrame([column.alias(field.name) for column, field in zip(columns, fields)])
        return to_arrow_table(frame, fields)

    def verify(self) -> int:
        """Read every data file completely and check it against metadata and checksums; see `verification`.

        Returns: the number of files.

        Raises:
            FileMissing, CorruptFile: a file is missing, truncated or damaged; the message names all such files.
            Unsupported: a file cannot be read. SnapshotExpired: the snapshot expired during the read. StorageError.
        """
        found = self.verification()
        found.raise_problems()
        return len(found.files)

    def verification(self) -> Verification:
        """Read every data file completely and report the damage by file. The report prints as text.

        Checks all live files of the snapshot (for a fallback branch, the files that the scan reads). With a filter, it
        checks files that may contain matching rows. All columns are decoded, regardless of the scan's columns. The
        checks cover size, numbers of rows and retractions, column statistics (bounds, nulls), NOT NULL, partition
        values, first and last key, order and uniqueness of keys, sequence numbers, deletion vectors, file indexes (for
        some values) and Parquet page checksums.

        Scans check only sizes, numbers of rows and checksums of deletion vectors and blobs, and with ``open(...,
        verify="pages")`` checksums of the pages that they read.

        Raises:
            SnapshotExpired: the snapshot expired during the read.
            CorruptFile, FileMissing, Unsupported, UnsafePath: metadata cannot be read. StorageError.
        """
        from morrow.readers.execution.verification import verify_plan

        return verify_plan(self._metadata, self.plan)

    def explain(self) -> PrintedText:
        """Explain the read: files, sections and how each is read, masks, bytes, pushed predicates, the merge as SQL."""
        from morrow.engine.plan.scan_plan import explain_plan
        from morrow.readers.execution.strategy import explain_ways
        from morrow.readers.merges.sql_merge import merge_text

        texts = [explain_plan(self.plan), explain_ways(self.plan, self.store), *map(merge_text, self.plan.parts)]
        return PrintedText(clean_lines("\n\n".join(text for text in texts if text)))

    def __repr__(self) -> str:
        request = self._request
        parts = [repr(self._metadata.where), f"columns={[field.name for field in self.fields]}"]
        if request.filter.text:
            parts.append(f"filter={request.filter.text!r}")
        if request.limit is not None:
            parts.append(f"limit={request.limit}")
        return clean_text(f"Scan({', '.join(parts)}, snapshot={self.snapshot_id})")

    def _repr_html_(self) -> str:
        return self.explain()._repr_html_()


def plan_with_outlines(scan: Scan, outlines: Outlines) -> Scan:
    """Return the scan with its plan. If it must be planned, `outlines` may decode manifests elsewhere."""
    if scan._given_plan is not None or "plan" in scan.__dict__:
        return scan
    return Scan(scan._metadata, scan._request, plan_scan(scan._metadata, scan._request, outlines))


def make_scan(
    metadata: TableMetadata,
    *,
    columns: Sequence[str] | None = None,
    filter: FilterLike | None = None,
    limit: int | None = None,
    travel: Travel = NOW,
    newest: bool = False,
    nested: bool = False,
) -> Scan:
    """Resolve branch, snapshot and schema, and check columns, filter and limit against them; see `Table.scan`.

    Args:
        nested: `columns` may name members of ROW columns.
        newest: read the newest snapshot with the newest columns, ignoring options of time travel.
    """
    metadata, travel = travel.of_branch(metadata)
    latest, ahead = (
        load_newest_state(metadata, read_manifests, read_latest_files)
        if travel.is_latest
        else (metadata.latest_schema(), None)
    )
    options = metadata.options(latest)
    is_now = travel.is_latest
    if is_now and not newest:
        travel = parse_travel_options(options.travel)
    found = ahead if is_now and travel.is_latest else resolve_main(metadata, options, travel)
    # As in Java, time travel uses the snapshot's columns but the current options.
    schema = latest if travel.is_latest or found is None else metadata.schema(found.schema_id)
    refuse_unreadable(schema, metadata.where)
    asked = Travel()
    if options.other_branch is not None:
        asked, schema = travel, derive_readable_schema(metadata, schema, options, found, travel)
    check_limit(limit)
    names = tuple(schema.by_name) if columns is None else check_columns(columns)
    hidden = list_tracked_fields(schema, options)
    parsed = parse_filter(filter, (*schema.fields, *hidden))
    extra = hidden if any(field.name in names or field.name in parsed.columns for field in hidden) else ()
    request = ScanRequest(
        schema, options, found, names, parsed, limit, travel=asked, extra=extra, searches_indexes=True
    )
    known = request.read_schema
    if nested and not known.by_name.keys() >= set(names):
        paths = split_nested_columns(names, known)
        whole = tuple(dict.fromkeys(path[0].name for path in paths))
        return NestedScan(Scan(metadata, replace(request, columns=whole)), paths)
    for name in names:
        known.column(name)
    return Scan(metadata, request)


BATCH_ROWS = 131_072


class DuckDBScan(Scan):
    """A scan that runs `Scan.to_sql` in a DuckDB that spills to disk if memory is exhausted.

    Results raise `Unsupported` if SQL cannot express the read. Rows come in any order.
    """

    def to_batches(self, batch_rows: int | None = None) -> Iterator[pa.RecordBatch]:
        """Yield rows as record batches, with memory bounded independently of the table's size."""
        from morrow.readers.execution import plain_sql

        return plain_sql.read_batches_by_duckdb(
            self.plan, self._metadata.store, check_batch_rows(batch_rows) or BATCH_ROWS
        )

    def to_reader(self, batch_rows: int | None = None) -> pa.RecordBatchReader:
        """Return `to_batches` as an Arrow record batch reader."""
        import pyarrow as pa

        return pa.RecordBatchReader.from_batches(self.schema, self.to_batches(batch_rows))

    def to_arrow(self) -> pa.Table:
        """Return all rows as an Arrow table with exactly `schema`."""
        import pyarrow as pa

        return pa.Table.from_batches(self.to_batches(), self.schema)

    def to_polars(self) -> pl.DataFrame:
        """Return all rows as a Polars DataFrame (MAP and MULTISET as lists of key, value structs)."""
        import polars as pl

        from morrow.engine.library_versions import import_array

        rows = self.to_arrow()
        return pl.DataFrame([import_array(rows[name]).alias(name) for name in rows.column_names])

    def lazy(self) -> pl.LazyFrame:
        """Raise `Unsupported`, since Polars runs LazyFrames."""
        raise Unsupported("a LazyFrame of a scan that DuckDB runs", hint="leave out engine, or use to_polars")

    def count(self) -> int:
        """Return the number of rows."""
        from morrow.readers.execution import plain_sql

        if not self.plan.columns:
            return super().count()
        return plain_sql.count_by_duckdb(self.plan, self._metadata.store)

    def adapted(self, change: Callable[[ScanRequest], ScanRequest]) -> Scan:
        """Return a scan of the same snapshot with the request that `change` returns."""
        return DuckDBScan(self._metadata, change(self._request))


def choose_engine(scan: Scan, engine: str | None) -> Scan:
    """Return the scan for this engine. Raises `InvalidArgument` for an unknown engine."""
    if engine is None or engine == "polars":
        return scan
    if engine == "duckdb" and type(scan) is not Scan:
        assert isinstance(scan, NestedScan)
        return NestedScan(choose_engine(scan.inner, engine), scan.paths)
    if engine == "duckdb":
        return DuckDBScan(scan._metadata, scan.request)
    raise InvalidArgument(f"engine is 'polars' or 'duckdb', not {engine!r}")


def find_cached_scan(key: Hashable) -> Scan | None:
    """Return a cached scan; None if it is missing, or the table has a newer schema or snapshot.

    Reads the newest schema and snapshot from the table. Raises as `load_newest_state`.
    """
    scan = METADATA_CACHE.get(key)
    if not isinstance(scan, Scan):
        return None
    request = scan.request
    return scan if load_newest_state(scan._metadata) == (request.schema, request.snapshot) else None


def cache_scan(key: Hashable, scan: Scan) -> None:
    """Cache a scan of the newest snapshot, if it depends on nothing else: on the main branch, on a local disk."""
    request, options, metadata = scan.request, scan.request.options, scan._metadata
    is_newest = request.travel == NOW and parse_travel_options(options.travel).is_latest
    is_alone = metadata.branch == MAIN_BRANCH and options.other_branch is None and not options.skips_files
    if is_newest and is_alone and metadata.store.is_local:
        of = None if request.snapshot is None else request.snapshot.delta_manifest_list
        METADATA_CACHE.put(key, scan, estimate_plan_bytes(scan.plan), of=of)


log = get_logger(__name__)


def plan_scan(metadata: TableMetadata, request: ScanRequest, outlines: Outlines | None = None) -> ScanPlan:
    """Plan a read, and log its files and duration. Arguments and errors as for `plan_with_fallback`."""
    began = time.monotonic()
    # The schema was read for this request. With a fallback branch it combines two branches and is not in a file.
    known = metadata if request.options.other_branch is not None else metadata.knowing(request.schema)
    plan = plan_with_fallback(known, request, outlines)
    if request.options.skips_files:
        from morrow.readers.execution.verification import leave_out_unreadable

        plan = leave_out_unreadable(plan, metadata.store, request.options)
    _log_plan(plan, metadata.where, time.monotonic() - began)
    return plan


def _log_plan(plan: ScanPlan, where: str, seconds: float) -> None:
    """Log the files of a read: ``planned 3 of 10 files, 1.2 MiB, of snapshot 5``."""
    if not log.isEnabledFor(logging.INFO):
        return
    files = [file for part in plan.parts for file in part.files]
    known = max((step.of for step in plan.steps if step.name.startswith("files")), default=len(files))
    state = "no snapshot" if plan.snapshot is None else f"snapshot {plan.snapshot.id}"
    told = (
        f"{len(files):,} of {format_count(max(known, len(files)), 'file')}, "
        f"{format_size(sum(file.size for file in files))}"
    )
    log.info("%s: opened %s, planned %s, in %.2f s", where, state, told, seconds)


def read_manifests(metadata: TableMetadata, snapshot: Snapshot) -> None:
    """Prefetch the manifests that a plan of this snapshot will need."""
    from morrow.engine.plan import manifests

    manifests.read_manifests_ahead(metadata, snapshot)


def read_latest_files(metadata: TableMetadata) -> None:
    """Prefetch files that a plan of the newest snapshot will probably need, before its id is known."""
    from morrow.engine.plan import manifests

    manifests.read_latest_files_ahead(metadata)


class NestedScan(Scan):
    """A scan whose output has members of ROW columns, made from a scan of the whole columns."""

    def __init__(self, inner: Scan, paths: Sequence[Path]) -> None:
        super().__init__(inner._metadata, inner.request)
        self.inner = inner
        self.paths = tuple(paths)

    def rows(self, batch_rows: int | None = None) -> Iterator[dict[str, Any]]:
        """Yield rows as dicts of Python values."""
        return Rows.rows(self, batch_rows)

    @cached_property
    def plan(self) -> ScanPlan:
        """The plan of the whole columns."""
        return self.inner.plan

    @property
    def fields(self) -> tuple[DataField, ...]:
        """The columns of the rows, in their Paimon types; a member of a nullable ROW is nullable."""
        return tuple(map(make_member_field, self.paths))

    def to_arrow(self) -> pa.Table:
        """Return all rows as an Arrow table with exactly `schema`."""
        import pyarrow as pa

        return pa.Table.from_batches(map(self._select, self.inner.to_arrow().to_batches()), self.schema)

    def to_batches(self, batch_rows: int | None = None) -> Iterator[pa.RecordBatch]:
        """Yield rows as record batches, with memory bounded independently of the table's size."""
        return map(self._select, self.inner.to_batches(batch_rows))

    def to_reader(self, batch_rows: int | None = None) -> pa.RecordBatchReader:
        """Return `to_batches` as an Arrow record batch reader."""
        import pyarrow as pa

        return pa.RecordBatchReader.from_batches(self.schema, self.to_batches(batch_rows))

    def _select(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        import pyarrow as pa

        return pa.RecordBatch.from_arrays([read_member(batch, path) for path in self.paths], schema=self.schema)

    def to_polars(self) -> pl.DataFrame:
        """Return all rows as a Polars DataFrame (MAP and MULTISET as lists of key, value structs)."""
        return self.inner.to_polars().select(self._to_expressions())

    def lazy(self) -> pl.LazyFrame:
        """Return a Polars LazyFrame of this scan's snapshot. Planning and reading happen on collect."""
        return self.inner.lazy().select(self._to_expressions())

    def _to_expressions(self) -> list[pl.Expr]:
        return [build_member(path).alias(path[-1].name) for path in self.paths]

    def to_duckdb(self, connection: duckdb.DuckDBPyConnection | None = None) -> duckdb.DuckDBPyRelation:
        """Return a DuckDB relation on `connection` (DuckDB's default connection when None)."""
        from morrow.readers.expressions.sql import quote_identifier

        texts = (
            f"{'.'.join(quote_identifier(field.name) for field in path)} AS {quote_identifier(path[-1].name)}"
            for path in self.paths
        )
        return self.inner.to_duckdb(connection).project(", ".join(texts))

    def dataset(self) -> PaimonDataset:
        """Raise `Unsupported`, since datasets push down whole columns."""
        raise Unsupported("a dataset of members of columns", hint="use to_reader, lazy or to_duckdb")

    def narrowed(self, columns: object = None, filter: object = None) -> Scan:  # noqa: ARG002
        """Raise `Unsupported`: this scan has other columns than its files."""
        raise Unsupported("narrowing a scan of members of columns", hint="scan again with these columns")

    def _make_split(self, plans: tuple[ScanPlan, ...]) -> Split:
        return Split(plans, self.store, self.inner.fields, self.title, self.paths)

    def to_sql(self) -> str:
        """Raise `Unsupported`: the statement reads whole columns."""
        raise Unsupported("to_sql of members of columns", hint="scan the ROW column, and select in SQL")

    def count(self) -> int:
        """Return the number of rows, from metadata if possible."""
        return self.inner.count()
