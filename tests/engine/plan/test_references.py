"""Files that snapshots, tags and branches need."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from morrow import clear_caches
from morrow.engine.errors import FileMissing, Unsupported
from morrow.engine.io.local import LocalStore
from morrow.engine.plan.entries import read_live_entries
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.references import (
    NAME,
    StateWalk,
    find_live_names,
    find_metadata_files,
    list_changelog_files,
    list_names_of_removed,
)
from morrow.engine.plan.roots import Line, Root, RootKind, list_lines
from morrow.engine.structs import replace
from morrow.writers.history.branches import create_branch
from tests.support import golden
from tests.support.commits import partition
from tests.support.recording_store import RecordingStore
from tests.writers.history.expiry_histories import Life


def stems(names: pl.DataFrame) -> set[str]:
    return {name.removesuffix(".parquet") for name in names["_FILE_NAME"]}


@pytest.fixture
def life(tmp_path: Path) -> Life:
    """Make a table whose snapshots 1 and 2 write and 3 compacts, with a tag of snapshot 1 and a branch from the tag."""
    life = Life(tmp_path)
    life.write("a", extra=["a.index"])
    life.tag("t")
    life.write("b")
    life.compact("a", "b", into="ab")
    create_branch(life.metadata, "dev", tag="t")
    return life


def snapshots(life: Life, *ids: int) -> list[Root]:
    return [*Line.of(life.metadata).snapshots(ids)]


def test_all_roots_of_all_branches(life: Life) -> None:
    found = [
        (root.metadata.branch, root.kind, root.id, root.name)
        for line in list_lines(life.on_branch("dev").metadata)
        for root in line.roots()
    ]
    assert found == [
        ("main", RootKind.TAG, 1, "t"),
        *(("main", RootKind.SNAPSHOT, i, "") for i in (1, 2, 3)),
        ("dev", RootKind.TAG, 1, "t"),
        ("dev", RootKind.SNAPSHOT, 1, ""),
    ]


def test_snapshots_that_are_going_are_none(life: Life) -> None:
    (life.root / "snapshot" / "EARLIEST").write_text("3")
    assert [line.snapshot_ids for line in list_lines(life.metadata)] == [(3,), (1,)]


def test_data_files_and_those_beside_them(life: Life) -> None:
    assert stems(find_live_names(snapshots(life, 1))) == {"a", "a.index"}
    assert stems(find_live_names(snapshots(life, 3))) == {"ab"}
    assert stems(find_live_names(snapshots(life, 1, 2, 3))) == {"a", "a.index", "b", "ab"}
    assert stems(find_live_names([])) == set()


def test_what_a_whole_chain_needs_is_what_each_of_it_needs(life: Life) -> None:
    life.write("c")
    life.upgrade("c")
    life.remove("c")
    ids = life.metadata.snapshot_ids()
    schema = life.metadata.latest_schema()
    each = [read_live_entries(life.metadata, life.metadata.snapshot(i), schema).frame for i in ids]
    assert stems(find_live_names(snapshots(life, *ids))) - {"a.index"} == set().union(*map(stems, each))


def test_of_a_chain_only_changes_are_read(life: Life) -> None:
    store = RecordingStore()
    life.metadata = type(life.metadata)(store, life.metadata.root)
    roots = snapshots(life, 2, 3)
    clear_caches()
    store.reads.clear()
    find_live_names(roots)
    first, second = (root.snapshot for root in roots)
    lists = {name for name in store.reads if name.startswith("manifest-list")}
    assert lists == {first.base_manifest_list, first.delta_manifest_list, second.delta_manifest_list}


def test_only_manifests_of_the_partitions_in_question_are_read(tmp_path: Path) -> None:
    store = RecordingStore()
    life = Life(tmp_path, partitioned=True, store=store)
    for place in "xyz":
        life.write(place, to=place)
    roots = snapshots(life, 3)
    clear_caches()
    store.reads.clear()

    y = pl.DataFrame({"_PARTITION": [partition("y")], "_BUCKET": [0], "_FILE_NAME": ["y.parquet"]})
    assert stems(find_live_names(roots, y)) == {"y"}
    assert len([name for name in store.reads if name.startswith("manifest-") and "list" not in name]) == 1


def test_metadata_files(life: Life) -> None:
    snapshot = life.metadata.snapshot(2)
    found = find_metadata_files(snapshots(life, 2))
    assert found.lists == {snapshot.base_manifest_list, snapshot.delta_manifest_list}
    assert len(found.manifests) == 2
    assert (found.index_manifests, found.statistics, found.indexes.height) == (frozenset(), frozenset(), 0)
    assert found.names == found.lists | found.manifests


def test_changelog_files_are_the_snapshots_and_not_the_tags(tmp_path: Path) -> None:
    life = Life(tmp_path, {"changelog-producer": "input"})
    life.write("a", changelog=["c"])
    life.tag("t")
    tag, snapshot = Line.of(life.metadata).roots()
    assert stems(list_changelog_files([snapshot])) == {"c"}
    assert stems(list_changelog_files([tag])) == set()
    assert snapshot.snapshot.changelog_manifest_list in find_metadata_files([snapshot]).lists
    assert snapshot.snapshot.changelog_manifest_list not in find_metadata_files([tag]).lists


def test_files_of_what_goes_may_be_missing_those_of_what_stays_may_not(life: Life) -> None:
    (root,) = snapshots(life, 3)
    (life.root / "manifest" / next(iter(find_metadata_files([root]).manifests))).unlink()
    clear_caches()
    assert stems(list_names_of_removed(root)) == set()
    with pytest.raises(FileMissing):
        find_live_names([root])
    (life.root / "manifest" / root.snapshot.delta_manifest_list).unlink()
    clear_caches()
    assert find_metadata_files([root], gone=True).lists == {
        root.snapshot.base_manifest_list,
        root.snapshot.delta_manifest_list,
    }
    with pytest.raises(FileMissing):
        find_metadata_files([root])


# Snapshots that are walked in turn name the same files as each walked alone.

SAMPLE = ("public/dv_pk", "public/tags_dv", "public/branches", "public/changelog_lookup", "public/rollback_tag")


def names(frame: pl.DataFrame) -> set[tuple[object, ...]]:
    return set(frame.select(*NAME).iter_rows())


@pytest.mark.parametrize("case", [c.name for c in golden.cases() if c.name in SAMPLE])
def test_what_is_new_is_what_no_state_before_had(golden_root: Path, case: str) -> None:
    metadata = TableMetadata(LocalStore(), str(golden_root / case / "warehouse" / "db.db" / "t"))
    walk, seen = StateWalk(), set[tuple[object, ...]]()
    for root in reversed([root for root in Line.of(metadata).roots() if root.keeps_data]):
        schema = metadata.schema(root.snapshot.schema_id)
        whole = names(read_live_entries(metadata, root.snapshot, schema).frame)

        assert names(walk.unseen(metadata, root.snapshot, schema)) == whole - seen
        seen |= whole
    assert seen


def test_a_state_that_contradicts_itself_raises_what_its_read_raises(tmp_path: Path) -> None:
    life = Life(tmp_path)
    life.write("a")
    life.write("b")
    walk, metadata = StateWalk(), life.metadata
    newest = metadata.snapshot(2)
    wrong = replace(newest, total_record_count=77)

    with pytest.raises(Unsupported, match="says 77"):
        walk.unseen(metadata, wrong, metadata.latest_schema())
    assert len(walk.unseen(metadata, newest, metadata.latest_schema())) == 2
