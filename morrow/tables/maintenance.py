"""Table maintenance: expiry (`expiring`), the removal of unreferenced files, examinations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeVar

from morrow.engine.errors import InvalidArgument
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.time_travel import Time
from morrow.engine.progress import watched
from morrow.scans.travelling import Age, epoch_millis
from morrow.tables.expiring import Expiring, check_counts

if TYPE_CHECKING:
    from morrow.doctor.report import Report
    from morrow.engine.format.snapshot import Tag
    from morrow.engine.plan.filter import FilterLike
    from morrow.inspection.inspection import Inspection
    from morrow.tables.tags import Retained
    from morrow.writers.history.cleaning.orphans import OrphanFiles
    from morrow.writers.history.cleaning.purge import Purged
    from morrow.writers.history.cleaning.repair import RepairedHint

Other = TypeVar("Other")


class Maintenance(Expiring):
    """The maintenance methods of `Table`. They never remove what a snapshot, tag, branch or consumer needs."""

    _metadata: TableMetadata

    def create_tag_from_timestamp(self, name: str, timestamp: Time, time_retained: Retained = None) -> Tag:
        """Tags the first snapshot committed at or after a time; see `Tags.create_from_timestamp`."""
        from morrow.tables.tags import Tags

        return Tags(self._metadata).create_from_timestamp(name, timestamp, time_retained)

    @watched("looking for orphan files")
    def remove_orphan_files(self, older_than: Age | None = None, dry_run: bool = True) -> OrphanFiles:
        """Finds and removes orphan files: files of killed writers that no snapshot, changelog, tag or branch names.

        Args:
            older_than: only files last changed before this moment, or of this age (default: one day), since a writer
                that has not committed yet has younger files. It must be longer than any write takes.
            dry_run: only list them.

        Raises:
            InvalidArgument: a moment that is not past.
            CorruptFile, FileMissing: metadata that cannot be read; nothing was removed.
        """
        from morrow.writers.history.cleaning.orphans import remove_orphan_files

        if not isinstance(dry_run, bool):
            raise InvalidArgument(f"dry_run is True or False, not {dry_run!r}; nothing was removed")
        return remove_orphan_files(self._metadata, older_than_millis=epoch_millis(older_than), dry_run=dry_run)

    def remove_unexisting_files(self, dry_run: bool = True, *, parallelism: int | None = None) -> list[str]:
        """Removes the data files that do not exist any more from the newest state, in one commit.

        Reads of a table that has lost a file end with `FileMissing`. Afterwards they return the rows that are left; in
        a table with a primary key, older versions of keys may come back. Older snapshots stay as they are.

        Args:
            dry_run: only list them.
            parallelism: files looked for at once.

        Returns: the paths of the missing files, sorted.

        Raises:
            Unsupported: a table with data evolution. CommitConflict: others were faster each time.
        """
        from morrow.writers.operations.unexisting import remove_unexisting_files
        from morrow.writers.target import WriteTarget

        if not isinstance(dry_run, bool):
            raise InvalidArgument(f"dry_run is True or False, not {dry_run!r}; nothing was removed")
        check_counts(parallelism=parallelism)
        if parallelism is not None and parallelism < 1:
            raise InvalidArgument(f"parallelism is 1 or more, not {parallelism}; nothing was removed")
        return remove_unexisting_files(WriteTarget.of(self._metadata), dry_run=dry_run, parallelism=parallelism)

    def mark_partition_done(self, *partitions: Mapping[str, object]) -> list[str]:
        """Marks partitions as done, for other systems: writes a file ``_SUCCESS`` into the folder of each.

        t.mark_partition_done({"dt": "2024-05-14", "hh": 8}, {"dt": "2024-05-14", "hh": 9})

        Args:
            partitions: values of all partition columns, or of the first ones, whose folder is marked then. They need
                not have rows.

        Returns: the paths of the files. One that exists keeps its creation time.

        Raises:
            InvalidArgument: no partition, a column that is no partition column, or values that name no folder.
            Unsupported: the option ``partition.mark-done-action`` asks for something else.
        """
        from morrow.writers.operations.partition_done import mark_partitions_done
        from morrow.writers.target import WriteTarget

        return mark_partitions_done(WriteTarget.of(self._metadata), partitions)

    @watched("purging")
    def purge(self, older_than: Age | None = None) -> Purged:
        """Empties the table for good: removes rows, branches, tags, consumers, changelogs and old snapshots with their
        files.

        Schema and options stay, and so do unreferenced files younger than `older_than` (default: one day), since a
        writer may be about to commit them.

        Raises:
            InvalidArgument: the table is a branch. StorageError: a file could not be deleted; call again.
        """
        from morrow.writers.history.cleaning.purge import purge

        return purge(self._metadata, older_than_millis=epoch_millis(older_than))

    @watched("examining")
    def doctor(self, data: bool = False) -> Report:
        """Examines the table, and reports what is wrong or dear, and what to do about it; changes nothing.

        Of all snapshots, tags and branches: schemas, manifests, and whether every file is there with its size. Of the
        newest snapshot: merge trees (files of one level do not overlap), deletion vectors. Further hints, options that
        contradict each other, orphan files, sorted runs, small files, dead rows, old snapshots.

        Args:
            data: read every data file of the newest snapshot, too: numbers of rows, statistics, the order and
                uniqueness of keys, checksums, as `Scan.verification` does.

        Returns: a report that prints as text and in notebooks; ``report.findings`` are values, ``report.healthy``
            tells whether there is no error and no warning.

        Raises:
            StorageError: the store does not answer.
        """
        from morrow.doctor.examination import examine

        if not isinstance(data, bool):
            raise InvalidArgument(f"data is True or False, not {data!r}")
        return examine(self._metadata, data=data)

    def inspect(self, where: FilterLike = None) -> Inspection:
        """Draws the table on one page of HTML: history, merge trees, partitions, costs, findings. Reads no row.

        Args:
            where: a condition whose pruning is drawn, in any form that `Table.scan` takes as its filter.

        Returns: an object that shows itself in notebooks; ``.save("report.html")`` writes the page.

        Raises:
            InvalidArgument, ColumnNotFound: a wrong condition.
        """
        from morrow.inspection.inspection import Inspection
        from morrow.scans.making import make_scan

        make_scan(self._metadata, filter=where)
        return Inspection(self._metadata, where)

    def repair(self) -> list[RepairedHint]:
        """Rewrites the hints LATEST and EARLIEST where they are missing or wrong; returns those changed.

        Morrow does not trust them, but Java Paimon fails on a LATEST that is too high.
        """
        from morrow.writers.history.cleaning.repair import repair

        return repair(self._metadata)
