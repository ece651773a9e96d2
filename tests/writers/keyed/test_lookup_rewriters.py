"""Lookup compaction during a commit: files that are moved, rewritten, or marked as deleted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import sha512
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import morrow
from morrow.engine.errors import StorageError
from morrow.engine.format.manifest_entries import DataFileMeta
from morrow.engine.plan.manifests import list_changelog_manifests, read_manifest_entries
from morrow.writers.keyed.lookup_rewriters import MAX_WAITING_FRAMES, SideOutput
from tests.support.file_facts import FILE_FACTS, files_of
from tests.writers.keyed.lookup_tables import table, target, upsert

DEAD = len(FILE_FACTS)


def rows(keys: Sequence[int], value: int) -> list[dict[str, Any]]:
    """Build rows of incompressible text, so that file sizes, which compactions compare, follow the row counts."""
    return [{"k": key, "v": value, "w": sha512(f"{key} {value}".encode()).hexdigest() * 2} for key in keys]


def files(t: morrow.Table) -> list[tuple[int, int, int]]:
    """List the level, row count and deleted rows of each file, lowest level first."""
    metadata = target(t).metadata
    newest = metadata.latest_snapshot()
    assert newest is not None
    return sorted((file[2], file[3], file[DEAD]) for file in files_of(metadata, newest))


def vectors(folder: Path, **options: str) -> morrow.Table:
    """Make a table with deletion vectors, with the keys 0 to 299 at level 5."""
    t = table(folder, deletion_vectors__enabled="true", **options)
    upsert(t, rows(range(300), 0))
    assert files(t) == [(5, 300, 0)]
    return t


def test_new_files_are_moved_up_and_what_they_replace_is_marked(tmp_path: Path) -> None:
    t = vectors(tmp_path)
    before = {file.path for file in t.scan().plan.files}
    upsert(t, rows([7, 8, 900], 1))
    assert files(t) == [(4, 3, 0), (5, 300, 2)]
    assert before < {file.path for file in t.scan().plan.files}  # nothing was rewritten
    assert t.scan(filter="k = 7").to_polars()["v"].to_list() == [1]


def test_retractions_stay_out_of_the_upper_levels(tmp_path: Path) -> None:
    t = vectors(tmp_path)
    upsert(t, rows([7, 900], 1), kinds=["-D", "+I"])
    assert files(t) == [(4, 1, 0), (5, 300, 1)]
    upsert(t, rows([8], 1), kinds=["-D"])
    assert files(t) == [(4, 1, 0), (5, 300, 2)]
    assert t.scan().count() == 299


def test_files_that_are_compacted_lose_their_vector(tmp_path: Path) -> None:
    t = vectors(tmp_path)
    upsert(t, rows(range(10), 1))
    upsert(t, rows(range(5, 15), 2))  # as large as the one before, so both are merged
    assert files(t) == [(4, 15, 0), (5, 300, 15)]
    t.compact(full=True)
    assert files(t) == [(5, 300, 0)]


def test_a_file_more_than_half_of_whose_rows_are_dead_is_compacted(tmp_path: Path) -> None:
    t = vectors(tmp_path)
    upsert(t, rows(range(150), 1), kinds=["-D"] * 150)
    t.compact()
    assert files(t) == [(5, 300, 150)]
    upsert(t, rows([150], 1), kinds=["-D"])
    t.compact()
    assert files(t) == [(5, 149, 0)]
    assert t.scan().count() == 149


def test_other_engines_rewrite_what_leaves_level_0(tmp_path: Path) -> None:
    """The new rows include the older values of their keys."""
    t = vectors(tmp_path, merge_engine="aggregation", fields__v__aggregate_function="sum")
    upsert(t, rows([7], 5))
    upsert(t, rows([7], 6))
    assert files(t) == [(4, 1, 0), (5, 300, 1)]
    assert t.scan(filter="k = 7").to_polars()["v"].to_list() == [11]


def test_a_file_of_another_format_is_rewritten(tmp_path: Path) -> None:
    t = vectors(tmp_path, file__format__per__level="0:avro,5:orc,4:parquet")
    upsert(t, rows([7], 1))
    assert files(t) == [(4, 1, 0), (5, 300, 1)]
    assert sorted(Path(file.path).suffix for file in t.scan().plan.files) == [".orc", ".parquet"]


def test_changelog_files_belong_to_the_compaction(tmp_path: Path) -> None:
    t = table(tmp_path, changelog_producer="lookup", changelog_file__format="avro")
    upsert(t, rows([1, 2], 0))
    upsert(t, rows([2], 1))
    metadata = target(t).metadata
    told = {
        snapshot.id: [name for frame in read_manifest_entries(metadata, listed) for name in frame["_FILE_NAME"]]
        for snapshot in metadata.snapshots()
        if (listed := list_changelog_manifests(metadata, snapshot)) is not None
    }
    assert list(told) == [2, 4]
    assert [snapshot.changelog_record_count for snapshot in metadata.snapshots()] == [None, 2, None, 2]
    for names in told.values():
        assert all(name.startswith("changelog-") and name.endswith(".avro") for name in names)


# Files written in a side thread: frames are passed one by one, errors are raised, failed files are removed.

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
        for value in range(10 * MAX_WAITING_FRAMES):
            output.add(frame(value))
    assert written == list(range(10 * MAX_WAITING_FRAMES))
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
        for value in range(10 * MAX_WAITING_FRAMES):
            output.add(frame(value))


def test_a_failure_of_the_block_ends_the_writing_with_an_error() -> None:
    """The writing can then remove its file."""
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
