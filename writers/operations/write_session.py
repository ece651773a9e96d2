"""Write session, which turns rows into messages, and commits them once or removes their files.

Operations that read rows and write results behave as if nothing changed in between: they read one snapshot in batches,
and commit with the read rows as their premise. If another commit was faster, both are repeated on the newest snapshot.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TypeVar

import polars as pl
import pyarrow as pa

from morrow.engine.errors import CommitConflict, FileMissing, InvalidArgument, MorrowError, UnclearOutcome
from morrow.engine.format.paths import POSTPONE_BUCKET
from morrow.engine.format.schema import SEQUENCE_NUMBER
from morrow.engine.format.snapshot import COMPACT, Snapshot
from morrow.engine.plan.branch_plans import check_main_alone
from morrow.engine.plan.filter import Filter
from morrow.engine.plan.manifests import is_living, is_same_commit
from morrow.engine.plan.planner import make_plan
from morrow.engine.plan.scan_plan import ScanPlan
from morrow.engine.redaction import get_logger
from morrow.readers.execution import execute
from morrow.writers.buckets.modes import BucketMode, determine_bucket_mode
from morrow.writers.buckets.routers import postpone_rows, restore_buckets
from morrow.writers.commit import messages
from morrow.writers.commit.commit_lock import retry_on_conflict
from morrow.writers.commit.conflicts import AlreadyCommitted
from morrow.writers.commit.manifests import read_live_entries
from morrow.writers.commit.messages import BATCH_COMMIT_IDENTIFIER, CommitMessage
from morrow.writers.commit.premise import Misplaced, Premise, guard_compaction, guard_read, make_request
from morrow.writers.commit.snapshot_metadata import restore_written_schema
from morrow.writers.commit.table_commit import TableCommit
from morrow.writers.files.bucket_reader import StoredFiles
from morrow.writers.files.data_files import Placement
from morrow.writers.history.commit_maintenance import commit_with_maintenance
from morrow.writers.ingest.conversion import NULL, Missing, convert_rows
from morrow.writers.ingest.validation import Kinds
from morrow.writers.keyed.compaction import LookupStrategy
from morrow.writers.keyed.writer import compact_bucket
from morrow.writers.operations.table_writer import TableWriter
from morrow.writers.target import WriteTarget, check_properties

Done = TypeVar("Done")


def run_serially(
    target: WriteTarget, filter: Filter, attempt: Callable[[Premise], Done], columns: frozenset[str] | None = None
) -> Done:
    """Repeat an operation until no other commit has changed the rows that it read.

    Args:
        filter: selects the rows that the operation reads.
        attempt: reads the snapshot of a premise, and commits under this premise.
        columns: the columns that it reads or writes, besides those of the filter; None: all.

    Raises:
        CommitConflict: other commits were faster each time (``commit.max-retries``, ``commit.timeout``). Others: as
            `attempt`.
        InvalidArgument: an option of this table object selects an earlier state, whose rows cannot be changed.
        Unsupported: matching rows are read from the table's fallback branch.
    """
    for key in target.options.travel.keys() & dict(target.metadata.dynamic).keys():
        raise InvalidArgument(
            f"{target.where}: the option {key!r} selects an earlier state, and only the newest rows can be changed; "
            "change the table without this option"
        )

    def once() -> Done:
        messages.begin_tally()
        premise = Premise(find_readable_snapshot(target), filter, columns)
        with guard_read(target.metadata, premise.read):
            check_alone(target, premise.read, filter)
        return attempt(premise)

    return retry_on_conflict(target, once)


def check_alone(target: WriteTarget, snapshot: Snapshot | None, filter: Filter) -> None:
    """Check that no matching rows are read from a fallback branch. Raises `Unsupported`."""
    if target.options.other_branch is not None:
        names = tuple(target.schema.by_name)
        check_main_alone(target.metadata, make_request(target, snapshot, names, filter))


def find_readable_snapshot(target: WriteTarget) -> Snapshot | None:
    """Return the newest snapshot, after compacting rows that reads do not see yet.

    If reads only see compacted files, committed rows may not be visible yet: their writer has not compacted them yet,
    or was killed.

    Raises `CommitConflict`: other writers are faster than the compaction.
    """
    for _ in range(MAX_RECOMPACTION_TRIES):
        latest = target.metadata.latest_snapshot()
        if latest is None:
            return None
        with guard_read(target.metadata, latest):
            places = find_hidden_buckets(target, latest)
        if not places:
            return latest
        recompact_buckets(commit_with_maintenance(target), places, latest)
    raise CommitConflict(f"{target.where}: others write faster than their rows are compacted, so that no read is whole")


def find_hidden_buckets(target: WriteTarget, latest: Snapshot) -> list[Placement]:
    """Return the buckets with rows hidden until a compaction, if writers of this table compact."""
    if not target.keyed or not target.hides_level_zero or target.write.write_only:
        return []
    entries = read_live_entries(target.metadata, latest, target.schema, None)
    waiting = entries.filter((entries["_LEVEL"] == 0) & (entries["_BUCKET"] >= 0))
    found: Iterable[tuple[bytes, int]] = waiting.select("_PARTITION", "_BUCKET").unique(maintain_order=True).rows()
    return [Placement(partition, bucket) for partition, bucket in found]


def plan_where(
    target: WriteTarget, snapshot: Snapshot | None, filter: Filter, columns: Sequence[str] | None = None
) -> ScanPlan:
    """Return the plan of the rows of `snapshot` for which the filter is true, with all columns by default.

    Time travel options and the fallback branch are ignored: operations change the newest snapshot of this branch.
    """
    names = tuple(target.schema.by_name) if columns is None else tuple(columns)
    return make_plan(target.metadata, make_request(target, snapshot, names, filter))


def read_rows_where(
    target: WriteTarget, snapshot: Snapshot | None, filter: Filter, columns: Sequence[str] | None = None
) -> Iterator[pa.Table]:
    """Yield the rows for which the filter is true, with all columns by default, in bounded memory.

    Raises `CommitConflict`: others have changed the table, and the snapshot has expired. Others: as reading does.
    """
    with guard_read(target.metadata, snapshot):
        for batch in execute.to_batches(plan_where(target, snapshot, filter, columns), target.store):
            yield pa.Table.from_batches([batch])


def check_rows(target: WriteTarget, rows: pa.Table) -> pl.DataFrame:
    """Convert rows to one frame of the table's columns (and kinds, if keyed), as `convert_rows` does. Missing columns
    get their default value or null."""
    return pl.concat(convert_rows(target, rows, partial=True, stored=True))


def set_row_kind(target: WriteTarget, rows: pa.Table, kind: str) -> pa.Table:
    """Return the rows with this kind in the column ``rowkind.field``, which takes precedence over other kinds."""
    name = target.write.rowkind_field
    if name is None or name not in rows.column_names:
        return rows
    column = pa.repeat(pa.scalar(kind, target.schema.by_name[name].type.arrow()), rows.num_rows)
    return rows.set_column(rows.column_names.index(name), name, column)


# Commits of messages exactly once, with rows written again if their buckets have changed, and cleanup on failure.
#
# After others have added keys to the buckets, uncommitted rows are assigned to buckets again.
#
# Tables in which batch reads only see compacted files (deletion vectors, first-row), and tables with the changelog
# producer lookup, compact each commit at once. If another commit writes to the same bucket or compacts it meanwhile,
# the rows are committed without their compaction. The compaction is repeated on the newest snapshot, so that the next
# read sees the rows.


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
    """Commit messages, unless this commit user has committed this identifier already.

    `check_new`: check whether files of the messages are in the table already; not needed for the caller's own writer.

        Returns: the last snapshot created; None if there was nothing to commit, or it was committed before.

    Raises:
        InvalidArgument: an invalid identifier, or messages that were committed before.
        CommitConflict: a faster commit cannot be reconciled with this one; the files are deleted.
        UnclearOutcome: repeat with the same user and identifier.
    """
    check_identifier(identifier)
    named = check_properties(properties)
    common = partial(_commit, commits, identifier, named, watermark, repeats, premise, check_new)
    try:
        return common(messages)
    except Misplaced:
        if premise is not None or not can_replay(commits.target, messages):
            commits.abort(messages)
            raise
    done = retry_on_conflict(commits.target, partial(_replay, commits, messages, common))
    commits.abort(messages)
    return done


def _replay(
    commits: TableCommit,
    messages: Sequence[CommitMessage],
    common: Callable[[Sequence[CommitMessage]], Snapshot | None],
) -> Snapshot | None:
    """Commit the rows of messages in the buckets to which their keys now belong."""
    again = replay_messages(commits.target, messages)
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
    with clean_up_on_failure(commits, messages, identifier):
        if repeats:
            made = commits.filter_and_commit(
                {identifier: messages}, watermark=watermark, properties=named, premise=premise
            )
            done = commits.latest_snapshot() if made and any(not m.is_empty for m in messages) else None
        else:
            if check_new or commits.target.store.is_local:  # skipped in a remote store to save a request
                commits.check_first(messages)
            done = commits.commit(
                messages,
                identifier=identifier,
                watermark=watermark,
                properties=named,
                check_append_files=check_new and not commits.target.keyed,  # keyed rows are always checked
                premise=premise,
            )
    return recompact_messages(commits, messages, done, identifier)


def check_identifier(identifier: object) -> None:
    """Raise `InvalidArgument` unless the argument is a commit identifier."""
    if (
        isinstance(identifier, bool)
        or not isinstance(identifier, int)
        or not 0 <= identifier <= BATCH_COMMIT_IDENTIFIER
    ):
        raise InvalidArgument(f"a commit identifier is an integer from 0 to 2**63 - 1, not {identifier!r}")


@contextmanager
def clean_up_on_failure(
    commits: TableCommit, messages: Sequence[CommitMessage], identifier: int = BATCH_COMMIT_IDENTIFIER
) -> Iterator[None]:
    """Delete the files of messages if the commit within the block fails and certainly committed none of them.

    Files are kept after `Misplaced`, since their rows may be written again.
    """
    before: Snapshot | None = None
    try:
        before = commits.known_snapshot()
        yield
    except (UnclearOutcome, AlreadyCommitted, Misplaced):
        raise
    except FileMissing:
        raise  # the process that removed a file of the messages may have committed the others
    except CommitConflict:
        commits.abort(messages)
        raise
    except MorrowError:
        if _is_not_committed(commits, 0 if before is None else before.id, identifier):
            commits.abort(messages)
        raise


def _is_not_committed(commits: TableCommit, before: int, identifier: int) -> bool:
    """Return whether no snapshot after `before` is this commit's: files must stay after its first snapshot."""
    target = commits.target
    try:
        ids = [i for i in target.metadata.snapshot_ids() if i > before]
        snapshots = [target.metadata.snapshot(i) for i in ids]
    except MorrowError:
        return False
    return all(s.commit_user != target.commit_user or s.commit_identifier != identifier for s in snapshots)


MAX_RECOMPACTION_TRIES = 20
"""Maximum tries. Two are usually enough, since a faster compaction includes this commit's files of level 0."""

log = get_logger(__name__)


def recompact_messages(
    commits: TableCommit,
    messages: Sequence[CommitMessage],
    done: Snapshot | None,
    identifier: int,
    *,
    several: bool = False,
) -> Snapshot | None:
    """Compact the rows of these messages if readers only see compacted files; return the last snapshot.

    Args:
        done: the last snapshot of the commit of `messages`, None if there was nothing to commit.
        several: whether there were several commits, and `commits.uncompacted` covers only the last.

    Raises: as commits, except for conflicts.
    """
    write = commits.target.write
    if done is None or not LookupStrategy.of(commits.target).needed:
        return done
    compacted = [Placement.of(m) for m in messages if m.compact_before or m.compact_after]
    wanted = compacted if several else list(commits.uncompacted)
    if write.lookup_wait and not write.write_only:  # an overtaken writer has not compacted
        left = (m for m in messages if m.new_files and not m.compact_before and m.bucket != POSTPONE_BUCKET)
        wanted += [Placement.of(m) for m in left]
    return recompact_buckets(commits, wanted, done, identifier) if wanted else done


def recompact_buckets(
    commits: TableCommit, wanted: Sequence[Placement], done: Snapshot, identifier: int = BATCH_COMMIT_IDENTIFIER
) -> Snapshot | None:
    """Compact level 0 of these buckets; return the last snapshot, or `done` if other commits were always faster.

    Raises: as `recompact_messages`.
    """
    for tries in range(MAX_RECOMPACTION_TRIES):
        missing: list[CommitMessage] = []
        try:
            missing = _compact_level_zero(commits, wanted)
            if not missing:
                return commits.latest_snapshot()
            return commits.commit(missing, identifier=identifier)
        except CommitConflict:
            commits.abort(missing)
            time.sleep(commits.target.write.commit_min_wait.total_seconds() * (1 + tries) * random.random())
        except BaseException:
            commits.abort(missing)
            raise
    log.warning("%s: other commits were always faster; rows wait for the next compaction", commits.target.where)
    return done


def _compact_level_zero(commits: TableCommit, places: Sequence[Placement]) -> list[CommitMessage]:
    """Compact the buckets that have files in level 0."""
    messages: list[CommitMessage] = []
    base = commits.target.metadata.latest_snapshot()
    try:
        with guard_compaction(commits.target.metadata, base):
            for place, state in restore_buckets(commits.target, base, places).items():
                if any(file.level == 0 for file in state.files):
                    messages.append(compact_bucket(commits.target, place, state, full=False))
    except BaseException:
        commits.abort(messages)  # including buckets before the one that failed
        raise
    return [message for message in messages if not message.is_empty]


MAX_REPLAY_ROWS = 1 << 18
"""Maximum rows per batch."""


def can_replay(target: WriteTarget, messages: Sequence[CommitMessage]) -> bool:
    """Return whether the rows can be written again. Not if keys moved, which also changed their old partitions."""
    one_schema = len({file.schema_id for message in messages for file in message.new_files}) == 1
    return target.keyed and determine_bucket_mode(target) is BucketMode.DYNAMIC and one_schema


def replay_messages(target: WriteTarget, messages: Sequence[CommitMessage]) -> list[CommitMessage]:
    """Return messages of the same rows, written on top of the newest snapshot. The given messages keep their files.

    Raises: as `TableWriter`, and `FileMissing` if an uncommitted file was removed.
    """
    (schema_id,) = {file.schema_id for message in messages for file in message.new_files}
    writer = TableWriter(restore_written_schema(target, schema_id))
    try:
        for message in messages:
            writer.write_frames(_read_rows(writer.target, message))
        return writer.prepare_commit()
    finally:
        writer.close()


def _read_rows(target: WriteTarget, message: CommitMessage) -> Iterator[pl.DataFrame]:
    """Yield the rows of a message in order. If there is an input changelog, these are all rows as written."""
    place = Placement.of(message)
    files = message.changelog_files or message.new_files
    stored = StoredFiles(target, place, files)
    for rows in stored.batches(files, MAX_REPLAY_ROWS):
        yield rows.drop(SEQUENCE_NUMBER)


class OvertakenError(CommitConflict):
    """Error for a session whose base files are gone. Nothing was committed; a new session may write the rows."""


class WriteSession:
    """Writes and commits under one commit user. After an error, no uncommitted file is left."""

    def __init__(self, target: WriteTarget, *, repeats: bool = False, base: Snapshot | None = None) -> None:
        """Open the session. `repeats`: a stream, whose commits may be repeated; `base`: the newest snapshot, if
        known."""
        target = self.target = postpone_rows(target) if repeats else target
        self.commits = commit_with_maintenance(target)
        self._writer = TableWriter(target, base=base)
        self._repeats = repeats
        self._prepared: list[CommitMessage] = []
        self._unclear: dict[int, list[CommitMessage]] = {}
        self._known: Snapshot | None = None

    def write(self, data: object, kinds: Kinds = None, missing: Missing = NULL) -> int:
        """Write rows; return their number. An error aborts the session."""
        with self._cleaned_up():
            return self._writer.write(data, kinds, missing)

    def prepare(self) -> list[CommitMessage]:
        """Finish the files of the rows written since the last call; return their messages. The files outlive the
        session."""
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
        """Commit the rows that are written but not prepared; `premise`: the rows that they were computed from."""
        number = BATCH_COMMIT_IDENTIFIER if identifier is None else identifier
        check_identifier(number)
        check_properties(properties)
        base = self._known or self._writer.base
        with self._cleaned_up(), self._based_on(base):
            self._check_not_rolled_back(base)
            if is_full_compaction_due(self.target, identifier):
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
        """Drop the rows that are written but not prepared."""
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
        """Turn missing files into a conflict, for a block that reads files of `base`, the session's last or first
        snapshot."""
        try:
            yield
        except FileMissing as error:
            if base is None or is_living(self.target.metadata, base):
                raise
            raise self._overtaken("was rolled back, or compacted and expired by others,", base) from error

    def _check_not_rolled_back(self, base: Snapshot | None) -> None:
        """Check that no rollback removed the snapshot in whose files keys are looked up, even if a tag keeps the
        files."""
        if base is not None and LookupStrategy.of(self.target).needed and self._is_rolled_back(base):
            raise self._overtaken("was rolled back", base)

    def _is_rolled_back(self, base: Snapshot) -> bool:
        metadata = self.target.metadata
        there = metadata.snapshot_or_none(base.id)
        if there is not None and is_same_commit(there, base):
            return False
        earliest = metadata.earliest_snapshot_id()
        return there is not None or earliest is None or earliest < base.id  # otherwise it expired: harmless

    def _overtaken(self, what: str, base: Snapshot) -> OvertakenError:
        return OvertakenError(
            f"{self.target.where}: the table {what} since snapshot {base.id}, from which this writer goes on; these "
            "rows were not committed: write them with a new writer"
        )

    def _was_committed(self, identifier: int, messages: Sequence[CommitMessage]) -> None:
        """Clean up if the identifier is committed already: by this call after an unclear outcome, or by another one, in
        which case the files of `messages` are removed."""
        if identifier not in self._unclear:
            self.commits.abort(messages)
        self._writer.forget()

    def _go_on(self, messages: Sequence[CommitMessage], done: Snapshot, base: Snapshot | None) -> None:
        """Keep the known state of buckets if all later snapshots are the session's own and none was rolled back."""
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


def is_full_compaction_due(target: WriteTarget, identifier: int | None) -> bool:
    """Return whether ``full-compaction.delta-commits`` requires a full compaction: after every N numbered commits, and
    at every commit without a number, as in Spark's writers."""
    every = target.write.full_compaction_commits
    if every is None or target.write.write_only:
        return False
    # The commit refuses identifiers that are not numbers.
    return identifier is None or (isinstance(identifier, int) and (identifier + 1) % every == 0)
