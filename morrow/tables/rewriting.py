"""Operations that write a table's rows, indexes and statistics anew, and change none of them; each is one commit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from morrow.engine.format.snapshot import Snapshot
from morrow.engine.plan.filter import FilterLike
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.progress import watched

if TYPE_CHECKING:
    from morrow.writers.operations.file_indexes import RewrittenIndexes
    from morrow.writers.operations.partitions import AnyOf
    from morrow.writers.target import WriteTarget


class Rewriting:
    """The methods of `Table` that keep its files in shape. Writers are imported on first use."""

    _metadata: TableMetadata

    @watched("compacting")
    def compact(
        self,
        full: bool = False,
        *,
        partition: Mapping[str, object] | None = None,
        where: FilterLike | None = None,
        order_by: str | Sequence[str] | None = None,
        strategy: str | None = None,
    ) -> Snapshot | None:
        """Compacts files, in one commit, also where the table is ``write-only``.

        Args:
            full: tables with a primary key: make one sorted run of every bucket. Append tables: rewrite every small
                file. False: what the options ``num-sorted-run.*`` and ``compaction.*`` ask for.
            partition: only partitions with these values in (some of) their columns.
            where: only partitions for which this condition on partition columns is true.
            order_by: sort the rows of append tables by these columns while they are rewritten.
            strategy: how to sort: ``order``, ``zorder`` or ``hilbert``.

        Returns: the snapshot, None when nothing was worth compacting.

        Raises:
            InvalidArgument, ColumnNotFound, Unsupported: an argument is wrong, or does not apply to this kind of table.
            CommitConflict: other commits compacted the same files on every attempt; nothing was changed.
        """
        from morrow.writers.operations.compact import compact

        return compact(
            self._target(), full=full, partition=partition, where=where, order_by=order_by, strategy=strategy
        )

    @watched("rescaling")
    def rescale(
        self, buckets: int | None = None, *, partition: AnyOf = None, where: FilterLike | None = None
    ) -> Snapshot | None:
        """Writes the rows of partitions anew with another number of buckets, in one commit.

        Set the option ``bucket`` first: rows can be written only to partitions that have as many buckets as it says.

        Args:
            buckets: the number of buckets; None: the option ``bucket`` of the table.
            partition: values of (some) partition columns; of several mappings any. None: all partitions.
            where: only partitions for which this condition on partition columns is true.

        Returns: the snapshot, None when there was nothing to do.

        Raises:
            InvalidArgument: a wrong number of buckets; none, where ``bucket`` is -2; arguments as in `compact`.
            Unsupported: a table without a fixed number of buckets, or with rows that no read sees before they are
                compacted (``write-only``). SnapshotNotFound: a table without snapshots.
            CommitConflict: others changed these rows on every attempt; nothing was changed.
        """
        from morrow.writers.operations.rescale import rescale

        return rescale(self._target(), buckets, partition, where)

    @watched("indexing")
    def rewrite_file_index(self, *, partition: AnyOf = None, where: FilterLike | None = None) -> RewrittenIndexes:
        """Makes the indexes of data files anew, as the options ``file-index.*`` ask for by now, in one commit.

        New files get their indexes when they are written; this is for those that were written before the options
        changed. Data files stay as they are; indexes that are not asked for any more are removed.

        Args:
            partition, where: as for `rescale`.

        Raises:
            InvalidArgument, Unsupported: the options, as for writers, or an argument.
            CorruptFile, FileMissing: a data file cannot be read. CommitConflict: others were faster each time.
        """
        from morrow.writers.operations.file_indexes import rewrite_file_index

        return rewrite_file_index(self._target(), partition, where)

    def compact_manifests(self) -> Snapshot | None:
        """Merges small manifests, and those that delete files, in one commit that changes no rows.

        Returns: the snapshot, None when there was nothing to merge.

        Raises:
            CommitConflict: others were faster each time. CorruptFile, FileMissing: a manifest cannot be read.
        """
        from morrow.writers.commit.manifest_compaction import compact_manifests

        return compact_manifests(self._target())

    @watched("analyzing")
    def analyze(self, columns: Sequence[str] | None = ()) -> Snapshot | None:
        """Measures rows, and these columns, of the newest snapshot, and commits the result for planners of queries.

        The result is in the system table ``$statistics``; later snapshots keep it until the schema changes.

        Args:
            columns: names; None: all columns. Distinct values, nulls, least and greatest value (of numbers, dates,
                booleans and timestamps) and lengths are measured. Distinct values of many rows are estimated.

        Returns: the ANALYZE snapshot, None for a table without snapshots.

        Raises:
            ColumnNotFound, InvalidArgument: a wrong name. Unsupported: a nested column, or one of type TIME.
            CorruptFile, FileMissing: a file cannot be read. CommitConflict: others were faster each time.
        """
        from morrow.scans.scan_arguments import checked_columns
        from morrow.writers.operations.analyze import analyze

        target = self._target()
        return analyze(target, tuple(target.schema.by_name) if columns is None else checked_columns(columns))

    def _target(self) -> WriteTarget:
        from morrow.writers.target import WriteTarget

        return WriteTarget.of(self._metadata)
