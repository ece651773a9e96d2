"""pypaimon's write builders over Morrow's writers: files are written first, and their messages committed later."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from msgspec import structs

from morrow.compat.pypaimon.updates import TableUpdate, name_values
from morrow.engine.errors import ColumnNotFound, CommitConflict, InvalidArgument, Unsupported
from morrow.engine.format.manifest_entries import DataFileMeta
from morrow.engine.format.paths import POSTPONE_BUCKET
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.options.declared.table import BUCKET, POSTPONE_BATCH_WRITE_FIXED_BUCKET
from morrow.engine.plugins import require_extra
from morrow.tables.writer import CommitMessage, Committer, Writer
from morrow.writers.files.blob_files import select_filed_vectors
from morrow.writers.operations.overwrite import commit_overwrite
from morrow.writers.operations.partition_filters import parse_partition_spec
from morrow.writers.operations.table_writer import TableWriter
from morrow.writers.target import WriteTarget

if TYPE_CHECKING:
    import pandas as pd

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
        self.write_arrow(pa.Table.from_pylist([name_values(row, self._table.schema.names)], self._schema))

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

    def __init__(self, table: Table, *, fixes_buckets: bool = False) -> None:
        """Make a builder. `fixes_buckets`: rows of a table of postponed buckets get their buckets at once."""
        is_postponed = str(table.options.get(BUCKET.key)) == str(POSTPONE_BUCKET)
        if fixes_buckets and not is_postponed:
            raise InvalidArgument("Postpone fixed-bucket write requires a postpone-bucket table")
        option = {POSTPONE_BATCH_WRITE_FIXED_BUCKET.key: fixes_buckets}
        super().__init__(table.with_options(option) if is_postponed else table)

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
