"""The queue of committers on one machine, which correctness does not depend on."""

from __future__ import annotations

import fcntl
import os
import threading
import time
from pathlib import Path

import pytest

from morrow.engine.io.local import LocalStore
from morrow.writers.commit import commit_lock
from morrow.writers.commit.commit_lock import hold_commit_lock
from tests.support.commits import committer, data_file, message, table


def test_one_has_the_turn_at_a_time(tmp_path: Path) -> None:
    metadata = table(tmp_path)
    committer(metadata).commit([message(data_file("a"))])
    inside, most = 0, 0

    def take_turns() -> None:
        nonlocal inside, most
        for _ in range(5):
            with hold_commit_lock(metadata):
                inside += 1
                most = max(most, inside)
                time.sleep(0.001)
                inside -= 1

    threads = [threading.Thread(target=take_turns) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1


def test_whoever_keeps_the_turn_is_passed_by(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    metadata = table(tmp_path)
    committer(metadata).commit([message(data_file("a"))])
    monkeypatch.setattr(commit_lock, "MAX_WAIT_SECONDS", 0.01)
    descriptor = os.open(metadata.paths.snapshot_dir, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        assert committer(metadata).commit([message(data_file("b"))]) is not None
    finally:
        os.close(descriptor)


def test_a_system_without_locks_on_folders_commits_by_create_if_absent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Windows: no `fcntl`, and folders cannot be opened."""
    metadata = table(tmp_path)
    monkeypatch.setattr(commit_lock, "fcntl", None)
    for name in "ab":
        assert committer(metadata).commit([message(data_file(name))]) is not None


class Remote(LocalStore):
    """A store without local folders, so committers cannot queue."""

    is_local = False


@pytest.mark.parametrize("store", [LocalStore(), Remote()], ids=["no folder yet", "no local folder"])
def test_without_a_folder_nobody_queues(tmp_path: Path, store: LocalStore) -> None:
    metadata = table(tmp_path, store=store)
    with hold_commit_lock(metadata), hold_commit_lock(metadata):
        pass


def test_manifests_are_written_before_the_turn_comes(tmp_path: Path) -> None:
    """Committers take turns, and do beforehand all work that needs no turn."""
    metadata = table(tmp_path)
    committer(metadata).commit([message(data_file("a"))])
    folder = Path(metadata.paths.manifest("m")).parent
    before = set(folder.iterdir())
    thread = threading.Thread(target=lambda: committer(metadata).commit([message(data_file("b"))]))
    with hold_commit_lock(metadata):
        thread.start()
        deadline = time.monotonic() + 20
        while len(set(folder.iterdir()) - before) < 2 and time.monotonic() < deadline:
            time.sleep(0.001)
        assert sorted(path.name.rsplit("-", 6)[0] for path in set(folder.iterdir()) - before) == [
            "manifest",
            "manifest-list",
        ]
    thread.join()
    assert len(set(folder.iterdir()) - before) == 3
    assert committer(metadata).latest_snapshot().id == 2  # type: ignore[union-attr]  # there are two commits
