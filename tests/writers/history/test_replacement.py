"""Replacements of a table that keep its history, and what a crash in between leaves."""

from __future__ import annotations

from pathlib import Path

import pytest

import morrow
from morrow.engine.errors import CommitConflict, MorrowError, Unsupported
from morrow.writers.history import branches


@pytest.fixture(params=[{}, {"primary_keys": ["id"], "options": {"bucket": "2"}}, {"partition_keys": ["v"]}])
def catalog(tmp_path: Path, request: pytest.FixtureRequest) -> morrow.Catalog:
    made = morrow.Catalog(tmp_path)
    made.create_table("db.t", schema="id INT, v STRING", **request.param).append({"id": [1, 2], "v": ["a", "b"]})
    return made


def begin(catalog: morrow.Catalog, schema: str = "v STRING, n BIGINT") -> morrow.Table:
    keys = catalog.table("db.t").partition_keys
    return catalog.begin_replacement("db.t", schema, partition_keys=keys)


def test_history_stays(catalog: morrow.Catalog) -> None:
    before = catalog.table("db.t")
    before.tags.create("old")
    branch = begin(catalog)
    branch.append({"v": ["x"], "n": [7]})
    assert before.scan().count() == 2  # nothing happens before it is published
    after = catalog.publish_replacement("db.t", branch._metadata.branch)
    assert (after.path, after.schema.names, after.scan().to_polars().rows()) == (before.path, ["v", "n"], [("x", 7)])
    for old in (after.scan(snapshot=1), after.scan(tag="old")):
        assert sorted(old.to_polars().rows()) == [(1, "a"), (2, "b")]
    after.append({"v": ["y"], "n": [8]})
    catalog.publish_replacement("db.t", begin(catalog, "id INT, v STRING")._metadata.branch)
    assert (after.scan().count(), after.scan(snapshot=3).count(), list(after.branches)) == (0, 2, [])
    after.expire_snapshots(retain_max=1, older_than="2100-01-01")
    assert sorted(after.scan(tag="old").to_polars().rows()) == [(1, "a"), (2, "b")]


def test_a_table_with_a_key_replaces_one(catalog: morrow.Catalog) -> None:
    """The branch is removed, and its files stay."""
    keys = catalog.table("db.t").partition_keys
    for count in (5, 3):
        given = {"primary_keys": ["v", "n"], "partition_keys": keys, "options": {"bucket": str(count)}}
        branch = catalog.begin_replacement("db.t", "v STRING, n BIGINT", **given)
        branch.upsert({"v": ["x"] * count, "n": range(count)})
        after = catalog.publish_replacement("db.t", branch._metadata.branch)
        assert (after.scan().count(), after.scan().verify() > 0, list(after.branches)) == (count, True, [])
    assert [after.scan(snapshot=each.id).count() for each in after.snapshots()] == [2, 5, 3]


@pytest.mark.parametrize("reading", ["scan", "append"])
def test_a_crash_before_the_schema_leaves_the_new_table(
    catalog: morrow.Catalog, monkeypatch: pytest.MonkeyPatch, reading: str
) -> None:
    branch = begin(catalog)
    branch.append({"v": ["x"], "n": [7]})
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(branches, "commit_schema", kill)
        catalog.publish_replacement("db.t", branch._metadata.branch)
    table = catalog.table("db.t")
    if reading == "append":
        with pytest.raises(MorrowError, match=r"was replaced while rows were written|rescale it first"):
            table.append({"id": [3], "v": ["c"]})
    assert table.scan().to_polars().rows() == [("x", 7)]
    assert sorted(table.scan(snapshot=1).to_polars().rows()) == [(1, "a"), (2, "b")]


def kill(*_: object) -> bool:
    raise KeyboardInterrupt


def test_writers_of_the_old_table_are_refused(catalog: morrow.Catalog) -> None:
    writer = catalog.table("db.t").writer()
    writer.write({"id": [3], "v": ["c"]})
    catalog.publish_replacement("db.t", begin(catalog)._metadata.branch)
    with pytest.raises(CommitConflict, match="was replaced while rows were written; write them again"):
        writer.commit()
    assert catalog.table("db.t").scan().count() == 0


def test_writers_of_a_table_that_was_created_again_are_refused(catalog: morrow.Catalog) -> None:
    old = catalog.create_table("db.again", schema="id INT, name STRING")
    with old.writer() as writer:
        writer.write([{"id": 1, "name": "a"}])
        catalog.drop_table("db.again")
        new = catalog.create_table("db.again", schema="amount BIGINT, day DATE")
        with pytest.raises(CommitConflict, match="was replaced while rows were written"):
            writer.commit()
        writer.abort()
    assert new.count() == 0


def test_changes_of_the_schema_meanwhile(catalog: morrow.Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    table, branch = catalog.table("db.t"), begin(catalog)
    table.alter.add_column("more", "INT")
    with pytest.raises(CommitConflict, match="its schema was changed while it was replaced"):
        catalog.publish_replacement("db.t", branch._metadata.branch)
    branch, commit = begin(catalog), branches.TableCommit

    def commit_late(*given: object) -> object:  # the other change comes between the check and the snapshot
        table.alter.add_column("late", "INT")
        return commit(*given)

    monkeypatch.setattr(branches, "TableCommit", commit_late)
    with pytest.raises(CommitConflict, match="its schema was changed while it was replaced"):
        catalog.publish_replacement("db.t", branch._metadata.branch)
    assert sorted(table.scan().to_polars().rows()) == [(1, "a", None, None), (2, "b", None, None)]


def test_other_partition_keys_are_refused(catalog: morrow.Catalog) -> None:
    with pytest.raises(Unsupported, match="REPLACE TABLE with the partition keys"):
        catalog.begin_replacement("db.t", "id INT, w INT", partition_keys=["w"])
