"""A Paimon table as an object: its schema, history, scans and changes."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import TYPE_CHECKING

from morrow.branches import Branches
from morrow.engine.format.paths import MAIN_BRANCH
from morrow.engine.plan.filter import FilterLike
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.time_travel import AsOf, Time
from morrow.history import SnapshotList, html_table
from morrow.maintenance import Maintenance
from morrow.row_operations import RowOperations
from morrow.scan import Scan, make_scan
from morrow.tags import Tags

if TYPE_CHECKING:
    import pyarrow as pa

    from morrow.altering import Alteration
    from morrow.changes import Changes, Mode
    from morrow.engine.format.schema import TableSchema
    from morrow.engine.plan.consumers import Consumers
    from morrow.readers.dataset import PaimonDataset
    from morrow.stream import ChangeStream, Start
    from morrow.system import SystemScan


class Table(RowOperations, Maintenance):
    """One Paimon table, on one branch.

    Nothing is cached about the newest state: every scan sees the newest snapshot at the time it is planned.
    Make one with `morrow.open` or `morrow.Catalog.table`.
    """

    def __init__(self, metadata: TableMetadata) -> None:
        self._metadata = metadata
        self._metadata.latest_schema()

    @property
    def path(self) -> str:
        """Where the table lies: a folder, or a URL."""
        return self._metadata.store.url(self._metadata.root)

    @property
    def name(self) -> str:
        """The last segment of the path."""
        return self._metadata.root.rstrip("/").rsplit("/", 1)[-1]

    @property
    def branch(self) -> str:
        """The branch this object reads; ``main`` unless another was asked for."""
        return self._metadata.branch

    @property
    def schema(self) -> pa.Schema:
        """The newest schema as an Arrow schema; column comments are field metadata ``comment``."""
        return self._newest.arrow()

    @property
    def options(self) -> dict[str, str]:
        """The table's options as stored."""
        return dict(self._newest.options)

    @property
    def primary_keys(self) -> tuple[str, ...]:
        """Primary key columns, empty for append tables."""
        return self._newest.primary_keys

    @property
    def partition_keys(self) -> tuple[str, ...]:
        """Partition columns, empty for unpartitioned tables."""
        return self._newest.partition_keys

    @property
    def comment(self) -> str | None:
        """The table's comment."""
        return self._newest.comment

    @property
    def _newest(self) -> TableSchema:
        return self._metadata.latest_schema()

    @property
    def alter(self) -> Alteration:
        """Changes of the schema: ``t.alter.add_column("x", "INT")``; several at once: ``with t.alter() as a: ...``."""
        from morrow.altering import Alteration

        return Alteration(self._metadata)

    def schemas(self) -> list[TableSchema]:
        """All versions of the schema, oldest first."""
        return self._metadata.schemas()

    def snapshots(self) -> SnapshotList:
        """Living snapshots, oldest first; each has ``.id``, ``.time``, ``.commit_kind`` and record counts."""
        return SnapshotList(self._metadata.snapshots())

    @property
    def tags(self) -> Tags:
        """Named snapshots that expiry leaves alone: ``t.tags.list()``, ``t.tags.get(name)``."""
        return Tags(self._metadata)

    @property
    def branches(self) -> Branches:
        """Lines of snapshots beside main: ``t.branches.create("dev", tag="v1")``, then ``t.on_branch("dev")``."""
        return Branches(self._metadata)

    def scan(
        self,
        columns: Sequence[str] | None = None,
        filter: FilterLike | None = None,  # the name users know from Arrow and Iceberg
        limit: int | None = None,
        *,
        as_of: AsOf | None = None,
        snapshot: int | None = None,
        tag: str | None = None,
        timestamp: Time | None = None,
        watermark: int | None = None,
        branch: str | None = None,
    ) -> Scan:
        """A read of the table, planned when its rows are asked for.

        Args:
            columns: output columns in order; None for all.
            filter: a SQL condition (``"amount > 10 AND dt = '2024-05-14'"``), or a pyarrow or Polars expression.
            limit: rows at most; reading stops there.
            as_of: a snapshot id, a tag name, or a time: the newest snapshot at or before it.
            snapshot, tag, timestamp, watermark: the same, one meaning each. Times are epoch milliseconds, ISO text,
                or datetimes; what has no zone is in UTC.
            branch: read another branch.

        Raises:
            ColumnNotFound, InvalidArgument: the call is wrong.
            SnapshotNotFound, SnapshotExpired, TagNotFound, BranchNotFound: there is nothing to travel to.
        """
        metadata = self._metadata if branch is None else self._metadata.on_branch(branch)
        return make_scan(
            metadata,
            columns=columns,
            filter=filter,
            limit=limit,
            as_of=as_of,
            snapshot=snapshot,
            tag=tag,
            timestamp=timestamp,
            watermark=watermark,
        )

    def dataset(
        self,
        *,
        as_of: AsOf | None = None,
        snapshot: int | None = None,
        tag: str | None = None,
        timestamp: Time | None = None,
        branch: str | None = None,
    ) -> PaimonDataset:
        """The table as a pyarrow Dataset: DuckDB and Polars push their columns and filters into it.

        The arguments choose a snapshot as in `scan`; the newest one is fixed when this is called.
        """
        return self.scan(as_of=as_of, snapshot=snapshot, tag=tag, timestamp=timestamp, branch=branch).dataset()

    def system(
        self,
        name: str,
        columns: Sequence[str] | None = None,
        filter: FilterLike | None = None,
        limit: int | None = None,
        *,
        as_of: AsOf | None = None,
        snapshot: int | None = None,
        tag: str | None = None,
        timestamp: Time | None = None,
        watermark: int | None = None,
        branch: str | None = None,
        from_snapshot: int | str | None = None,
        to_snapshot: int | str | None = None,
    ) -> SystemScan:
        """A read of a system table: ``t.system("snapshots").to_polars()``. docs/system-tables.md has them all.

        Args:
            name: ``snapshots``, ``files``, ``audit_log``, ...; the ``$`` of Paimon's names may lead it.
            columns, filter, limit, as_of, snapshot, tag, timestamp, watermark, branch: as for `scan`. Tables that tell
                of all snapshots at once, such as ``snapshots``, are not read as of one.
            from_snapshot, to_snapshot: of ``audit_log`` and ``binlog``, what was done between these, as `changes` has
                it; in ``binlog`` an update is then one row, whose arrays hold the values before and after.

        Raises:
            TableNotFound: there is no system table of this name.
            Unsupported: the table has nothing of the kind (``row_tracking`` where rows are not tracked).
            ColumnNotFound, InvalidArgument, SnapshotNotFound, SnapshotExpired, TagNotFound, BranchNotFound: as `scan`.
        """
        from morrow.system import make_system_scan

        return make_system_scan(
            self._metadata if branch is None else self._metadata.on_branch(branch),
            name,
            columns=columns,
            filter=filter,
            limit=limit,
            as_of=as_of,
            snapshot=snapshot,
            tag=tag,
            timestamp=timestamp,
            watermark=watermark,
            from_snapshot=from_snapshot,
            to_snapshot=to_snapshot,
        )

    # Changes

    def changes(
        self,
        from_snapshot: int | str | None = None,
        to_snapshot: int | str | None = None,
        *,
        mode: Mode = "auto",
        columns: Sequence[str] | None = None,
        filter: FilterLike | None = None,
        from_timestamp: Time | None = None,
        to_timestamp: Time | None = None,
    ) -> Changes:
        """What was done between two snapshots: rows led by ``rowkind`` (+I, -U, +U, -D), in the newest columns.

        Args:
            from_snapshot: an id, or the name of a tag; its own changes are not among them. None: all that are left.
            to_snapshot: an id, or the name of a tag; its changes are the last ones. None: the newest.
            mode: ``delta`` reads the rows that were written (APPEND snapshots), ``changelog`` what the changelog
                producer made of them, ``diff`` holds the rows of both snapshots against each other. ``auto`` is diff
                for tags, changelog for tables with a producer, delta for others.
            columns, filter: as for `scan`; the filter looks at each changed row by itself.
            from_timestamp, to_timestamp: the newest snapshots at or before these times.

        Raises:
            InvalidArgument, ColumnNotFound: the call is wrong.
            SnapshotNotFound, SnapshotExpired, TagNotFound: a snapshot is not there.
        """
        from morrow.changes import make_changes

        return make_changes(
            self._metadata,
            from_snapshot,
            to_snapshot,
            mode=mode,
            columns=columns,
            filter=filter,
            from_timestamp=from_timestamp,
            to_timestamp=to_timestamp,
        )

    def stream(
        self,
        from_snapshot: int | None = None,
        *,
        from_timestamp: Time | None = None,
        start: Start = "full",
        consumer_id: str | None = None,
        columns: Sequence[str] | None = None,
        filter: FilterLike | None = None,
        wait: float | None = None,
        poll: float = 1.0,
    ) -> ChangeStream:
        """Follow the table: an iterator over `Changes`, one for each snapshot that changed rows.

        Args:
            from_snapshot: the first snapshot whose changes are read.
            from_timestamp: changes after the newest snapshot at or before this time.
            start: where neither is given: ``full``, all rows of the newest snapshot first; ``latest``, only what comes.
            consumer_id: a name under which `ChangeStream.commit`, or the end of a ``with`` block, records how far this
                reader has come. A stream of a consumer that is known goes on from there; expiry keeps what it needs.
            wait: seconds to wait for a new snapshot before the iteration ends; None for ever, 0 not at all.
            poll: seconds between looks for a new snapshot.

        Raises:
            InvalidArgument, ColumnNotFound: the call is wrong.
            SnapshotExpired: while iterating, when the next snapshot has expired.
        """
        from morrow.changes import make_request
        from morrow.stream import ChangeStream

        return ChangeStream(
            self._metadata,
            make_request(self._metadata, columns, filter),
            from_snapshot=from_snapshot,
            from_timestamp=from_timestamp,
            start=start,
            consumer_id=consumer_id,
            wait=wait,
            poll=poll,
        )

    @property
    def consumers(self) -> Consumers:
        """Readers of changes and how far they have come: ``t.consumers.all()``, ``t.consumers.delete(name)``."""
        from morrow.engine.plan.consumers import Consumers

        return Consumers(self._metadata)

    def on_branch(self, branch: str) -> Table:
        """The same table on another branch. Raises `BranchNotFound`."""
        return Table(self._metadata.on_branch(branch))

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.scan().__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        schema = self._newest
        keys = [f"primary key ({', '.join(schema.primary_keys)})"] if schema.primary_keys else ["append"]
        if schema.partition_keys:
            keys.append(f"partitioned by ({', '.join(schema.partition_keys)})")
        branch = "" if self.branch == MAIN_BRANCH else f", branch {self.branch}"
        columns = "\n".join(f"  {f.name}: {f.type}" for f in schema.fields)
        return f"Table({self.path!r}{branch}, {', '.join(keys)})\n{columns}"

    def _repr_html_(self) -> str:
        schema = self._newest
        rows = [(f.name, str(f.type), f.description or "") for f in schema.fields]
        return f"<p><b>{html.escape(self.name)}</b> {html.escape(self.path)}</p>" + html_table(
            ("column", "type", "comment"), rows
        )
