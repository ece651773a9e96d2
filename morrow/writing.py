"""Writing in steps: many batches in one commit, and commits that are recognised when they are repeated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING

from morrow.engine.errors import InvalidArgument
from morrow.engine.format.snapshot import Snapshot
from morrow.writers.expiry.automatic import maintained
from morrow.writers.messages import BATCH_COMMIT_IDENTIFIER, CommitMessage
from morrow.writers.operations.session import WriteSession, commit_once
from morrow.writers.operations.settling import settled
from morrow.writers.target import WriteTarget

if TYPE_CHECKING:
    from morrow.engine.plan.metadata import TableMetadata
    from morrow.writers.rows import Kinds

__all__ = ["CommitMessage", "Committer", "Writer"]


class Writer:
    """Writes to one table; what was written is visible after `commit`, all at once.

        with t.writer() as w:
            for batch in batches:
                w.write(batch)

    Leaving the block commits what was not committed yet; an exception drops it and deletes its files. A writer is used
    by one thread. Make one with `Table.writer`.
    """

    def __init__(self, metadata: TableMetadata, commit_user: str | None = None) -> None:
        self._session = WriteSession(WriteTarget.of(metadata, commit_user), repeats=commit_user is not None)
        self._open = True
        self._unprepared = 0

    @property
    def commit_user(self) -> str:
        """The name under which this writer commits."""
        return self._session.target.commit_user

    def write(self, data: object, kinds: Kinds = None) -> int:
        """Take rows, which may be written to files at once; nobody sees them before the commit.

        Args:
            data: anything with ``__arrow_c_stream__`` (Arrow, Polars, DuckDB relations, pandas, scans), a Polars
                LazyFrame, an Arrow dataset, a list of dicts or a dict of columns. Columns are matched by name. Missing
                ones take their default value; without one they are an error, except where null changes nothing: in
                partial-update and aggregation tables, and in deletions.
            kinds: what each row does in a table with a primary key: ``"+I"``, ``"-U"``, ``"+U"`` or ``"-D"`` (or the
                codes 0 to 3) for all rows, the name of a column of the data that holds them, or one per row.

        Returns: the number of rows taken (``ignore-delete`` leaves some out).

        Raises:
            ColumnNotFound: a column that the table does not have.
            InvalidArgument: a column is missing, a NOT NULL column has nulls, values that do not fit their column
                without loss, row kinds that the table does not take. The writer is closed then, and nothing was
                written.
        """
        self._check_open()
        try:
            taken = self._session.write(data, kinds)
        except BaseException:
            self._open = False
            raise
        self._unprepared += taken
        return taken

    def prepare(self) -> list[CommitMessage]:
        """Finish the files of what was written since the last call, for a commit later or elsewhere.

        Messages are plain data that pickles: hand them to `Committer.commit` in any process, or to `Committer.abort`.
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
        """Commit what was written since the last commit; the writer goes on.

        Args:
            identifier: the number of this commit among those of the commit user, growing. A writer made with a
                `commit_user` recognises what this user has committed before, and does not commit it twice.
            watermark: event time up to which the rows are complete, epoch milliseconds.
            properties: kept in the snapshot.

        Returns: the last snapshot created, None when there was nothing to commit or it had been committed before.

        Raises:
            CommitConflict: somebody else changed what this commit depends on; its files are deleted. Write again.
            UnclearOutcome: the store did not tell. Repeat with the same commit user and identifier.
        """
        self._check_open()
        self._unprepared = 0
        return self._session.commit(identifier, watermark=watermark, properties=properties)

    def abort(self) -> None:
        """Drop what was not committed (nor prepared) and close the writer."""
        self._open = False
        self._session.abort()

    def close(self) -> None:
        """Commit what was written and not committed yet, and close the writer."""
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
    """Commits what writers of one commit user have prepared. Make one with `Table.committer`."""

    def __init__(self, metadata: TableMetadata, commit_user: str) -> None:
        self._commits = maintained(WriteTarget.of(metadata, commit_user))

    def commit(
        self,
        messages: Sequence[CommitMessage],
        identifier: int = BATCH_COMMIT_IDENTIFIER,
        *,
        watermark: int | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> Snapshot | None:
        """Commit messages under an identifier, unless this user has committed it already; see `Writer.commit`."""
        repeats = identifier != BATCH_COMMIT_IDENTIFIER
        return commit_once(
            self._commits, messages, identifier, watermark=watermark, properties=properties, repeats=repeats
        )

    def filter_and_commit(self, batches: Mapping[int, Sequence[CommitMessage]]) -> int:
        """Commit those batches, by identifier, that this user has not committed yet; returns how many those were.

        Identifiers of a user grow: whatever is not above that of its newest snapshot counts as committed.

        Raises:
            FileMissing: a file of a batch is gone. CommitConflict, UnclearOutcome: as `Writer.commit`.
        """
        made = self._commits.filter_and_commit(batches)
        if made:
            messages = [message for batch in batches.values() for message in batch]
            settled(self._commits, messages, self._commits.latest_snapshot(), max(batches), several=True)
        return made

    def abort(self, messages: Sequence[CommitMessage]) -> None:
        """Delete the files of messages that will not be committed."""
        self._commits.abort(messages)
