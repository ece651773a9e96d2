"""A Paimon table as an object: its schema, history, and scans."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from morrow.engine.format.paths import MAIN_BRANCH
from morrow.engine.format.snapshot import Snapshot, Tag
from morrow.engine.plan.filter import FilterLike
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.time_travel import AsOf, Time
from morrow.scan import Scan, make_scan

if TYPE_CHECKING:
    import pyarrow as pa

    from morrow.altering import Alteration
    from morrow.changes import Changes, Mode
    from morrow.engine.format.schema import TableSchema
    from morrow.engine.plan.consumers import Consumers
    from morrow.readers.dataset import PaimonDataset
    from morrow.stream import ChangeStream, Start
    from morrow.writers.operations.merge import Merge
    from morrow.writers.rows import Kinds
    from morrow.writers.target import WriteTarget
    from morrow.writing import Committer, Writer


class Table:
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

    def branches(self) -> list[str]:
        """Names of all branches except main, sorted."""
        return self._metadata.branch_names()

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

    # Writing

    def append(
        self, data: object, *, kinds: Kinds = None, properties: Mapping[str, str] | None = None
    ) -> Snapshot | None:
        """Add rows, in one commit. In a table with a primary key this is `upsert`.

        Args:
            data: anything with ``__arrow_c_stream__`` (Arrow, Polars, DuckDB relations, pandas, scans), a Polars
                LazyFrame, an Arrow dataset, a list of dicts or a dict of columns. Columns are matched by name.
            kinds: see `Writer.write`.
            properties: kept in the snapshot.

        Returns: the last snapshot created, None when there were no rows.

        Raises: as `Writer.write` and `Writer.commit`; nothing was written then.
        """
        from morrow.writers.operations.append import append

        return append(self._target(), data, kinds, properties)

    def upsert(
        self, data: object, *, kinds: Kinds = None, properties: Mapping[str, str] | None = None
    ) -> Snapshot | None:
        """Put rows into a table with a primary key, in one commit: rows of a new key are added, others are merged with
        those of the same key as the merge engine says (by default they replace them). Arguments as in `append`.

        Raises:
            InvalidArgument: the table has no primary key. Others as `append`.
        """
        from morrow.writers.operations.append import upsert

        return upsert(self._target(), data, kinds, properties)

    def delete(self, keys_or_filter: object) -> Snapshot | None:
        """Delete rows, in one commit.

        Args:
            keys_or_filter: a condition as `scan` takes filters (SQL text, a pyarrow or Polars expression), or the
                primary keys of the rows: any data as in `append`, of which only the key columns are looked at. A
                condition on partition columns alone drops partitions.

        Returns: the last snapshot created, None when no row was there to delete.

        Raises:
            ColumnNotFound, InvalidArgument: the condition or the keys are wrong.
            Unsupported: the merge engine of the table deletes no rows.
            CommitConflict: somebody else changed the same files of an append table; nothing was deleted.
        """
        from morrow.writers.operations.delete import delete_keys, delete_matching, is_condition

        if is_condition(keys_or_filter):
            return delete_matching(self._target(), keys_or_filter)
        return delete_keys(self._target(), keys_or_filter)

    def update(self, set: Mapping[str, object], where: FilterLike | None = None) -> Snapshot | None:
        """Give columns new values, in one commit.

        Args:
            set: column -> new value. Text is a SQL expression over the old row (``"amount * 2"``, ``"'text'"``), a
                Polars expression is computed, anything else is the value itself (None: null).
            where: which rows, as `scan` takes filters; None: all.

        Returns: the last snapshot created, None when no row matched.

        Raises:
            ColumnNotFound, InvalidArgument: a column, expression or condition is wrong, a value does not fit its
                column, or a column belongs to the primary key.
            Unsupported: the merge engine of the table updates no rows.
            CommitConflict: as `delete`.
        """
        from morrow.writers.operations.update import update

        return update(self._target(), set, where)

    def merge(self, source: object, on: str | Sequence[str]) -> Merge:
        """Begin a MERGE INTO: match rows of a source with those of the table, then say what to do; see `Merge`.

        Args:
            source: data as in `append`; it is held in memory.
            on: the column or columns that are equal in both, or a SQL condition on ``target.x`` and ``source.x``.
        """
        from morrow.writers.operations.merge import Merge

        return Merge(self._target(), source, on)

    def overwrite(
        self,
        data: object,
        *,
        partition: Mapping[str, object] | None = None,
        dynamic: bool | None = None,
    ) -> Snapshot | None:
        """Replace rows by others, in one commit. This is also what gives partitions another number of buckets.

        Args:
            data: as in `append`; columns that `partition` names may be missing.
            partition: values of some or all partition columns: only rows of these partitions are written and replaced.
            dynamic: True: only partitions of which there are new rows are replaced. False: all that `partition` names,
                or the whole table. None: as the option ``dynamic-partition-overwrite`` says (by default True).

        Returns: the last snapshot created, None when there was nothing to do.

        Raises:
            InvalidArgument: rows outside of `partition`, or as `append`.
        """
        from morrow.writers.operations.overwrite import overwrite

        return overwrite(self._target(), data, partition, dynamic)

    def truncate(self) -> Snapshot | None:
        """Remove all rows, in one commit; older snapshots keep them."""
        from morrow.writers.operations.overwrite import truncate

        return truncate(self._target())

    def drop_partition(self, *partitions: Mapping[str, object]) -> Snapshot | None:
        """Remove all rows of partitions: ``t.drop_partition({"dt": "2024-05-14"})``; several are dropped in one commit.

        Raises:
            InvalidArgument: no partition, one without values, a column that is no partition column.
        """
        from morrow.writers.operations.overwrite import drop_partitions

        return drop_partitions(self._target(), partitions)

    drop_partitions = drop_partition

    def compact(
        self,
        full: bool = False,
        *,
        partition: Mapping[str, object] | None = None,
        where: FilterLike | None = None,
        order_by: str | Sequence[str] | None = None,
        strategy: str | None = None,
    ) -> Snapshot | None:
        """Compact files, in one commit, also of a table that is ``write-only``.

        Args:
            full: tables with a primary key: make one sorted run of every bucket. Append tables: rewrite every small
                file. Otherwise as the options ``num-sorted-run.*`` and ``compaction.*`` say.
            partition: only partitions with these values in (some of) their columns.
            where: only partitions for which this condition on partition columns is true.
            order_by: sort the rows of append tables by these columns while they are rewritten.
            strategy: ``order``, ``zorder`` or ``hilbert``: how to sort.

        Returns: the snapshot, None when nothing was worth compacting.

        Raises:
            InvalidArgument, ColumnNotFound, Unsupported: an argument is wrong, or not for this kind of table.
            CommitConflict: somebody else compacted the same files; nothing was changed.
        """
        from morrow.writers.operations.compact import compact

        return compact(
            self._target(), full=full, partition=partition, where=where, order_by=order_by, strategy=strategy
        )

    def writer(self, commit_user: str | None = None) -> Writer:
        """A writer for many batches in one commit, or for one commit after the other.

        Args:
            commit_user: a name of your own makes commits repeatable: with it and an identifier, a commit that was made
                already is recognised. None: a new name.
        """
        from morrow.writing import Writer

        return Writer(self._metadata, commit_user)

    def committer(self, commit_user: str) -> Committer:
        """Commits what writers of this user have prepared, maybe in other processes."""
        from morrow.writing import Committer

        return Committer(self._metadata, commit_user)

    def _target(self) -> WriteTarget:
        from morrow.writers.target import WriteTarget

        return WriteTarget.of(self._metadata)

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


class Tags:
    """The tags of a table."""

    def __init__(self, metadata: TableMetadata) -> None:
        self._metadata = metadata

    def list(self) -> Sequence[Tag]:
        """All tags by the id of their snapshot; each has ``.name``, ``.snapshot`` and, if known, ``.create_time``."""
        return self._metadata.tags()

    def get(self, name: str) -> Tag:
        """Raises `TagNotFound`."""
        return self._metadata.tag(name)

    def __repr__(self) -> str:
        return "\n".join(f"{tag.name}: snapshot {tag.snapshot.id}" for tag in self.list()) or "no tags"


class SnapshotList(list[Snapshot]):
    """Snapshots, oldest first, with a readable form in notebooks."""

    HEADERS = ("id", "time", "kind", "schema", "records", "added")

    def _rows(self) -> list[tuple[str, ...]]:
        return [
            (
                str(s.id),
                s.time.isoformat(sep=" ", timespec="milliseconds"),
                s.commit_kind,
                str(s.schema_id),
                str(s.total_record_count),
                str(s.delta_record_count),
            )
            for s in self
        ]

    def __repr__(self) -> str:
        rows = [self.HEADERS, *self._rows()]
        widths = [max(len(row[i]) for row in rows) for i in range(len(self.HEADERS))]
        return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows)

    def _repr_html_(self) -> str:
        return html_table(self.HEADERS, self._rows())


def html_table(headers: Iterable[str], rows: Iterable[Sequence[str]]) -> str:
    """A plain HTML table; every cell is escaped."""
    head = "".join(f"<th>{html.escape(h)}</th>" for h in headers)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
