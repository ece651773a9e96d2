"""The local file system as a store."""

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

from morrow.engine.errors import FileMissing, StorageError, UnclearOutcome, Unsupported
from morrow.engine.io import local
from morrow.engine.io.local import LocalStore, disable_fsync
from morrow.engine.io.store import FileStatus

STORE = LocalStore()
TOO_LONG = "x" * 300
"""A name that the file system refuses with a special error."""


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "f"
    path.write_bytes(b"0123456789")
    return str(path)


def test_reading_a_file(file: str) -> None:
    assert STORE.read(file) == b"0123456789"
    assert STORE.read_range(file, 2, 3) == b"234"
    assert STORE.read_range(file, 8, 100) == b"89"
    assert STORE.read_range(file, 50, 3) == b""
    with STORE.open(file) as stream:
        stream.seek(-2, os.SEEK_END)
        assert stream.read() == b"89"


def test_what_is_there(file: str, tmp_path: Path) -> None:
    assert STORE.exists(file)
    assert not STORE.exists(str(tmp_path))
    assert STORE.size(file) == 10
    assert STORE.size(f"{file}-2") is None
    assert STORE.is_dir(str(tmp_path))
    assert not STORE.is_dir(file)
    assert not STORE.is_dir(f"{file}/below")


def test_a_folder_lists_files_and_folders(file: str, tmp_path: Path) -> None:
    os.utime(file, ns=(0, 1_700_000_000_123_999_999))
    (tmp_path / "sub").mkdir()
    listed = {status.name: status for status in STORE.list(str(tmp_path))}

    assert listed.keys() == {"f", "sub"}
    assert listed["f"] == FileStatus("f", 10, 1_700_000_000_123)
    assert listed["sub"].is_dir


def test_a_folder_that_is_not_there_is_empty(file: str, tmp_path: Path) -> None:
    assert STORE.list(str(tmp_path / "nope")) == []
    assert STORE.list(file) == []


def test_an_entry_that_vanishes_while_its_folder_is_listed_hides_no_other(file: str, tmp_path: Path) -> None:
    (tmp_path / "vanished").symlink_to(tmp_path / "nowhere")

    assert [status.name for status in STORE.list(str(tmp_path))] == [Path(file).name]


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    path = str(tmp_path / "nope")
    for read in (STORE.read, STORE.open, lambda p: STORE.read_range(p, 0, 1)):
        with pytest.raises(FileMissing, match=f"^{path}: no such file; ") as caught:
            read(path)
        assert caught.value.path == path


def test_what_cannot_be_explained_is_a_storage_error(tmp_path: Path) -> None:
    path = str(tmp_path / TOO_LONG)
    for ask in (STORE.read, STORE.open, STORE.size, STORE.exists, STORE.is_dir, STORE.list):
        with pytest.raises(StorageError, match="File name too long; check the path and its permissions"):
            ask(path)
    with pytest.raises(StorageError, match="Is a directory"):
        STORE.read(str(tmp_path))


def test_polars_and_duckdb_open_the_path_itself(file: str) -> None:
    assert STORE.url(file) == file
    assert STORE.is_local
    assert STORE.storage_options == {}


# --- writes; how they are made durable is in test_durability.py ---


def test_writing_files(tmp_path: Path) -> None:
    path = str(tmp_path / "new" / "f")
    STORE.write(path, b"1")
    STORE.write(path, b"2")
    with STORE.output(f"{path}-streamed") as stream:
        stream.write(b"ab")
        stream.write(b"c")

    assert STORE.read(path) == b"2"
    assert STORE.read(f"{path}-streamed") == b"abc"


def test_a_file_is_created_once(tmp_path: Path) -> None:
    path = str(tmp_path / "snapshot" / "snapshot-1")

    assert [STORE.create(path, b"mine"), STORE.create(path, b"yours"), STORE.create(path, b"mine")] == [
        True,
        False,
        False,
    ]
    assert STORE.read(path) == b"mine"


def test_native_writers_get_a_path_whose_folder_is_there(tmp_path: Path) -> None:
    path = str(tmp_path / "bucket-0" / "data.parquet")

    assert STORE.local_target(path) == path
    Path(path).write_bytes(b"PAR1")
    STORE.sync([path])
    with pytest.raises(StorageError, match=r"data-2.parquet: No such file or directory"):
        STORE.sync([str(tmp_path / "bucket-0" / "data-2.parquet")])


def test_removing(file: str, tmp_path: Path) -> None:
    assert [STORE.delete(file), STORE.delete(file), STORE.delete(f"{file}/below")] == [True, False, False]
    with pytest.raises(StorageError, match=r"directory|not permitted"):
        STORE.delete(str(tmp_path))

    STORE.write(str(tmp_path / "t" / "a" / "b"), b"1")
    STORE.delete_folder(str(tmp_path / "t"))
    STORE.delete_folder(str(tmp_path / "t"))
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_a_file_takes_no_files(file: str) -> None:
    for put in (STORE.create, STORE.write):
        with pytest.raises(StorageError, match=r"below: (Not a directory|File exists)"):
            put(f"{file}/below", b"1")


def test_discarding_never_fails(file: str, tmp_path: Path) -> None:
    STORE.discard([f"{file}-2", str(tmp_path), f"{file}/below", file])

    assert list(tmp_path.iterdir()) == []


# The order of syncs, and the files that are left when a step fails.

PROCESSES = 8
FILES = 100


@pytest.fixture
def steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Record calls to the operating system: ``sync``, ``link``, ``rename``, ``mkdir`` and the path below tmp_path."""
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

    local.make_folder(tmp_path)
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


@pytest.mark.parametrize("step", [1000, local.STEADY_BYTES // 2, 3 * local.STEADY_BYTES])
def test_large_streams_are_put_on_the_disk_while_they_are_written(
    step: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = os.urandom(3 * local.STEADY_BYTES)
    begun: list[tuple[int, int]] = []
    begin = local._sync_file_range()
    if sys.platform == "linux":
        assert begin is not None

    def noted(descriptor: int, start: int, length: int, flags: int) -> int:
        begun.append((start, length))
        return -1 if begin is None else begin(descriptor, start, length, flags)

    monkeypatch.setattr(local, "_sync_file_range", lambda: noted)
    with STORE.output(f"{tmp_path}/data") as stream:
        for start in range(0, len(data), step):
            stream.write(data[start : start + step])
    assert (tmp_path / "data").read_bytes() == data
    assert [start for start, _ in begun] == [0, *accumulate(length for _, length in begun)][:-1]
    assert 3 * local.STEADY_BYTES - sum(length for _, length in begun) < local.STEADY_BYTES

    begun.clear()
    with disable_fsync(), STORE.output(f"{tmp_path}/lost") as stream:
        stream.write(data)
    assert begun == []

    monkeypatch.setattr(local, "_sync_file_range", lambda: None)  # as on other systems
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
    with disable_fsync():
        with disable_fsync():
            STORE.write(f"{tmp_path}/sub/a", b"1")
        assert STORE.create(f"{tmp_path}/sub/b", b"1")
        STORE.sync([f"{tmp_path}/sub/a"])
    assert not [step for step in steps if step.startswith("sync")]

    STORE.write(f"{tmp_path}/sub/c", b"1")
    assert steps[-4:] == ["sync .", "sync hidden", "rename sub/c", "sync sub"]


# --- creating files atomically ---


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
    """Play one of the racing processes: wait for the others, then try to create every file."""
    gate.wait()  # type: ignore[attr-defined]  # a barrier; multiprocessing does not export its class
    won = [i for i in range(FILES) if STORE.create(f"{folder}/{i}", f"{writer}:{i}".encode())]
    taken.put((writer, won))  # type: ignore[attr-defined]  # a queue; multiprocessing does not export its class


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


# --- failures ---


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
    local.make_folder(tmp_path)
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
    local.make_folder(tmp_path)
    monkeypatch.setattr(local, "sync_folder", failing(errno.EIO, path=False))

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
