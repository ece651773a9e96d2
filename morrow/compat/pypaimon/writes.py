"""pypaimon's write builders over Morrow's writers: files are written first, and their messages committed later."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

import polars as pl
import pyarrow as pa
from msgspec import structs

from morrow.compat.pypaimon.merges import WhenMatched, WhenNotMatched, compile_clauses
from morrow.compat.pypaimon.predicates import Predicate, PredicateBuilder
from morrow.compat.pypaimon.scans import check_shard
from morrow.engine.errors import ColumnNotFound, CommitConflict, InvalidArgument, Unsupported
from morrow.engine.format.manifest_entries import DataFileMeta
from morrow.engine.format.schema import ROW_ID, TRACKED
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.format.types import DataField
from morrow.engine.library_versions import import_array
from morrow.engine.names import POSITION
from morrow.engine.plan.filter import NO_FILTER, Filter, parse_filter
from morrow.engine.plan.scan_plan import list_tracked_fields
from morrow.engine.plan.time_travel import parse_travel_options, resolve_travel
from morrow.engine.plugins import require_extra
from morrow.engine.redaction import suggest_name
from morrow.engine.structs import replace
from morrow.readers.casts.dtypes import to_arrow_table
from morrow.readers.execution.execute import DEFAULT_BATCH_ROWS
from morrow.tables.writer import CommitMessage, Committer, Writer
from morrow.writers.append.row_level import RowChanges, delete_where
from morrow.writers.buckets.routers import restore_partitions
from morrow.writers.commit.conflicts import list_global_indexes
from morrow.writers.files.blob_files import select_filed_vectors
from morrow.writers.operations.append import make_upsert
from morrow.writers.operations.merge import compile_merge, prepare_merge
from morrow.writers.operations.overwrite import commit_overwrite
from morrow.writers.operations.partition_filters import find_matching_partitions, parse_partition_spec
from morrow.writers.operations.table_writer import TableWriter
from morrow.writers.operations.update import build_row_filter, is_of_partitions, read_row_values, set_row_values
from morrow.writers.operations.write_session import check_rows
from morrow.writers.target import WriteTarget

if TYPE_CHECKING:
    import pandas as pd

    from morrow.scans.splits import Split
    from morrow.tables.table import Table

Partition = Mapping[str, Any]


class RefusedCall(InvalidArgument, RuntimeError):
    """A wrong call for which pypaimon raises a RuntimeError."""


CONFLICTS = "multiple 'MERGE INTO' operations have encountered conflicts"
"""Words by which programs for pypaimon recognise a conflict."""


class ConflictingCommit(CommitConflict, RuntimeError):
    """A conflict, for which pypaimon raises a RuntimeError."""


@contextmanager
def translate_conflicts() -> Iterator[None]:
    """Raise conflicts as `ConflictingCommit`."""
    try:
        yield
    except CommitConflict as error:
        raise ConflictingCommit(f"{CONFLICTS}: {error}") from error


class TableWrite:
    """A writer of rows to files, which `prepare_commit` returns as messages."""

    def __init__(self, table: Table, commit_user: str | None, replaced: Partition | None = None) -> None:
        self._table, self._commit_user = table, commit_user
        self._overwrites = replaced is not None
        self._columns: list[str] | None = None
        self._writer = (
            Writer(table._metadata, commit_user)
            if replaced is None
            else TableWriter(WriteTarget.of(table._metadata, commit_user), overwrite=True)
        )

    def write_arrow(self, data: pa.Table | pa.RecordBatch) -> None:
        """Write an Arrow table, which has the columns of the table or of `with_write_type`, in any order.

        Raises:
            ColumnNotFound, InvalidArgument: other columns, or values that the column types cannot hold.
        """
        if self._columns is None:
            self._writer.write(data, missing="error")
            return
        for name in self._columns:
            if name not in data.schema.names:
                raise ColumnNotFound(f"{self._table.path}: the rows lack the column {name!r} of with_write_type")
        self._writer.write(data.select(self._columns), missing="null")

    write_arrow_batch = write_arrow

    def write_pandas(self, dataframe: pd.DataFrame) -> None:
        """Write a pandas DataFrame, converted to the table's columns. Raises `Unsupported` without pandas."""
        with require_extra("write_pandas", "pandas", "pandas"):
            import pandas as pd  # noqa: F401
        self.write_arrow(pa.Table.from_pandas(dataframe, self._schema, preserve_index=False))

    def write_row(self, row: Any) -> None:
        """Write one row: a dict by column, or values in the order of the columns."""
        self.write_arrow(pa.Table.from_pylist([_name_values(row, self._table.schema.names)], self._schema))

    @property
    def _schema(self) -> pa.Schema:
        """The schema of the columns that are written."""
        schema = self._table.schema
        return schema if self._columns is None else pa.schema([schema.field(name) for name in self._columns])

    def with_write_type(self, write_cols: Sequence[str]) -> TableWrite:
        """Write these columns alone.

        With data evolution, files hold these columns and the partition columns. Set `first_row_id` of the `new_files`
        of messages to give older rows these columns; otherwise the files are new rows, whose other columns are null.
        Other tables get null, or the default value, for the other columns.

        Raises:
            Unsupported: columns with dedicated files, and overwrites, of a table with data evolution.
        """
        for name in write_cols:
            if name not in self._table.schema.names:
                raise InvalidArgument(f"Column {name} is not in table schema.")
        target = WriteTarget.of(self._table._metadata, self._commit_user)
        chosen = {*write_cols, *target.schema.partition_keys}
        fields = tuple(field for field in target.schema.fields if field.name in chosen)
        if len(write_cols) == len(target.schema.fields) and (self._overwrites or not target.options.data_evolution):
            return self
        self._columns = [field.name for field in fields]
        if not target.options.data_evolution:
            return self
        dedicated = {field.name for field in (*target.filed_blobs, *select_filed_vectors(target, fields))}
        if dedicated and fields == target.schema.fields:
            return self
        if self._overwrites or not dedicated.isdisjoint(self._columns):
            raise Unsupported(
                f"a write of the columns {', '.join(write_cols)} alone",
                where=self._table.path,
                hint="use table.morrow.overwrite(rows), or table.morrow.update_rows(rows) for BLOB and VECTOR columns",
            )
        self._writer = TableWriter(target, columns=fields)
        return self

    def close(self) -> None:
        """Drop rows that were not prepared."""
        self._writer.abort() if isinstance(self._writer, Writer) else self._writer.close()

    def _prepare(self) -> list[Any]:
        if isinstance(self._writer, Writer):
            return self._writer.prepare()
        messages = self._writer.prepare_commit()
        return messages if self._overwrites else [ColumnsMessage(message) for message in messages]


class WrittenFile:
    """A file of some columns, with the attributes of its metadata; `first_row_id` may be set."""

    def __init__(self, file: DataFileMeta) -> None:
        self._file, self.first_row_id = file, file.first_row_id

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._file, name)


class ColumnsMessage:
    """A message of files of some columns, with the attributes of `CommitMessage`."""

    def __init__(self, message: CommitMessage) -> None:
        self._message = message
        self.new_files = [WrittenFile(file) for file in message.new_files]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._message, name)

    def convert(self, target: WriteTarget, latest: Snapshot | None) -> CommitMessage:
        """Return the message with the row ids of its files.

        Raises:
            InvalidArgument: an id that is no row id, or new rows without a NOT NULL column.
        """
        files = []
        for each in self.new_files:
            first = each.first_row_id
            if first is not None and (isinstance(first, bool) or not isinstance(first, int) or first < 0):
                raise InvalidArgument(f"{target.where}: first_row_id is a row id, at least 0, not {first!r}")
            files.append(structs.replace(each._file, first_row_id=first))
        ids = (latest.id if latest else None) if any(file.first_row_id is not None for file in files) else None
        return structs.replace(self._message, new_files=tuple(files), planned_on=ids)


def convert_messages(target: WriteTarget, messages: Sequence[Any]) -> list[CommitMessage]:
    """Return messages to commit, of writes of all columns and of some.

    Raises:
        InvalidArgument: row ids that meet others, or new rows without a NOT NULL column.
    """
    parts = [each for each in messages if isinstance(each, ColumnsMessage)]
    if not parts:
        return list(messages)
    latest = target.metadata.latest_snapshot()
    converted = [each.convert(target, latest) if isinstance(each, ColumnsMessage) else each for each in messages]
    known = (latest.next_row_id if latest else None) or 0
    columns: dict[tuple[int, int], set[str]] = {}
    for message in converted:
        for file in message.new_files:
            held = set(target.schema.by_name if file.write_cols is None else file.write_cols)
            if file.first_row_id is None:
                check_held_columns(target, held)
            else:
                columns.setdefault((file.first_row_id, file.row_count), set()).update(held)
    end = 0
    for (first, rows), held in sorted(columns.items()):
        if first < end:
            raise InvalidArgument(
                f"{target.where}: the row ids {first} to {first + rows - 1} meet those of other files"
            )
        end = first + rows
        if first >= known:
            check_held_columns(target, held)
    return converted


def check_held_columns(target: WriteTarget, held: Collection[str]) -> None:
    """Raise `InvalidArgument` for new rows without a column that cannot be null."""
    for field in target.schema.fields:
        if not field.type.nullable and field.name not in held:
            raise InvalidArgument(f"{target.where}: new rows lack the NOT NULL column {field.name!r}")


class BatchTableWrite(TableWrite):
    """A writer for one commit."""

    _prepared = False

    def prepare_commit(self) -> list[CommitMessage]:
        """Finish the files, and return their messages. Raises `InvalidArgument` if called again."""
        if self._prepared:
            raise RefusedCall("BatchTableWrite only supports one-time committing; make another with new_write")
        self._prepared = True
        return self._prepare()


class StreamTableWrite(TableWrite):
    """A writer for many commits."""

    def prepare_commit(self, commit_identifier: int) -> list[CommitMessage]:  # noqa: ARG002  # a parameter of pypaimon
        """Finish the files written since the last call, and return their messages."""
        return self._prepare()


class TableCommit:
    """A committer of the messages of writes."""

    def __init__(self, table: Table, commit_user: str) -> None:
        self._table, self._commit_user = table, commit_user
        self._committer = Committer(table._metadata, commit_user)

    def abort(self, commit_messages: Sequence[CommitMessage]) -> None:
        """Delete the files of messages that will not be committed."""
        self._committer.abort([m._message if isinstance(m, ColumnsMessage) else m for m in commit_messages])

    def close(self) -> None:
        """Do nothing: a committer holds nothing open."""

    def add_commit_callback(self, callback: object) -> None:
        """Raise `Unsupported`: Morrow calls nothing after a commit."""
        raise Unsupported(f"the commit callback {callback!r}", hint="call it after commit(...)")


class BatchTableCommit(TableCommit):
    """A committer of one commit."""

    def __init__(self, table: Table, commit_user: str, replaced: Partition | None) -> None:
        super().__init__(table, commit_user)
        self._replaced = replaced
        self._committed = False

    def commit(
        self, commit_messages: Sequence[CommitMessage], snapshot_properties: Mapping[str, str] | None = None
    ) -> Any:
        """Commit the messages, or replace rows by their files after `overwrite`; return the snapshot.

        Raises:
            InvalidArgument: the second commit of this object. Others as `morrow.tables.writer.Committer.commit`.
        """
        self._begin()
        if self._replaced is None:
            messages = convert_messages(WriteTarget.of(self._table._metadata), commit_messages)
            with translate_conflicts():
                return self._committer.commit(messages, properties=snapshot_properties)
        target = WriteTarget.of(self._table._metadata, self._commit_user, snapshot_properties)
        return commit_overwrite(target, commit_messages, parse_partition_spec(target, self._replaced))

    def truncate_table(self) -> None:
        """Delete all rows."""
        self._begin()
        self._table.truncate()

    def truncate_partitions(self, partitions: Sequence[Partition]) -> None:
        """Delete all rows of partitions."""
        self._begin()
        self._table.drop_partitions(*partitions)

    def _begin(self) -> None:
        if self._committed:
            raise RefusedCall("BatchTableCommit only supports one-time committing; make another with new_commit")
        self._committed = True


class StreamTableCommit(TableCommit):
    """A committer of many commits, whose identifiers increase."""

    def commit(
        self,
        commit_messages: Sequence[CommitMessage],
        commit_identifier: int,
        snapshot_properties: Mapping[str, str] | None = None,
    ) -> Any:
        """Commit the messages, unless this identifier was committed before; return the snapshot."""
        messages = convert_messages(WriteTarget.of(self._table._metadata), commit_messages)
        with translate_conflicts():
            return self._committer.commit(messages, commit_identifier, properties=snapshot_properties)


Assignment = Any
"""A literal, an Arrow array of the new values, or a function of an Arrow table that returns one."""


class TableUpdate:
    """An updater of tables with data evolution: its methods write files, and return messages to commit."""

    def __init__(self, table: Table, commit_user: str | None = None) -> None:
        self._table, self._commit_user = table, commit_user
        self._columns: Sequence[str] | None = None
        self._read: Sequence[str] | None = None

    def with_update_type(self, update_cols: Sequence[str]) -> TableUpdate:
        """Choose the columns to update."""
        names = self._table.schema.names
        for name in update_cols:
            if name not in names:
                raise InvalidArgument(f"Column {name} is not in table schema; {suggest_name(name, names)}")
        self._columns = None if len(update_cols) == len(names) else tuple(update_cols)
        return self

    def with_read_projection(self, projection: Sequence[str]) -> TableUpdate:
        """Choose the columns that a shard reads."""
        names = [*self._table.schema.names, ROW_ID]
        for name in projection:
            if name not in names:
                raise InvalidArgument(f"Column {name} is not in table schema; {suggest_name(name, names)}")
        self._read = tuple(projection)
        return self

    def new_shard_updator(self, shard_num: int, total_shard_count: int) -> ShardTableUpdator:
        """Return an updater of all rows of the `shard_num`-th of `total_shard_count` parts of the table.

        Raises:
            InvalidArgument: a number that is not below the count.
        """
        check_shard(shard_num, total_shard_count)
        target, snapshot = self._open()
        self._check_evolving(target, "new_shard_updator")
        read = self._read or tuple(target.schema.by_name)
        scan = self._table.scan(list(dict.fromkeys((*read, ROW_ID))), snapshot=snapshot.id if snapshot else None)
        parts = scan.file_splits()[shard_num::total_shard_count]
        return ShardTableUpdator(target, snapshot, parts, self._columns or tuple(target.schema.by_name), read)

    def new_predicate_builder(self) -> PredicateBuilder:
        """Return a builder of predicates on the table's columns."""
        return PredicateBuilder(list(self._table.schema))

    def update_by_arrow_with_row_id(self, table: pa.Table, commit_identifier: int = 0) -> list[CommitMessage]:  # noqa: ARG002
        """Set the chosen columns, or all that the rows have, of rows by ``_ROW_ID``."""
        target, snapshot = self._open()
        chosen = [name for name in table.column_names if name != ROW_ID] if self._columns is None else self._columns
        rows = read_row_values(target, table.select([name for name in (ROW_ID, *chosen) if name in table.column_names]))
        return _plan(set_row_values(target, snapshot, rows), snapshot) if rows.height else []

    def upsert_by_arrow_with_key(
        self,
        table: pa.Table,
        upsert_keys: Sequence[str],
        commit_identifier: int = 0,  # noqa: ARG002
    ) -> list[CommitMessage]:
        """Update the rows of the same partition that are equal in these columns, and append the others."""
        target, snapshot = self._open()
        self._check_evolving(target, "upsert_by_arrow_with_key")
        if not upsert_keys or not table.num_rows:
            raise InvalidArgument("upsert_keys must not be empty" if not upsert_keys else "data must not be empty")
        key = tuple(dict.fromkeys((*target.schema.partition_keys, *upsert_keys)))
        for name in key:
            for names, where in ((target.schema.by_name, "table schema"), (table.column_names, "input data")):
                if name not in names:
                    raise ColumnNotFound(f"the column {name!r} of the upsert key is not in {where}")
        merge = make_upsert(target, table, key, self._columns)
        compiled = compile_merge(target, merge.source, merge.on, merge.clauses)
        return _plan(prepare_merge(compiled, snapshot), snapshot)

    def upsert_by_key(self, rows: Any, upsert_keys: Sequence[str], commit_identifier: int = 0) -> list[CommitMessage]:
        """Upsert rows: dicts, or rows whose values are in the order of the columns."""
        several = rows if isinstance(rows, (list, tuple)) else [rows]
        named = [_name_values(row, self._table.schema.names) for row in several]
        if not named:
            raise InvalidArgument("rows must not be empty")
        data = pa.Table.from_pylist(named, self._table.schema)
        return self.upsert_by_arrow_with_key(data, upsert_keys, commit_identifier)

    def update_by_predicate(
        self,
        predicate: Predicate | None,
        assignments: Mapping[str, Assignment],
        commit_identifier: Any = None,
        read_columns: Sequence[str] | None = None,
    ) -> list[CommitMessage]:
        """Set columns of the rows for which the predicate is true (None: all)."""
        if not isinstance(commit_identifier, int) and commit_identifier is not None:
            read_columns = commit_identifier
        target, snapshot = self._open()
        self._check_evolving(target, "update_by_predicate")
        if not assignments:
            raise InvalidArgument("assignments must not be empty.")
        computed = any(map(callable, assignments.values()))
        if computed and any(isinstance(value, (pa.Array, pa.ChunkedArray)) for value in assignments.values()):
            raise InvalidArgument("Callable assignments cannot be combined with Arrow array assignments.")
        snapshot = resolve_travel(target.metadata, parse_travel_options(target.options.travel)) or snapshot
        if computed != bool(read_columns):
            raise InvalidArgument("Callable assignments require read_columns, and read_columns a callable assignment.")
        for name in (*assignments, *(read_columns or ())):
            target.schema.column(name)
        for name in assignments:
            if name in target.schema.partition_keys:
                raise InvalidArgument(f"update_by_predicate does not support updating partition column '{name}'.")
        fields = tuple(target.schema.by_name[name] for name in assignments)
        done = 0
        with RowChanges(target, snapshot) as changes:
            for found in changes.matching(_to_filter(target, predicate), tuple(target.schema.by_name)):
                old = to_arrow_table(found.rows.drop(POSITION), (*target.schema.fields, *TRACKED))
                seen = old.select([*(read_columns or target.schema.by_name), ROW_ID])
                values = [_assign(assignments[field.name], field, seen, done) for field in fields]
                new = old.select(list(target.schema.by_name))
                for field, value in zip(fields, values):
                    new = new.set_column(new.column_names.index(field.name), field.name, value)
                changes.replace(found, check_rows(target, new), tuple(assignments))
                done += found.rows.height
            lengths = [len(each) for each in assignments.values() if isinstance(each, (pa.Array, pa.ChunkedArray))]
            if any(length != done for length in lengths):
                raise InvalidArgument(f"Assignment array length must match matched row count: {lengths[0]} != {done}.")
            return _plan(changes.messages(), snapshot)

    def delete_by_predicate(self, predicate: Predicate | None, commit_identifier: int = 0) -> list[CommitMessage]:  # noqa: ARG002
        """Delete the rows for which the predicate is true (None: all). One on partition columns drops partitions."""
        target, snapshot = self._open()
        self._check_evolving(target, "delete")
        filter = _to_filter(target, predicate)
        if snapshot is not None and is_of_partitions(target, filter):
            return _plan(_drop_partitions(target, snapshot, filter), snapshot)
        return _plan(delete_where(target, snapshot, filter), snapshot)

    def delete_by_row_id(self, row_ids: Sequence[int], commit_identifier: int = 0) -> list[CommitMessage]:  # noqa: ARG002
        """Delete rows by ``_ROW_ID``."""
        target, snapshot = self._open()
        self._check_evolving(target, "delete")
        if not row_ids:
            return []
        if any(row_id is None for row_id in row_ids):
            raise InvalidArgument(f"{ROW_ID} value must not be null.")
        wanted = pl.Series(ROW_ID, row_ids, pl.Int64).unique().sort()
        known = snapshot.next_row_id or 0 if snapshot is not None else 0
        for row_id in (wanted[0], wanted[-1]):
            if not 0 <= row_id < known:
                raise InvalidArgument(f"Row ID {row_id} does not belong to any valid range: 0 to {known - 1}")
        with RowChanges(target, snapshot) as changes:
            for old in changes.matching(build_row_filter(wanted.to_frame()), tuple(target.schema.by_name)[:1]):
                changes.delete(old.where(pl.col(ROW_ID).is_in(wanted.implode())))
            return _plan(changes.messages(), snapshot)

    def merge_into(
        self,
        source: Any,
        *,
        on: Sequence[str] | Mapping[str, str],
        when_matched: Sequence[WhenMatched] = (),
        when_not_matched: Sequence[WhenNotMatched] = (),
        commit_identifier: int = 0,  # noqa: ARG002
    ) -> list[CommitMessage]:
        """Merge the rows of `source` into the table. Arguments and errors as for `compile_clauses`."""
        target, snapshot = self._open()
        self._check_evolving(target, "merge_into")
        merge = compile_clauses(target, source, on, when_matched, when_not_matched)
        return _plan(prepare_merge(merge, snapshot), snapshot)

    def _open(self) -> tuple[WriteTarget, Snapshot | None]:
        target = WriteTarget.of(self._table._metadata, self._commit_user)
        return target, target.metadata.latest_snapshot()

    def _check_evolving(self, target: WriteTarget, what: str) -> None:
        if not target.options.data_evolution:
            raise InvalidArgument(f"{what} requires 'data-evolution.enabled' = 'true'.")

    def __getattr__(self, name: str) -> Callable[..., NoReturn]:
        if name not in UPDATES:
            raise AttributeError(f"an update has no attribute {name!r}")

        def refuse(*_: Any, **__: Any) -> NoReturn:
            raise Unsupported(f"pypaimon's {name}", where=self._table.path, hint=UPDATES[name])

        return refuse


class ShardTableUpdator:
    """An updater of all rows of a part of a table, in their order."""

    def __init__(
        self,
        target: WriteTarget,
        snapshot: Snapshot | None,
        parts: Sequence[Split],
        columns: Sequence[str],
        read: Sequence[str],
    ) -> None:
        self._target, self._snapshot, self._parts = target, snapshot, parts
        self._columns, self._read_columns = columns, read
        self._ids: list[pl.Series] = []
        self._batches: list[pa.RecordBatch] = []

    def arrow_reader(self) -> pa.RecordBatchReader:
        """Return the rows of the part, in the columns of the read projection. A later reader replaces earlier ones."""
        fields = [field for field in self._parts[0].fields if field.name in self._read_columns] if self._parts else ()
        schema = pa.schema([pa.field(field.name, field.type.arrow(), field.type.nullable) for field in fields])
        return pa.RecordBatchReader.from_batches(schema, self._read(schema))

    def _read(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        ids = self._ids = []  # an earlier reader may go on, and counts no longer
        for part in self._parts:
            for batch in _join_batches(part.to_batches()):
                ids.append(import_array(batch.column(ROW_ID)))
                yield batch.select(list(schema.names)).cast(schema)

    def update_by_arrow_batch(self, data: pa.RecordBatch) -> None:
        """Set the columns of the next rows, in the order of `arrow_reader`."""
        self._batches.append(data)

    def prepare_commit(self) -> list[CommitMessage]:
        """Write the files of the updated columns, and return their messages.

        Raises:
            InvalidArgument: fewer or more rows than the reader returned.
        """
        if not self._batches:
            return []
        rows = pa.Table.from_batches(self._batches).select(list(self._columns))
        ids = pl.concat(self._ids) if self._ids else pl.Series(dtype=pl.Int64)
        if len(ids) != len(rows):
            raise InvalidArgument(f"{self._target.where}: {len(rows)} updated rows, of {len(ids)} rows that were read")
        given = read_row_values(self._target, rows.append_column(ROW_ID, ids.to_arrow()))
        return _plan(set_row_values(self._target, self._snapshot, given), self._snapshot)


def _join_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the same rows in batches of `DEFAULT_BATCH_ROWS` or more, except the last: some reads yield many."""
    held: list[pa.RecordBatch] = []
    for batch in batches:
        held.append(batch)
        if sum(each.num_rows for each in held) >= DEFAULT_BATCH_ROWS:
            yield pa.concat_batches(held)
            held = []
    if held:
        yield pa.concat_batches(held)


def _name_values(row: Any, names: Sequence[str]) -> dict[str, Any]:
    """Return a row, a mapping or values in the order of the columns, as a dict."""
    return dict(row) if isinstance(row, Mapping) else dict(zip(names, getattr(row, "values", row)))


def _plan(messages: Sequence[CommitMessage], snapshot: Snapshot | None) -> list[CommitMessage]:
    """Return the messages as planned on a snapshot, so that their commit detects conflicting later commits."""
    return [replace(message, planned_on=None if snapshot is None else snapshot.id) for message in messages]


def _drop_partitions(target: WriteTarget, snapshot: Snapshot, filter: Filter) -> list[CommitMessage]:
    """Return messages that remove all files of the partitions for which a filter on partition columns is true."""
    states = restore_partitions(target, snapshot, find_matching_partitions(target, snapshot, filter))
    return [
        CommitMessage(
            partition=place.partition,
            bucket=place.bucket,
            total_buckets=state.total_buckets or target.options.bucket,
            deleted_files=state.files,
            deleted_index_files=(*state.index_files, *list_global_indexes(target, snapshot, place.partition)),
        )
        for place, state in states.items()
        if state.files
    ]


def _to_filter(target: WriteTarget, predicate: Predicate | None) -> Filter:
    fields = (*target.schema.fields, *list_tracked_fields(target.schema, target.options))
    return NO_FILTER if predicate is None else parse_filter(predicate.to_polars(), fields)


def _assign(value: Assignment, field: DataField, rows: pa.Table, start: int) -> pa.ChunkedArray | pa.Array:
    """Return the new values of a column for `rows`; `start` rows came before them."""
    kind = field.type.arrow()
    if callable(value):
        value = value(rows)
        if not isinstance(value, (pa.Array, pa.ChunkedArray)):
            raise InvalidArgument(
                f"Callable assignment for {field.name} must return a pyarrow.Array or pyarrow.ChunkedArray."
            )
        if len(value) != rows.num_rows:
            raise InvalidArgument(
                f"Assignment array length must match matched row count: {len(value)} != {rows.num_rows}."
            )
    elif isinstance(value, (pa.Array, pa.ChunkedArray)):
        value = value.slice(start, rows.num_rows)
        value = pa.concat_arrays([*(value.chunks if isinstance(value, pa.ChunkedArray) else [value])])
        if len(value) < rows.num_rows:
            value = pa.concat_arrays([value, pa.nulls(rows.num_rows - len(value), value.type)])  # refused later
    else:
        literal = value.as_py() if isinstance(value, pa.Scalar) else value
        return pa.array([literal] * rows.num_rows, kind)
    return value.cast(kind)


UPDATES = {
    "update_by_arrow_batches_with_row_id": "use table.morrow.update_rows(rows)",
    "new_update_by_row_id": "use table.morrow.update_rows(rows)",
}
"""The methods of pypaimon's TableUpdate that Morrow lacks, and what does the same."""


class WriteBuilder:
    """A builder of writes and commits under one commit user."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self.commit_user = WriteTarget.of(table._metadata).commit_user

    def new_update(self) -> TableUpdate:
        """Return an updater."""
        return TableUpdate(self._table, self.commit_user)


class BatchWriteBuilder(WriteBuilder):
    """A builder of a write that is committed once."""

    _replaced: Partition | None = None

    def overwrite(self, static_partition: Partition | None = None) -> BatchWriteBuilder:
        """Replace the rows of the partitions with these values, as `morrow.Table.overwrite` does."""
        self._replaced = static_partition or {}
        return self

    def new_write(self) -> BatchTableWrite:
        """Return a writer."""
        return BatchTableWrite(self._table, None, self._replaced)

    def new_commit(self) -> BatchTableCommit:
        """Return a committer."""
        return BatchTableCommit(self._table, self.commit_user, self._replaced)


class StreamWriteBuilder(WriteBuilder):
    """A builder of writes with numbered commits."""

    def new_write(self) -> StreamTableWrite:
        """Return a writer."""
        return StreamTableWrite(self._table, self.commit_user)

    def new_commit(self) -> StreamTableCommit:
        """Return a committer."""
        return StreamTableCommit(self._table, self.commit_user)
