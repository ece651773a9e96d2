"""pypaimon's tables over `morrow.Table`: builders, snapshots, tags, branches, consumers and options."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from morrow.compat.pypaimon.predicates import Predicate
from morrow.compat.pypaimon.scans import ReadBuilder, StreamReadBuilder, TableSource
from morrow.compat.pypaimon.schemas import DataField, Identifier, RowType, TableSchema, to_pypaimon_field
from morrow.compat.pypaimon.writes import BatchWriteBuilder, RefusedCall, StreamWriteBuilder
from morrow.engine.errors import InvalidArgument, SnapshotNotFound, TagNotFound, Unsupported
from morrow.engine.format import types as t
from morrow.engine.format.paths import MAIN_BRANCH
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.options import Options as ParsedOptions
from morrow.engine.options.declarations import PYPAIMON, AnyOption
from morrow.engine.options.declared.scans import SCAN_MODE
from morrow.engine.options.declared.table import BRANCH, BUCKET
from morrow.engine.options.table_options import OPTIONS
from morrow.engine.plan.consumers import NEXT_SNAPSHOT
from morrow.engine.plan.time_travel import find_at_time

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

    from morrow.engine.format.snapshot import Tag as MorrowTag
    from morrow.engine.schema.schema_changes import SchemaChange
    from morrow.scans.result import Rows
    from morrow.tables.table import Table as MorrowTable

CHANGE_OPTIONS = "incremental-"
"""The beginning of the options of a read between two snapshots."""
INCREMENTAL = "incremental"


def _is_own(key: str, value: object) -> bool:
    """Return whether an option of a copy is applied here, or changes nothing in Morrow."""
    declared = OPTIONS.get(key)
    is_idle = declared is not None and declared.idle == PYPAIMON
    return (
        is_idle
        or key in (BRANCH.key, BUCKET.key)
        or key.startswith(CHANGE_OPTIONS)
        or (key, value) == (SCAN_MODE.key, INCREMENTAL)
    )


class OptionKey:
    """An option by its key, such as ``CoreOptions.SCAN_TAG_NAME``."""

    def __init__(self, declared: AnyOption) -> None:
        self._declared = declared

    def key(self) -> str:
        return self._declared.key

    def default_value(self) -> Any:
        return self._declared.default


def _find_option(name: str) -> AnyOption:
    """Find an option by its key in lower case with underscores. Raises `AttributeError`."""
    found = next((each for key, each in OPTIONS.items() if key.replace("-", "_").replace(".", "_") == name), None)
    if found is None:
        raise AttributeError(f"there is no option {name!r}; write its key as text")
    return found


class _OptionNames(type):
    def __getattr__(cls, name: str) -> OptionKey:
        return OptionKey(_find_option(name.lower()))


class Options(dict[str, str]):
    """Options by name. Methods are the names of options (`row_tracking_enabled`) and return parsed values."""

    def to_map(self) -> dict[str, str]:
        return dict(self)

    def contains(self, key: str) -> bool:
        return key in self

    contains_key = contains

    def __getattr__(self, name: str) -> Callable[[], Any]:
        option = _find_option(name)
        return lambda: ParsedOptions(self).get(option)


class CoreOptions(Options, metaclass=_OptionNames):
    """The options of a table. Attributes of the class are options, as ``CoreOptions.BUCKET.key()``."""


class MissingSnapshot(SnapshotNotFound, ValueError):
    """A missing snapshot, for which pypaimon raises a ValueError."""


class MissingTag(TagNotFound, ValueError):
    """A missing tag, for which pypaimon raises a ValueError."""


@contextmanager
def raise_value_errors() -> Iterator[None]:
    """Raise errors about missing snapshots and tags in a block as ValueErrors, too."""
    try:
        yield
    except TagNotFound as error:
        raise MissingTag(str(error)) from error
    except SnapshotNotFound as error:
        raise MissingSnapshot(str(error)) from error


class FileStoreTable:
    """A table of a catalog. `morrow` is the same table with Morrow's own methods."""

    def __init__(
        self, table: MorrowTable, identifier: Identifier, base: MorrowTable | None = None, given: Mapping[str, Any] = {}
    ) -> None:
        self.morrow = table
        self.identifier = identifier
        self._base = base or table
        self._given = dict(given)
        self._schema = table.scan().request.schema

    @classmethod
    def from_path(cls, table_path: str, file_io_options: Mapping[str, str] | None = None) -> FileStoreTable:
        """Open the table of a folder."""
        from morrow.session import open

        table = open(table_path, storage_options=file_io_options)
        return cls(table, Identifier("default", table.name))

    @property
    def table_schema(self) -> TableSchema:
        return TableSchema(self._schema)

    def schema(self) -> TableSchema:
        """Return the schema that is read."""
        return self.table_schema

    @property
    def fields(self) -> list[DataField]:
        return self.table_schema.fields

    @property
    def field_names(self) -> list[str]:
        return [each.name for each in self._schema.fields]

    @property
    def field_dict(self) -> dict[str, DataField]:
        return {each.name: each for each in self.fields}

    def row_type(self) -> RowType:
        """Return the columns as one type."""
        return RowType(False, tuple(self.fields))

    @property
    def primary_keys(self) -> list[str]:
        return list(self._schema.primary_keys)

    @property
    def primary_keys_fields(self) -> list[DataField]:
        return [self.field_dict[name] for name in self.primary_keys]

    @property
    def trimmed_primary_keys(self) -> list[str]:
        return [name for name in self.primary_keys if name not in self._schema.partition_keys]

    @property
    def partition_keys(self) -> list[str]:
        return list(self._schema.partition_keys)

    @property
    def partition_keys_fields(self) -> list[DataField]:
        return [self.field_dict[name] for name in self.partition_keys]

    @property
    def is_primary_key_table(self) -> bool:
        return bool(self._schema.primary_keys)

    @property
    def options(self) -> CoreOptions:
        """The options of the stored table, and those given to `copy`."""
        return CoreOptions({**self._base.options, **{key: str(value) for key, value in self._given.items()}})

    @property
    def table_path(self) -> str:
        return self.morrow.path

    def comment(self) -> str | None:
        """Return the comment of the table."""
        return self._schema.comment

    def current_branch(self) -> str:
        """Return the branch that is read and written."""
        return self.morrow.branch

    def copy(self, options: Mapping[str, Any]) -> FileStoreTable:
        """Return the table with other options, such as ``scan.snapshot-id``; None removes an option given before.

        Raises:
            InvalidArgument: an invalid value, or another number of buckets. Unsupported: an option that belongs to the
                stored table.
        """
        given = {key: value for key, value in {**self._given, **options}.items() if value is not None}
        stored = self._base.options
        for key, value in options.items():
            if key == BUCKET.key and str(value) != stored.get(key, str(BUCKET.default)):
                raise InvalidArgument(f"{self.table_path}: Cannot change bucket number; use `morrow.Table.rescale`")
            if value is None and key in stored:
                raise Unsupported(
                    f"a copy without the stored option {key!r}",
                    where=self.table_path,
                    hint="remove it by alter_table([SchemaChange.remove_option(key)])",
                )
        base, identifier = self._base, self.identifier
        if (branch := options.get(BRANCH.key)) is not None:
            base = base.on_branch(str(branch))
            identifier = Identifier(identifier.database, identifier.get_table_name(), str(branch))
        passed = {key: value for key, value in given.items() if not _is_own(key, value)}
        return FileStoreTable(base.with_options(passed) if passed else base, identifier, base, given)

    # Reading and writing

    def new_read_builder(self) -> ReadBuilder:
        """Return a builder of scans and reads."""
        changes = {key: str(value) for key, value in self._given.items() if key.startswith(CHANGE_OPTIONS)}
        return ReadBuilder(TableSource(self.morrow, changes), ParsedOptions(self.options))

    def new_stream_read_builder(self) -> StreamReadBuilder:
        """Return a builder of streams of changes."""
        return StreamReadBuilder(self.morrow, ParsedOptions(self.options))

    def new_batch_write_builder(self) -> BatchWriteBuilder:
        """Return a builder of writes that are committed once; rows of postponed buckets wait for a compaction."""
        return BatchWriteBuilder(self.morrow)

    def new_postpone_fixed_bucket_write_builder(self) -> BatchWriteBuilder:
        """Return a builder of writes whose rows get their buckets at once. Raises `InvalidArgument` for other tables
        than those with postponed buckets."""
        return BatchWriteBuilder(self.morrow, fixes_buckets=True)

    def new_stream_write_builder(self) -> StreamWriteBuilder:
        """Return a builder of writes with numbered commits."""
        return StreamWriteBuilder(self.morrow)

    # History

    def snapshot_manager(self) -> SnapshotManager:
        """Return the snapshots of the table."""
        return SnapshotManager(self.morrow)

    def tag_manager(self) -> TagManager:
        """Return the tags of the table."""
        return TagManager(self.morrow)

    def branch_manager(self) -> BranchManager:
        """Return the branches of the table."""
        return BranchManager(self.morrow)

    def consumer_manager(self) -> ConsumerManager:
        """Return the consumers of the table."""
        return ConsumerManager(self.morrow)

    @property
    def schema_manager(self) -> SchemaManager:
        """The versions of the schema."""
        return SchemaManager(self.morrow)

    @raise_value_errors()
    def create_tag(
        self,
        tag_name: str,
        snapshot_id: int | None = None,
        ignore_if_exists: bool = False,
        time_retained: str | None = None,
    ) -> None:
        """Tag a snapshot, by default the newest. Raises as `morrow.tables.history.Tags.create`."""
        self.morrow.tags.create(tag_name, snapshot_id, time_retained, ignore_if_exists)

    def delete_tag(self, tag_name: str) -> bool:
        """Delete a tag; return False if there is none."""
        return self.morrow.tags.delete(tag_name, ignore_if_not_exists=True)

    def list_tags(self) -> list[str]:
        """Return the names of all tags."""
        return list(self.morrow.tags.names)

    @raise_value_errors()
    def rename_tag(self, old_name: str, new_name: str) -> None:
        """Rename a tag."""
        self.morrow.tags.rename(old_name, new_name)

    @raise_value_errors()
    def replace_tag(self, tag_name: str, snapshot_id: int | None = None, time_retained: str | None = None) -> None:
        """Move a tag to another snapshot, by default the newest."""
        self.morrow.tags.replace(tag_name, snapshot_id, time_retained)

    def rename_branch(self, from_branch: str, to_branch: str) -> None:
        """Rename a branch."""
        self.morrow.branches.rename(from_branch, to_branch)

    @raise_value_errors()
    def rollback_to(self, target: int | str) -> None:
        """Roll back to a snapshot (int) or a tag (text)."""
        if isinstance(target, bool) or not isinstance(target, (int, str)):
            raise InvalidArgument(f"a rollback goes to the id of a snapshot or the name of a tag, not to {target!r}")
        self.morrow.rollback(snapshot=target) if isinstance(target, int) else self.morrow.rollback(tag=target)

    @raise_value_errors()
    def rollback_to_timestamp(self, timestamp_millis: int) -> None:
        """Roll back to the newest snapshot at or before a time."""
        self.morrow.rollback(timestamp=timestamp_millis)

    # Indexes

    def create_global_index(
        self,
        index_column: str | Sequence[str],
        index_type: str = "btree",
        partition_filter: Predicate | None = None,
        partitions: Mapping[str, object] | Sequence[Mapping[str, object]] | None = None,
        options: Mapping[str, object] | None = None,
    ) -> int:
        """Build an index; return the number of new files. Raises as `morrow.Table.create_global_index`."""
        column, where = _to_index_arguments(index_column, partition_filter)
        return self.morrow.create_global_index(
            column, index_type, partition=partitions, where=where, options=options
        ).files

    def drop_global_index(
        self,
        index_column: str | Sequence[str],
        index_type: str = "btree",
        partition_filter: Predicate | None = None,
        partitions: Mapping[str, object] | Sequence[Mapping[str, object]] | None = None,
        dry_run: bool = False,
    ) -> int:
        """Drop an index; return the number of its files. Raises as `morrow.Table.drop_global_index`."""
        column, where = _to_index_arguments(index_column, partition_filter)
        return self.morrow.drop_global_index(
            column, index_type, partition=partitions, where=where, dry_run=dry_run
        ).files

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name in MISSING:
                raise Unsupported(f"pypaimon's table.{name}", hint=MISSING[name])
            raise AttributeError(f"a table has no attribute {name!r}; table.morrow has Morrow's methods")


def _to_index_arguments(column: str | Sequence[str], partitions: Predicate | None) -> tuple[str, pl.Expr | None]:
    name = column if isinstance(column, str) else ",".join(column)
    return name, None if partitions is None else partitions.to_polars()


_SEARCH = "call table.morrow.search, or search_text: both return rows"
MISSING = {
    "new_vector_search_builder": _SEARCH,
    "new_batch_vector_search_builder": _SEARCH,
    "new_full_text_search_builder": _SEARCH,
    "new_hybrid_search_builder": _SEARCH,
    "changelog_manager": "read changes with table.morrow.changes(mode='changelog')",
    "file_io": "Morrow opens stores by the storage options of the catalog",
    "path_factory": "table.morrow.system('files') has the paths of data files",
    "catalog_environment": "Morrow has no such object",
    "new_snapshot_commit": "commit with new_batch_write_builder().new_commit()",
    "bucket_mode": "see table.options['bucket'] and table.primary_keys",
}
"""Members of pypaimon's tables that are not here, and what does the same."""


class SnapshotManager:
    """The snapshots of a table."""

    def __init__(self, table: MorrowTable) -> None:
        self._metadata = table._metadata

    def get_latest_snapshot(self) -> Snapshot | None:
        """Return the newest snapshot, None without snapshots."""
        return self._metadata.latest_snapshot()

    def get_snapshot_by_id(self, snapshot_id: int) -> Snapshot | None:
        """Return a snapshot, None if it does not exist."""
        return self._metadata.snapshot_or_none(snapshot_id)

    def try_get_earliest_snapshot(self) -> Snapshot | None:
        """Return the oldest snapshot, None without snapshots."""
        first = self._metadata.earliest_snapshot_id()
        return None if first is None else self._metadata.snapshot_or_none(first)

    def earlier_or_equal_time_mills(self, timestamp: int) -> Snapshot | None:
        """Return the newest snapshot at or before a time in epoch milliseconds, None if there is none."""
        try:
            return find_at_time(self._metadata, timestamp)
        except SnapshotNotFound:
            return None

    def list_snapshots(self) -> list[Snapshot]:
        """Return all snapshots, oldest first."""
        found = self._metadata.each_snapshot(self._metadata.living_snapshot_ids())
        return [snapshot for snapshot in found if snapshot is not None]


@dataclass(frozen=True)
class Tag:
    """A tag: the members of its snapshot, and its own."""

    tag: MorrowTag

    @property
    def tag_create_time(self) -> dt.datetime | None:
        return self.tag.create_time

    @property
    def tag_time_retained(self) -> dt.timedelta | None:
        return self.tag.time_retained

    def trim_to_snapshot(self) -> Snapshot:
        """Return the tagged snapshot."""
        return self.tag.snapshot

    def __getattr__(self, name: str) -> Any:
        return getattr(self.tag.snapshot, name)


class TagManager:
    """The tags of a table."""

    def __init__(self, table: MorrowTable) -> None:
        self._tags = table.tags

    def list_tags(self) -> list[str]:
        """Return the names of all tags."""
        return list(self._tags.names)

    def tag_exists(self, tag_name: str) -> bool:
        """Return whether the tag exists."""
        return tag_name in self._tags.names

    def get(self, tag_name: str) -> Tag | None:
        """Return a tag, None if it does not exist."""
        return self.get_or_throw(tag_name) if self.tag_exists(tag_name) else None

    @raise_value_errors()
    def get_or_throw(self, tag_name: str) -> Tag:
        """Return a tag. Raises `TagNotFound`."""
        return Tag(self._tags.get(tag_name))

    @raise_value_errors()
    def create_tag(
        self, snapshot: Snapshot, tag_name: str, ignore_if_exists: bool = False, time_retained: str | None = None
    ) -> None:
        """Tag a snapshot."""
        self._tags.create(tag_name, snapshot, time_retained, ignore_if_exists)

    @raise_value_errors()
    def replace_tag(self, snapshot: Snapshot, tag_name: str, time_retained: str | None = None) -> None:
        """Move a tag to another snapshot."""
        self._tags.replace(tag_name, snapshot, time_retained)

    def delete_tag(self, tag_name: str) -> bool:
        """Delete a tag; return False if there is none."""
        return self._tags.delete(tag_name, ignore_if_not_exists=True)

    @raise_value_errors()
    def rename_tag(self, old_name: str, new_name: str) -> None:
        """Rename a tag."""
        self._tags.rename(old_name, new_name)


class BranchManager:
    """The branches of a table."""

    def __init__(self, table: MorrowTable) -> None:
        self._branches = table.branches

    def branches(self) -> list[str]:
        """Return the names of all branches but main."""
        return self._branches.list()

    def branch_exists(self, branch_name: str) -> bool:
        """Return whether the branch exists."""
        return branch_name in self._branches.list()

    def create_branch(self, branch_name: str, tag_name: str | None = None, ignore_if_exists: bool = False) -> None:
        """Create a branch of the newest schema, or of a tag."""
        self._branches.create(branch_name, tag=tag_name, ignore_if_exists=ignore_if_exists)

    def drop_branch(self, branch_name: str) -> None:
        """Delete a branch."""
        self._branches.delete(branch_name)

    def rename_branch(self, from_branch: str, to_branch: str) -> None:
        """Rename a branch."""
        self._branches.rename(from_branch, to_branch)

    def fast_forward(self, branch_name: str) -> None:
        """Fast-forward main to a branch."""
        self._branches.fast_forward(branch_name)

    @staticmethod
    def is_main_branch(branch: str) -> bool:
        """Return whether this is the main branch."""
        return branch == MAIN_BRANCH


@dataclass(frozen=True)
class Consumer:
    """The progress of a consumer: the snapshot that it reads next."""

    next_snapshot: int

    def to_json(self) -> str:
        """Return the text of the consumer's file."""
        return json.dumps({NEXT_SNAPSHOT: self.next_snapshot})

    @staticmethod
    def from_json(json_str: str) -> Consumer:
        """Read the text of a consumer's file."""
        return Consumer(json.loads(json_str)[NEXT_SNAPSHOT])


class ConsumerManager:
    """The consumers of a table."""

    def __init__(self, table: MorrowTable) -> None:
        self._consumers = table.consumers

    def consumer(self, consumer_id: str) -> Consumer | None:
        """Return the progress of a consumer, None if it does not exist."""
        found = self._consumers.next_snapshot(consumer_id)
        return None if found is None else Consumer(found)

    def reset_consumer(self, consumer_id: str, consumer: Consumer) -> None:
        """Record the progress of a consumer."""
        self._consumers.record(consumer_id, consumer.next_snapshot)

    def delete_consumer(self, consumer_id: str) -> None:
        """Delete a consumer, if it exists."""
        self._consumers.delete(consumer_id)

    def consumers(self) -> dict[str, int]:
        """Return the next snapshot of each consumer."""
        return self._consumers.all()

    def list_all_ids(self) -> list[str]:
        """Return the names of all consumers."""
        return list(self._consumers.all())

    def min_next_snapshot(self) -> int | None:
        """Return the oldest snapshot that a consumer reads next, None without consumers."""
        return min(self._consumers.all().values(), default=None)


class SchemaManager:
    """The versions of a table's schema."""

    def __init__(self, table: MorrowTable) -> None:
        self._table = table

    def latest(self) -> TableSchema:
        """Return the newest version."""
        return TableSchema(self._table._metadata.latest_schema())

    def get_schema(self, schema_id: int) -> TableSchema:
        """Return the version of this id. Raises `FileMissing`."""
        return TableSchema(self._table._metadata.schema(schema_id))

    def list_all(self) -> list[TableSchema]:
        """Return all versions, oldest first."""
        return list(map(TableSchema, self._table.schemas()))

    def commit_changes(self, changes: Sequence[SchemaChange]) -> TableSchema:
        """Change the schema by `SchemaChange` values, as one version or not at all; return it."""
        alter(self._table, changes)
        return self.latest()


def alter(table: MorrowTable, changes: Sequence[SchemaChange]) -> None:
    """Change a table's schema.

    Raises:
        RefusedCall: an impossible change; nothing was changed. Unsupported.
    """
    try:
        table.alter(*changes)
    except InvalidArgument as error:
        raise RefusedCall(str(error)) from error


@dataclass(frozen=True)
class SystemSource:
    """The rows of a system table."""

    table: MorrowTable
    name: str

    @cached_property
    def fields(self) -> tuple[t.DataField, ...]:
        return self.table.system(self.name).fields

    @property
    def hidden(self) -> tuple[t.DataField, ...]:
        return ()

    def rows(self, columns: Sequence[str], filter: pl.Expr | None, limit: int | None) -> Rows | pa.Table:
        return self.table.system(self.name, columns, filter, limit)


class SystemTable:
    """A system table, such as ``db.orders$snapshots``, which is only read."""

    def __init__(self, table: MorrowTable, identifier: Identifier) -> None:
        self.identifier = identifier
        self._source = SystemSource(table, identifier.get_system_table_name() or "")
        _ = self._source.fields  # raises now if the system table does not exist

    @property
    def fields(self) -> list[DataField]:
        return list(map(to_pypaimon_field, self._source.fields))

    def system_table_name(self) -> str:
        """Return the name after ``$``."""
        return self._source.name

    def row_type(self) -> RowType:
        """Return the columns as one type."""
        return RowType(False, tuple(self.fields))

    def new_read_builder(self) -> ReadBuilder:
        """Return a builder of scans and reads."""
        return ReadBuilder(self._source, ParsedOptions())

    def new_batch_write_builder(self) -> BatchWriteBuilder:
        """Raise `Unsupported`."""
        raise Unsupported(f"writing to the system table {self.identifier.get_full_name()}")

    def new_stream_write_builder(self) -> StreamWriteBuilder:
        """Raise `Unsupported`."""
        raise Unsupported(f"writing to the system table {self.identifier.get_full_name()}")
