"""What is synced, in which order, and what is left when a step fails."""

from __future__ import annotations

import errno
import multiprocessing
import os
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path

import pytest

from morrow.engine.errors import StorageError, UnclearOutcome, Unsupported
from morrow.engine.io import durability
from morrow.engine.io.durability import fsync_disabled
from morrow.engine.io.local import LocalStore

STORE = LocalStore()
PROCESSES = 8
FILES = 100


@pytest.fixture
def steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What was asked of the operating system: ``sync``, ``link``, ``rename``, ``mkdir`` and the path below tmp_path."""
    asked: list[str] = []
    fsync, link, rename, mkdir = os.fsync, os.link, os.replace, os.mkdir

    def below(path: object) -> str:
        name = os.path.relpath(str(path), tmp_path)
        return "hidden" if Path(name).name.startswith(".") and name.endswith(".tmp") else name

    def synced(descriptor: int) -> None:
        asked.append(f"sync {below(Path(f'/proc/self/fd/{descriptor}').readlink())}")
        fsync(descriptor)

    def linked(source: Path, target: Path) -> None:
        asked.append(f"link {below(target)}")
        link(source, target)

    def renamed(source: Path, target: Path) -> None:
        asked.append(f"rename {below(target)}")
        rename(source, target)

    def made(path: Path, mode: int = 0o777) -> None:
        asked.append(f"mkdir {below(path)}")
        mkdir(path, mode)

    durability.make_folder(tmp_path)
    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "link", linked)
    monkeypatch.setattr(os, "replace", renamed)
    monkeypatch.setattr(os, "mkdir", made)
    yield asked
    monkeypatch.undo()


def test_a_created_file_is_synced_before_it_is_seen_and_its_folder_after(tmp_path: Path, steps: list[str]) -> None:
    assert STORE.create(f"{tmp_path}/snapshot-1", b"{}")

    assert steps == ["sync hidden", "link snapshot-1", "sync ."]


def test_a_file_that_is_there_costs_no_sync(tmp_path: Path, steps: list[str]) -> None:
    (tmp_path / "snapshot-1").touch()

    assert not STORE.create(f"{tmp_path}/snapshot-1", b"{}")
    assert steps == []


def test_a_replaced_file_is_synced_before_and_its_folder_after(tmp_path: Path, steps: list[str]) -> None:
    STORE.write(f"{tmp_path}/LATEST", b"1")

    assert steps == ["sync hidden", "rename LATEST", "sync ."]


def test_new_folders_are_synced_in_their_parents(tmp_path: Path, steps: list[str]) -> None:
    STORE.write(f"{tmp_path}/dt=1/bucket-0/index", b"1")

    assert steps == [
        *("mkdir dt=1", "sync .", "mkdir dt=1/bucket-0", "sync dt=1"),
        *("sync hidden", "rename dt=1/bucket-0/index", "sync dt=1/bucket-0"),
    ]


def test_a_folder_that_another_process_made_is_synced_once(tmp_path: Path, steps: list[str]) -> None:
    (tmp_path / "manifest").mkdir()
    steps.clear()
    assert STORE.local_target(f"{tmp_path}/manifest/a") == f"{tmp_path}/manifest/a"
    assert steps == ["sync ."]

    STORE.local_target(f"{tmp_path}/manifest/b")
    assert steps == ["sync ."]


def test_a_folder_that_was_removed_is_made_again(tmp_path: Path, steps: list[str]) -> None:
    STORE.local_target(f"{tmp_path}/bucket-0/a")
    STORE.delete_folder(f"{tmp_path}/bucket-0")
    steps.clear()

    STORE.local_target(f"{tmp_path}/bucket-0/b")
    assert steps == ["mkdir bucket-0", "sync ."]


def test_a_stream_is_synced_when_its_block_ends(tmp_path: Path, steps: list[str]) -> None:
    with STORE.output(f"{tmp_path}/data") as stream:
        stream.write(b"rows")
        assert steps == []

    assert steps == ["sync data", "sync ."]


@pytest.mark.parametrize("step", [1000, durability.STEADY_BYTES // 2, 3 * durability.STEADY_BYTES])
def test_large_streams_are_put_on_the_disk_while_they_are_written(
    step: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = os.urandom(3 * durability.STEADY_BYTES)
    begun: list[tuple[int, int]] = []
    begin = durability._sync_file_range()
    if sys.platform == "linux":
        assert begin is not None

    def noted(descriptor: int, start: int, length: int, flags: int) -> int:
        begun.append((start, length))
        return -1 if begin is None else begin(descriptor, start, length, flags)

    monkeypatch.setattr(durability, "_sync_file_range", lambda: noted)
    with STORE.output(f"{tmp_path}/data") as stream:
        for start in range(0, len(data), step):
            stream.write(data[start : start + step])
    assert (tmp_path / "data").read_bytes() == data
    assert [start for start, _ in begun] == [0, *accumulate(length for _, length in begun)][:-1]
    assert 3 * durability.STEADY_BYTES - sum(length for _, length in begun) < durability.STEADY_BYTES

    begun.clear()
    with fsync_disabled(), STORE.output(f"{tmp_path}/lost") as stream:
        stream.write(data)
    assert begun == []

    monkeypatch.setattr(durability, "_sync_file_range", lambda: None)  # as on other systems
    with STORE.output(f"{tmp_path}/elsewhere") as stream:
        stream.write(data)
    assert (tmp_path / "elsewhere").read_bytes() == data


def test_files_of_native_writers_are_synced_and_each_folder_once(tmp_path: Path, steps: list[str]) -> None:
    for name in ("a/1", "a/2", "b/1"):
        target = STORE.local_target(f"{tmp_path}/{name}")
        assert target is not None
        Path(target).touch()
    steps.clear()

    STORE.sync([f"{tmp_path}/a/1", f"{tmp_path}/a/2", f"{tmp_path}/b/1"])
    assert steps == ["sync a/1", "sync a/2", "sync b/1", "sync a", "sync b"]


def test_syncing_can_be_switched_off_for_benchmarks(tmp_path: Path, steps: list[str]) -> None:
    with fsync_disabled():
        with fsync_disabled():
            STORE.write(f"{tmp_path}/sub/a", b"1")
        assert STORE.create(f"{tmp_path}/sub/b", b"1")
        STORE.sync([f"{tmp_path}/sub/a"])
    assert not [step for step in steps if step.startswith("sync")]

    STORE.write(f"{tmp_path}/sub/c", b"1")
    assert steps[-4:] == ["sync .", "sync hidden", "rename sub/c", "sync sub"]


# --- creating where none is ---


def test_nothing_hidden_stays(tmp_path: Path) -> None:
    assert [STORE.create(f"{tmp_path}/f", data) for data in (b"first", b"second", b"first")] == [True, False, False]
    STORE.write(f"{tmp_path}/g", b"3")

    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"f": b"first", "g": b"3"}


def test_a_name_is_taken_by_whatever_has_it(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")

    assert not STORE.create(f"{tmp_path}/folder", b"")
    assert not STORE.create(f"{tmp_path}/dangling", b"")


def _created(folder: str, writer: int, gate: object, taken: object) -> None:
    """Plays one of the racing processes: all wait for each other, then each tries every file."""
    gate.wait()  # type: ignore[attr-defined]  # a barrier, whose class multiprocessing does not export
    won = [i for i in range(FILES) if STORE.create(f"{folder}/{i}", f"{writer}:{i}".encode())]
    taken.put((writer, won))  # type: ignore[attr-defined]  # a queue, likewise


def test_of_eight_processes_exactly_one_creates_each_file(tmp_path: Path) -> None:
    fork = multiprocessing.get_context("fork")
    gate, taken = fork.Barrier(PROCESSES), fork.Queue()
    racers = [fork.Process(target=_created, args=(str(tmp_path), i, gate, taken)) for i in range(PROCESSES)]
    for racer in racers:
        racer.start()
    won = dict(taken.get() for _ in racers)
    for racer in racers:
        racer.join()

    assert Counter(i for files in won.values() for i in files) == dict.fromkeys(range(FILES), 1)
    written = {f"{writer}:{i}".encode() for writer, files in won.items() for i in files}
    assert {path.read_bytes() for path in tmp_path.iterdir()} == written


# --- what fails ---


def failing(number: int, path: bool = True) -> object:
    def fail(*arguments: object) -> None:
        raise OSError(number, os.strerror(number), *([str(arguments[0]), None, str(arguments[1])] if path else []))

    return fail


@pytest.mark.parametrize(
    ("number", "message"),
    [
        (errno.ENOSPC, "No space left on device; make room on the disk"),
        (errno.EDQUOT, "quota exceeded; make room within the quota"),
        (errno.EIO, "Input/output error; check the disk"),
        (errno.EROFS, "Read-only file system; mount the file system for writing"),
        (errno.EACCES, "Permission denied; give this user the permission"),
    ],
)
def test_a_write_that_fails_leaves_nothing(
    number: int, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = f"{tmp_path}/f"
    durability.make_folder(tmp_path)
    monkeypatch.setattr(os, "fsync", failing(number, path=False))

    with pytest.raises(StorageError, match=message) as written:
        STORE.write(path, b"1")
    with pytest.raises(StorageError, match=message) as created:
        STORE.create(path, b"1")
    with pytest.raises(StorageError, match=message) as streamed, STORE.output(path) as stream:
        stream.write(b"1")

    assert [str(caught.value).startswith(f"{path}: ") for caught in (written, created, streamed)] == [True] * 3
    assert not isinstance(created.value, UnclearOutcome)
    assert list(tmp_path.iterdir()) == []


def test_an_error_in_the_block_of_a_stream_removes_the_file(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), STORE.output(f"{tmp_path}/f") as stream:
        stream.write(b"1")
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []


def test_a_stream_never_replaces_a_file(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"old")

    with pytest.raises(StorageError, match="File exists"), STORE.output(f"{tmp_path}/f"):
        pass
    assert (tmp_path / "f").read_bytes() == b"old"


def test_a_folder_that_cannot_be_synced_leaves_the_outcome_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    durability.make_folder(tmp_path)
    monkeypatch.setattr(durability, "sync_folder", failing(errno.EIO, path=False))

    with pytest.raises(UnclearOutcome, match=r"f: Input/output error, and whether .* is not known; look for it"):
        STORE.create(f"{tmp_path}/f", b"1")
    assert (tmp_path / "f").read_bytes() == b"1"


def test_a_link_that_was_made_though_its_answer_was_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link = os.link

    def made_then_repeated(source: Path, target: Path) -> None:
        link(source, target)
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(source), None, str(target))

    monkeypatch.setattr(os, "link", made_then_repeated)
    assert STORE.create(f"{tmp_path}/f", b"mine")


def test_a_link_that_was_not_made_though_another_file_appeared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def outrun(_: Path, target: Path) -> None:
        target.write_bytes(b"mine")
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))

    monkeypatch.setattr(os, "link", outrun)
    assert not STORE.create(f"{tmp_path}/f", b"mine")


def test_a_file_system_without_hard_links_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "link", failing(errno.EPERM))

    with pytest.raises(Unsupported, match=r"without hard links, is not supported; keep the table on a file system"):
        STORE.create(f"{tmp_path}/f", b"1")
    assert list(tmp_path.iterdir()) == []
