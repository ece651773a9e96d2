"""Concurrent commits and failing stores: each commit is applied once or not at all, and leaves no stray files."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pytest

from morrow.engine.errors import CommitConflict, MorrowError, StorageError, UnclearOutcome
from morrow.engine.io.local import LocalStore, disable_fsync
from morrow.engine.plan.manifests import list_delta_manifests, list_manifests
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.structs import replace
from morrow.writers.commit import committer as snapshots
from morrow.writers.commit.table_commit import TableCommit
from tests.support.commits import committer, data_file, live, message, names, table, vectors

FEW_WAITS = {"commit.min-retry-wait": "1 ms", "commit.max-retry-wait": "5 ms"}


# Races


@pytest.mark.parametrize("turns", [True, False], ids=["in turns", "at once"])
@pytest.mark.parametrize("keyed", [False, True], ids=["append", "keyed"])
def test_threads_that_commit(tmp_path: Path, keyed: bool, turns: bool, request: pytest.FixtureRequest) -> None:
    if not turns:
        request.getfixturevalue("_without_turns")
    writers, commits = 4, 8
    buckets = {"bucket": str(writers)} if keyed else {}  # each writer has its own bucket, so nothing is renumbered
    metadata = table(tmp_path, keyed=keyed, options=FEW_WAITS | {"commit.max-retries": "1000"} | buckets)

    def write(writer: int) -> list[int]:
        commit = committer(metadata, f"user-{writer}")
        place = {"bucket": writer, "total": writers} if keyed else {}
        made = [commit.commit([message(data_file(f"f{writer}-{i}"), **place)], identifier=i) for i in range(commits)]
        return [snapshot.id for snapshot in made if snapshot]

    with disable_fsync(), ThreadPoolExecutor(writers) as pool:
        ids = [i for made in pool.map(write, range(writers)) for i in made]
    assert sorted(ids) == list(range(1, writers * commits + 1)) == metadata.snapshot_ids()
    assert [name for name, _ in live(metadata)] == sorted(f"f{w}-{i}" for w in range(writers) for i in range(commits))
    last = metadata.latest_snapshot()
    assert last is not None
    assert last.total_record_count == 10 * writers * commits
    assert _orphans(metadata) == []


@pytest.mark.usefixtures("_without_turns")
def test_two_compactions_of_the_same_files(tmp_path: Path) -> None:
    """One of them wins, the other gets a conflict."""
    metadata = table(tmp_path, keyed=True, options=FEW_WAITS)
    old = data_file("old")
    committer(metadata).commit([message(old)])
    start = threading.Barrier(2)

    def compact(name: str) -> bool:
        commit = committer(metadata)
        start.wait()
        try:
            commit.commit([message(compact_before=(old,), compact_after=(data_file(name, level=5),))])
        except CommitConflict:
            return False
        return True

    with ThreadPoolExecutor(2) as pool:
        won = dict(zip("ab", pool.map(compact, "ab"), strict=True))
    (winner,) = (name for name, ok in won.items() if ok)
    assert live(metadata) == [(winner, 5)]
    assert _orphans(metadata) == []


@dataclass
class Interrupted(LocalStore):
    """A store that calls `between` just before a snapshot is created, to let others commit first."""

    between: list[Callable[[], object]] = field(default_factory=list)

    def create(self, path: str, data: bytes) -> bool:
        if self.between:
            self.between.pop(0)()
        return super().create(path, data)


def interrupted(folder: Path, between: Callable[[TableMetadata], object], **options: object) -> TableMetadata:
    """Make a table with the file `a` on a store in which another committer is faster once."""
    others = table(folder, **options)  # type: ignore[arg-type]  # arguments of `table`
    committer(others).commit([message(data_file("a"))])
    return TableMetadata(Interrupted([lambda: between(others)]), others.root)


@pytest.mark.usefixtures("_without_turns")
def test_an_append_follows_what_came_first(tmp_path: Path) -> None:
    metadata = interrupted(tmp_path, lambda others: committer(others).commit([message(data_file("b"))]))
    last = committer(metadata).commit([message(data_file("c"))])

    assert last is not None
    assert (last.id, last.total_record_count) == (3, 30)
    assert [name for name, _ in live(metadata)] == ["a", "b", "c"]
    assert _orphans(metadata) == []


@pytest.mark.usefixtures("_without_turns")
def test_an_overwrite_takes_what_came_first(tmp_path: Path) -> None:
    metadata = interrupted(tmp_path, lambda others: committer(others).commit([message(data_file("b"))]))
    committer(metadata).overwrite([message(data_file("c"))], partitions="all")

    assert live(metadata) == [("c", 0)]


@pytest.mark.usefixtures("_without_turns")
def test_a_delete_meets_an_overwrite(tmp_path: Path) -> None:
    metadata = interrupted(tmp_path, lambda others: committer(others).truncate())
    with pytest.raises(CommitConflict, match=r"the file a .* is to be deleted and is not there"):
        committer(metadata).commit([message(data_file("b"), deleted_files=(data_file("a"),))])
    assert live(metadata) == []
    assert _orphans(metadata) == []


@pytest.mark.usefixtures("_without_turns")
def test_a_compaction_looks_at_what_came_first_only(tmp_path: Path) -> None:
    """A retry reads only the manifests of new snapshots."""
    new = data_file("b", 20, 29, level=5)
    metadata = interrupted(
        tmp_path, lambda others: committer(others).commit([message(compact_after=(new,))]), keyed=True
    )
    a = data_file("a")
    last = committer(metadata).commit([message(compact_before=(a,), compact_after=(a.upgraded(5),))])

    assert last is not None
    assert live(metadata) == [("a", 5), ("b", 5)]


@pytest.mark.usefixtures("_without_turns")
def test_the_same_commit_by_another_process(tmp_path: Path) -> None:
    """A commit with the same user and identifier is found and not repeated."""
    same = [message(data_file("b"))]
    metadata = interrupted(tmp_path, lambda others: committer(others, "me").commit(same, identifier=7))
    last = committer(metadata, "me").commit(same, identifier=7)

    assert last is not None
    assert (last.id, metadata.snapshot_ids()) == (2, [1, 2])
    assert _orphans(metadata) == []


@pytest.mark.usefixtures("_without_turns")
def test_batch_commits_of_one_user_are_different_ones(tmp_path: Path) -> None:
    metadata = interrupted(tmp_path, lambda others: committer(others, "me").commit([message(data_file("b"))]))
    committer(metadata, "me").commit([message(data_file("c"))])

    assert [name for name, _ in live(metadata)] == ["a", "b", "c"]


@pytest.mark.usefixtures("_without_turns")
@pytest.mark.parametrize("limit", [{"commit.max-retries": "2"}, {"commit.timeout": "1 ms"}], ids=str)
def test_retries_have_a_limit(tmp_path: Path, limit: dict[str, str]) -> None:
    others = table(tmp_path, options=FEW_WAITS | limit)
    faster = [lambda i=i: committer(others).commit([message(data_file(f"f{i}"))]) for i in range(20)]
    metadata = TableMetadata(Interrupted(list(faster)), others.root)

    with pytest.raises(CommitConflict, match=r"other commits were faster [123] times; commit again, or raise"):
        committer(metadata).commit([message(data_file("late"))])
    assert _orphans(metadata) == []


# Stores that fail


Answer = Literal["done", "refused", "lost"]
"""How a request without a reply ends: it is done, it is not done, or no later request gets a reply either."""


@dataclass
class Unclear(LocalStore):
    """A store that does not reply to the first requests to create a snapshot."""

    answers: list[Answer] = field(default_factory=list)

    def create(self, path: str, data: bytes) -> bool:
        if not self.answers:
            return super().create(path, data)
        if self.answers.pop(0) == "done":
            super().create(path, data)
        raise UnclearOutcome(f"{path}: the connection was lost")


@pytest.fixture
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "UNCLEAR_WAIT_SECONDS", 0.0)


@pytest.mark.usefixtures("_impatient")
@pytest.mark.parametrize("answers", [["done"], ["refused"], ["refused", "done"], ["done", "done", "refused"]], ids=str)
def test_a_commit_without_an_answer_is_made_once(tmp_path: Path, answers: list[Answer]) -> None:
    metadata = table(tmp_path, store=Unclear(answers))
    commit = committer(metadata)
    last = commit.commit([message(data_file("a"))])
    commit.commit([message(data_file("b"))])

    assert last == metadata.snapshot(1)
    assert metadata.snapshot_ids() == [1, 2]
    assert live(metadata) == [("a", 0), ("b", 0)]
    assert _orphans(metadata) == []


@pytest.mark.usefixtures("_impatient")
@pytest.mark.parametrize(("first", "there"), [("done", [1]), ("refused", [])])
def test_a_store_that_never_answers(tmp_path: Path, first: Answer, there: list[int]) -> None:
    """The outcome is unknown, so the snapshot's files stay, and repeating the commit finds out."""
    metadata = table(tmp_path, store=Unclear([first, *["refused"] * 20]))
    Path(metadata.root, "bucket-0").mkdir()
    Path(metadata.root, "bucket-0", "a").touch()
    batch = {3: [message(data_file("a"))]}
    with pytest.raises(UnclearOutcome):
        committer(metadata, "me").commit(batch[3], identifier=3)
    assert metadata.snapshot_ids() == there

    healthy = TableMetadata(LocalStore(), metadata.root)
    assert committer(healthy, "me").filter_and_commit(batch) == 1 - len(there)
    assert metadata.snapshot_ids() == [1]
    assert live(metadata) == [("a", 0)]


@dataclass
class Failing(LocalStore):
    """A store that fails at operation `at` (writes, creations, deletions), and at all later ones when `broken`."""

    at: int = -1
    broken: bool = False
    done: int = 0

    def _next(self, path: str) -> None:
        self.done += 1
        if self.done - 1 == self.at or (self.broken and self.done - 1 > self.at >= 0):
            raise StorageError(f"{path}: no space left on device")

    def create(self, path: str, data: bytes) -> bool:
        self._next(path)
        return super().create(path, data)

    def write(self, path: str, data: bytes) -> None:
        self._next(path)
        super().write(path, data)

    def local_target(self, path: str) -> str | None:
        self._next(path)
        return super().local_target(path)

    def sync(self, paths: Sequence[str]) -> None:
        self._next(paths[0])
        super().sync(paths)

    def delete(self, path: str) -> bool:
        self._next(path)
        return super().delete(path)


def _commit_much(commit: TableCommit) -> None:
    new = data_file("b")
    commit.commit(
        [
            message(
                new,
                changelog_files=(data_file("log"),),
                compact_before=(data_file("a"), new),
                compact_after=(data_file("c", level=5),),
                compact_new_index_files=(vectors("index-0", "c"),),
            )
        ]
    )


@pytest.mark.parametrize("broken", [False, True], ids=["once", "for good"])
def test_a_failure_at_any_operation(tmp_path: Path, broken: bool) -> None:
    """A commit ends with success or a typed error, and is applied as a whole or not at all."""
    at = 0
    while True:
        folder = tmp_path / str(at)
        healthy = table(folder, keyed=True, options={"manifest.merge-min-count": "1"})
        committer(healthy).commit([message(data_file("a"))])
        store = Failing(at, broken)
        failure: MorrowError | None = None
        try:
            _commit_much(committer(TableMetadata(store, healthy.root)))
        except StorageError as error:
            failure = error

        assert live(healthy) in ([("a", 0)], [("a", 0), ("b", 0)], [("c", 5)])
        if failure is None:
            assert live(healthy) == [("c", 5)]
        if not broken:
            assert _orphans(healthy) == []
        committer(healthy).commit([message(data_file("z"))])
        if store.done <= at:
            break
        at += 1
    assert at > 10


def _orphans(metadata: TableMetadata) -> list[str]:
    """List the files in the manifest folder that no snapshot references."""
    named: set[str | None] = set()
    for snapshot in metadata.snapshots():
        named |= {snapshot.base_manifest_list, snapshot.delta_manifest_list, snapshot.changelog_manifest_list}
        named |= {snapshot.index_manifest}
        named |= set(list_manifests(metadata, snapshot)["_FILE_NAME"].to_list())
        if snapshot.changelog_manifest_list is not None:
            changelog = replace(
                snapshot,
                delta_manifest_list=snapshot.changelog_manifest_list,
                delta_manifest_list_size=snapshot.changelog_manifest_list_size,
            )
            named |= set(list_delta_manifests(metadata, changelog)["_FILE_NAME"].to_list())
    return [name for name in names(f"{metadata.root}/manifest") if name not in named]
