"""Sections that commits change: reads with cached results of earlier snapshots have the oracle's rows."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import morrow
from morrow.engine.io import cache_folder
from morrow.engine.structs import replace
from morrow.readers.execution.execute import to_polars
from morrow.readers.execution.strategy import scan_masks
from morrow.readers.masks import incremental, section_cache
from morrow.readers.masks.incremental import (
    FileKeys,
    compute_fingerprints,
    find_all_positions,
    find_positions,
)
from morrow.readers.merges import sections
from tests.support.canonical import assert_same_rows, rows_of
from tests.support.random_merging_tables import random_merging_tables
from tests.support.random_tables import RandomTable, random_tables
from tests.support.recording_store import RecordingStore
from tests.support.table_factory import TableFactory


@settings(max_examples=settings().max_examples // 4)
@given(table=random_tables() | random_merging_tables(), data=st.data())
def test_every_state_reads_the_same_after_every_other(table: RandomTable, data: st.DataObject) -> None:
    """Forward as commits come, backwards as after a rollback, and in between; whole, in part and counted."""
    folder = Path(tempfile.mkdtemp(prefix="morrow-"))
    morrow.clear_caches()
    try:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(section_cache, "MIN_ROWS_PER_CHANGE", 0)
            patched.setattr(section_cache, "MIN_CACHED_ROWS", 0)
            patched.setattr(sections, "ROWS_PER_SAVED_CHANGE", data.draw(st.sampled_from((0, 1 << 30)), "often"))
            patched.setenv(cache_folder.SWITCH, data.draw(st.sampled_from(("on", "off")), "folder"))
            patched.setenv(cache_folder.FOLDER, str(folder / "cache"))
            if data.draw(st.booleans(), "fingerprints that many keys share"):
                for module in (incremental, sections):
                    patched.setattr(
                        module, "compute_fingerprints", lambda keys: compute_fingerprints(keys).astype(np.uint64) & 3
                    )
            counts = table.write(folder / "t")
            states = [*range(1, len(counts) + 1), *data.draw(st.permutations(range(1, len(counts) + 1)), "again")]
            for snapshot in states:
                if data.draw(st.booleans(), "new process"):
                    cache_folder.wait_for_writes()
                    morrow.clear_caches()
                check(table, morrow.open(str(folder / "t")), counts, snapshot, data)
    finally:
        cache_folder.wait_for_writes()
        shutil.rmtree(folder)


def check(table: RandomTable, opened: morrow.Table, counts: list[int], snapshot: int, data: st.DataObject) -> None:
    expected = table.arrow(table.rows(counts[snapshot - 1]))
    some = data.draw(st.sampled_from((len(table.fields), 1)), "columns")
    names = [f.name for f in table.fields[:some]]
    scan = opened.scan(names, snapshot=snapshot)
    lazily = data.draw(st.booleans(), "lazily")
    actual = pa.Table.from_batches(scan.to_batches(), expected.select(names).schema) if lazily else scan.to_arrow()
    unordered = [name for name in table.set_columns if name in names]
    fields = table.fields[:some]
    assert_same_rows(rows_of(actual, fields), rows_of(expected.select(names), fields), fields, unordered)
    assert scan.count() == expected.num_rows


COLUMNS = [("id", "BIGINT"), ("name", "STRING"), ("n", "INT")]


def rows(ids: list[int], n: int) -> pa.Table:
    return pa.table({"id": ids, "name": [f"{n} {i}" for i in ids], "n": [n] * len(ids)})


@pytest.mark.parametrize("engine", ["deduplicate", "partial-update"])
def test_only_the_new_file_is_looked_at_for_masks(engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    factory = TableFactory(tmp_path / "t", COLUMNS, primary_keys=["id"], options={"merge-engine": engine})
    morrow.clear_caches()
    factory.write_file(rows(list(range(100)), 0), level=5, format="orc")
    factory.write_file(rows([5, 6], 1), format="orc")
    factory.commit()

    def keys_read() -> int:
        store = RecordingStore()
        plan = morrow.open(factory.path).scan(["id"]).plan
        scan_masks(plan, plan.sections[0], store)
        return len(store.reads)

    assert keys_read() == 2
    for commit, read in ((2, 3), (3, 1), (4, 1)):  # the first refresh reads the keys of all files
        factory.write_file(rows([commit, 50, 100 + commit], commit), format="orc")
        factory.commit()
        assert keys_read() == read
    found = dict(morrow.open(factory.path).scan(["id", "n"]).to_polars().rows())
    assert found == {**dict.fromkeys(range(100), 0), 5: 1, 6: 1, 2: 2, 3: 3, 4: 4, 50: 4, 102: 2, 103: 3, 104: 4}
    monkeypatch.setattr(incremental, "MAX_KEY_BYTES", 0)  # keys that do not fit are computed again
    factory.write_file(rows([7], 5), format="orc")
    factory.commit()
    assert keys_read() == 6


@pytest.mark.parametrize("key", ["id", "name"])
@pytest.mark.parametrize("engine", ["deduplicate", "partial-update"])
def test_the_same_files_in_another_order_have_the_same_rows(engine: str, key: str, tmp_path: Path) -> None:
    """Files with the same lowest key are ordered as in the manifests, whose compaction may change the order."""
    factory = TableFactory(tmp_path / "t", COLUMNS, primary_keys=[key], options={"merge-engine": engine})
    for number, ids in enumerate(([1, 2, 3], [1, 2], [1])):
        factory.write_file(rows(ids, 0).set_column(2, "n", [[number] * len(ids)]))
    factory.commit()
    scan = morrow.open(factory.path).scan()
    (section,) = scan.plan.sections
    turned = replace(section, files=section.files[::-1])
    known = [None if mask is None else mask.to_list() for mask in scan_masks(scan.plan, section, scan.store)]
    found = [None if mask is None else mask.to_list() for mask in scan_masks(scan.plan, turned, scan.store)]
    assert found[::-1] == known
    made = replace(scan.plan, sections=(turned,))
    assert sorted(to_polars(made, scan.store).rows()) == [(1, "0 1", 2), (2, "0 2", 1), (3, "0 3", 0)]


def test_keys_are_found_by_fingerprint_in_any_order() -> None:
    ascending, mixed = np.array([-4, 0, 3, 4, 69_999]), np.array([5, 1, 3, 3])
    files = [FileKeys(pl.DataFrame({"k": keys}), keys) for keys in (ascending, mixed, ascending[:0])]
    few, many = np.array([-4, 3, 5, 70_000]), np.unique(np.append(np.arange(100, 9_000), [-4, 3, 5, 70_000]))
    for wanted in (few, many):
        found = find_positions(files, wanted)
        assert [each.rows.tolist() for each in found] == [[0, 2], [0, 2, 3], []]
        assert [wanted[each.places].tolist() for each in found] == [[-4, 3], [5, 3, 3], []]
    assert [each.rows.tolist() for each in find_positions(files, few[:0])] == [[], [], []]


@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
def test_all_rows_of_a_file_are_found_where_its_fingerprints_are(dtype: type[np.integer]) -> None:
    random = np.random.default_rng(3)
    for keys in (random.integers(0, 50, 40), random.permutation(40), np.arange(40), np.arange(0)):
        file = FileKeys(pl.DataFrame({"k": keys}), keys.astype(dtype))
        for wanted in (np.unique(keys).astype(dtype), np.arange(60).astype(dtype)):
            found = find_all_positions(file, wanted)
            assert found.rows.tolist() == list(range(len(keys)))
            assert wanted[found.places].tolist() == keys.tolist()


@pytest.mark.parametrize(
    ("dtype", "first", "step"),
    [(np.int64, 7, 1), (np.int32, -9_000, 2), (np.int16, -32_768, 13), (np.int64, -(2**62), 5)],
)
@pytest.mark.parametrize("even", [True, False])
def test_keys_that_are_counted_up_are_not_searched_for(
    dtype: type[np.signedinteger], first: int, step: int, even: bool
) -> None:
    keys = (first + step * np.arange(5_000)).astype(dtype)
    if not even:
        keys[2_501:] += 1
    file = FileKeys(pl.DataFrame({"k": keys}), keys)
    wanted = np.unique(np.concatenate([keys[::7], keys[::11] + 1, keys[:1] + dtype(-1 * (first > -32_768)), keys[-1:]]))
    (found,) = find_positions([file], wanted)
    assert file.step == (step if even else None)
    assert found.rows.tolist() == np.flatnonzero(np.isin(keys, wanted)).tolist()
    assert wanted[found.places].tolist() == keys[found.rows].tolist()


def test_hashes_are_found_that_several_rows_have() -> None:
    random = np.random.default_rng(5)
    hashes = random.integers(0, 2**64, 3_000, np.uint64) & np.uint64(0xFFFF_0000_0000_0003)
    for rows in (hashes, np.unique(hashes)[::-1]):
        file = FileKeys(pl.DataFrame({"k": rows}), rows)
        for wanted in (hashes[:200], hashes, np.array([0, 2**64 - 1], np.uint64), hashes[:0]):
            wanted = np.unique(wanted)
            (found,) = find_positions([file], wanted)
            assert found.rows.tolist() == np.flatnonzero(np.isin(rows, wanted)).tolist()
            assert wanted[found.places].tolist() == rows[found.rows].tolist()


def test_fingerprints_are_equal_for_equal_keys_alone() -> None:
    assert compute_fingerprints(pl.DataFrame({"^x$": [7, 1]})).tolist() == [7, 1]
    assert len(compute_fingerprints(pl.DataFrame({"^x$": [True], "*": ["a"]}))) == 1
    keys = pl.DataFrame({"f": [0.0, -0.0, 1.5, float("nan"), -float("nan")], "s": ["a", "a", "b", "c", "c"]})
    found = compute_fingerprints(keys).tolist()
    assert (found[0], found[3], len(set(found))) == (found[1], found[4], 3)
    assert compute_fingerprints(keys[::-1]).tolist() == found[::-1]
    assert compute_fingerprints(pl.DataFrame({"k": [7, 1]}, schema={"k": pl.Int16})).tolist() == [7, 1]
