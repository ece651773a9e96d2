"""Sections of partial-update and aggregation tables: rows, filters, caches and batch sizes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import morrow
from morrow.engine.errors import CorruptFile
from morrow.readers.execution import strategy
from morrow.readers.masks import section_keys
from morrow.readers.masks.section_cache import SECTIONS
from morrow.readers.merges import engines, sections
from morrow.readers.merges.sections import Merged, SectionMerge, open_cache
from tests.support.table_factory import TableFactory

FIELDS = [("id", "INT"), ("a", "INT"), ("b", "STRING"), ("n", "BIGINT")]


def rows(*values: tuple[Any, ...]) -> pa.Table:
    types = [pa.int32(), pa.int32(), pa.string(), pa.int64()]
    return pa.table(
        [pa.array(c, t) for c, t in zip(zip(*values, strict=True), types, strict=True)], [n for n, _ in FIELDS]
    )


@pytest.fixture
def table(tmp_path: Path) -> Iterator[morrow.Table]:
    """Make a table in which keys 1 and 6 have one version and 2 to 5 have two."""
    morrow.clear_caches()
    options = {"merge-engine": "partial-update"}
    factory = TableFactory(tmp_path / "t", FIELDS, primary_keys=["id"], options=options)
    factory.write_file(rows(*((i, i, f"old {i}", 10 * i) for i in range(1, 6))), level=5)
    factory.commit()
    factory.write_file(rows(*((i, 100 + i, None, None) for i in range(2, 7))))
    factory.commit()
    yield morrow.open(factory.path)
    morrow.clear_caches()


MERGED = [(1, 1, "old 1", 10), *((i, 100 + i, f"old {i}", 10 * i) for i in range(2, 6)), (6, 106, None, None)]


def read(scan: morrow.Scan) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in scan.to_arrow().to_pylist())


def is_cached(scan: morrow.Scan) -> bool:
    """Return whether the merged rows of a scan are cached."""
    plan = scan.plan
    (section,) = plan.sections
    return open_cache(SectionMerge(plan, section, plan.read_columns, scan.store)).find(section) is not None


def test_first_and_second_read_are_alike_and_the_second_merges_nothing(
    table: morrow.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert read(table.scan()) == MERGED
    monkeypatch.setattr(engines.Fold, "run", lambda *_: pytest.fail("merged again"))
    assert read(table.scan()) == MERGED


def test_merged_rows_are_kept_within_a_bound_of_bytes(table: morrow.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    read(table.scan())
    assert is_cached(table.scan())
    morrow.clear_caches()
    assert not is_cached(table.scan())
    monkeypatch.setattr(SECTIONS, "capacity", 1)
    assert read(table.scan()) == MERGED
    assert not is_cached(table.scan()) and SECTIONS.held == 0


@pytest.mark.parametrize(
    ("condition", "ids"),
    [
        ("id IN (1, 3)", [1, 3]),  # a filter on the key reaches the files
        ("a > 103", [4, 5, 6]),  # a filter on a value is applied after the merge
        ("a < 10", [1]),  # the stored rows 2 to 5 match, the merged rows do not
        ("b = 'old 2' AND a = 102", [2]),  # values from two versions
        ("b IS NULL", [6]),
    ],
)
def test_a_filter_sees_the_merged_row(table: morrow.Table, condition: str, ids: list[int]) -> None:
    assert read(table.scan(["id"], condition)) == [(i,) for i in ids]
    assert table.scan(filter=condition).count() == len(ids)


@pytest.mark.parametrize("columns", [["id", "n"], ["id", "b"], ["b", "id"], ["id"]])
def test_only_wanted_columns_are_merged(table: morrow.Table, columns: list[str]) -> None:
    names = [name for name, _ in FIELDS]
    expected = [tuple(row[names.index(name)] for name in columns) for row in MERGED]
    found = [tuple(row.values()) for row in table.scan(columns).to_arrow().to_pylist()]
    assert sorted(found, key=str) == sorted(expected, key=str)


def test_rows_are_counted_without_values(table: morrow.Table) -> None:
    assert table.scan().count() == len(MERGED)


def test_a_large_section_is_merged_by_key_range(table: morrow.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sections, "MAX_SMALL_SECTION_ROWS", 0)
    monkeypatch.setattr(sections, "MAX_CACHED_BYTES", 0)
    monkeypatch.setattr(sections, "MERGED_RANGE_ROWS", 1)
    monkeypatch.setattr(strategy, "MAX_WHOLE_ROWS", 0)
    for name, value in {"MAX_FEW_ROWS": 0, "MAX_WHOLE_ROWS": 0, "RANGE_ROWS": 1}.items():
        monkeypatch.setattr(section_keys, name, value)
    assert read(table.scan()) == MERGED
    assert sorted(table.scan().lazy().collect().rows()) == MERGED
    assert table.scan(limit=2).to_arrow().num_rows == 2
    assert sum(batch.num_rows for batch in table.scan().to_batches(1)) == len(MERGED)
    assert not is_cached(table.scan())


def test_few_merged_rows_of_a_large_section_are_cached(table: morrow.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sections, "MAX_SMALL_SECTION_ROWS", 0)
    monkeypatch.setattr(strategy, "MAX_WHOLE_ROWS", 0)

    assert table.scan(limit=2).to_arrow().num_rows == 2 and not is_cached(table.scan())
    assert read(table.scan()) == MERGED and is_cached(table.scan())
    assert read(table.scan()) == MERGED

    morrow.clear_caches()
    monkeypatch.setattr(sections, "MAX_CACHED_ROWS", 1)
    assert read(table.scan()) == MERGED and not is_cached(table.scan())


def test_a_file_with_other_rows_than_its_manifest_says_is_corrupt(table: morrow.Table) -> None:
    plan = table.scan().plan
    (section,) = plan.sections
    file = max(section.files, key=lambda f: f.level)
    stored = pq.read_table(file.path)
    pq.write_table(stored.slice(0, 3), file.path)
    with pytest.raises(CorruptFile):
        table.scan().to_arrow()


# Merged rows in blocks: the part that a commit changes, and the rows of earlier snapshots


def of(keys: list[int], state: int) -> Merged:
    rows = pl.DataFrame({"k": keys, "state": [state] * len(keys)}, schema={"k": pl.Int64, "state": pl.Int64})
    return Merged.of(rows, np.array(keys, np.int64))


@pytest.mark.parametrize(("blocks", "dead"), [(1, 4), (3, 2), (100, 1)])
def test_states_after_commits_are_those_of_a_mapping(blocks: int, dead: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sections, "MAX_BLOCKS", blocks)
    monkeypatch.setattr(sections, "MIN_ROWS_PER_DEAD_ROW", dead)
    random = np.random.default_rng(blocks)
    start = random.permutation(200).tolist()  # in random order
    state, expected = of(start, 0), dict.fromkeys(start, 0)
    states = [(state, dict(expected))]
    for number in range(1, 25):
        changed = random.choice(220, 15, replace=False).tolist()
        made = changed[: random.integers(0, 16)]  # the others are deleted
        expected = {k: v for k, v in expected.items() if k not in changed} | dict.fromkeys(made, number)
        state = state.changed(np.sort(np.array(changed, np.int64)), [of(made, number)] if made else [])
        states.append((state, dict(expected)))
    for found, wanted in states:
        assert dict(found.rows.iter_rows()) == wanted and found.rows.height == len(wanted)
        assert sorted(found.fingerprints.tolist()) == sorted(wanted) and found.size > 0
        again = Merged.of_frame(found.framed, found.rows.schema)
        assert again is not None and again.rows.equals(found.rows)


def test_keys_of_one_fingerprint_leave_together() -> None:
    both = Merged.of(pl.DataFrame({"k": ["a", "b", "c"]}), np.array([7, 9, 7], np.int64))

    assert both.changed(np.array([7]), []).rows["k"].to_list() == ["b"]
