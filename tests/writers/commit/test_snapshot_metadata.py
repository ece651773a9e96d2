"""Row ids of new files are assigned once, in commit order."""

from __future__ import annotations

from pathlib import Path

import pytest

import morrow
from morrow.engine.errors import InvalidArgument
from morrow.engine.format.manifest_entries import EMPTY_ROW, DataFileMeta, EntryKind, FileSource, ManifestEntry
from morrow.writers.commit.snapshot_metadata import assign_row_ids
from tests.support.commits import data_file
from tests.support.written import new_table


def given(*files: DataFileMeta) -> tuple[list[int | None], list[int], int]:
    """Assign ids to the files of snapshot 7 after 100 rows; return first row ids, sequence numbers, and the next id."""
    entries, following = assign_row_ids([ManifestEntry(EntryKind.ADD, EMPTY_ROW, 0, -1, f) for f in files], 7, 100)
    return [e.file.first_row_id for e in entries], [e.file.min_sequence_number for e in entries], following


def test_appended_files_get_the_next_ids() -> None:
    assert given(data_file("a", rows=10), data_file("b", rows=5)) == ([100, 110], [7, 7], 115)


def test_compacted_files_and_those_with_ids_keep_theirs() -> None:
    compacted = data_file("a", file_source=FileSource.COMPACT, first_row_id=3, min_sequence_number=2)
    carrying = data_file("b", write_cols=("k", "_ROW_ID"))
    known = data_file("c", first_row_id=20)

    assert given(compacted, carrying, known) == ([3, None, 20], [2, 7, 7], 100)


def test_blob_files_share_the_ids_of_their_data_file() -> None:
    files = [
        data_file("a.parquet", rows=10),
        data_file("a1.blob", rows=6, write_cols=("b",)),
        data_file("a2.blob", rows=4, write_cols=("b",)),
        data_file("a3.blob", rows=10, write_cols=("c",)),
        data_file("b.parquet", rows=5),
        data_file("b1.blob", rows=5, write_cols=("b",)),
    ]
    assert given(*files)[0] == [100, 100, 106, 100, 110, 110]


def test_files_that_cannot_have_ids() -> None:
    with pytest.raises(InvalidArgument, match=r"the file a\.blob belongs to no data file of its commit"):
        given(data_file("a.blob"))
    with pytest.raises(InvalidArgument, match="the file a of a table with row tracking has no source"):
        given(data_file("a", file_source=None))


@pytest.mark.parametrize("evolution", ["true", "false"])
def test_row_ids_that_a_snapshot_does_not_count_are_not_given_again(tmp_path: Path, evolution: str) -> None:
    """Writers of column files set row ids themselves; pypaimon leaves ``nextRowId`` as it was."""
    options = {"row-tracking.enabled": "true", "data-evolution.enabled": evolution}
    table = new_table(tmp_path, "id INT", options=options)
    table.append({"id": [1, 2]})
    (path,) = Path(table.path).glob("snapshot/snapshot-1")
    text = path.read_text()
    path.write_text(text.replace('"nextRowId": 2', '"nextRowId": 0').replace('"nextRowId" : 2', '"nextRowId" : 0'))
    assert path.read_text() != text
    table = morrow.open(table.path)
    table.append({"id": [3]})

    assert table.scan(["id", "_ROW_ID"]).to_polars().sort("id").rows() == [(1, 0), (2, 1), (3, 2)]
