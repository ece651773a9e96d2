"""Sections are split into ranges of their first key column by the statistics of Parquet row groups."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import morrow
from morrow.engine.errors import CorruptFile
from morrow.engine.format import types as t
from morrow.engine.io.local import LocalStore
from morrow.engine.plan.scan_plan import DataFile
from morrow.readers.masks import section_keys
from morrow.readers.masks import section_keys as module
from morrow.readers.masks.section_keys import KeyRange, SectionKeys, find_key_ranges
from tests.support.table_factory import TableFactory

ID = t.DataField(0, "id", t.BigIntType(nullable=False))


@pytest.fixture(autouse=True)
def _cut_small_sections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_FEW_ROWS", 0)
    monkeypatch.setattr(module, "MAX_WHOLE_ROWS", 0)


def parquet(path: Path, keys: Sequence[Any], row_group_size: int) -> DataFile:
    return write(path, pa.table({"id": keys}), row_group_size)


def write(path: Path, table: pa.Table, row_group_size: int = 100) -> DataFile:
    pq.write_table(table, path, row_group_size=row_group_size)
    return data_file(path, table.num_rows)


def data_file(path: Path, rows: int) -> DataFile:
    return DataFile(str(path), path.suffix[1:], path.stat().st_size, rows, 0, 0, 0, 0)


def ranges(files: Sequence[DataFile], *, skip_alone: bool = True, key: t.DataField = ID) -> list[KeyRange]:
    return find_key_ranges(files, key, [key.name] * len(files), LocalStore(), skip_alone)


def test_only_row_groups_that_overlap_are_merged(tmp_path: Path) -> None:
    base = parquet(tmp_path / "base.parquet", range(100), 10)
    update = parquet(tmp_path / "update.parquet", range(35, 45), 10)
    # The base's groups 30-39 and 40-49 overlap; keys below 35 are in the base only.
    assert ranges([base, update]) == [KeyRange(35, 50, (0, 1))]


def test_ranges_of_one_file_are_kept_where_its_rows_may_be_retractions(tmp_path: Path) -> None:
    base = parquet(tmp_path / "base.parquet", range(100), 10)
    update = parquet(tmp_path / "update.parquet", range(35, 45), 10)
    assert ranges([base, update], skip_alone=False) == [KeyRange(0, None, (0, 1))]


def test_files_that_meet_nowhere_need_no_merge(tmp_path: Path) -> None:
    files = [parquet(tmp_path / f"{i}.parquet", range(i * 10, i * 10 + 10), 5) for i in range(3)]
    assert ranges(files) == []


def test_keys_between_row_groups_belong_to_no_file(tmp_path: Path) -> None:
    base = parquet(tmp_path / "base.parquet", [0, 1, 100, 101], 2)
    update = parquet(tmp_path / "update.parquet", [50], 2)
    assert ranges([base, update]) == []


def test_ranges_hold_a_bounded_number_of_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RANGE_ROWS", 40)
    files = [parquet(tmp_path / f"{i}.parquet", range(100), 10) for i in range(2)]
    cut = ranges(files)
    assert [(r.low, r.high) for r in cut] == [(0, 20), (20, 40), (40, 60), (60, 80), (80, None)]
    assert {r.files for r in cut} == {(0, 1)}


def test_text_keys(tmp_path: Path) -> None:
    name = t.DataField(0, "id", t.VarCharType(nullable=False))
    base = parquet(tmp_path / "base.parquet", ["a", "b", "c", "é", "\uffff", "\U0001f600"], 2)
    update = parquet(tmp_path / "update.parquet", ["d"], 2)
    assert ranges([base, update], key=name) == [KeyRange("d", "\uffff", (0, 1))]


WHOLE = [KeyRange(files=(0, 1))]


def test_few_rows_are_merged_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_FEW_ROWS", 20)
    files = [parquet(tmp_path / f"{i}.parquet", range(i * 10, i * 10 + 10), 5) for i in range(2)]
    assert ranges(files) == WHOLE


def test_a_cut_that_saves_little_is_not_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_WHOLE_ROWS", 1_000)
    base = parquet(tmp_path / "base.parquet", range(100), 10)
    many = parquet(tmp_path / "many.parquet", range(75), 10)
    few = parquet(tmp_path / "few.parquet", range(15), 10)
    assert ranges([base, many]) == WHOLE
    assert ranges([base, few]) == [KeyRange(0, 20, (0, 1))]


def test_files_without_statistics_are_merged_whole(tmp_path: Path) -> None:
    base = parquet(tmp_path / "base.parquet", range(100), 10)
    pq.write_table(pa.table({"id": range(10)}), tmp_path / "bare.parquet", write_statistics=False)
    orc.write_table(pa.table({"id": range(10)}), tmp_path / "x.orc")
    assert ranges([base, data_file(tmp_path / "bare.parquet", 10)]) == WHOLE
    assert ranges([base, data_file(tmp_path / "x.orc", 10)]) == WHOLE


def test_key_types_whose_statistics_do_not_compare_are_merged_whole(tmp_path: Path) -> None:
    files = [write(tmp_path / f"{i}.parquet", pa.table({"id": pa.array([0.5, 1.5])})) for i in range(2)]
    assert ranges(files, key=t.DataField(0, "id", t.DoubleType(nullable=False))) == WHOLE


def test_a_member_of_a_struct_may_have_the_name_of_the_key(tmp_path: Path) -> None:
    def file(name: str, keys: range) -> DataFile:
        struct = pa.array([{"id": -1}] * len(keys))
        return write(tmp_path / name, pa.table({"before": struct, "id": keys}), 10)

    assert ranges([file("a.parquet", range(30)), file("b.parquet", range(25, 35))]) == [KeyRange(25, None, (0, 1))]


def test_a_dotted_name_that_means_two_columns_is_merged_whole(tmp_path: Path) -> None:
    table = pa.table({"a": pa.array([{"b": 1}, {"b": 2}]), "a.b": [1, 2]})
    files = [write(tmp_path / f"{i}.parquet", table) for i in range(2)]
    assert ranges(files, key=t.DataField(0, "a.b", t.BigIntType(nullable=False))) == WHOLE


def test_a_file_with_more_rows_than_the_manifest_says(tmp_path: Path) -> None:
    parquet(tmp_path / "a.parquet", range(10), 5)
    with pytest.raises(CorruptFile, match="10 rows where metadata says 9"):
        ranges([data_file(tmp_path / "a.parquet", 9), data_file(tmp_path / "a.parquet", 9)])


@given(
    files=st.lists(st.tuples(st.sets(st.integers(0, 60), min_size=1), st.integers(1, 8)), min_size=2, max_size=4),
    range_rows=st.integers(1, 40),
    skip_alone=st.booleans(),
)
def test_every_key_of_two_files_is_merged_with_both(
    files: list[tuple[set[int], int]], range_rows: int, skip_alone: bool
) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "RANGE_ROWS", range_rows)
        written = [parquet(Path(folder) / f"{i}.parquet", sorted(keys), size) for i, (keys, size) in enumerate(files)]
        cut = ranges(written, skip_alone=skip_alone)

    def holds(part: KeyRange, key: int) -> bool:
        return bool(part.low <= key and (part.high is None or key < part.high))

    assert all(a.high is not None and a.high <= b.low for a, b in pairwise(cut))
    for key in set().union(*(keys for keys, _ in files)):
        holding = {i for i, (keys, _) in enumerate(files) if key in keys}
        parts = [part for part in cut if holds(part, key)]
        assert len(parts) == 1 or (skip_alone and len(holding) == 1 and not parts)
        assert all(holding <= set(part.files) for part in parts)


# Keys that are derived from statistics equal the decoded keys, or are not derived at all.

COLUMNS = [("id", "INT"), ("n", "INT")]


@pytest.fixture(autouse=True)
def _of_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(section_keys, "MIN_DENSE_ROWS", 0)
    morrow.clear_caches()


def written(path: Path, files: list[list[int]], engine: str = "deduplicate") -> TableFactory:
    """Write one file in row groups of 3 for each list of ids, with n counting all rows."""
    table = TableFactory(path, COLUMNS, primary_keys=["id"], options={"merge-engine": engine})
    rows = 0
    for number, ids in enumerate(files):
        n = range(rows, rows := rows + len(ids))
        kinds = ["-D" if number and id % 5 == 0 else "+I" for id in ids] if engine == "deduplicate" else None
        data = pa.table({"id": pa.array(ids, pa.int32()), "n": pa.array(n, pa.int32())})
        table.write_file(data, row_group_size=3, level=0 if number else 5, kinds=kinds)
    table.commit()
    return table


@pytest.mark.parametrize(
    ("ids", "told"),
    [
        (range(-4, 6), True),
        ([1, 2, 3, 7, 8, 9], True),  # no gaps within row groups
        ([1, 2, 4, 5], False),
        ([7], True),
    ],
)
def test_keys_are_told_where_row_groups_have_no_gaps(tmp_path: Path, ids: list[int], told: bool) -> None:
    plan = morrow.open(written(tmp_path / "t", [list(ids), list(ids)]).path).scan().plan
    keys = SectionKeys.of(plan, plan.sections[0], LocalStore())
    found = section_keys.read_dense_keys(keys.files[0], keys.key_fields[0], "id", LocalStore())
    assert (None if found is None else found.to_list()) == (list(ids) if told else None)


@pytest.mark.parametrize("engine", ["deduplicate", "partial-update"])
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    files=st.lists(
        st.tuples(st.integers(-10, 10), st.integers(1, 12), st.sampled_from([1, 1, 2])), min_size=2, max_size=4
    )
)
def test_rows_are_those_of_decoded_keys(
    tmp_path_factory: pytest.TempPathFactory, engine: str, files: list[tuple[int, int, int]]
) -> None:
    ids = [list(range(first, first + count * step, step)) for first, count, step in files]
    table = morrow.open(written(tmp_path_factory.mktemp("t") / "t", ids, engine).path)
    newest: dict[int, tuple[int, int]] = {}
    n = 0
    for number, keys in enumerate(ids):
        for id in keys:
            if engine == "deduplicate" and number and id % 5 == 0:
                newest.pop(id, None)
            else:
                newest[id] = (id, n)
            n += 1
    for columns in (["id", "n"], ["n"]):
        expected = sorted(row[2 - len(columns) :] for row in newest.values())
        morrow.clear_caches()
        assert sorted(table.scan(columns=columns).to_polars().rows()) == expected  # in one pass
        morrow.clear_caches()
        assert sorted(table.scan(columns, filter="n >= 0").to_polars().rows()) == expected  # with masks
    morrow.clear_caches()
    assert table.scan().count() == len(newest)


def test_a_file_of_other_rows_than_metadata_says(tmp_path: Path) -> None:
    table = written(tmp_path / "t", [[1, 2, 3, 4], [2, 3]])
    plan = morrow.open(table.path).scan(columns=["n"]).plan
    (section,) = plan.sections
    wrong = tuple(msgspec.structs.replace(file, row_count=file.row_count + 1) for file in section.files)
    keys = SectionKeys(plan, section, LocalStore(), wrong)
    with pytest.raises(CorruptFile, match="rows"):
        keys.read_whole(["n"])
