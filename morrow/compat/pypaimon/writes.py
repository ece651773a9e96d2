"""pypaimon's write builders over Morrow's writers: files are written first, and their messages committed later."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import pyarrow as pa

from morrow.compat.pypaimon.predicates import PredicateBuilder
from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.plugins import require_extra
from morrow.engine.redaction import suggest_name
from morrow.tables.writer import CommitMessage, Committer, Writer
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


class TableWrite:
    """A writer of rows to files, which `prepare_commit` returns as messages."""

    def __init__(self, table: Table, commit_user: str | None, replaced: Partition | None = None) -> None:
        self._table = table
        self._writer = (
            Writer(table._metadata, commit_user)
            if replaced is None
            else TableWriter(WriteTarget.of(table._metadata, commit_user), overwrite=True)
        )

    def write_arrow(self, data: pa.Table | pa.RecordBatch) -> None:
        """Write an Arrow table, which has the columns of the table, in any order.

        Raises:
            ColumnNotFound, InvalidArgument: other columns, or values that the column types cannot hold.
        """
        self._writer.write(data, missing="error")

    write_arrow_batch = write_arrow

    def write_pandas(self, dataframe: pd.DataFrame) -> None:
        """Write a pandas DataFrame, converted to the table's columns. Raises `Unsupported` without pandas."""
        with require_extra("write_pandas", "pandas", "pandas"):
            import pandas as pd  # noqa: F401
        self.write_arrow(pa.Table.from_pandas(dataframe, self._table.schema, preserve_index=False))

    def write_row(self, row: Any) -> None:
        """Write one row: a dict by column, or values in the order of the columns."""
        named = row if isinstance(row, Mapping) else dict(zip(self._table.schema.names, getattr(row, "values", row)))
        self.write_arrow(pa.Table.from_pylist([dict(named)], self._table.schema))

    def with_write_type(self, write_cols: Sequence[str]) -> TableWrite:
        """Raise `Unsupported`, except for all columns."""
        if set(write_cols) != set(self._table.schema.names):
            raise Unsupported(
                f"a write of the columns {', '.join(write_cols)} alone",
                where=self._table.path,
                hint="leave out nullable columns with table.morrow.append(rows)",
            )
        return self

    def close(self) -> None:
        """Drop rows that were not prepared."""
        self._writer.abort() if isinstance(self._writer, Writer) else self._writer.close()

    def _prepare(self) -> list[CommitMessage]:
        return self._writer.prepare() if isinstance(self._writer, Writer) else self._writer.prepare_commit()


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
        self._committer.abort(commit_messages)

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
            return self._committer.commit(commit_messages, properties=snapshot_properties)
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
        return self._committer.commit(commit_messages, commit_identifier, properties=snapshot_properties)


class TableUpdate:
    """An updater by row id, which Morrow does not have. Each method names what does the same."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def with_update_type(self, update_cols: Sequence[str]) -> TableUpdate:
        """Check the columns to update."""
        names = self._table.schema.names
        for name in update_cols:
            if name not in names:
                raise InvalidArgument(f"Column {name} is not in table schema; {suggest_name(name, names)}")
        return self

    def with_read_projection(self, projection: Sequence[str]) -> TableUpdate:
        """Choose the columns that a shard reads."""
        return self.with_update_type(projection)

    def new_predicate_builder(self) -> PredicateBuilder:
        """Return a builder of predicates on the table's columns."""
        return PredicateBuilder(list(self._table.schema))

    def __getattr__(self, name: str) -> Callable[..., NoReturn]:
        if name not in UPDATES:
            raise AttributeError(f"an update has no attribute {name!r}")

        def refuse(*_: Any, **__: Any) -> NoReturn:
            raise Unsupported(f"pypaimon's {name}", where=self._table.path, hint=UPDATES[name])

        return refuse


_UPDATE = "use table.morrow.update(set, where), or table.morrow.merge(source, on)"
_DELETE = "use table.morrow.delete(condition)"
UPDATES = {
    "update_by_arrow_with_row_id": _UPDATE,
    "update_by_arrow_batches_with_row_id": _UPDATE,
    "new_update_by_row_id": _UPDATE,
    "new_shard_updator": _UPDATE,
    "update_by_predicate": _UPDATE,
    "upsert_by_arrow_with_key": "give the table a primary key, and use table.morrow.upsert(rows)",
    "upsert_by_key": "give the table a primary key, and use table.morrow.upsert(rows)",
    "delete_by_predicate": _DELETE,
    "delete_by_row_id": _DELETE,
    "merge_into": "use table.morrow.merge(source, on)",
}
"""The methods of pypaimon's TableUpdate, and what does the same in Morrow."""


class WriteBuilder:
    """A builder of writes and commits under one commit user."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self.commit_user = WriteTarget.of(table._metadata).commit_user

    def new_update(self) -> TableUpdate:
        """Return an updater, whose methods raise `Unsupported`."""
        return TableUpdate(self._table)


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
