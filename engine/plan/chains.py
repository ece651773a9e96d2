"""Chain tables: one branch holds whole partitions, and another one the changes of each period.

With ``chain-table.enabled``, the branch ``scan.fallback-snapshot-branch`` holds whole partitions, and
``scan.fallback-delta-branch`` the changes of each. A read takes partitions from main first, then from the snapshot
branch. A partition P that only the delta branch has is merged by key: from the nearest earlier partition A of the
snapshot branch, and the delta branch's partitions after A, up to P. Without an A, all partitions of the delta branch up
to P are merged. The rows are in the partition P.

The last partition columns (``chain-table.chain-partition-keys``; all by default) order the chain. The others divide
the partitions into groups, each with a chain of its own. As in Java, A is found by comparing values, and the changes
by the time that ``partition.timestamp-pattern`` and ``-formatter`` read from the values. Morrow refuses partitions that
the two order differently.

A past state has both branches as of the same time, also if main, which often is empty, had no snapshot yet.

Deleted keys stay in the files of both branches: compactions do not drop them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec
import polars as pl

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.format.binary_row import Value
from morrow.engine.format.manifest_entries import make_empty_frame
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.names import cols
from morrow.engine.options import TableOptions
from morrow.engine.options.declared.merging import DELETION_VECTORS_ENABLED
from morrow.engine.options.declared.table import SCAN_FALLBACK_DELTA_BRANCH, SCAN_FALLBACK_SNAPSHOT_BRANCH
from morrow.engine.options.retention import PartitionExpiryOptions, parse_partition_expiry, parse_partition_time
from morrow.engine.plan.data_files import build_file_paths, decode_partition_values
from morrow.engine.plan.entries import filter_partitions
from morrow.engine.plan.filter import NO_FILTER
from morrow.engine.plan.manifests import guard_planning
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.planner import make_plan, plan_visible_entries, read_visible_entries, resolve_merge
from morrow.engine.plan.pruning import project_predicate
from morrow.engine.plan.scan_plan import ScanPlan, ScanRequest
from morrow.engine.plan.time_travel import OtherBranch, Travel, open_branch, resolve_travel
from morrow.engine.structs import replace

Values = tuple[Value | None, ...]
OF, SOURCE = "partition of the rows", "_PARTITION"
MAX_CHAINED = 200
"""Maximum number of partitions of one read that are merged with the same changes. Each needs a separate plan."""


class Chain(msgspec.Struct, frozen=True):
    """The branches of a chain table as a scan reads them."""

    snapshots: OtherBranch
    deltas: OtherBranch


def find_chain(
    metadata: TableMetadata, options: TableOptions, snapshot: Snapshot | None, travel: Travel
) -> Chain | None:
    """Return the branches at the time of main's snapshot, or at the requested time; None for a read of one of the two.

    Raises:
        BranchNotFound: an option names no branch. Unsupported: a table with deletion vectors.
        SnapshotNotFound: snapshots of that time have expired, or no branch had any.
    """
    if options.chain is None or metadata.branch in options.chain:
        return None
    snapshots, deltas = (
        open_branch(metadata, name, option, snapshot, travel)
        for name, option in zip(options.chain, (SCAN_FALLBACK_SNAPSHOT_BRANCH, SCAN_FALLBACK_DELTA_BRANCH))
    )
    for each in (snapshots, deltas):
        if each.metadata.options(each.metadata.latest_schema()).deletion_vectors:
            raise Unsupported(f"{DELETION_VECTORS_ENABLED} in a branch of a chain table", where=each.metadata.where)
    if not travel.is_latest and (snapshot, snapshots.snapshot, deltas.snapshot) == (None, None, None):
        resolve_travel(metadata, travel)
    return Chain(snapshots, deltas)


def plan_chain(request: ScanRequest, chain: Chain, held: frozenset[bytes]) -> ScanPlan:
    """Plan a read of the partitions that main lacks.

    `held`: the partitions of main, in stored form.

    Raises:
        Unsupported: branches that differ in their merge or schemas, or numbers of buckets that differ in a chain;
            partitions whose values and times are in different orders.
        InvalidArgument: a partition that is not a time.
    """
    asked = replace(_ask_branch(request, chain.snapshots), left_out=held)
    return replace(make_plan(chain.snapshots.metadata, asked), fallback=plan_merged(request, chain, held))


def plan_merged(
    request: ScanRequest, chain: Chain, held: frozenset[bytes], *, ignores_whole: bool = False
) -> ScanPlan | None:
    """Plan a read of the partitions that are merged from both branches; None if there are none.

    `ignores_whole`: merge also partitions that the snapshot branch holds.

    Raises as `plan_chain`.
    """
    of_snapshots, of_deltas = (_ask_branch(request, branch) for branch in (chain.snapshots, chain.deltas))
    merges = [resolve_merge(chain.snapshots.metadata, of_snapshots), resolve_merge(chain.deltas.metadata, of_deltas)]
    where = chain.deltas.metadata.where
    if merges[0] != merges[1]:
        raise Unsupported("branches of a chain table that merge rows differently", where=where)
    whole, changes = _read_entries(chain.snapshots, of_snapshots), _read_entries(chain.deltas, of_deltas)
    whole = _translate_schemas(whole, chain)
    anchors, periods = whole["_PARTITION"].unique(), changes["_PARTITION"].unique()
    skipped = held if ignores_whole else held.union(anchors)
    links = _link_partitions(request, chain, anchors, periods, skipped)
    merged: ScanPlan | None = None
    # Readers expect that the files of a plan are distinct, and partitions that follow each other share files.
    for layer in links.partition_by("layer"):
        entries = pl.concat([_move_entries(whole, layer, "anchor"), _move_entries(changes, layer, "changes")])
        _check_buckets(entries, where)
        plan = plan_visible_entries(chain.deltas.metadata, of_deltas, entries)
        merged = replace(plan, fallback=merged)
    return merged


def _ask_branch(request: ScanRequest, branch: OtherBranch) -> ScanRequest:
    options = branch.metadata.options(branch.metadata.latest_schema())
    return replace(request, schema=branch.schema, options=options, snapshot=branch.snapshot, left_out=frozenset())


def _read_entries(branch: OtherBranch, request: ScanRequest) -> pl.DataFrame:
    """Return the visible entries of all partitions, with the paths of their files."""
    if branch.snapshot is None:
        return make_empty_frame()
    asked, metadata = replace(request, filter=NO_FILTER), branch.metadata
    with guard_planning(metadata, branch.snapshot):
        entries, _ = read_visible_entries(metadata, asked, resolve_merge(metadata, asked), [])
        if not entries.height:
            return make_empty_frame()
        paths = build_file_paths(metadata, branch.schema, request.options, entries)
    # Entries get the partition that their rows are read in, so they need a path of their own.
    urls = pl.Series("_EXTERNAL_PATH", [metadata.store.url(path) for path in paths], pl.String)
    return entries.select(cols(make_empty_frame().columns)).with_columns(urls)


def _translate_schemas(entries: pl.DataFrame, chain: Chain) -> pl.DataFrame:
    """Return entries of the snapshot branch with the ids that their schemas have in the delta branch."""
    snapshots, deltas = chain.snapshots.metadata, chain.deltas.metadata
    known = {schema.fields: schema.id for schema in deltas.schemas()}
    ids = entries["_SCHEMA_ID"].unique().to_list()
    translated = {number: known.get(snapshots.schema(number).fields) for number in ids}
    for number, found in translated.items():
        if found is None:
            raise Unsupported(
                f"files of schema {number}, whose columns no schema of the branch {deltas.branch!r} has, in a chain",
                where=snapshots.where,
                hint="change the columns of all branches alike",
            )
    kind = entries["_SCHEMA_ID"].dtype
    return entries.with_columns(pl.col("_SCHEMA_ID").replace_strict(translated, return_dtype=kind) if ids else [])


def _move_entries(entries: pl.DataFrame, links: pl.DataFrame, role: str) -> pl.DataFrame:
    """Return the entries of each chain, moved to the partition of the merged rows."""
    chosen = links.filter(pl.col("role") == role).select(SOURCE, OF)
    moved = entries.join(chosen, on=SOURCE, how="inner", maintain_order="left")
    return moved.with_columns(pl.col(OF).alias(SOURCE)).select(cols(entries.columns))


def _link_partitions(
    request: ScanRequest, chain: Chain, whole: pl.Series, changes: pl.Series, skipped: frozenset[bytes]
) -> pl.DataFrame:
    """Return the partitions (stored form) from which each partition that only the delta branch has is merged.

    Partitions of one layer do not share any of them.
    """
    schema, where = chain.deltas.schema, chain.deltas.metadata.where
    part = project_predicate(request.filter.predicate, frozenset(schema.partition_keys))
    wanted = filter_partitions(changes.to_frame(), schema, part, where)["_PARTITION"]
    order = PartitionOrder(chain, sorted({*whole, *changes}))
    anchors, periods = order.sort(whole), order.sort(changes)
    rows, layers = list[tuple[bytes, bytes, str, int]](), Counter[tuple[Values, bytes | None]]()
    for stored in sorted(set(wanted) - skipped):
        group, place = order.locate(stored)
        earlier = [one for at, one in anchors.get(group, ()) if at < place]
        anchor = earlier[-1] if earlier else None
        layer = layers[group, anchor]
        layers[group, anchor] += 1
        if layer >= MAX_CHAINED:
            raise Unsupported(
                f"more than {MAX_CHAINED} partitions that are merged with the same changes, in one read,",
                where=where,
                hint="choose partitions by a filter, or call compact_chain_table for some of them",
            )
        rows += [(stored, one, "changes", layer) for one in order.select(periods[group], anchor, stored)]
        rows += [] if anchor is None else [(stored, anchor, "anchor", layer)]
    names = {OF: pl.Binary, SOURCE: pl.Binary, "role": pl.String, "layer": pl.Int64}
    return pl.DataFrame(rows, names, orient="row")


Place = tuple[tuple[bool, object], ...]


class PartitionOrder:
    """The order of partitions in their chains."""

    def __init__(
        self, chain: Chain, partitions: Sequence[bytes], options: PartitionExpiryOptions | None = None
    ) -> None:
        """Order these partitions of both branches. `options` define the times of values; None: the table's options."""
        schema, self.where = chain.deltas.schema, chain.deltas.metadata.where
        keys, names = chain.deltas.metadata.options(schema).chain_keys, schema.partition_keys
        first = len(names) - len(keys or names)
        self.fields = [schema.by_name[name] for name in names[first:]]
        self.options = options or parse_partition_expiry(schema.options, where=self.where)
        stored = pl.DataFrame({"_PARTITION": partitions}, schema={"_PARTITION": pl.Binary})
        decoded = zip(partitions, decode_partition_values(schema, stored, where=self.where))
        self.values = {one: (values[:first], values[first:]) for one, values in decoded}
        self.times = dict[bytes, int | None]()

    def locate(self, stored: bytes) -> tuple[Values, Place]:
        """Return the group of a partition and its place there."""
        group, values = self.values[stored]
        return group, tuple((value is not None, value) for value in values)

    def sort(self, partitions: Iterable[bytes]) -> Mapping[Values, list[tuple[Place, bytes]]]:
        """Return the places and partitions of each group, in order."""
        found = dict[Values, list[tuple[Place, bytes]]]()
        for stored in partitions:
            group, place = self.locate(stored)
            found.setdefault(group, []).append((place, stored))
        return {group: sorted(each) for group, each in found.items()}

    def select(self, periods: list[tuple[Place, bytes]], anchor: bytes | None, last: bytes) -> list[bytes]:
        """Return the partitions after the anchor, up to `last`."""
        end = self.locate(last)[1]
        if anchor is None:
            return [stored for place, stored in periods if place <= end]
        start = self.locate(anchor)[1]
        found = [stored for place, stored in periods if start < place <= end]
        low, high = self._require_time(anchor), self._require_time(last)
        times = [self.read_time(stored) for _, stored in periods]
        if found != [one for (_, one), time in zip(periods, times) if time is not None and low < time <= high]:
            raise Unsupported(
                "partitions of a chain table whose values and times are in different orders",
                where=self.where,
                hint="choose a format of times whose text sorts by time, such as yyyyMMdd",
            )
        return found

    def read_time(self, stored: bytes) -> int | None:
        """Return the time of a partition in nanoseconds since the epoch; None if its values are not a time."""
        if stored not in self.times:
            self.times[stored] = parse_partition_time(self.options, self.fields, self.values[stored][1])
        return self.times[stored]

    def _require_time(self, stored: bytes) -> int:
        time = self.read_time(stored)
        if time is None:
            raise InvalidArgument(
                f"{self.where}: the partition {self.values[stored][1]} is not a time as 'partition.timestamp-pattern' "
                "and 'partition.timestamp-formatter' want it; correct these options"
            )
        return time


def _check_buckets(entries: pl.DataFrame, where: str) -> None:
    counts = entries.group_by("_PARTITION").agg(pl.col("_TOTAL_BUCKETS").n_unique())
    if (counts["_TOTAL_BUCKETS"] > 1).any():
        raise Unsupported("a chain of partitions with different numbers of buckets", where=where)
