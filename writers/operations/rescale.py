"""Rescaling: the rows of partitions are written anew with another number of buckets, in one OVERWRITE snapshot."""

from __future__ import annotations

from collections.abc import Sequence

from morrow.engine.errors import InvalidArgument, SnapshotNotFound, Unsupported
from morrow.engine.format.paths import POSTPONE_BUCKET
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.options import parse_write_options
from morrow.engine.options.declared.table import BUCKET
from morrow.engine.plan.filter import FilterLike
from morrow.engine.values import replace
from morrow.writers.commit.base_entries import live_in_partitions
from morrow.writers.commit.premise import Premise
from morrow.writers.history.expiry.automatic import maintained
from morrow.writers.operations.committing import cleaned_up
from morrow.writers.operations.partitions import AnyOf, matching_partitions, partition_filter
from morrow.writers.operations.scanning import rows_where
from morrow.writers.operations.serial import serially
from morrow.writers.operations.table_writer import TableWriter
from morrow.writers.rows import incoming
from morrow.writers.target import WriteTarget


def rescale(target: WriteTarget, buckets: int | None, partition: AnyOf, where: FilterLike) -> Snapshot | None:
    """Rescales partitions; see `Table.rescale`."""
    to = _rescaled(target, buckets)
    filter = partition_filter(target, partition, where, "rescale")
    if target.metadata.latest_snapshot() is None:
        raise SnapshotNotFound(f"{target.where}: the table has no snapshot, so there is nothing to rescale")

    def attempt(premise: Premise) -> Snapshot | None:
        if premise.read is None:
            return None
        chosen = matching_partitions(target, premise.read, filter)
        _check_whole(target, premise.read, chosen)
        commits = maintained(to)
        writer = TableWriter(to, overwrite=True)
        try:
            for rows in rows_where(target, premise.read, filter):
                writer.write_frames(incoming(to, rows, stored=True))
            messages = writer.prepare_commit()
        finally:
            writer.close()
        with cleaned_up(commits, messages):
            return commits.overwrite(messages, partitions=chosen, premise=premise)

    return serially(target, filter, attempt)


def _check_whole(target: WriteTarget, snapshot: Snapshot, partitions: Sequence[bytes]) -> None:
    """Checks that reads see all rows, which are not yet compacted in a table that leaves this to others.

    Raises:
        Unsupported: rows of level 0 that reads leave out would be lost.
    """
    if not target.hides_level_zero:
        return
    entries = live_in_partitions(target.metadata, snapshot, target.schema, frozenset(partitions))
    if ((entries["_LEVEL"] == 0) & (entries["_BUCKET"] >= 0)).any():
        raise Unsupported(
            "rescaling rows that are not compacted yet", where=target.where, hint="compact the table first"
        )


def _rescaled(target: WriteTarget, buckets: int | None) -> WriteTarget:
    """Returns the table with this number of buckets, None: with that of its options.

    Raises:
        InvalidArgument: no number, or none of which there can be buckets.
        Unsupported: a table without a fixed number of buckets.
    """
    now = target.options.bucket
    if buckets is not None and (isinstance(buckets, bool) or not isinstance(buckets, int) or buckets < 1):
        raise InvalidArgument(f"rescale: the number of buckets is 1 or more, not {buckets!r}")
    if now < 1 and now != POSTPONE_BUCKET:
        raise Unsupported(f"rescaling without a fixed number of buckets ('bucket' = {now})", where=target.where)
    if buckets is None:
        if now == POSTPONE_BUCKET:
            raise InvalidArgument(
                f"{target.where}: rescale: with 'bucket' = {now}, say how many buckets there shall be"
            )
        return target
    schema = replace(target.schema, options={**target.schema.options, BUCKET.key: str(buckets)})
    write = parse_write_options(schema.options, keyed=target.keyed, where=target.where)
    return replace(target, schema=schema, options=target.metadata.options(schema), write=write)
