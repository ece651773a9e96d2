"""Branches are written, compacted, altered, tagged and expired independently of main."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import morrow
from morrow.tables.table import Table
from tests.support.s3_server import s3_server
from tests.support.written import new_table, rows
from tests.writers.history.rollback_tables import assert_clean, ids, keys, numbers, put

KINDS: dict[str, dict[str, Any]] = {
    "merge on read": {"bucket": "1"},
    "deletion vectors": {"bucket": "1", "deletion-vectors.enabled": "true"},
    "lookup changelog": {"bucket": "2", "changelog-producer": "lookup"},
    "dynamic buckets": {"bucket": "-1", "dynamic-bucket.target-row-num": "2"},
}


def branched(folder: Path, options: dict[str, Any]) -> tuple[Table, Table]:
    """Make main and the branch dev, both with the rows 1 to 3."""
    table = numbers(folder, 3, {"write-only": "false", **options})
    table.branches.create("dev", snapshot=ids(table)[-1])
    return table, table.on_branch("dev")


@pytest.mark.parametrize("options", KINDS.values(), ids=KINDS)
def test_both_sides_change_the_same_rows_differently(options: dict[str, Any], tmp_path: Path) -> None:
    main, dev = branched(tmp_path, options)

    main.upsert([{"k": 1, "v": 100}, {"k": 4, "v": 4}])
    dev.upsert([{"k": 1, "v": 200}, {"k": 5, "v": 5}])
    main.delete("k = 2")
    dev.delete("k = 3")
    main.compact(full=True)
    dev.compact(full=True)

    assert rows(main) == [(1, 100), (3, 3), (4, 4)]
    assert rows(dev) == [(1, 200), (2, 2), (5, 5)]
    assert_clean(main)


@pytest.mark.parametrize("options", KINDS.values(), ids=KINDS)
def test_neither_side_expires_what_the_other_needs(options: dict[str, Any], tmp_path: Path) -> None:
    main, dev = branched(tmp_path, options)
    main.upsert([{"k": 1, "v": 100}])
    dev.upsert([{"k": 2, "v": 200}])
    main.compact(full=True)

    main.expire_snapshots(retain_max=1, retain_min=1)
    assert rows(dev) == [(1, 1), (2, 200), (3, 3)]
    assert rows(dev, snapshot=ids(dev)[0]) == [(1, 1), (2, 2), (3, 3)]

    dev.compact(full=True)
    dev.expire_snapshots(retain_max=1, retain_min=1)
    assert rows(main) == [(1, 100), (2, 2), (3, 3)]
    assert_clean(main)

    main.branches.delete("dev")
    assert rows(main) == [(1, 100), (2, 2), (3, 3)]
    assert_clean(main)


def test_tags_of_both_sides_have_names_of_their_own(tmp_path: Path) -> None:
    main, dev = branched(tmp_path, KINDS["merge on read"])
    put(main, 4)
    put(dev, 5)

    main.tags.create("now")
    dev.tags.create("now")

    assert (keys(main, tag="now"), keys(dev, tag="now")) == ([1, 2, 3, 4], [1, 2, 3, 5])
    main.tags.delete("now")
    assert keys(dev, tag="now") == [1, 2, 3, 5]
    assert_clean(main)


def test_columns_of_both_sides_have_nothing_to_do_with_each_other(tmp_path: Path) -> None:
    """Both branches have their own schema 1."""
    main, dev = branched(tmp_path, KINDS["merge on read"])
    main.alter.add_column("of_main", "INT")
    dev.alter.rename_column("v", "value")

    main.upsert([{"k": 4, "v": 4, "of_main": 4}])
    dev.upsert([{"k": 5, "value": 5}])

    assert rows(main) == [(1, 1, None), (2, 2, None), (3, 3, None), (4, 4, 4)]
    assert (dev.schema.names, rows(dev)) == (["k", "value"], [(1, 1), (2, 2), (3, 3), (5, 5)])


def test_append_tables_with_deletion_vectors(tmp_path: Path) -> None:
    """Each branch deletes rows of the same files."""
    main = new_table(tmp_path, "k INT, v INT", options={"deletion-vectors.enabled": "true"})
    main.append([{"k": k, "v": k} for k in range(1, 5)])
    main.branches.create("dev", snapshot=1)
    dev = main.on_branch("dev")

    main.delete("k = 1")
    dev.delete("k = 4")
    dev.update({"v": "20"}, "k = 2")

    assert (rows(main), rows(dev)) == ([(2, 2), (3, 3), (4, 4)], [(1, 1), (2, 20), (3, 3)])
    main.branches.fast_forward("dev")
    assert rows(main) == [(1, 1), (2, 20), (3, 3)]
    assert_clean(main)


def test_changes_and_streams_of_a_branch(tmp_path: Path) -> None:
    main, dev = branched(tmp_path, {"bucket": "1", "changelog-producer": "input"})
    first = ids(dev)[-1]
    put(main, 4)
    put(dev, 5)

    assert dev.changes(first).to_polars().rows() == [("+I", 5, 5)]
    main.rollback(first)
    assert dev.changes(first).to_polars().rows() == [("+I", 5, 5)]
    assert_clean(main)


# Branches and rollback in an object store, which cannot rename files or folders.


def test_a_life_of_branches() -> None:
    with s3_server() as options:
        catalog = morrow.Catalog("s3://lake/w", storage_options=options)
        table = catalog.create_table(
            "db.t", schema="k INT NOT NULL", primary_keys=["k"], options={"bucket": "1", "write-only": "true"}
        )
        for key in (1, 2, 3):
            table.upsert([{"k": key}])
        table.tags.create("two", 2)
        table.expire_snapshots(retain_max=1, retain_min=1)

        table.branches.create("dev", tag="two")
        table.branches.create("gone", tag="two")
        table.on_branch("gone").upsert([{"k": 9}])
        table.branches.rename("dev", "next")
        table.on_branch("next").upsert([{"k": 4}])
        table.branches.delete("gone")
        table.rollback(tag="two")
        assert (rows(table), rows(table.on_branch("next"))) == ([(1,), (2,)], [(1,), (2,), (4,)])

        table.branches.fast_forward("next")
        table.branches.delete("next")

        assert rows(table) == [(1,), (2,), (4,)]
        assert [snapshot.id for snapshot in table.snapshots()] == [2, 3]
        paths = [path for piece in table._metadata.store.walk("w/db.db/t") for path, _ in piece]
        assert [path for path in paths if "/branch/" in path or "retired-" in path] == []
        assert len([path for path in paths if "/bucket-0/" in path]) == 3
