"""Files written beside others: frames go in one by one, errors come out, and nothing is left of what failed."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl
import pytest

from morrow.engine.errors import StorageError
from morrow.engine.format.data_file_meta import DataFileMeta
from morrow.writers.keyed.lookup.outputs import MOST_WAITING, SideOutput

FILE = DataFileMeta(
    file_name="changelog-0.parquet",
    file_size=1,
    row_count=1,
    min_sequence_number=0,
    max_sequence_number=0,
    schema_id=0,
    level=0,
    creation_time=0,
)


def frame(value: int) -> pl.DataFrame:
    return pl.DataFrame({"v": [value]})


def test_frames_are_written_in_their_order() -> None:
    written: list[int] = []

    def write(frames: Iterator[pl.DataFrame]) -> list[DataFileMeta]:
        written.extend(value for each in frames for value in each["v"])
        return [FILE]

    with SideOutput(write) as output:
        for value in range(10 * MOST_WAITING):
            output.add(frame(value))
    assert written == list(range(10 * MOST_WAITING))
    assert output.files == (FILE,)


def test_without_rows_nothing_is_written() -> None:
    with SideOutput(lambda _: pytest.fail("nothing to write")) as output:
        output.add(frame(0)[:0])
    assert output.files == ()


def test_a_failure_of_the_writing_is_raised() -> None:
    def write(frames: Iterator[pl.DataFrame]) -> list[DataFileMeta]:
        next(frames)
        raise StorageError("disk full")

    with pytest.raises(StorageError, match="disk full"), SideOutput(write) as output:
        for value in range(10 * MOST_WAITING):
            output.add(frame(value))


def test_a_failure_of_the_block_ends_the_writing_with_an_error() -> None:
    """So that it removes what it wrote."""
    ended: list[BaseException] = []

    def write(frames: Iterator[pl.DataFrame]) -> list[DataFileMeta]:
        try:
            list(frames)
        except BaseException as error:
            ended.append(error)
            raise
        return [FILE]

    with pytest.raises(StorageError, match="of the block"), SideOutput(write) as output:
        output.add(frame(1))
        raise StorageError("of the block")
    assert len(ended) == 1
    assert output.files == ()
