"""A write session: rows go in, messages come out, and are committed once or cleaned up."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from morrow.engine.errors import CommitConflict, FileMissing, InvalidArgument, MorrowError, UnclearOutcome
from morrow.engine.format.snapshot import Snapshot
from morrow.writers.commit import TableCommit
from morrow.writers.expiry.automatic import maintained
from morrow.writers.lookup import LookupStrategy
from morrow.writers.messages import BATCH_COMMIT_IDENTIFIER, CommitMessage
from morrow.writers.operations.overtaken import is_living
from morrow.writers.operations.settling import settled
from morrow.writers.rows import Kinds
from morrow.writers.table_writer import TableWriter
from morrow.writers.target import WriteTarget

COMPACT = "COMPACT"


class WriteSession:
    """Writes and commits under one commit user. After an error nothing that was not committed stays."""

    def __init__(self, target: WriteTarget, *, repeats: bool = False) -> None:
        """`repeats`: the commit user may have committed before, so its identifiers are looked up in the table."""
        self.target = target
        self.commits = maintained(target)
        self._writer = TableWriter(target)
        self._repeats = repeats
        self._prepared: list[CommitMessage] = []
        self._unclear: dict[int, list[CommitMessage]] = {}
        self._known: Snapshot | None = None

    def write(self, data: object, kinds: Kinds = None) -> int:
        """Take rows; returns how many. An error aborts the session."""
        with self._cleaned_up():
            return self._writer.write(data, kinds)

    def prepare(self) -> list[CommitMessage]:
        """Finish the files of what was written since the last call and hand them over; they outlive the session."""
        with self._cleaned_up():
            messages = self._writer.prepare_commit()
        self._prepared += messages
        return messages

    def commit(
        self,
        identifier: int | None = None,
        *,
        watermark: int | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> Snapshot | None:
        """Commit what was written and not prepared yet."""
        number = BATCH_COMMIT_IDENTIFIER if identifier is None else identifier
        base = self._known or self._writer.base
        with self._cleaned_up(), self._based_on(base):
            self._check_not_rolled_back(base)
            if full_compaction_is_due(self.target, identifier):
                self._writer.compact_written()
            messages = [*self._unclear.get(number, ()), *self._writer.prepare_commit()]
        repeats = number in self._unclear or (self._repeats and identifier is not None)
        try:
            done = commit_once(
                self.commits, messages, number, watermark=watermark, properties=properties, repeats=repeats
            )
        except UnclearOutcome:
            self._unclear[number] = messages
            raise
        except BaseException:
            self._writer.forget()
            raise
        if done is not None:
            self._go_on(messages, done, base.id if base else 0)
        elif messages:
            self._was_committed(number, messages)
        self._unclear.pop(number, None)
        return done

    def abort(self) -> None:
        """Drop what was written and not prepared."""
        self._writer.close()

    @contextmanager
    def _cleaned_up(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self._writer.close()
            raise

    @contextmanager
    def _based_on(self, base: Snapshot | None) -> Iterator[None]:
        """Within the block files are read that were there when the session committed last, or began."""
        try:
            yield
        except FileMissing as error:
            if base is None or is_living(self.target.metadata, base):
                raise
            raise self._overtaken("was rolled back, or compacted and expired by others,", base) from error

    def _check_not_rolled_back(self, base: Snapshot | None) -> None:
        """Keys are not looked up in files that left the table with a rollback, though a tag may keep them."""
        if base is None or not LookupStrategy.of(self.target).needed:
            return
        metadata = self.target.metadata
        there = metadata.snapshot_or_none(base.id)
        if there == base:
            return
        earliest = metadata.earliest_snapshot_id()
        if there is not None or earliest is None or earliest < base.id:  # else it has expired, which is no matter
            raise self._overtaken("was rolled back", base)

    def _overtaken(self, what: str, base: Snapshot) -> CommitConflict:
        return CommitConflict(
            f"{self.target.where}: the table {what} since snapshot {base.id}, from which this writer goes on; these "
            "rows were not committed: write them with a new writer"
        )

    def _was_committed(self, identifier: int, messages: Sequence[CommitMessage]) -> None:
        """This identifier was committed before: by this very call, whose answer was unclear, or with other files."""
        if identifier not in self._unclear:
            self.commits.abort(messages)
        self._writer.forget()

    def _go_on(self, messages: Sequence[CommitMessage], done: Snapshot, known: int) -> None:
        """Buckets stay as this session knows them if all snapshots since are its own, and none was rolled back."""
        compacted = any(message.compact_before or message.compact_after for message in messages)
        foreign = done.id <= known or (compacted and done.commit_kind != COMPACT)
        for snapshot_id in range(known + 1, done.id):
            if not foreign:
                between = self.target.metadata.snapshot_or_none(snapshot_id)
                foreign = between is None or between.commit_user != self.target.commit_user
        self._known = done
        if foreign and not self._prepared:
            self._writer.forget()
            self._known = None


def full_compaction_is_due(target: WriteTarget, identifier: int | None) -> bool:
    """Whether ``full-compaction.delta-commits`` asks for a full compaction: every so many numbered commits, and every
    commit without a number, as Spark's writers have it."""
    every = target.write.full_compaction_commits
    if every is None or target.write.write_only:
        return False
    # What is no number at all is refused when it is committed.
    return identifier is None or (isinstance(identifier, int) and (identifier + 1) % every == 0)


def commit_once(
    commits: TableCommit,
    messages: Sequence[CommitMessage],
    identifier: int,
    *,
    watermark: int | None = None,
    properties: Mapping[str, str] | None = None,
    repeats: bool = False,
) -> Snapshot | None:
    """Commit messages, or find that this commit user has committed this identifier already.

    Returns: the last snapshot created; None when there was nothing to commit, or it was committed before.

    Raises:
        InvalidArgument: an identifier that cannot be one.
        CommitConflict: somebody else was faster in a way that cannot be reconciled; the files are deleted.
        UnclearOutcome: repeat with the same user and identifier.
    """
    check_identifier(identifier)
    named: Mapping[str, str] = properties or {}
    with cleaned_up(commits, messages, identifier):
        if repeats:
            made = commits.filter_and_commit({identifier: messages}, watermark=watermark, properties=named)
            done = commits.latest_snapshot() if made and any(not m.is_empty for m in messages) else None
        else:
            done = commits.commit(messages, identifier=identifier, watermark=watermark, properties=named)
    return settled(commits, messages, done, identifier)


def check_identifier(identifier: object) -> None:
    """Raises `InvalidArgument` for what is no commit identifier."""
    if (
        isinstance(identifier, bool)
        or not isinstance(identifier, int)
        or not 0 <= identifier <= BATCH_COMMIT_IDENTIFIER
    ):
        raise InvalidArgument(f"a commit identifier is an integer from 0 to 2**63 - 1, not {identifier!r}")


@contextmanager
def cleaned_up(
    commits: TableCommit, messages: Sequence[CommitMessage], identifier: int = BATCH_COMMIT_IDENTIFIER
) -> Iterator[None]:
    """Around a commit: the files of messages are deleted when it is sure that none of them was committed."""
    before: Snapshot | None = None
    try:
        before = commits.latest_snapshot()
        yield
    except UnclearOutcome:
        raise
    except CommitConflict:
        commits.abort(messages)
        raise
    except MorrowError:
        if _is_not_committed(commits, 0 if before is None else before.id, identifier):
            commits.abort(messages)
        raise


def _is_not_committed(commits: TableCommit, before: int, identifier: int) -> bool:
    """Whether no snapshot after `before` is this commit's: an error after its first snapshot must delete nothing."""
    target = commits.target
    try:
        ids = [i for i in target.metadata.snapshot_ids() if i > before]
        snapshots = [target.metadata.snapshot(i) for i in ids]
    except MorrowError:
        return False
    return all(s.commit_user != target.commit_user or s.commit_identifier != identifier for s in snapshots)
