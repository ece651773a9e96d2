"""Write session, which turns rows into messages, and commits them once or removes their files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from morrow.engine.errors import CommitConflict, FileMissing, UnclearOutcome
from morrow.engine.format.snapshot import COMPACT, Snapshot
from morrow.engine.plan.read_guards import is_same_commit
from morrow.writers.buckets.routers import postpone_rows
from morrow.writers.commit.messages import BATCH_COMMIT_IDENTIFIER, CommitMessage
from morrow.writers.commit.premise import Premise, is_living
from morrow.writers.history.commit_maintenance import commit_with_maintenance
from morrow.writers.ingest.conversion import NULL, Kinds, Missing
from morrow.writers.keyed.key_lookup import LookupStrategy
from morrow.writers.operations.commits import check_identifier, commit_once
from morrow.writers.operations.table_writer import TableWriter
from morrow.writers.target import WriteTarget, check_properties


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
