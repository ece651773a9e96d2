"""A write session, which turns rows into messages and commits them once or removes their files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

from morrow.engine.arguments import mapping, text
from morrow.engine.errors import CommitConflict, FileMissing, InvalidArgument, MorrowError, UnclearOutcome
from morrow.engine.format.snapshot import COMPACT, Snapshot
from morrow.writers.buckets.postponed import waiting
from morrow.writers.commit import TableCommit
from morrow.writers.commit.conflicts import AlreadyCommitted
from morrow.writers.commit.expired_base import is_living
from morrow.writers.commit.messages import BATCH_COMMIT_IDENTIFIER, CommitMessage
from morrow.writers.commit.premise import Premise
from morrow.writers.commit.routes import Misplaced
from morrow.writers.history.expiry.automatic import maintained
from morrow.writers.keyed.lookup import LookupStrategy
from morrow.writers.operations.recompaction import recompacted
from morrow.writers.operations.replaying import can_replay, replayed
from morrow.writers.operations.retrying import retried
from morrow.writers.operations.table_writer import TableWriter
from morrow.writers.rows import NULL, Kinds, Missing
from morrow.writers.target import WriteTarget


class WriteSession:
    """Writes and commits under one commit user. After an error no uncommitted file stays."""

    def __init__(self, target: WriteTarget, *, repeats: bool = False, base: Snapshot | None = None) -> None:
        """Opens the session. `repeats`: of a stream, whose identifiers are looked up; `base`: the newest snapshot."""
        target = self.target = waiting(target) if repeats else target
        self.commits = maintained(target)
        self._writer = TableWriter(target, base=base)
        self._repeats = repeats
        self._prepared: list[CommitMessage] = []
        self._unclear: dict[int, list[CommitMessage]] = {}
        self._known: Snapshot | None = None

    def write(self, data: object, kinds: Kinds = None, missing: Missing = NULL) -> int:
        """Writes rows; returns how many. An error aborts the session."""
        with self._cleaned_up():
            return self._writer.write(data, kinds, missing)

    def prepare(self) -> list[CommitMessage]:
        """Finishes the files of the rows written since the last call; returns their messages and releases the files,
        which outlive the session."""
        with self._cleaned_up(), self._based_on(self._known or self._writer.base):
            messages = self._writer.prepare_commit()
        self._prepared += messages
        return messages

    def commit(
        self,
        identifier: int | None = None,
        *,
        watermark: int | None = None,
        properties: Mapping[str, str] | None = None,
        premise: Premise | None = None,
    ) -> Snapshot | None:
        """Commits the rows written and not prepared yet; `premise`: the rows that they were computed from."""
        number = BATCH_COMMIT_IDENTIFIER if identifier is None else identifier
        check_identifier(number)
        checked_properties(properties)
        base = self._known or self._writer.base
        with self._cleaned_up(), self._based_on(base):
            self._check_not_rolled_back(base)
            if full_compaction_is_due(self.target, identifier):
                self._writer.compact_written()
            messages = [*self._unclear.get(number, ()), *self._writer.prepare_commit()]
        self.commits.go_on_from(base)
        repeats = number in self._unclear or (self._repeats and identifier is not None)
        try:
            done = commit_once(
                self.commits,
                messages,
                number,
                watermark=watermark,
                properties=properties,
                repeats=repeats,
                premise=premise,
            )
        except UnclearOutcome:
            self._unclear[number] = messages
            raise
        except BaseException:
            self._writer.forget()
            raise
        if done is not None:
            self._go_on(messages, done, base)
        elif messages:
            self._was_committed(number, messages)
        self._unclear.pop(number, None)
        return done

    def abort(self) -> None:
        """Drops the rows written and not prepared."""
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
        """Turns missing files into a conflict, for a block that reads files of `base`: the snapshot of the session's
        last commit, or of its begin."""
        try:
            yield
        except FileMissing as error:
            if base is None or is_living(self.target.metadata, base):
                raise
            raise self._overtaken("was rolled back, or compacted and expired by others,", base) from error

    def _check_not_rolled_back(self, base: Snapshot | None) -> None:
        """Checks that no rollback removed the files in which keys are looked up, though a tag may keep them."""
        if base is not None and LookupStrategy.of(self.target).needed and self._is_rolled_back(base):
            raise self._overtaken("was rolled back", base)

    def _is_rolled_back(self, base: Snapshot) -> bool:
        metadata = self.target.metadata
        there = metadata.snapshot_or_none(base.id)
        if there == base:
            return False
        earliest = metadata.earliest_snapshot_id()
        return there is not None or earliest is None or earliest < base.id  # else it has expired, which does no harm

    def _overtaken(self, what: str, base: Snapshot) -> CommitConflict:
        return CommitConflict(
            f"{self.target.where}: the table {what} since snapshot {base.id}, from which this writer goes on; these "
            "rows were not committed: write them with a new writer"
        )

    def _was_committed(self, identifier: int, messages: Sequence[CommitMessage]) -> None:
        """Cleans up after an identifier committed before: by this very call, with an unclear outcome, or with other
        files, in which case those of `messages` are removed."""
        if identifier not in self._unclear:
            self.commits.abort(messages)
        self._writer.forget()

    def _go_on(self, messages: Sequence[CommitMessage], done: Snapshot, base: Snapshot | None) -> None:
        """Keeps the known state of buckets if all snapshots since are the session's own and none was rolled back."""
        known = base.id if base else 0
        compacted = any(message.compact_before or message.compact_after for message in messages)
        foreign = done.id <= known or (compacted and done.commit_kind != COMPACT)
        for snapshot_id in range(known + 1, done.id):
            if not foreign:
                between = self.target.metadata.snapshot_or_none(snapshot_id)
                foreign = between is None or between.commit_user != self.target.commit_user
        if not foreign and base is not None and self._writer.places_keys:
            foreign = self._is_rolled_back(base)
        self._known = done
        if not foreign:
            self._writer.go_on_from(done)
        elif not self._prepared:
            self._writer.forget()
            self._known = None


def full_compaction_is_due(target: WriteTarget, identifier: int | None) -> bool:
    """Returns whether ``full-compaction.delta-commits`` requires a full compaction: every so many numbered commits, and
    every commit without a number, as in Spark's writers."""
    every = target.write.full_compaction_commits
    if every is None or target.write.write_only:
        return False
    # An identifier that is not a number is refused by the commit.
    return identifier is None or (isinstance(identifier, int) and (identifier + 1) % every == 0)


def commit_once(
    commits: TableCommit,
    messages: Sequence[CommitMessage],
    identifier: int,
    *,
    watermark: int | None = None,
    properties: Mapping[str, str] | None = None,
    repeats: bool = False,
    premise: Premise | None = None,
    check_new: bool = False,
) -> Snapshot | None:
    """Commits messages, unless this commit user has committed this identifier already.

    Args:
        check_new: check whether files of the messages are in the table; those of one's own writer cannot be.

    Returns: the last snapshot created; None when there was nothing to commit, or it was committed before.

    Raises:
        InvalidArgument: an invalid identifier, or messages that were committed before.
        CommitConflict: another commit was faster in a way that cannot be reconciled; the files are deleted.
        UnclearOutcome: repeat with the same user and identifier.
    """
    check_identifier(identifier)
    named = checked_properties(properties)
    common = partial(_commit, commits, identifier, named, watermark, repeats, premise, check_new)
    try:
        return common(messages)
    except Misplaced:
        if premise is not None or not can_replay(commits.target, messages):
            commits.abort(messages)
            raise
    done = retried(commits.target, partial(_replay, commits, messages, common))
    commits.abort(messages)
    return done


def _replay(
    commits: TableCommit,
    messages: Sequence[CommitMessage],
    common: Callable[[Sequence[CommitMessage]], Snapshot | None],
) -> Snapshot | None:
    """Commits the rows of messages in the buckets to which they belong now."""
    again = replayed(commits.target, messages)
    try:
        return common(again)
    except Misplaced:
        commits.abort(again)
        raise


def _commit(
    commits: TableCommit,
    identifier: int,
    named: Mapping[str, str],
    watermark: int | None,
    repeats: bool,
    premise: Premise | None,
    check_new: bool,
    messages: Sequence[CommitMessage],
) -> Snapshot | None:
    with cleaned_up(commits, messages, identifier):
        if repeats:
            made = commits.filter_and_commit(
                {identifier: messages}, watermark=watermark, properties=named, premise=premise
            )
            done = commits.latest_snapshot() if made and any(not m.is_empty for m in messages) else None
        else:
            if check_new or commits.target.store.is_local:  # far away it is a request, for what waited elsewhere
                commits.check_first(messages)
            done = commits.commit(
                messages,
                identifier=identifier,
                watermark=watermark,
                properties=named,
                check_append_files=check_new and not commits.target.keyed,  # keyed rows are always checked
                premise=premise,
            )
    return recompacted(commits, messages, done, identifier)


def checked_properties(properties: Mapping[str, str] | None) -> Mapping[str, str]:
    """Returns the properties of a snapshot: text by name. Raises `InvalidArgument` for others."""
    return {
        text(name, "the name of a property"): text(value, f"the property {name!r}")
        for name, value in mapping(properties, "properties").items()
    }


def check_identifier(identifier: object) -> None:
    """Raises `InvalidArgument` unless the argument is a commit identifier."""
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
    """Deletes the files of messages when the commit within the block fails and certainly committed none of them.

    Files are kept after `Misplaced`: their rows may be written once more.
    """
    before: Snapshot | None = None
    try:
        before = commits.known_snapshot()
        yield
    except (UnclearOutcome, AlreadyCommitted, Misplaced):
        raise
    except FileMissing:
        raise  # a file of the messages: the process that removed it may have committed the others
    except CommitConflict:
        commits.abort(messages)
        raise
    except MorrowError:
        if _is_not_committed(commits, 0 if before is None else before.id, identifier):
            commits.abort(messages)
        raise


def _is_not_committed(commits: TableCommit, before: int, identifier: int) -> bool:
    """Returns whether no snapshot after `before` is this commit's: an error after its first one must delete nothing."""
    target = commits.target
    try:
        ids = [i for i in target.metadata.snapshot_ids() if i > before]
        snapshots = [target.metadata.snapshot(i) for i in ids]
    except MorrowError:
        return False
    return all(s.commit_user != target.commit_user or s.commit_identifier != identifier for s in snapshots)
