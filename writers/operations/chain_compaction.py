"""Compaction of a chain table: the merged rows of a partition become a whole partition of the snapshot branch."""

from __future__ import annotations

from collections.abc import Mapping

from morrow.engine.errors import InvalidArgument
from morrow.engine.plan.chains import find_chain, plan_merged
from morrow.engine.plan.entries import filter_partitions, read_live_entries
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.scan_plan import ScanRequest
from morrow.engine.plan.time_travel import Travel
from morrow.readers.execution.execute import open_batch_reader
from morrow.writers.operations.overwrite import overwrite_rows
from morrow.writers.operations.partition_filters import build_partition_filter
from morrow.writers.target import WriteTarget


def compact_chain(metadata: TableMetadata, partition: Mapping[str, object], *, overwrite: bool) -> bool:
    """Write the merged rows of a partition to the snapshot branch.

    Args:
        partition: values of some or all partition columns.
        overwrite: replace a partition that the snapshot branch has; otherwise it stays.

    Returns: whether rows were written.

    Raises:
        InvalidArgument: no chain table, or no values. Others as `plan_merged`.
    """
    target = WriteTarget.of(metadata)
    chain = find_chain(metadata, target.options, Travel())
    if chain is None:
        raise InvalidArgument(
            f"{metadata.where}: it is no chain table with both branches; set 'chain-table.enabled', "
            "'scan.fallback-snapshot-branch' and 'scan.fallback-delta-branch'"
        )
    if not partition:
        raise InvalidArgument(f"{metadata.where}: name the partition to compact, such as {{'dt': '20250810'}}")
    chosen = build_partition_filter(target, [partition], None, "partition")
    whole, schema = chain.snapshots, target.schema
    if whole.snapshot is not None and not overwrite:
        live = read_live_entries(whole.metadata, whole.snapshot, whole.schema).frame
        if filter_partitions(live, whole.schema, chosen.predicate, metadata.where).height:
            return False
    request = ScanRequest(schema, target.options, None, tuple(schema.by_name), chosen)
    plan = plan_merged(request, chain, frozenset(), ignores_whole=True)
    if plan is None or not any(part.files for part in plan.parts):
        return False
    rows = open_batch_reader(plan, metadata.store)
    overwrite_rows(WriteTarget.of(whole.metadata), rows, None, dynamic=True)
    return True
