"""Operations on the rows of a table; each call is one commit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from morrow.engine.format.snapshot import Snapshot
from morrow.engine.plan.filter import FilterLike
from morrow.engine.progress import watched
from morrow.tables.rewriting import Rewriting

if TYPE_CHECKING:
    from morrow.tables.writing import Committer, Writer
    from morrow.writers.operations.growing import SchemaMode
    from morrow.writers.operations.merge import Merge
    from morrow.writers.rows import Kinds, Missing


class RowOperations(Rewriting):
    """The writing methods of `Table`. Writers are imported on first use."""

    @watched("writing")
    def append(
        self,
        data: object,
        *,
        kinds: Kinds = None,
        properties: Mapping[str, str] | None = None,
        missing: Missing = "null",
        schema_mode: SchemaMode = None,
    ) -> Snapshot | None:
        """Appends rows, in one commit. In a table with a primary key this is `upsert`.

        Args:
            data: anything with ``__arrow_c_stream__`` (Arrow, Polars, DuckDB relations, pandas, scans), a Polars
                LazyFrame, an Arrow dataset, a list of dicts, a dict of columns, or an iterator of tables, which are
                read one by one. Columns are matched by name.
            kinds: see `Writer.write`.
            properties: stored in the snapshot.
            missing: ``null``: nullable columns that the data lacks are written as their default value, without one as
                null; where versions are combined, null leaves the stored value. ``error``: they are refused.
            schema_mode: ``merge``: columns that the table lacks are added to it, nullable and last. None: they are
                refused.

        Returns: the last snapshot created, None when there were no rows.

        Raises: as `Writer.write` and `Writer.commit`; nothing was written then.
        """
        from morrow.writers.operations.append import append

        return append(self._target(), data, kinds, properties, missing=missing, schema_mode=schema_mode)

    @watched("writing")
    def upsert(
        self,
        data: object,
        *,
        kinds: Kinds = None,
        properties: Mapping[str, str] | None = None,
        missing: Missing = "null",
        schema_mode: SchemaMode = None,
    ) -> Snapshot | None:
        """Upserts rows into a table with a primary key, in one commit: inserts rows with new keys, and merges others
        with the row of their key by the merge engine (by default they replace it). Arguments and result as in `append`.

        Raises:
            InvalidArgument: the table has no primary key. Others as `append`.
        """
        from morrow.writers.operations.append import upsert

        return upsert(self._target(), data, kinds, properties, missing=missing, schema_mode=schema_mode)

    @watched("deleting")
    def delete(self, keys_or_filter: object) -> Snapshot | None:
        """Deletes rows, in one commit.

        Args:
            keys_or_filter: a condition, as the filter of `scan` (SQL text, a pyarrow or Polars expression), or the
                primary keys of the rows: any data as in `append`, of which only the key columns are used. A condition
                on partition columns alone drops partitions.

        Returns: the last snapshot created, None when there was no row to delete.

        Raises:
            ColumnNotFound, InvalidArgument: the condition or the keys are wrong.
            Unsupported: the merge engine of the table deletes no rows.
            CommitConflict: others changed these rows on every attempt; nothing was changed.
        """
        from morrow.writers.operations.delete import delete_keys, delete_matching, is_condition

        if is_condition(keys_or_filter):
            return delete_matching(self._target(), keys_or_filter)
        return delete_keys(self._target(), keys_or_filter)

    @watched("updating")
    def update(self, set: Mapping[str, object], where: FilterLike | None = None) -> Snapshot | None:
        """Updates columns of rows, in one commit.

        Args:
            set: column -> new value. Text is a SQL expression over the old row (``"amount * 2"``, ``"'text'"``), a
                Polars expression is computed over the old row, anything else is the value itself (None: null).
            where: the rows to update, as the filter of `scan`; None: all.

        Returns: the last snapshot created, None when no row matched.

        Raises:
            ColumnNotFound, InvalidArgument: a column, expression or condition is wrong, a value does not fit its
                column, or a column belongs to the primary key.
            Unsupported: the merge engine of the table updates no rows, or would change the meaning of this update.
            CommitConflict: as `delete`.
        """
        from morrow.writers.operations.update import update

        return update(self._target(), set, where)

    def merge(self, source: object, on: str | Sequence[str]) -> Merge:
        """Begins a MERGE INTO: matches rows of a source with rows of the table; its clauses are methods of `Merge`.

        Args:
            source: data as in `append`; it is held in memory.
            on: the column or columns that are equal in both, or a SQL condition on ``target.x`` and ``source.x``.
        """
        from morrow.writers.operations.merge import Merge

        return Merge(self._target(), source, on)

    @watched("writing")
    def overwrite(
        self,
        data: object,
        *,
        partition: Mapping[str, object] | None = None,
        dynamic: bool | None = None,
        replace_where: FilterLike | None = None,
        missing: Missing = "null",
        schema_mode: SchemaMode = None,
    ) -> Snapshot | None:
        """Replaces rows by new ones, in one commit. Overwriting a partition also changes its number of buckets.

        Args:
            data: as in `append`; columns that `partition` names may be missing.
            partition: values of some or all partition columns: only rows of these partitions are written and replaced.
            dynamic: True: replace only partitions that `data` has rows of. False: all that `partition` names, or the
                whole table. None: by the option ``dynamic-partition-overwrite`` (default True).
            replace_where: a condition on partition columns, in place of `partition` and `dynamic`: the partitions for
                which it is true are replaced, also those of which `data` has no rows.
            missing, schema_mode: as in `append`.

        Returns: the last snapshot created, None when there was nothing to do.

        Raises:
            InvalidArgument: rows outside of `partition` or `replace_where`, or as `append`.
        """
        from morrow.writers.operations.overwrite import overwrite

        return overwrite(
            self._target(),
            data,
            partition,
            dynamic,
            replace_where=replace_where,
            missing=missing,
            schema_mode=schema_mode,
        )

    def truncate(self) -> Snapshot | None:
        """Deletes all rows, in one commit; older snapshots keep them."""
        from morrow.writers.operations.overwrite import truncate

        return truncate(self._target())

    def drop_partition(self, *partitions: Mapping[str, object]) -> Snapshot | None:
        """Drops one or more partitions, in one commit: ``t.drop_partition({"dt": "2024-05-14"})``.

        Raises:
            InvalidArgument: no partition, a partition without values, a column that is no partition column.
        """
        from morrow.writers.operations.overwrite import drop_partitions

        return drop_partitions(self._target(), partitions)

    drop_partitions = drop_partition

    def writer(self, commit_user: str | None = None) -> Writer:
        """Returns a writer, for many batches in one commit or for a series of commits.

        Args:
            commit_user: a fixed name makes commits repeatable: with it and an identifier, a commit that was already
                made is recognised. None: a new name.
        """
        from morrow.tables.writing import Writer

        return Writer(self._metadata, commit_user)

    def committer(self, commit_user: str) -> Committer:
        """Returns a committer of what writers of this commit user have prepared, also in other processes."""
        from morrow.tables.writing import Committer

        return Committer(self._metadata, commit_user)
