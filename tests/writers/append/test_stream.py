"""Frames handed over to a writer in a thread of its own."""

from __future__ import annotations

import time
from collections.abc import Iterator

import polars as pl
import pytest

from morrow.writers.append.stream import FrameStream


def frame(number: int) -> pl.DataFrame:
    return pl.DataFrame({"a": [number]})


def test_the_writer_sees_all_frames_in_their_order() -> None:
    stream = FrameStream(lambda frames: [each["a"].item() for each in frames])
    for number in range(10):
        stream.put(frame(number))

    assert stream.finish() == list(range(10))


def test_what_the_writer_raises_is_raised_where_frames_are_put() -> None:
    def fails(frames: Iterator[pl.DataFrame]) -> None:
        next(frames)
        raise OSError("disk full")

    stream = FrameStream(fails)

    with pytest.raises(OSError, match="disk full"):
        for number in range(100):
            stream.put(frame(number))
    with pytest.raises(OSError, match="disk full"):
        stream.finish()


def test_few_frames_wait() -> None:
    taken: list[int] = []

    def slow(frames: Iterator[pl.DataFrame]) -> None:
        for each in frames:
            taken.append(each["a"].item())
            time.sleep(0.01)

    stream = FrameStream(slow)
    for number in range(10):
        stream.put(frame(number))
        assert number - len(taken) <= 3
    stream.finish()


def test_an_abandoned_writer_fails_and_cleans_up() -> None:
    cleaned: list[bool] = []

    def writer(frames: Iterator[pl.DataFrame]) -> None:
        try:
            for _ in frames:
                pass
        except BaseException:
            cleaned.append(True)
            raise

    stream = FrameStream(writer)
    stream.put(frame(0))
    stream.abandon()

    assert cleaned == [True]
