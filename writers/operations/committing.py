"""Commits of messages, each once: written anew where they no longer fit the table, removed where they failed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

from morrow.engine.arguments import mapping, text
from morrow.engine.errors import CommitConflict, FileMissing, InvalidArgument, MorrowError, UnclearOutcome
from morrow.engine.format.snapshot import Snapshot
from morrow.writers.commit import TableCommit
from morrow.writers.commit.conflicts import AlreadyCommitted
from morrow.writers.commit.messages import BATCH_COMMIT_IDENTIFIER, CommitMessage
from morrow.writers.commit.premise import Premise
from morrow.writers.commit.routes import Misplaced
from morrow.writers.operations.recompaction import recompacted
from morrow.writers.operations.replaying import can_replay, replayed
from morrow.writers.operations.retrying import retried


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
