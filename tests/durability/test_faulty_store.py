"""The store with injected faults."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from morrow.engine.errors import StorageError, UnclearOutcome
from morrow.engine.io.local import LocalStore
from tests.support.faulty_store import ERRORS, Fault, FaultKind, FaultyStore
from tests.support.processes import PROCESSES


def test_operations_are_written_down(tmp_path: Path) -> None:
    store = FaultyStore(LocalStore())
    assert store.create(f"{tmp_path}/a", b"1")
    with store.output(f"{tmp_path}/b") as stream:
        stream.write(b"xy")
        stream.write(b"z")
    store.read(f"{tmp_path}/b")
    store.delete(f"{tmp_path}/a")

    assert store.asked == ["create a", "open output b", "output b", "output b", "end output b", "read b", "delete a"]
    assert (tmp_path / "b").read_bytes() == b"xyz"


def put(store: FaultyStore, path: str) -> None:
    with store.output(path) as stream:
        stream.write(b"12345678")


@pytest.mark.parametrize("kind", ERRORS, ids=lambda kind: kind.name)
def test_a_stream_that_fails_leaves_no_file(kind: FaultKind, tmp_path: Path) -> None:
    for number in range(3):
        store = FaultyStore(LocalStore(), Fault(number, kind))
        try:
            put(store, f"{tmp_path}/f")
        except OSError:
            assert store.failed
            assert not (tmp_path / "f").exists()
        else:
            assert not store.failed
            assert (tmp_path / "f").read_bytes() == b"12345678"
            (tmp_path / "f").unlink()


def test_a_timeout_is_carried_out_or_not(tmp_path: Path) -> None:
    lost, done = (FaultyStore(LocalStore(), Fault(0, kind)) for kind in (FaultKind.LOST, FaultKind.DONE))
    with pytest.raises(UnclearOutcome):
        lost.create(f"{tmp_path}/lost", b"")
    with pytest.raises(UnclearOutcome):
        done.create(f"{tmp_path}/done", b"")

    assert [path.name for path in tmp_path.iterdir()] == ["done"]
    assert lost.create(f"{tmp_path}/lost", b"")  # the first call succeeds


def test_a_full_disk_stays_full_and_can_be_read_and_emptied(tmp_path: Path) -> None:
    (tmp_path / "old").touch()
    store = FaultyStore(LocalStore(), Fault(0, FaultKind.NO_SPACE, lasting=True))
    for _ in range(2):
        with pytest.raises(StorageError, match="No space left"):
            store.write(f"{tmp_path}/new", b"")

    assert store.read(f"{tmp_path}/old") == b""
    assert store.delete(f"{tmp_path}/old")


def _killed(path: str, kind: FaultKind, number: int) -> None:
    put(FaultyStore(LocalStore(), Fault(number, kind)), path)


@pytest.mark.parametrize(
    ("kind", "number", "left"),
    [
        (FaultKind.KILLED_BEFORE, 0, None),
        (FaultKind.KILLED_BEFORE, 1, b""),
        (FaultKind.KILLED_MIDWAY, 0, b"1234"),
        (FaultKind.KILLED_BEFORE, 2, b"12345678"),
    ],
)
def test_a_killed_process_leaves_what_it_has_written(
    kind: FaultKind, number: int, left: bytes | None, tmp_path: Path
) -> None:
    path = tmp_path / "f"
    process = PROCESSES.Process(target=_killed, args=(str(path), kind, number))
    process.start()
    process.join(60)

    assert process.exitcode == -signal.SIGKILL
    assert (path.read_bytes() if path.exists() else None) == left
