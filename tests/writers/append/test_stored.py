"""Data files of append tables read back to be rewritten."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest

from morrow.engine.errors import CorruptFile
from morrow.writers.append import stored
from morrow.writers.append.stored import AppendFiles, rewrite
from morrow.writers.append.writer import AppendWriter
from morrow.writers.buckets.restored import BucketState
from morrow.writers.files import Placement
from morrow.writers.files.deletion_vectors import DeletionMaintainer
from tests.writers.append.tables import append_table, data_files, rows

PLACE = Placement(bytes(12), 0)


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
@pytest.mark.parametrize("batch", [1, 3, 7, 100])
def test_rows_come_in_batches_without_the_dead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file_format: str, batch: int
) -> None:
    monkeypatch.setattr(stored, "BATCH_ROWS", batch)
    target = append_table(tmp_path, {"file.format": file_format})
    writer = AppendWriter(target, PLACE, BucketState())
    writer.write(rows(*range(7)))
    (file,) = writer.prepare_commit().new_files
    vectors = DeletionMaintainer(target, PLACE.partition, PLACE.bucket)
    vectors.mark(file.file_name, np.array([0, 4]))

    frames = list(AppendFiles(target, PLACE, (file,), vectors).frames())

    assert [number for frame in frames for number in frame["id"].to_list()] == [1, 2, 3, 5, 6]
    if file_format == "parquet":
        assert len(frames) == -(-7 // batch)


@pytest.mark.parametrize("row_count", [6, 8])
@pytest.mark.parametrize("file_format", ["parquet", "orc"])
def test_a_file_with_another_number_of_rows_is_not_rewritten(tmp_path: Path, file_format: str, row_count: int) -> None:
    target = append_table(tmp_path, {"file.format": file_format})
    writer = AppendWriter(target, PLACE, BucketState())
    writer.write(rows(*range(7)))
    (file,) = writer.prepare_commit().new_files

    with pytest.raises(CorruptFile, match=f"metadata says {row_count}|the {row_count} that its metadata says"):
        rewrite(target, PLACE, [msgspec.structs.replace(file, row_count=row_count)])
    assert data_files(target) == {file.file_name}
