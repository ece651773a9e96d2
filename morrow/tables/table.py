"""The class `Table`: a table's schema, history, scans, changes and streams.

Importing it imports no writer: operations import what they need when they are called.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, Unpack

from morrow.engine.plan.filter import FilterLike
from morrow.engine.plan.manifests import load_newest_schema
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.time_travel import Time, TravelArguments, parse_travel
from morrow.engine.redaction import PrintedText, explain_missing_name, list_public_names
from morrow.scans.arguments import check_limit, expose_travel_arguments
from morrow.scans.table_scan import Scan, choose_engine, make_scan, read_latest_files
from morrow.tables.maintenance import Maintenance
from morrow.tables.row_operations import RowOperations

if TYPE_CHECKING:
    import numpy.typing as npt
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    from morrow.engine.format.schema import TableSchema
    from morrow.engine.plan.consumers import Consumers
    from morrow.readers.execution.datasets import PaimonDataset
    from morrow.scans.changes import Changes, ChangeStream, Mode, Start, StreamMode
    from morrow.scans.lookups import MissingRows
    from morrow.scans.system_tables import SystemScan
    from morrow.tables.alteration import Alteration
    from morrow.tables.history import Branches, SchemaList, SnapshotList, Tags


OTHER_NAMES = {
    "read": "to_polars(), to_arrow() or scan()",
    "to_df": "to_polars()",
    "to_duckdb": "scan().to_duckdb()",
    "to_spark": "scan().to_spark(spark)",
    "to_table": "to_arrow()",
    "to_pyarrow_table": "to_arrow()",
    "to_pyarrow_dataset": "dataset()",
    "new_read_builder": "scan(columns, filter)",
    "new_batch_write_builder": "append(data), upsert(data) or writer()",
    "new_stream_write_builder": "writer(commit_user)",
    "write": "append(data) or upsert(data)",
    "insert": "append(data)",
    "add": "append(data)",
    "merge_into": "merge(source, on)",
    "update_schema": "alter",
    "update_spec": "`Catalog.create_table` with other partition keys",
    "optimize": "compact()",
    "expire": "expire_snapshots()",
    "vacuum": "expire_snapshots() and remove_orphan_files()",
    "restore": "rollback(to)",
    "rollback_to": "rollback(to)",
    "current_snapshot": "snapshots()[-1]",
    "latest_snapshot": "snapshots()[-1]",
    "version": "snapshots()[-1].id",
    "refresh": "the table itself: each read begins at the newest snapshot",
    "create_tag": "tags.create(name)",
    "delete_tag": "tags.delete(name)",
    "create_branch": "branches.create(name)",
    "delete_branch": "branches.delete(name)",
    "fast_forward": "branches.fast_forward(name)",
    "columns": "schema.names",
    "dtypes": "schema.types",
    "show": "head()",
    "fields": "schema",
    "location": "path",
    "properties": "options",
    "files": "system('files')",
    "partitions": "system('partitions')",
}
"""The calls that do what attributes of these names do in pypaimon, pyiceberg, deltalake, DuckDB and PySpark."""


class Following:
    """The methods of `Table` that read changes and record consumers' progress."""

    _metadata: TableMetadata

    def changes(
        self,
        from_snapshot: int | str | None = None,
        to_snapshot: int | str | None = None,
        *,
        mode: Mode = "auto",
        columns: Sequence[str] | None = None,
        filter: FilterLike | None = None,
        from_timestamp: Time | None = None,
        to_timestamp: Time | None = None,
    ) -> Changes:
        """Return the changes between two snapshots: rows with a leading ``rowkind`` (+I, -U, +U, -D), in the newest
        columns.

        Args:
            from_snapshot: an id or a tag name, exclusive; 0 is the empty table. None: from the oldest available change.
            to_snapshot: an id or a tag name, inclusive. None: the newest.
            mode: ``delta`` reads the rows written by APPEND snapshots, ``changelog`` the rows of the changelog
                producer, and ``diff`` compares the rows of both snapshots. ``auto`` is diff for tags, changelog for
                tables with a changelog producer, else delta. It refuses tables without a producer whose merge engine
                combines several rows; ``raw`` reads those as delta.
            columns, filter: as for `scan`; the filter applies to each changed row.
            from_timestamp, to_timestamp: the newest snapshots at or before these times.

        Raises:
            InvalidArgument, ColumnNotFound: the call is wrong.
            SnapshotNotFound, SnapshotExpired, TagNotFound: no such snapshot.
            Unsupported: the written rows are incomplete; with data evolution, columns of older rows were written.
        """
        from morrow.scans.changes import make_changes

        return make_changes(
            self._metadata,
            from_snapshot,
            to_snapshot,
            mode=mode,
            columns=columns,
            filter=filter,
            from_timestamp=from_timestamp,
            to_timestamp=to_timestamp,
        )

    def stream(
        self,
        from_snapshot: int | None = None,
        *,
        from_timestamp: Time | None = None,
        start: Start | None = None,
        consumer_id: str | None = None,
        columns: Sequence[str] | None = None,
        filter: FilterLike | None = None,
        wait: float | None = None,
        poll: float | None = None,
        mode: StreamMode = "auto",
    ) -> ChangeStream:
        """Return an iterator that follows the table. It yields one `Changes` for each snapshot that changed rows.

        The columns are fixed when the stream begins. Later renames do not affect them, and later columns are left out.

        With the option ``scan.bounded.watermark`` the stream ends at the first snapshot with a greater watermark. With
        ``streaming.read.snapshot.delay`` it reads a snapshot only after that delay.

        Args:
            from_snapshot: the first snapshot whose changes are read.
            from_timestamp: changes after the newest snapshot at or before this time.
            start: used if neither is given: ``full``: all rows of the newest snapshot first; ``latest``: later changes
                only. None: by the table's options (``scan.mode`` and others), ``full`` without them.
            consumer_id: the consumer under which `ChangeStream.commit`, or the end of a ``with`` block, records the
                progress. A stream of an existing consumer continues from its progress, and expiry keeps the snapshots
                that it needs. None: the option ``consumer-id``, if set.
            wait: seconds to wait for a new snapshot before the iteration ends; None waits for ever, 0 does not wait.
            poll: seconds between looks for a new snapshot; None: ``continuous.discovery-interval``, or one second.
            mode: ``raw``: rows as written, even if the table has no changelog producer and a merge engine that combines
                several rows (partial-update, aggregation, first-row). ``auto`` refuses such tables, as Flink does.

        Raises:
            InvalidArgument, ColumnNotFound: the call is wrong.
            SnapshotExpired: while iterating, if the next snapshot has expired, or a snapshot already read was rolled
                back.
            Unsupported: the written rows are incomplete (see `mode`). While iterating, if a column's type has changed,
                or (data evolution) columns of older rows were written; begin another stream.
        """
        from morrow.scans.changes import ChangeStream, is_raw, make_request

        return ChangeStream(
            self._metadata,
            make_request(self._metadata, columns, filter, raw=is_raw(mode)),
            from_snapshot=from_snapshot,
            from_timestamp=from_timestamp,
            start=start,
            consumer_id=consumer_id,
            wait=wait,
            poll=poll,
        )

    @property
    def consumers(self) -> Consumers:
        """The consumers and their progress: ``t.consumers.all()``, ``t.consumers.delete(name)``."""
        from morrow.engine.plan.consumers import Consumers

        return Consumers(self._metadata)


Engine: TypeAlias = Literal["polars", "duckdb"]


class Table(RowOperations, Maintenance, Following):
    """A Paimon table, on one branch. Open one with `morrow.open` or `morrow.Catalog.table`.

    The newest snapshot id is never cached: every scan reads the snapshot that is newest when it is planned.
    """

    def __init__(self, metadata: TableMetadata) -> None:
        self._metadata = metadata
        load_newest_schema(metadata, at_first=read_latest_files)

    @property
    def path(self) -> str:
        """The table's folder or URL."""
        return self._metadata.store.url(self._metadata.root)

    @property
    def name(self) -> str:
        """The last segment of the path."""
        return self._metadata.root.rstrip("/").rsplit("/", 1)[-1]

    @property
    def branch(self) -> str:
        """The branch of this object, ``main`` by default."""
        return self._metadata.branch

    @property
    def schema(self) -> pa.Schema:
        """The newest schema as an Arrow schema; column comments are field metadata ``comment``."""
        return self._newest.arrow()

    @property
    def options(self) -> dict[str, str]:
        """The table's options as stored."""
        return dict(self._newest.options)

    @property
    def primary_keys(self) -> tuple[str, ...]:
        """Primary key columns, empty for append tables."""
        return self._newest.primary_keys

    @property
    def partition_keys(self) -> tuple[str, ...]:
        """Partition columns, empty for unpartitioned tables."""
        return self._newest.partition_keys

    @property
    def comment(self) -> str | None:
        """The table's comment, None if it is not set."""
        return self._newest.comment

    @property
    def _newest(self) -> TableSchema:
        return self._metadata.latest_schema()

    @property
    def alter(self) -> Alteration:
        """Schema changes: ``t.alter.add_column("x", "INT")``; several in one version: ``with t.alter() as a: ...``."""
        from morrow.tables.alteration import Alteration

        return Alteration(self._metadata)

    def schemas(self) -> SchemaList:
        """Return all versions of the schema, oldest first."""
        from morrow.tables.history import SchemaList

        return SchemaList(self._metadata.schemas())

    def snapshots(self) -> SnapshotList:
        """Return the snapshots, oldest first; each has ``.id``, ``.time``, ``.commit_kind`` and record counts."""
        from morrow.tables.history import SnapshotList

        return SnapshotList(self._metadata.snapshots())

    def history(self, limit: int | None = None) -> pl.DataFrame:
        """Return the snapshots as a Polars DataFrame, newest first: what was committed, when (in UTC) and by whom.

        ``rows_added``, ``rows_updated`` and ``rows_deleted`` count the rows that the commit added, changed and removed.
        They are null if unknown: in tables with a primary key a written row may be new or an update. Morrow's updates,
        deletes and merges record these counts, and its operations their duration (``duration_ms``). ``rows_written``
        counts all rows passed to writers except deletions (``deletions_written``); compactions write none.
        ``files_added``, ``files_removed`` and ``bytes_added`` count data files, including compacted ones.
        ``stored_rows`` counts rows before merging and deletion vectors, ``stored_rows_change`` its net change by the
        commit, and ``changelog_rows`` the recorded changes. ``commit_user`` names the writer, by default as
        ``user@host-program_<uuid>``; ``properties`` are what the writer gave, as JSON. Values are null if the writer
        did not record them or the manifest is missing.

        Args:
            limit: maximum number of snapshots, the newest ones.

        Raises:
            InvalidArgument: `limit` is not a number of snapshots.
        """
        from morrow.tables.history import read_history

        return read_history(self._metadata, check_limit(limit))

    def storage(self) -> pl.DataFrame:
        """Return the files and bytes of the table by what keeps them, as a Polars DataFrame.

        ``kept_by`` is ``live`` (the newest snapshot), ``branch`` or ``tag`` (with its ``name``), ``snapshots`` (those
        that `expire_snapshots` leaves), ``expired snapshots`` (whose files it would remove now, by the options of the
        table), or ``changelogs``. Each file is counted once, for the first of these that needs it. ``partition`` is
        null for tables without partition keys. Deletion vectors, indexes and metadata files are not counted.

        Raises:
            CorruptFile, FileMissing: a manifest cannot be read.
        """
        from morrow.doctor.storage import measure_storage

        return measure_storage(self._metadata)

    @property
    def tags(self) -> Tags:
        """The tags, named snapshots that expiry keeps: ``t.tags.list()``, ``t.tags.create("v1")``."""
        from morrow.tables.history import Tags

        return Tags(self._metadata)

    @property
    def branches(self) -> Branches:
        """The branches other than main: ``t.branches.create("dev", tag="v1")``, then ``t.on_branch("dev")``."""
        from morrow.tables.history import Branches

        return Branches(self._metadata)

    @expose_travel_arguments
    def scan(
        self,
        columns: Sequence[str] | None = None,
        filter: FilterLike | None = None,  # the name users know from Arrow and Iceberg
        limit: int | None = None,
        *,
        engine: Engine | None = None,
        **at: Unpack[TravelArguments],
    ) -> Scan:
        """Return a scan of the table. The scan is planned when its rows are first used.

        Args:
            columns: output columns in order; None for all. ``info.name`` is a member of the ROW column ``info``, and
                becomes a column ``name``. Tables with row tracking also have ``_ROW_ID`` and ``_SEQUENCE_NUMBER``, the
                snapshot that last wrote the row.
            filter: a SQL condition (``"amount > 10 AND dt = '2024-05-14'"``), or a pyarrow or Polars expression.
            limit: maximum number of rows; reading stops there.
            engine: ``duckdb``: DuckDB reads the rows by the SQL of `Scan.to_sql`, and spills to disk if memory is
                exhausted.
            as_of: a snapshot id, a tag name, or a time: the newest snapshot at or before it.
            snapshot, tag, timestamp, watermark: the same, one meaning each. Times are epoch milliseconds, ISO text,
                or datetimes; those without a zone are UTC.
            version: text that is a tag name, an id, ``snapshot.<id>``, ``watermark-<millis>`` or an ISO time.
            branch: the branch to read instead of this one.

        Raises:
            ColumnNotFound, InvalidArgument: the call is wrong.
            SnapshotNotFound, SnapshotExpired, TagNotFound, BranchNotFound: the snapshot, tag or branch does not exist.
        """
        scan = make_scan(
            self._metadata, columns=columns, filter=filter, limit=limit, travel=parse_travel(**at), nested=True
        )
        return choose_engine(scan, engine)

    @expose_travel_arguments
    def to_polars(
        self,
        columns: Sequence[str] | None = None,
        filter: FilterLike | None = None,
        limit: int | None = None,
        **at: Unpack[TravelArguments],
    ) -> pl.DataFrame:
        """Return rows as a Polars DataFrame. Arguments and errors as of `scan`."""
        return self.scan(columns, filter, limit, **at).to_polars()

    @expose_travel_arguments
    def to_arrow(
        self,
        columns: Sequence[str] | None = None,
        filter: FilterLike | None = None,
        limit: int | None = None,
        **at: Unpack[TravelArguments],
    ) -> pa.Table:
        """Return rows as an Arrow table. Arguments and errors as of `scan`."""
        return self.scan(columns, filter, limit, **at).to_arrow()

    @expose_travel_arguments
    def to_pandas(
        self,
        columns: Sequence[str] | None = None,
        filter: FilterLike | None = None,
        limit: int | None = None,
        **at: Unpack[TravelArguments],
    ) -> pd.DataFrame:
        """Return rows as a pandas DataFrame; needs pandas installed. Arguments and errors as of `scan`."""
        return self.scan(columns, filter, limit, **at).to_pandas()

    @expose_travel_arguments
    def count(self, filter: FilterLike | None = None, **at: Unpack[TravelArguments]) -> int:
        """Return the number of rows, from metadata if possible. Arguments and errors as of `scan`."""
        return self.scan(filter=filter, **at).count()

    @expose_travel_arguments
    def head(self, rows: int = 5, **at: Unpack[TravelArguments]) -> pl.DataFrame:
        """Return up to `rows` rows as a Polars DataFrame. Other arguments and errors as of `scan`."""
        return self.scan(limit=rows, **at).to_polars()

    @expose_travel_arguments
    def get(
        self, key: object, columns: Sequence[str] | None = None, **at: Unpack[TravelArguments]
    ) -> dict[str, Any] | None:
        """Return the row with this primary key as a dict, None if the table has no such row.

        Only the row groups that may hold the key are read, and only the versions of this key are merged. Values are
        those of `to_polars`: maps are lists of key and value. Timestamps with nanoseconds are those of `to_dicts`.

        Args:
            key: the value of the key column; for several key columns, a tuple of values in the order of
                `primary_keys`, or a mapping by name.
            columns: the columns of the result in order; None for all.
            as_of, snapshot, tag, timestamp, watermark, version, branch: as for `scan`.

        Raises:
            InvalidArgument: the table has no primary key, or the key lacks a column, is null or has another type, or
                rows of several partitions have it.
            ColumnNotFound: the key or `columns` name a column that does not exist. Other errors as `scan` and reads.
        """
        from morrow.scans.lookups import get_row

        return get_row(self._metadata, key, columns, parse_travel(**at))

    @expose_travel_arguments
    def get_many(
        self,
        keys: object,
        columns: Sequence[str] | None = None,
        *,
        missing: MissingRows = "null",
        **at: Unpack[TravelArguments],
    ) -> pl.DataFrame:
        """Return the rows with these primary keys as a Polars DataFrame, in the order of the keys.

        A key that is given twice is returned twice.

        Args:
            keys: rows with the columns of the primary key, as for `upsert`: a DataFrame, an Arrow table, a dict of
                columns or a list of dicts. Other columns are ignored.
            columns: the columns of the result in order; None for all.
            missing: ``null``: a key without a row gives a row of this key with nulls in the other columns, as a left
                join does, so row i of the result belongs to row i of `keys`. ``skip`` leaves such keys out, ``error``
                refuses them.
            as_of, snapshot, tag, timestamp, watermark, version, branch: as for `scan`.

        Raises:
            InvalidArgument: the table has no primary key, the data lacks a key column or has values of another type,
                rows of several partitions have a key, or (``error``) a key has no row.
            ColumnNotFound: `columns` names a column that does not exist. Other errors as `scan` and reads.
        """
        from morrow.scans.lookups import get_rows

        return get_rows(self._metadata, keys, columns, missing, parse_travel(**at))

    @expose_travel_arguments
    def search(
        self,
        column: str,
        query: Sequence[float] | npt.NDArray[Any],
        k: int,
        *,
        filter: FilterLike | None = None,
        metric: str = "l2",
        columns: Sequence[str] | None = None,
        exact: bool = True,
        options: Mapping[str, object] | None = None,
        **at: Unpack[TravelArguments],
    ) -> pl.DataFrame:
        """Return the `k` rows whose vectors are nearest to a query vector, best first.

        By default the search is exact: it reads and scores all vectors that the filter keeps. With ``exact=False`` it
        reads only the candidates that indexes of the column name (see `create_global_index`), and all rows that no
        index covers, or that were updated since. All rows that are read have their exact score, so another row may be
        nearer than those found, but no score is wrong. Deleted rows are never found. Rows without a vector are left
        out. Rows with equal scores are in the order of a scan. `explain_search` shows what is read.

        Args:
            column: a VECTOR, or an ARRAY of numbers whose arrays have the length of the query.
            query: a list, numpy array or series of numbers.
            k: the maximum number of rows.
            filter: only rows that fulfil it are searched, as for `scan`.
            metric: ``l2``, ``cosine`` or ``inner_product``; an index must have been built for it.
            columns: output columns in order; None for all.
            exact: whether to read all vectors.
            options: for indexes: ``ivf.nprobe``, ``diskann.l_search``, and ``ivf.refine_factor``, the number of
                candidates per row (by default 4 for compressed vectors and 1 for others).

        Returns: the columns, then ``__paimon_search_score`` (Float64), higher for nearer rows: 1 / (1 + squared
            distance), the cosine, or the inner product.

        Raises:
            InvalidArgument: the query, metric, column or an option does not fit. Unsupported: an index exists, and
                paimon-vindex is not installed. CorruptFile: an index is damaged. Others as of `scan`.
        """
        from morrow.scans.lookups import SearchRequest, plan_search, to_frame

        asked = SearchRequest(column, k, filter, columns, parse_travel(**at))
        return to_frame(plan_search(self._metadata, asked, query, metric, exact=exact, options=options)[1]())

    @expose_travel_arguments
    def explain_search(
        self,
        column: str,
        query: Sequence[float] | npt.NDArray[Any],
        k: int,
        *,
        filter: FilterLike | None = None,
        metric: str = "l2",
        columns: Sequence[str] | None = None,
        exact: bool = True,
        options: Mapping[str, object] | None = None,
        **at: Unpack[TravelArguments],
    ) -> PrintedText:
        """Explain the read of `search`. A line ``rows by ... approximately`` names the indexes that are used.

        Without this line, the search is exact. Arguments and errors are as of `search`.
        """
        from morrow.scans.lookups import SearchRequest, plan_search

        asked = SearchRequest(column, k, filter, columns, parse_travel(**at))
        return plan_search(self._metadata, asked, query, metric, exact=exact, options=options)[0].explain()

    @expose_travel_arguments
    def search_text(
        self,
        column: str,
        query: str | Mapping[str, object],
        k: int,
        *,
        filter: FilterLike | None = None,
        columns: Sequence[str] | None = None,
        **at: Unpack[TravelArguments],
    ) -> pl.DataFrame:
        """Return the `k` rows whose texts match a query best, best first. Needs ``pip install 'morrow[full-text]'``.

        Indexes of the type ``full-text`` are used if they are valid (see `create_global_index`). The texts of other
        rows are read and indexed in memory, with the options of the column's index, or else of the table. So all rows
        are searched, with and without an index. Deleted rows are never found, nor are rows without text.

        Args:
            column: a STRING, CHAR or VARCHAR column.
            query: words, any of which may match; or a query of Paimon, as a mapping or JSON:
                ``{"match": {"query": "lake format", "operator": "And"}}``, ``match_phrase``, ``boolean``, ``boost``.
            k: the maximum number of rows.
            filter: only rows that fulfil it are found, as for `scan`.
            columns: output columns in order; None for all.

        Returns: the columns, then ``__paimon_search_score`` (Float64): the BM25 score among the texts of the same file
            of the index, or among the texts that were indexed in memory together.

        Raises:
            InvalidArgument: the query or column does not fit. Unsupported: paimon-ftindex is not installed.
            CorruptFile: an index is damaged. Others as of `scan`.
        """
        from morrow.scans.lookups import SearchRequest, search_texts, to_frame

        asked = SearchRequest(column, k, filter, columns, parse_travel(**at))
        return to_frame(search_texts(self._metadata, asked, query))

    @expose_travel_arguments
    def dataset(self, **at: Unpack[TravelArguments]) -> PaimonDataset:
        """Return the table as a pyarrow Dataset, into which DuckDB and Polars push columns and filters.

        The arguments choose a snapshot as in `scan`; by default it is the newest at the time of this call.
        """
        return self.scan(**at).dataset()

    @expose_travel_arguments
    def system(
        self,
        name: str,
        columns: Sequence[str] | None = None,
        filter: FilterLike | None = None,
        limit: int | None = None,
        *,
        from_snapshot: int | str | None = None,
        to_snapshot: int | str | None = None,
        mode: Mode = "auto",
        **at: Unpack[TravelArguments],
    ) -> SystemScan:
        """Return a scan of a system table: ``t.system("snapshots").to_polars()``. docs/system-tables.md lists them.

        Args:
            name: ``snapshots``, ``files``, ``audit_log``, ...; with or without Paimon's leading ``$``.
            columns, filter, limit, as_of, snapshot, tag, timestamp, watermark, version, branch: as for `scan`. System
                tables that list all snapshots, such as ``snapshots``, do not support time travel.
            from_snapshot, to_snapshot: read the changes between these, as `changes`; for ``audit_log`` and ``binlog``.
                In ``binlog`` an update is one row whose arrays hold the values before and after. As in Paimon, the
                difference of two tags in ``audit_log`` does not contain -U rows.
            mode: the source of the changes, as for `changes`.

        Raises:
            TableNotFound: no such system table.
            Unsupported: the table does not support it (such as ``row_tracking`` without row tracking).
            ColumnNotFound, InvalidArgument, SnapshotNotFound, SnapshotExpired, TagNotFound, BranchNotFound: as `scan`.
        """
        from morrow.scans.system_tables import make_system_scan

        return make_system_scan(
            self._metadata,
            name,
            columns=columns,
            filter=filter,
            limit=limit,
            travel=parse_travel(**at),
            from_snapshot=from_snapshot,
            to_snapshot=to_snapshot,
            mode=mode,
        )

    def with_options(self, options: Mapping[str, object]) -> Table:
        """Return this table with other options for its reads and writes: ``t.with_options({"write-only": True})``.

        The options of the stored table stay, and `options` shows these. Options that say what rows mean belong to the
        stored table, and are refused; so are unknown ones.

        Args:
            options: options of reads (``scan.*``, ``consumer-id``) and of writes (file format, sizes, compaction,
                commits, expiry); values may be numbers and booleans.

        Raises:
            InvalidArgument: an invalid value. Unsupported: an option that single reads and writes cannot override.
        """
        from morrow.writers.target import with_dynamic_options

        return Table(with_dynamic_options(self._metadata, options))

    def on_branch(self, branch: str) -> Table:
        """Return the same table on another branch. Raises `BranchNotFound`."""
        return Table(self._metadata.on_branch(branch))

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.scan().__arrow_c_stream__(requested_schema)

    if not TYPE_CHECKING:  # else mypy would accept any attribute

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(explain_missing_name("Table", name, OTHER_NAMES, list_public_names(self)))

    def __dir__(self) -> list[str]:
        return list_public_names(self)

    def __repr__(self) -> str:
        from morrow.html import render_text

        return render_text(self._metadata, self.path)

    def _repr_html_(self) -> str:
        from morrow.html import render_html

        return render_html(self._metadata, self.path, self.name)
