"""ANALYZE: statistics of the newest snapshot, measured and committed beside it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from morrow.engine.format.snapshot import Snapshot
from morrow.engine.format.table_statistics import ColumnFacts, TableStatistics
from morrow.engine.format.types import DataField
from morrow.engine.plan.entries import live_entries
from morrow.engine.plan.filter import Filter
from morrow.engine.plan.in_flight import planning
from morrow.engine.plan.predicate import ALWAYS
from morrow.engine.plan.scan_plan import ScanPlan
from morrow.readers.execution.measuring import check_measured, measured
from morrow.writers.commit import TableCommit
from morrow.writers.operations.scanning import plan_where
from morrow.writers.target import WriteTarget

Measure: TypeAlias = Callable[[ScanPlan, Sequence[DataField]], tuple[int, Mapping[str, ColumnFacts]]]
"""Measures columns of the rows of a plan: the number of rows, and statistics by name."""


def analyze(target: WriteTarget, columns: Sequence[str], measure: Measure | None = None) -> Snapshot | None:
    """Measures the newest snapshot and commits the result; see `Table.analyze`. `measure` is local unless given."""
    fields = [target.schema.column(name) for name in columns]
    check_measured(fields, target.where)
    commit = TableCommit(target)
    snapshot = commit.latest_snapshot()
    if snapshot is None:
        return None
    plan = plan_where(target, snapshot, Filter(ALWAYS, (), frozenset(), ""))
    rows, facts = measured(plan, target.store, fields) if measure is None else measure(plan, fields)
    with planning(target.metadata, snapshot):
        files = live_entries(target.metadata, snapshot, target.schema).frame
    stored, size = int(files["_ROW_COUNT"].sum()), int(files["_FILE_SIZE"].sum())
    share = min(rows / stored, 1.0) if stored else 0.0
    return commit.analyze(TableStatistics(snapshot.id, target.schema.id, rows, int(size * share), facts))
