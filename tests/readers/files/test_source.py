"""Chunks and errors come in order, and nothing keeps running when the consumer stops."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial

import pytest

from morrow.engine.errors import CorruptFile
from morrow.readers.files.source import MAX_QUEUED_CHUNKS, read_ahead


def numbers(first: int, count: int, made: list[int] | None = None) -> Iterator[int]:
    for number in range(first, first + count):
        if made is not None:
            made.append(number)
        yield number


def broken(first: int) -> Iterator[int]:
    yield first
    raise CorruptFile("data-1.orc", "its footer is damaged")


def test_chunks_come_decoder_after_decoder() -> None:
    assert list(read_ahead([partial(numbers, 0, 5), partial(numbers, 5, 0), partial(numbers, 5, 3)])) == list(range(8))
    assert list(read_ahead([])) == []


def test_an_error_comes_after_the_chunks_before_it() -> None:
    taken: list[int] = []
    with pytest.raises(CorruptFile, match="its footer is damaged"):
        taken.extend(read_ahead([partial(numbers, 0, 2), partial(broken, 2), partial(numbers, 3, 2)]))
    assert taken == [0, 1, 2]


def test_a_decoder_does_not_run_away() -> None:
    made: list[int] = []
    frames = read_ahead([partial(numbers, 0, 1000, made)])
    assert next(frames) == 0
    time.sleep(0.1)

    assert len(made) <= MAX_QUEUED_CHUNKS + 3
    before = threading.active_count()
    frames.close()  # type: ignore[attr-defined]  # read_ahead is a generator
    deadline = time.monotonic() + 5
    while threading.active_count() >= before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threading.active_count() < before
    assert len(made) < 1000


def test_nobody_waits_for_a_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("morrow.readers.files.source.PATIENCE_SECONDS", 3600)
    assert list(read_ahead([partial(numbers, 0, 9), partial(numbers, 9, 0), partial(numbers, 9, 9)])) == list(range(18))


def test_a_program_ends_though_a_stream_is_not_read_to_its_end() -> None:
    program = (
        "from morrow.readers.files.source import read_ahead\n"
        "frames = read_ahead([lambda: iter(range(1000))] * 3)\n"
        "print(next(frames))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert (done.stdout, done.stderr) == ("0\n", "")
