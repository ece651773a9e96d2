"""Partitions and buckets that a compaction is about."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.plan.filter import FilterLike
from morrow.writers.buckets.restored import restored_partitions
from morrow.writers.operations.compact import chosen_partitions
from morrow.writers.target import WriteTarget

EPOCH = dt.datetime(1970, 1, 1)


@dataclass(frozen=True)
class Chosen:
    """The partitions that are compacted.

    Args:
        partitions: values of partition columns; a partition matches any of them; none: all.
        where: a condition on partition columns.
        idle: only partitions without a new file for this duration.
        buckets: only buckets with these numbers; None: all.
    """

    partitions: Sequence[Mapping[str, object]] = ()
    where: FilterLike = None
    idle: dt.timedelta | None = None
    buckets: Sequence[range] | None = None


def partitions_of(target: WriteTarget, snapshot: Snapshot | None, chosen: Chosen) -> list[bytes] | None:
    """Returns the chosen partitions (BinaryRows), None for all."""
    specs: Sequence[Mapping[str, object] | None] = chosen.partitions or (None,)
    found = [chosen_partitions(target, snapshot, spec, chosen.where) for spec in specs]
    named = [one for part in found for one in part or ()]
    partitions = None if None in found else list(dict.fromkeys(named))
    if chosen.idle is None:
        return partitions
    newest: dict[bytes, int] = {}
    for place, state in restored_partitions(target, snapshot, partitions).items():
        times = [file.creation_time for file in state.files]
        newest[place.partition] = max([newest.get(place.partition, 0), *times])
    # The local wall clock of the file's writer, as Paimon stores it.
    until = (dt.datetime.now() - chosen.idle - EPOCH) // dt.timedelta(milliseconds=1)
    return [partition for partition, time in newest.items() if time <= until]


def check_buckets(target: WriteTarget, buckets: Sequence[range] | None) -> None:
    """Raises `Unsupported` where buckets have no fixed numbers, `InvalidArgument` for numbers that no bucket has."""
    if buckets is None:
        return
    there = target.options.bucket
    if there < 1:
        raise Unsupported(f"compaction of some buckets with 'bucket' = {there}", where=target.where)
    if any(numbers[-1] >= there for numbers in buckets if numbers):
        raise InvalidArgument(f"{target.where}: compact: the buckets are 0 to {there - 1}")
