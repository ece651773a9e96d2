"""Indexes of data files, stored in the metadata if small and in a separate file otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest

from morrow.engine.errors import InvalidArgument
from morrow.engine.format.file_index.builder import build_container, find_requested_indexes
from morrow.writers.target import WriteTarget
from tests.writers.files.targets import frame, path_of, target, versions, write, write_one

BITMAP = {"file-index.bitmap.columns": "city"}


def expected(table: WriteTarget, *rows: tuple[object, ...]) -> bytes:
    return build_container(frame(table, *rows), find_requested_indexes(table.schema.options, table.schema.fields))


def test_small_indexes_are_in_the_metadata(tmp_path: Path) -> None:
    table = target(tmp_path, "id INT; city STRING", options=BITMAP)
    rows = [(1, "Oslo"), (2, "Riga"), (3, None)]
    file = write_one(table, frame(table, *rows))
    assert (file.embedded_file_index, file.extra_files) == (expected(table, *rows), ())


def test_large_indexes_are_beside_the_file(tmp_path: Path) -> None:
    table = target(tmp_path, "id INT; city STRING", options=BITMAP | {"file-index.in-manifest-threshold": "100 b"})
    rows = [(i, f"city {i}") for i in range(100)]
    file = write_one(table, frame(table, *rows))
    assert (file.embedded_file_index, file.extra_files) == (None, (f"{file.file_name}.index",))
    path = path_of(table, file)
    assert path.with_name(f"{path.name}.index").read_bytes() == expected(table, *rows)


def test_the_threshold_itself_is_small_enough(tmp_path: Path) -> None:
    size = len(expected(target(tmp_path, "id INT; city STRING", options=BITMAP), (1, "Oslo")))
    for threshold, embedded in ((size, True), (size - 1, False)):
        options = BITMAP | {"file-index.in-manifest-threshold": f"{threshold} b"}
        table = target(tmp_path, "id INT; city STRING", options=options)
        assert (write_one(table, frame(table, (1, "Oslo"))).embedded_file_index is not None) is embedded


def test_keyed_files_and_files_of_several_blocks_have_one_index_each(tmp_path: Path, small_blocks: int) -> None:
    options = BITMAP | {"target-file-size": "100 b", "file.block-size": "1 mb"}
    table = target(tmp_path, "id INT NOT NULL; city STRING", keys=["id"], options=options)
    rows = [(i, f"city {i % 3}") for i in range(2 * small_blocks)]
    files = write(table, versions(frame(table, *rows)))
    parts = [rows[:small_blocks], rows[small_blocks:]]
    assert [file.embedded_file_index for file in files] == [expected(table, *part) for part in parts]
    whole = target(tmp_path, "id INT NOT NULL; city STRING", keys=["id"], options=BITMAP)
    assert write_one(whole, versions(frame(table, *rows))).embedded_file_index == expected(whole, *rows)


def test_an_index_of_an_unknown_column_is_refused(tmp_path: Path) -> None:
    table = target(tmp_path, "id INT", options=BITMAP)
    with pytest.raises(InvalidArgument, match="city"):
        write(table, frame(table, (1,)))
