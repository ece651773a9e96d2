"""Sections that are read whole: the rows of masked scans, found in memory, and the masks that are kept."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest

import morrow
from morrow.engine.io.local import LocalStore
from morrow.readers.execution import one_pass
from morrow.readers.masks import apart, clear_mask_cache, cutting, live_masks
from morrow.readers.masks.section_keys import SectionKeys
from morrow.readers.merges import whole
from tests.support.table_factory import TableFactory

COLUMNS = [("id", "INT"), ("name", "STRING"), ("n", "INT")]


def rows(ids: range, tag: str) -> pa.Table:
    return pa.table({"id": list(ids), "name": [f"{tag} {i}" for i in ids], "n": list(ids)})


@pytest.fixture(params=["deduplicate", "partial-update"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[morrow.Table]:
    morrow.clear_caches()
    factory = TableFactory(tmp_path / "t", COLUMNS, primary_keys=["id"], options={"merge-engine": request.param})
    factory.write_file(rows(range(60), "old"), level=5)
    factory.write_file(rows(range(60, 100), "old"), level=5)
    factory.write_file(rows(range(30, 70, 2), "new"))
    factory.write_file(rows(range(90, 120), "new"))
    factory.commit()
    yield morrow.open(factory.path)
    morrow.clear_caches()


def expected() -> list[tuple[int, str, int]]:
    new = {*range(30, 70, 2), *range(90, 120)}
    return [(i, f"{'new' if i in new else 'old'} {i}", i) for i in range(120)]


@pytest.mark.parametrize("cut", [False, True], ids=["in one part", "in parts"])
def test_the_rows_are_those_of_a_masked_scan(table: morrow.Table, monkeypatch: pytest.MonkeyPatch, cut: bool) -> None:
    if cut:
        monkeypatch.setattr(cutting, "WORTH_CUTTING", 0)
        monkeypatch.setattr(cutting, "SAMPLED", 1)
        monkeypatch.setattr(whole, "PART_ROWS", 10)
        monkeypatch.setattr(apart, "WORTH_ROWS", 0)
    assert sorted(table.scan().to_polars().rows()) == expected()  # in one pass
    assert sorted(table.scan().to_polars().rows()) == expected()  # with the masks that were kept
    monkeypatch.setattr(one_pass, "MOST_ROWS", 0)
    morrow.clear_caches()
    assert sorted(table.scan().to_polars().rows()) == expected()  # with masks from the start


def test_the_masks_that_are_kept_are_those_that_would_be_computed(tmp_path: Path) -> None:
    factory = TableFactory(tmp_path / "t", COLUMNS, primary_keys=["id"])
    factory.write_file(rows(range(5), "old"), level=5)
    factory.write_file(rows(range(3, 8), "new"), kinds=["+I", "-D", "+I", "-D", "+I"])
    factory.commit()
    clear_mask_cache()
    plan, store = morrow.open(factory.path).scan().plan, LocalStore()
    computed = live_masks(plan, plan.sections[0], store)
    clear_mask_cache()
    assert one_pass.whole_section(plan, plan.sections[0], store) is not None
    kept = live_masks(plan, plan.sections[0], store)
    assert [None if m is None else m.to_list() for m in kept] == [None if m is None else m.to_list() for m in computed]
    assert one_pass.whole_section(plan, plan.sections[0], store) is None  # a masked scan serves better now


def test_parts_share_no_key_and_unsorted_files_are_not_cut(
    table: morrow.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cutting, "WORTH_CUTTING", 0)
    monkeypatch.setattr(cutting, "SAMPLED", 1)
    plan = table.scan().plan
    (section,) = plan.sections
    keys = SectionKeys.of(plan, section, LocalStore())
    files = [pl.DataFrame({"id": ids}, schema={"id": pl.Int32}) for ids in ([1, 2, 3, 4], [2, 5])]
    assert [[frame["id"].to_list() for frame in part] for part in keys.parts(files)] == [[[1, 2], [2]], [[3, 4], [5]]]
    unsorted = [pl.DataFrame({"id": ids}, schema={"id": pl.Int32}) for ids in ([1, 9, 0, 3], [2, 5])]
    assert len(keys.parts(unsorted)) == 1


@pytest.mark.parametrize("lengths", [(8, 8), (8, 11)], ids=["packed", "not to be packed"])
def test_masks_are_worked_out_in_parts_also_for_text(
    lengths: tuple[int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cutting, "WORTH_CUTTING", 0)
    monkeypatch.setattr(cutting, "SAMPLED", 1)
    factory = TableFactory(tmp_path / "t", [("k", "STRING"), ("v", "STRING")], primary_keys=["k"])
    keys = sorted(str(i).zfill(lengths[i % 2]) for i in range(20))
    # The least and the greatest key are of one length: only the keys themselves show that others are longer.
    keys = ["00000000", *keys[1:-1], "99999999"]
    factory.write_file(pa.table({"k": keys, "v": ["old"] * 20}), level=5)
    factory.write_file(pa.table({"k": keys[::3], "v": ["new"] * len(keys[::3])}))
    factory.commit()
    clear_mask_cache()
    found = dict(morrow.open(factory.path).scan().lazy().collect().rows())
    assert found == {key: "new" if key in keys[::3] else "old" for key in keys}
