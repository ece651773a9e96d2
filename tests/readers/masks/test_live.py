"""Deletion vectors as masks of their files."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

import morrow
from morrow.engine.errors import CorruptFile, FileMissing
from morrow.engine.io.local import LocalStore
from morrow.engine.plan.scan_plan import ScanPlan, Section
from morrow.readers.masks import clear_mask_cache, live_masks
from tests.support.table_factory import TableFactory


def with_vectors(path: Path, *, wide: bool = False) -> TableFactory:
    """Makes an append table: a file of four rows, two of them deleted, and a file of three."""
    options = {"deletion-vectors.enabled": "true", "deletion-vectors.bitmap64": str(wide).lower()}
    table = TableFactory(path / "t", [("x", "INT")], options=options)
    table.deletion_vector(table.write_file(pa.table({"x": [0, 1, 2, 3]})), [1, 3])
    table.write_file(pa.table({"x": [10, 11, 12]}))
    table.commit()
    return table


def planned(table: TableFactory) -> tuple[ScanPlan, Section]:
    """Plans the section of the file that has a vector."""
    clear_mask_cache()
    plan = morrow.open(table.path).scan().plan
    return plan, next(section for section in plan.sections if any(f.deletion for f in section.files))


@pytest.mark.parametrize("wide", [False, True], ids=["32 bits", "64 bits"])
def test_true_is_live_and_none_is_all_live(tmp_path: Path, wide: bool) -> None:
    table = with_vectors(tmp_path, wide=wide)
    plan, section = planned(table)
    masks = live_masks(plan, section, LocalStore())
    by_rows = {file.row_count: mask for file, mask in zip(section.files, masks, strict=True)}
    assert by_rows[4] is not None
    assert by_rows[4].to_list() == [True, False, True, False]
    assert by_rows.get(3) is None
    assert sorted(morrow.open(table.path).scan().to_arrow()["x"].to_pylist()) == [0, 2, 10, 11, 12]


def changed(section: Section, **deletion: object) -> Section:
    files = [
        file if file.deletion is None else msgspec.structs.replace(
            file, deletion=msgspec.structs.replace(file.deletion, **deletion)
        )
        for file in section.files
    ]  # fmt: skip
    return msgspec.structs.replace(section, files=tuple(files))


def test_a_vector_with_another_number_of_positions_than_the_index_says(tmp_path: Path) -> None:
    plan, section = planned(with_vectors(tmp_path))
    with pytest.raises(CorruptFile, match=r"index-.*2.*3|index-.*3.*2"):
        live_masks(plan, changed(section, cardinality=3), LocalStore())


def test_a_vector_at_another_place_than_the_index_says(tmp_path: Path) -> None:
    plan, section = planned(with_vectors(tmp_path))
    with pytest.raises(CorruptFile, match="index-"):
        live_masks(plan, changed(section, offset=3), LocalStore())


def test_a_position_behind_the_end_of_the_file(tmp_path: Path) -> None:
    table = TableFactory(tmp_path / "t", [("x", "INT")], options={"deletion-vectors.enabled": "true"})
    table.deletion_vector(table.write_file(pa.table({"x": [0, 1]})), [7])
    table.commit()
    plan, section = planned(table)
    with pytest.raises(CorruptFile, match="7"):
        live_masks(plan, section, LocalStore())


def test_an_index_file_that_is_gone(tmp_path: Path) -> None:
    table = with_vectors(tmp_path)
    plan, section = planned(table)
    for index in (table.path / "index").iterdir():
        index.unlink()
    with pytest.raises(FileMissing, match="index-"):
        live_masks(plan, section, LocalStore())


def test_primary_key_tables_with_vectors_hide_level_0(tmp_path: Path) -> None:
    table = TableFactory(
        tmp_path / "t", [("id", "INT"), ("v", "STRING")], ["id"], options={"deletion-vectors.enabled": "true"}
    )
    compacted = table.write_file(pa.table({"id": [1, 2], "v": ["a", "b"]}), level=5)
    table.deletion_vector(compacted, [0])
    table.write_file(pa.table({"id": [2], "v": ["not yet"]}), level=0)
    table.commit()
    assert morrow.open(table.path).scan().to_arrow().to_pylist() == [{"id": 2, "v": "b"}]
