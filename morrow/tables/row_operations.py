"""Operations on the rows of a table, and rewrites of its files; each call is one commit.

A rewrite (compaction, rescale, file indexes, statistics) changes no row. The argument `properties` of every operation
is stored in its snapshots, and `Table.history` shows it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from morrow.engine.arguments import check_instance, check_mapping
from morrow.engine.errors import InvalidArgument
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.plan.filter import FilterLike
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.progress import track_calls

if TYPE_CHECKING:
    from morrow.tables.writer import Committer, Writer
    from morrow.writers.ingest.conversion import Missing
    from morrow.writers.ingest.validation import Kinds
    from morrow.writers.operations.append import SchemaMode
    from morrow.writers.operations.global_indexes import ChangedIndex
    from morrow.writers.operations.merge import Merge
    from morrow.writers.operations.partition_filters import AnyOf
    from morrow.writers.operations.table_maintenance import RewrittenIndexes
    from morrow.writers.target import WriteTarget


Properties: TypeAlias = Mapping[str, str] | None


class Rewriting:
    """The methods of `Table` that reorganize its files. Writers are imported on first use."""

    _metadata: TableMetadata

    @track_calls("compacting")
    def compact(
        self,
        full: bool = False,
        *,
        partition: Mapping[str, object] | None = None,
        where: FilterLike | None = None,
        order_by: str | Sequence[str] | None = None,
        strategy: str | None = None,
        properties: Properties = None,
    ) -> Snapshot | None:
        """Compact files, in one commit, even if the table is ``write-only``.

        Args:
            full: in tables with a primary key, merge every bucket to one sorted run; in append tables, rewrite every
                small file. False: compact as the options ``num-sorted-run.*`` and ``compaction.*`` say.
            partition: only partitions with these values in (some of) their columns.
            where: only partitions that match this condition on partition columns.
            order_by: sort the rows of append tables by these columns while they are rewritten.
            strategy: how to sort: ``order``, ``zorder`` or ``hilbert``.
            properties: stored in the snapshots of the commit.

        Returns: the snapshot, None if nothing was worth compacting.

        Raises:
            InvalidArgument, ColumnNotFound, Unsupported: an argument is wrong, or does not apply to this kind of table.
            CommitConflict: other commits compacted the same files on every attempt; nothing was changed.
        """
        from morrow.writers.operations.compaction import compact_table

        return compact_table(
            self._target(properties), full=full, partition=partition, where=where, order_by=order_by, strategy=strategy
        )

    @track_calls("compacting")
    def compact_chain(self, partition: Mapping[str, object], *, overwrite: bool = False) -> bool:
        """Write the merged rows of a partition of a chain table to its snapshot branch.

        Args:
            partition: values of some or all partition columns.
            overwrite: replace partitions that the snapshot branch has. False: change nothing if it has one.

        Returns: whether rows were written.

        Raises:
            InvalidArgument: not a chain table with both branches, or no partition is named.
        """
        from morrow.writers.operations.compaction import compact_chain

        return compact_chain(self._metadata, partition, overwrite=overwrite)

    @track_calls("compacting")
    def materialize_deletion_vectors(
        self,
        *,
        partition: Mapping[str, object] | None = None,
        where: FilterLike | None = None,
        properties: Properties = None,
    ) -> Snapshot | None:
        """Remove deleted rows from the files of a table with data evolution, in one commit.

        The rows beside them get new ids, and global indexes of their partitions are dropped.

        Args:
            partition, where, properties: as for `compact`.

        Returns: the snapshot, None if no rows are deleted.

        Raises:
            Unsupported: another kind of table. Others as `compact`.
        """
        from morrow.writers.operations.compaction import materialize_vectors

        return materialize_vectors(self._target(properties), partition, where)

    @track_calls("compacting")
    def reassign_row_ids(
        self,
        *,
        partition: Mapping[str, object] | None = None,
        where: FilterLike | None = None,
        properties: Properties = None,
    ) -> Snapshot | None:
        """Give consecutive row ids to the rows of each partition of a table with data evolution, in one commit.

        Only metadata change. Older snapshots and tags keep their row ids. Global indexes stay valid; one that spans
        several ranges of rows is dropped.

        Args:
            partition, where, properties: as for `compact`.

        Returns: the snapshot, None if the ids of each partition are consecutive.

        Raises:
            Unsupported: another kind of table, or files that hold row ids.
            CommitConflict: other commits were faster on every attempt; nothing was changed.
        """
        from morrow.writers.operations.compaction import reassign_row_ids

        done = reassign_row_ids(self._target(properties), partition, where)
        return None if done is None else done[0]

    @track_calls("rescaling")
    def rescale(
        self,
        buckets: int | None = None,
        *,
        partition: AnyOf = None,
        where: FilterLike | None = None,
        properties: Properties = None,
    ) -> Snapshot | None:
        """Rewrite partitions with another number of buckets, in one commit.

        Set the option ``bucket`` first: writes fail in partitions with a number of buckets other than the option's.

        Args:
            buckets: the number of buckets; None: the option ``bucket`` of the table.
            partition: values of (some) partition columns, or several such mappings. None: all partitions.
            where: only partitions for which this condition on partition columns is true.
            properties: stored in the snapshots of the commit.

        Returns: the snapshot, None if there was nothing to do.

        Raises:
            InvalidArgument: a wrong number of buckets, or none although ``bucket`` is -2; arguments as in `compact`.
            Unsupported: a table without a fixed number of buckets, or with rows that reads ignore until compaction
                (``write-only``). SnapshotNotFound: a table without snapshots.
            CommitConflict: others changed these rows on every attempt; nothing was changed.
        """
        from morrow.writers.operations.compaction import rescale_buckets

        return rescale_buckets(self._target(properties), buckets, partition, where)

    @track_calls("indexing")
    def rewrite_file_index(
        self, *, partition: AnyOf = None, where: FilterLike | None = None, properties: Properties = None
    ) -> RewrittenIndexes:
        """Rebuild the indexes of data files to match the current options ``file-index.*``, in one commit.

        New files are indexed when they are written. This adds indexes to files written before the options changed, and
        removes indexes that the options no longer name. Data files are not changed.

        Args:
            partition, where: as for `rescale`.
            properties: stored in the snapshots of the commit.

        Raises:
            InvalidArgument, Unsupported: the options are wrong, as for writers, or an argument is.
            CorruptFile, FileMissing: a data file cannot be read. CommitConflict: others were faster each time.
        """
        from morrow.writers.operations.table_maintenance import rewrite_file_index

        return rewrite_file_index(self._target(properties), partition, where)

    @track_calls("indexing")
    def create_global_index(
        self,
        column: str,
        index_type: str = "btree",
        *,
        partition: AnyOf = None,
        where: FilterLike | None = None,
        options: Mapping[str, object] | None = None,
        properties: Properties = None,
    ) -> ChangedIndex:
        """Build a global index of a column of a table with row ids, in one commit.

        Reads with a filter use ``btree`` and ``bitmap``, `Table.search` uses indexes of vectors if it is asked to, and
        `Table.search_text` uses ``full-text``. A repeated call indexes the rows that were added or changed since. Reads
        and searches also return rows that no index covers.

        Args:
            column: a column of numbers, text, booleans, dates or times. Indexes of vectors need VECTOR<FLOAT, n> or
                ARRAY<FLOAT>, ``full-text`` needs text.
            index_type: ``btree``, or ``bitmap`` for columns of few values; ``ivf-flat``, ``ivf-pq``, ``ivf-sq``,
                ``ivf-rq`` or ``diskann`` (``pip install 'morrow[vindex]'``); ``full-text`` (``morrow[full-text]``).
            partition, where: as for `rescale`.
            options: ``sorted-index.records-per-range``, ``ivf-flat.metric``, ``full-text.tokenizer`` and the like; they
                override those of the table.
            properties: stored in the snapshots of the commit.

        Returns: the number of new index files, and the snapshot; None if all rows are indexed.

        Raises:
            ColumnNotFound, InvalidArgument: a wrong name or option, or a vector that no index can have. Unsupported:
                another type of index or column, a table without row ids, or a package that is not installed.
            CommitConflict: others changed the rows on every attempt; nothing was changed.
        """
        from morrow.writers.operations.global_indexes import create_global_index

        for value, name in ((column, "column"), (index_type, "index_type")):
            check_instance(value, str, name)
        found = {} if options is None else check_mapping(options, "options")
        given = {check_instance(key, str, "an option"): str(value) for key, value in found.items()}
        return create_global_index(self._target(properties), column, index_type, partition, where, given)

    @track_calls("indexing")
    def drop_global_index(
        self,
        column: str,
        index_type: str = "btree",
        *,
        partition: AnyOf = None,
        where: FilterLike | None = None,
        dry_run: bool = False,
        properties: Properties = None,
    ) -> ChangedIndex:
        """Drop the global index of a column, in one commit. Expiry of older snapshots removes the files.

        Args:
            column: the column, or all columns of the index with commas in between.
            index_type: the type, also one that Morrow does not build.
            partition, where: as for `rescale`.
            dry_run: change nothing.
            properties: stored in the snapshots of the commit.

        Returns: the number of files dropped (with `dry_run`: to drop), and the snapshot.

        Raises:
            ColumnNotFound: there is no such column. CommitConflict: others were faster each time.
        """
        from morrow.writers.operations.global_indexes import drop_global_index

        for value, name in ((column, "column"), (index_type, "index_type")):
            check_instance(value, str, name)
        check_instance(dry_run, bool, "dry_run")
        return drop_global_index(self._target(properties), column, index_type, partition, where, dry_run=dry_run)

    def compact_manifests(self, *, properties: Properties = None) -> Snapshot | None:
        """Merge small manifests and manifests with deletions, in one commit. Changes no rows.

        Returns: the snapshot, None if there was nothing to merge.

        Raises:
            CommitConflict: others were faster each time. CorruptFile, FileMissing: a manifest cannot be read.
        """
        from morrow.writers.commit.committer import compact_manifests

        return compact_manifests(self._target(properties))

    @track_calls("analyzing")
    def analyze(self, columns: Sequence[str] | None = (), *, properties: Properties = None) -> Snapshot | None:
        """Compute statistics of the rows and these columns in the newest snapshot, and commit them for query planners.

        The system table ``$statistics`` shows the result. Later snapshots keep it until the schema changes.

        Args:
            columns: column names; None: all columns. Statistics are distinct values (estimated for many rows), nulls,
                lengths, and minimum and maximum (of numbers, dates, booleans and timestamps).
            properties: stored in the snapshots of the commit.

        Returns: the ANALYZE snapshot, None for a table without snapshots.

        Raises:
            ColumnNotFound, InvalidArgument: a wrong name. Unsupported: a nested column, or one of type TIME.
            CorruptFile, FileMissing: a file cannot be read. CommitConflict: others were faster each time.
        """
        from morrow.scans.arguments import check_columns
        from morrow.writers.operations.table_maintenance import analyze_table

        target = self._target(properties)
        return analyze_table(target, tuple(target.schema.by_name) if columns is None else check_columns(columns))

    def _target(self, properties: Properties = None) -> WriteTarget:
        from morrow.writers.target import WriteTarget

        return WriteTarget.of(self._metadata, properties=properties)


class RowOperations(Rewriting):
    """The writing methods of `Table`. Writers are imported on first use."""

    @track_calls("writing")
    def append(
        self,
        data: object,
        *,
        kinds: Kinds = None,
        properties: Properties = None,
        missing: Missing = "null",
        schema_mode: SchemaMode = None,
    ) -> Snapshot | None:
        """Append rows, in one commit. In a table with a primary key this is `upsert`.

        Args:
            data: anything with ``__arrow_c_stream__`` (Arrow, Polars, DuckDB relations, pandas, scans), a Polars
                LazyFrame, an Arrow dataset, a list of dicts, a dict of columns, or an iterator of tables, which are
                read one by one. Columns are matched by name.
            kinds: see `Writer.write`.
            properties: stored in the snapshots of the commit.
            missing: ``null``: missing nullable columns are written as their default value, or null without a default;
                if versions are merged by column, null keeps the stored value. ``error``: missing columns raise.
            schema_mode: ``merge``: columns that the table lacks are added to it, nullable and last. None: unknown
                columns raise.

        Returns: the last snapshot created, None if there were no rows.

        Raises: as `Writer.write` and `Writer.commit`; nothing was committed.
        """
        from morrow.writers.operations.append import append_rows

        return append_rows(self._target(properties), data, kinds, missing=missing, schema_mode=schema_mode)

    @track_calls("writing")
    def upsert(
        self,
        data: object,
        *,
        key: str | Sequence[str] | None = None,
        kinds: Kinds = None,
        properties: Properties = None,
        missing: Missing = "null",
        schema_mode: SchemaMode = None,
    ) -> Snapshot | None:
        """Upsert rows into a table with a primary key, in one commit: insert rows with new keys, and merge other rows
        with the stored row by the merge engine (by default they replace it). Other arguments and the result are as in
        `append`.

        Args:
            key: in a table without a primary key, the columns to upsert by: rows that are equal in them get the given
                columns, other rows are inserted. Null equals nothing. `data` is held in memory.

        Raises:
            InvalidArgument: the table has no primary key, and no `key` is given. Others as `append` or `Merge.execute`.
        """
        from morrow.writers.operations.append import upsert_rows

        return upsert_rows(self._target(properties), data, kinds, key=key, missing=missing, schema_mode=schema_mode)

    @track_calls("deleting")
    def delete(self, keys_or_filter: object, *, properties: Properties = None) -> Snapshot | None:
        """Delete rows, in one commit.

        Args:
            keys_or_filter: a condition, as the filter of `scan` (SQL text, a pyarrow or Polars expression), or the
                primary keys of the rows: any data as in `append`; only its key columns are used. A condition on
                partition columns alone drops partitions.
            properties: stored in the snapshots of the commit.

        Returns: the last snapshot created, None if there was no row to delete.

        Raises:
            ColumnNotFound, InvalidArgument: the condition or the keys are wrong.
            Unsupported: the merge engine of the table does not delete rows.
            CommitConflict: others changed these rows on every attempt; nothing was changed.
        """
        from morrow.writers.operations.update import delete_keys, delete_matching, is_condition

        if is_condition(keys_or_filter):
            return delete_matching(self._target(properties), keys_or_filter)
        return delete_keys(self._target(properties), keys_or_filter)

    @track_calls("updating")
    def update(
        self, set: Mapping[str, object], where: FilterLike | None = None, *, properties: Properties = None
    ) -> Snapshot | None:
        """Update columns of rows, in one commit.

        Args:
            set: column -> new value. Text is a SQL expression over the old row (``"amount * 2"``, ``"'text'"``), a
                Polars expression is computed over the old row, anything else is the value itself (None: null).
            where: the rows to update, as the filter of `scan`; None: all.
            properties: stored in the snapshots of the commit.

        Returns: the last snapshot created, None if no row matched.

        Raises:
            ColumnNotFound, InvalidArgument: a column, expression or condition is wrong, a value does not fit its
                column, or a column belongs to the primary key.
            Unsupported: the merge engine of the table does not update rows, or would change the meaning of the update.
            CommitConflict: as `delete`.
        """
        from morrow.writers.operations.update import update_rows

        return update_rows(self._target(properties), set, where)

    @track_calls("updating")
    def update_rows(self, data: object, *, properties: Properties = None) -> Snapshot | None:
        """Update rows of a table with row tracking by their ids, in one commit.

            changed = t.to_polars(["_ROW_ID", "text"], filter="lang = 'de'").with_columns(...)
            t.update_rows(changed)

        With data evolution only the given columns are written. Writers of different columns do not wait for each other.

        Args:
            data: rows as in `append`, which is held in memory: ``_ROW_ID`` and the columns to set.
            properties: stored in the snapshots of the commit.

        Returns: the last snapshot created, None if `data` has no rows.

        Raises:
            InvalidArgument: no row tracking, an id that is null, twice in `data`, or not a row's id; values that do not
            fit.
            ColumnNotFound: the table lacks a column. Unsupported: data evolution, and a row would change its partition.
            CommitConflict: as `delete`.
        """
        from morrow.writers.operations.update import update_rows_by_id

        return update_rows_by_id(self._target(properties), data)

    def merge(self, source: object, on: str | Sequence[str], *, properties: Properties = None) -> Merge:
        """Begin a MERGE INTO: match rows of a source with rows of the table. Clauses are methods of `Merge`.

        Args:
            source: data as in `append`; it is held in memory.
            on: the column or columns that are equal in both, or a SQL condition on ``target.x`` and ``source.x``.
            properties: stored in the snapshots of the commit.
        """
        from morrow.writers.operations.merge import Merge

        return Merge(self._target(properties), source, on)

    @track_calls("writing")
    def overwrite(
        self,
        data: object,
        *,
        partition: Mapping[str, object] | None = None,
        dynamic: bool | None = None,
        replace_where: FilterLike | None = None,
        properties: Properties = None,
        missing: Missing = "null",
        schema_mode: SchemaMode = None,
    ) -> Snapshot | None:
        """Replace rows, in one commit. Overwriting a partition also changes its number of buckets.

        Args:
            data: as in `append`; columns that `partition` names may be missing.
            partition: values of some or all partition columns: only rows in these partitions are written and replaced.
            dynamic: True: replace only partitions that `data` has rows of. False: all that `partition` names, or the
                whole table. None: by the option ``dynamic-partition-overwrite`` (default True).
            replace_where: a condition on partition columns, instead of `partition` and `dynamic`. All matching
                partitions are replaced, even if `data` has no rows for them.
            properties: stored in the snapshots of the commit.
            missing, schema_mode: as in `append`.

        Returns: the last snapshot created, None if there was nothing to do.

        Raises:
            InvalidArgument: rows outside `partition` or `replace_where`, or as `append`.
        """
        from morrow.writers.operations.overwrite import overwrite_rows

        return overwrite_rows(
            self._target(properties),
            data,
            partition,
            dynamic,
            replace_where=replace_where,
            missing=missing,
            schema_mode=schema_mode,
        )

    def truncate(self, *, properties: Properties = None) -> Snapshot | None:
        """Delete all rows, in one commit; older snapshots keep them."""
        from morrow.writers.operations.overwrite import truncate_table

        return truncate_table(self._target(properties))

    def drop_partition(self, *partitions: Mapping[str, object], properties: Properties = None) -> Snapshot | None:
        """Drop one or more partitions, in one commit: ``t.drop_partition({"dt": "2024-05-14"})``.

        Raises:
            InvalidArgument: no partition, a partition without values, or a column that is not a partition column.
        """
        from morrow.writers.operations.overwrite import drop_partitions

        return drop_partitions(self._target(properties), partitions)

    drop_partitions = drop_partition

    def write_ray(self, dataset: Any, *, overwrite: bool = False) -> Snapshot | None:
        """Write the rows of a Ray dataset, in one commit.

        Ray's tasks write the files of a table without a primary key. Other rows, and rows that overwrite,
        pass through this process in bounded memory, since a key has one bucket and one newest version.

        Args:
            dataset: a `ray.data.Dataset`. Its columns are matched by name.
            overwrite: replace all rows, or those of the partitions in the dataset, as `overwrite` does.

        Returns: the snapshot, None if there was nothing to write.

        Raises:
            ColumnNotFound, InvalidArgument: as `append`; raised by a task, Ray wraps them in its own error.
            Unsupported: Ray is not installed; install ``morrow[ray]``.
        """
        from morrow.tables.writer import iterate_tables, write_by_tasks

        check_instance(overwrite, bool, "overwrite")
        if not hasattr(dataset, "iter_batches"):
            raise InvalidArgument(f"a {type(dataset).__name__} is not a Ray dataset; append takes other rows")
        if overwrite:
            return self.overwrite(iterate_tables(dataset))
        if self._metadata.latest_schema().primary_keys:
            return self.append(iterate_tables(dataset))
        return write_by_tasks(self._metadata, dataset)

    def writer(self, commit_user: str | None = None) -> Writer:
        """Return a writer, for many batches in one commit or for a series of commits.

        Args:
            commit_user: a fixed name makes commits repeatable: a commit with the same user and identifier is recognised
                and not made twice. None: a new name.
        """
        from morrow.tables.writer import Writer

        return Writer(self._metadata, commit_user)

    def committer(self, commit_user: str) -> Committer:
        """Return a committer of messages that writers of this commit user have prepared, also in other processes."""
        from morrow.tables.writer import Committer

        return Committer(self._metadata, commit_user)
