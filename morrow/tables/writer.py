"""Writers and committers: many batches in one commit, commits that can be repeated, and writes of Ray datasets.

Tasks of Ray write files, and the driver commits all of them at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from morrow.engine.arguments import check_instance
from morrow.engine.errors import InvalidArgument
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.plugins import require_extra
from morrow.writers.commit.messages import BATCH_COMMIT_IDENTIFIER, CommitMessage
from morrow.writers.history.commit_maintenance import commit_with_maintenance
from morrow.writers.operations.write_session import WriteSession, check_identifier, commit_once, recompact_messages
from morrow.writers.target import WriteTarget

if TYPE_CHECKING:
    from morrow.engine.plan.metadata import TableMetadata
    from morrow.writers.ingest.conversion import Missing
    from morrow.writers.ingest.validation import Kinds

__all__ = ["CommitMessage", "Committer", "Writer"]


class Writer:
    """A writer of one table. Its rows become visible atomically by `commit`. Create one with `Table.writer`.

        with t.writer() as w:
            for batch in batches:
                w.write(batch)

    Leaving the block commits uncommitted rows; an exception drops them and deletes their files. A writer is not
    thread-safe.
    """

    def __init__(self, metadata: TableMetadata, commit_user: str | None = None) -> None:
        self._session = WriteSession(WriteTarget.of(metadata, commit_user), repeats=commit_user is not None)
        self._open = True
        self._unprepared = 0

    @property
    def commit_user(self) -> str:
        """The commit user of this writer's commits."""
        return self._session.target.commit_user

    def write(self, data: object, kinds: Kinds = None, *, missing: Missing = "null") -> int:
        """Write rows, buffered or directly to files. They stay invisible until the commit.

        Args:
            data: anything with ``__arrow_c_stream__`` (Arrow, Polars, DuckDB relations, pandas, scans), a Polars
                LazyFrame, an Arrow dataset, a list of dicts, a dict of columns, or an iterator of tables, which are
                read one by one. Columns are matched by name.
            kinds: the row kinds, in a table with a primary key: ``"+I"``, ``"-U"``, ``"+U"`` or ``"-D"`` (or the codes
                0 to 3) for all rows, the name of a column of the data that holds them, or one per row.
            missing: ``null``: missing nullable columns are written as their default value, or null without a default;
                if versions are merged by column, null keeps the stored value. ``error``: missing columns raise, except
                in deletions.

        Returns: the number of rows accepted (``ignore-delete`` skips deletions).

        Raises:
            ColumnNotFound: a column that the table does not have.
            InvalidArgument: a key or NOT NULL column is missing; a NOT NULL column has nulls; values would be changed
                by their column type; the table does not accept these row kinds. The writer is then closed, and nothing
                was written.
        """
        self._check_open()
        try:
            taken = self._session.write(data, kinds, missing)
        except BaseException:
            self._open = False
            raise
        self._unprepared += taken
        return taken

    def prepare(self) -> list[CommitMessage]:
        """Finish the files written since the last call and return their messages, to commit them later or elsewhere.

        Messages can be pickled. Pass them to `Committer.commit` in any process, or to `Committer.abort`.
        """
        self._check_open()
        self._unprepared = 0
        return self._session.prepare()

    def commit(
        self,
        identifier: int | None = None,
        *,
        watermark: int | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> Snapshot | None:
        """Commit the rows written since the last commit; the writer stays open.

        Args:
            identifier: the number of this commit, which must increase for each commit user. A writer created with a
                `commit_user` recognises identifiers that this user has committed, and does not commit them twice.
            watermark: event time up to which the rows are complete, epoch milliseconds.
            properties: stored in the snapshot.

        Returns: the last snapshot created, None if there was nothing to commit or the identifier was already committed.

        Raises:
            CommitConflict: another commit changed rows or files that this commit depends on; this commit's files are
                deleted. Write again.
            UnclearOutcome: the store did not confirm the commit. Repeat it with the same commit user and identifier.
        """
        self._check_open()
        self._unprepared = 0
        return self._session.commit(identifier, watermark=watermark, properties=properties)

    def abort(self) -> None:
        """Drop rows that were neither committed nor prepared, and close the writer."""
        self._open = False
        self._session.abort()

    def close(self) -> None:
        """Commit uncommitted rows, and close the writer."""
        if not self._open:
            return
        try:
            if self._unprepared:
                self.commit()
        finally:
            self.abort()

    def __enter__(self) -> Writer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()

    def _check_open(self) -> None:
        if not self._open:
            raise InvalidArgument("this writer is closed; make another one with Table.writer")


class Committer:
    """A committer of messages prepared by writers of one commit user. Create one with `Table.committer`."""

    def __init__(self, metadata: TableMetadata, commit_user: str) -> None:
        self._commits = commit_with_maintenance(WriteTarget.of(metadata, commit_user))

    def commit(
        self,
        messages: Sequence[CommitMessage],
        identifier: int = BATCH_COMMIT_IDENTIFIER,
        *,
        watermark: int | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> Snapshot | None:
        """Commit messages under an identifier, unless this user has committed it already; see `Writer.commit`.

        Raises:
            InvalidArgument: the messages were already committed under another identifier or without one.
        """
        _check_messages(messages)
        repeats = identifier != BATCH_COMMIT_IDENTIFIER
        return commit_once(
            self._commits,
            messages,
            identifier,
            watermark=watermark,
            properties=properties,
            repeats=repeats,
            check_new=True,
        )

    def filter_and_commit(self, batches: Mapping[int, Sequence[CommitMessage]]) -> int:
        """Commit the batches, given by identifier, that this user has not committed yet; return their number.

        Identifiers of a user increase: identifiers up to that of its newest snapshot count as committed.

        Raises:
            FileMissing: a file of a batch is gone. CommitConflict, UnclearOutcome: as `Writer.commit`.
        """
        check_instance(batches, Mapping, "batches")
        for identifier, messages in batches.items():
            check_identifier(identifier)
            _check_messages(messages)
        if not batches:
            return 0
        made = self._commits.filter_and_commit(batches)
        if made:
            messages = [message for batch in batches.values() for message in batch]
            recompact_messages(self._commits, messages, self._commits.latest_snapshot(), max(batches), several=True)
        return made

    def abort(self, messages: Sequence[CommitMessage]) -> None:
        """Delete the files of messages that will not be committed."""
        self._commits.abort(_check_messages(messages))


def _check_messages(messages: Sequence[CommitMessage]) -> Sequence[CommitMessage]:
    """Check a list of messages. Raises `InvalidArgument` for anything else."""
    if isinstance(messages, (str, bytes)) or not isinstance(messages, Sequence):
        raise InvalidArgument(f"messages are what Writer.prepare returns, a list, not {messages!r}")
    for message in messages:
        check_instance(message, CommitMessage, "each message")
    return messages


def iterate_tables(dataset: Any) -> Iterator[pa.Table]:
    """Yield the rows of a Ray dataset as Arrow tables, a block at a time."""
    return iter(dataset.iter_batches(batch_format="pyarrow", batch_size=None))


def write_by_tasks(metadata: TableMetadata, dataset: Any) -> Snapshot | None:
    """Write the rows of a Ray dataset to an append table by Ray tasks, in one commit."""
    with require_extra("write_ray", "ray", "ray"):
        from ray.data import Datasink
        from ray.data.block import BlockAccessor

    commit_user = Writer(metadata).commit_user
    committed: list[Snapshot | None] = []

    class MorrowSink(Datasink):  # type: ignore[misc]  # Ray is not there when types are checked
        """Files of a table, which become visible when all of them are written."""

        def write(self, blocks: Iterable[Any], ctx: Any) -> list[CommitMessage]:  # noqa: ARG002  # a method of Ray
            writer = Writer(metadata, commit_user)
            for block in blocks:
                writer.write(BlockAccessor.for_block(block).to_arrow())
            return writer.prepare()

        def get_name(self) -> str:
            return "Morrow"

    class Committing(MorrowSink):
        """The sink on the driver."""

        def on_write_complete(self, write_result: Any) -> None:
            messages = [message for found in write_result.write_returns for message in found or ()]
            committed.append(Committer(metadata, commit_user).commit(messages) if messages else None)

        def __reduce__(self) -> tuple[Any, ...]:
            return MorrowSink, ()

    dataset.write_datasink(Committing())
    return committed[0] if committed else None
