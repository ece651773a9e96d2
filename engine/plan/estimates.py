"""Estimates of what a read yields, from manifests: for planners of queries, which ask before anything is planned."""

from __future__ import annotations

from dataclasses import dataclass

from morrow.engine.plan.entries import live_entries
from morrow.engine.plan.in_flight import planning
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.pruning import projected
from morrow.engine.plan.request import ScanRequest

SUMMED = ("_ROW_COUNT", "_FILE_SIZE")


@dataclass(frozen=True)
class Estimate:
    """Rows and bytes of the files of the matching partitions: at most as many rows are read, and as many bytes."""

    rows: int
    size: int


def estimated(metadata: TableMetadata, request: ScanRequest) -> Estimate:
    """Estimates a read. Raises as planning does."""
    if request.snapshot is None:
        return Estimate(0, 0)
    part = projected(request.filter.predicate, frozenset(request.schema.partition_keys))
    with planning(metadata, request.snapshot):
        frame = live_entries(metadata, request.snapshot, request.schema, part, SUMMED).frame
    return Estimate(*(int(frame[name].sum()) for name in SUMMED))
