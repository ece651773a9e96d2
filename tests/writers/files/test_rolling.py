"""Frames written to files: sizes, names, sequence numbers, and cleanup after errors."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from morrow.engine.errors import InvalidArgument, StorageError, Unsupported
from morrow.engine.format.manifest_entries import DataFileMeta, FileSource
from morrow.engine.io.local import LocalStore
from morrow.writers.files.data_files import delete_files, write_files
from morrow.writers.target import WriteTarget
from tests.support.faulty_store import ERRORS, Fault, FaultKind, FaultyStore
from tests.writers.files.targets import PLACE, frame, path_of, read, target, versions, write, write_one


def stored(folder: Path) -> set[str]:
    return {path.name for path in folder.rglob("*") if path.is_file()}


def write_lazily(table: WriteTarget, frames: Iterator[pl.DataFrame]) -> list[DataFileMeta]:
    return write_files(table, PLACE, frames, level=0, source=FileSource.APPEND)


def test_no_rows_no_files(tmp_path: Path) -> None:
    table = target(tmp_path, "id INT")
    assert write(table) == write(table, frame(table), frame(table)) == []
    assert not stored(tmp_path)


def test_files_of_one_call_share_a_name_and_are_numbered(tmp_path: Path, small_blocks: int) -> None:
    table = target(tmp_path, "id INT; s STRING", options={"target-file-size": "100 b"})
    files = write(table, frame(table, *[(i, f"{i}") for i in range(2 * small_blocks)]))
    matches = [re.fullmatch(r"data-([0-9a-f-]{36})-(\d+)\.parquet", file.file_name) for file in files]
    assert [match and match[2] for match in matches] == ["0", "1"]
    assert len({match and match[1] for match in matches}) == 1


@pytest.mark.parametrize(
    ("options", "how", "pattern"),
    [
        ({"data-file.prefix": "d-"}, {}, r"d-.*-0\.parquet"),
        ({"file.suffix.include.compression": "true"}, {}, r"data-.*-0\.zst\.parquet"),
        ({}, {"changelog": True}, r"changelog-.*-0\.parquet"),
        ({"changelog-file.prefix": "c-", "changelog-file.format": "avro"}, {"changelog": True}, r"c-.*-0\.avro"),
        ({"file.format.per.level": "0:avro,3:orc"}, {"level": 3}, r"data-.*-0\.orc"),
        ({}, {"prefix": "data-u-1-"}, r"data-u-1-.*-0\.parquet"),
    ],
)
def test_names_say_what_a_file_is(
    options: dict[str, str], how: dict[str, object], pattern: str, tmp_path: Path
) -> None:
    table = target(tmp_path, "k INT NOT NULL", keys=["k"], options=options)
    assert re.fullmatch(pattern, write_one(table, versions(frame(table, (1,))), **how).file_name)


@pytest.mark.parametrize("format_", ["parquet", "orc", "avro"])
def test_files_are_rolled_at_the_target_size(format_: str, tmp_path: Path) -> None:
    options = {"target-file-size": "64 kb", "file.format": format_, "file.compression": "none"}
    table = target(tmp_path, "id BIGINT; s STRING", options=options)
    rows = pl.DataFrame({"id": range(20_000), "s": [f"{i * 7919:040}" for i in range(20_000)]})
    files = write(table, rows[:100], rows[100:15_000], rows[15_000:])
    assert len(files) > 5
    assert all(50_000 < file.file_size < 200_000 for file in files[:-1])
    assert all(file.row_count % 1000 == 0 for file in files[:-1])
    assert_frame_equal(read(table, files), rows)
    first = 0
    for file in files:
        assert (file.min_sequence_number, file.max_sequence_number) == (first, first + file.row_count - 1)
        assert path_of(table, file).stat().st_size == file.file_size
        first += file.row_count


def test_small_frames_are_put_together(tmp_path: Path) -> None:
    table = target(tmp_path, "id INT")
    file = write_one(table, pl.concat([frame(table, (i,)) for i in range(50)]))
    (joined,) = write(table, *[frame(table, (i,)) for i in range(50)])
    assert (joined.row_count, joined.file_size) == (file.row_count, file.file_size)


def test_frames_are_taken_as_files_are_written(tmp_path: Path, small_blocks: int) -> None:
    """The writer reads an endless stream only a few blocks ahead of the file."""
    table = target(tmp_path, "id INT")
    taken = 0

    def frames() -> Iterator[pl.DataFrame]:
        nonlocal taken
        for _ in range(100):
            yield frame(table, *[(0,)] * small_blocks)
            taken += 1
        sizes = [path.stat().st_size for path in tmp_path.rglob("data-*")]
        assert len(sizes) == 1
        assert sizes[0] > 0

    (file,) = write_lazily(table, frames())
    assert (taken, file.row_count) == (100, 100 * small_blocks)


def test_after_an_error_in_the_rows_nothing_stays(tmp_path: Path, small_blocks: int) -> None:
    table = target(tmp_path, "id INT", options={"target-file-size": "100 b"})

    def frames() -> Iterator[pl.DataFrame]:
        yield frame(table, *[(i,) for i in range(20 * small_blocks)])
        assert stored(tmp_path)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write_lazily(table, frames())
    assert not stored(tmp_path)


@pytest.mark.parametrize("kind", ERRORS)
@pytest.mark.parametrize("index", ["file-index.bloom-filter.columns", "comment"])
def test_after_an_error_of_the_store_nothing_stays(
    kind: FaultKind, index: str, tmp_path: Path, small_blocks: int
) -> None:
    """Fail at each operation in turn; a file could only stay if its removal failed as well."""
    options = {"target-file-size": "100 b", index: "id", "file-index.in-manifest-threshold": "1 b"}
    failed = 0
    while True:
        store = FaultyStore(LocalStore(), Fault(failed, kind))
        table = target(tmp_path / f"{failed}", "id INT", options=options, store=store)
        try:
            write(table, frame(table, *[(i,) for i in range(3 * small_blocks)]))
        except StorageError:
            assert not stored(tmp_path / f"{failed}")
            failed += 1
            continue
        break
    assert failed > 6


def test_files_are_removed_with_what_goes_with_them(tmp_path: Path) -> None:
    options = {"file-index.bloom-filter.columns": "id", "file-index.in-manifest-threshold": "1 b"}
    table = target(tmp_path, "id INT", options=options)
    first, second = (write_one(table, frame(table, (i,))) for i in range(2))
    delete_files(table, PLACE, [first])
    delete_files(table, PLACE, [first])
    assert stored(tmp_path) == {second.file_name, second.file_name + ".index"}


@pytest.mark.parametrize("format_", ["json", "csv", "text", "unheard"])
def test_other_formats_are_refused(format_: str, tmp_path: Path) -> None:
    table = target(tmp_path, "id INT", options={"file.format": format_})
    with pytest.raises(Unsupported, match=f"writing files of the format '{format_}'"):
        write(table, frame(table, (1,)))


@pytest.mark.parametrize("option", ["data-file.prefix", "changelog-file.prefix"])
def test_a_prefix_that_is_a_path_is_refused_before_anything_is_written(option: str, tmp_path: Path) -> None:
    """File names are single path segments: readers would refuse the whole snapshot."""
    with pytest.raises(InvalidArgument, match=f"{option}.*without / and"):
        target(tmp_path, "id INT", options={option: "../../data-"})
    assert not list(tmp_path.iterdir())
