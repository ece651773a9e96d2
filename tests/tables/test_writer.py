"""Writing in steps: many batches in one commit, commits with a name and a number, and the effect of errors."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import morrow
from morrow.engine.errors import FileMissing, InvalidArgument, StorageError, UnclearOutcome
from morrow.engine.io.local import LocalStore
from tests.support.written import data_files, new_table, rows


@pytest.fixture
def table(tmp_path: Path) -> morrow.Table:
    """Make an empty table with a primary key."""
    return new_table(tmp_path, "id BIGINT, v STRING", keys=["id"], options={"bucket": 2})


def test_many_batches_are_one_commit(table: morrow.Table) -> None:
    with table.writer() as writer:
        for number in range(3):
            writer.write({"id": [number], "v": ["a"]})
        writer.write({"id": [0], "v": [None]}, kinds="-D")
        assert rows(table) == []
    assert rows(table) == [(1, "a"), (2, "a")]
    assert len(table.snapshots()) == 1


def test_an_exception_leaves_nothing(table: morrow.Table) -> None:
    class Boom(Exception):
        pass

    with pytest.raises(Boom), table.writer() as writer:
        writer.write(pl.DataFrame({"id": range(1000), "v": "x"}))
        raise Boom
    assert data_files(Path(table.path)) == set()
    with pytest.raises(InvalidArgument, match="this writer is closed"):
        writer.write({"id": [1], "v": ["a"]})


def test_an_error_closes_the_writer(table: morrow.Table) -> None:
    writer = table.writer()
    writer.write({"id": [1], "v": ["a"]})
    with pytest.raises(InvalidArgument, match="string where BIGINT"):
        writer.write({"id": ["x"], "v": ["a"]})
    writer.close()
    assert data_files(Path(table.path)) == set()


def test_one_commit_after_the_other(table: morrow.Table) -> None:
    with table.writer(commit_user="me") as writer:
        for number in range(5):
            writer.write({"id": [number, 7], "v": [str(number)] * 2})
            snapshot = writer.commit(number)
            assert snapshot is not None
            assert (snapshot.commit_user, snapshot.commit_identifier) == ("me", number)
    assert rows(table)[-1] == (7, "4")


def test_somebody_else_commits_in_between(table: morrow.Table) -> None:
    with table.writer() as mine, table.writer() as theirs:
        for number in range(4):
            mine.write({"id": [1], "v": [f"mine {number}"]})
            mine.commit()
            theirs.write({"id": [1], "v": [f"theirs {number}"]})
            theirs.commit()
            assert rows(table) == [(1, f"theirs {number}")]


def test_a_repeated_commit_is_recognised(table: morrow.Table) -> None:
    for value in ("first", "again"):
        with table.writer(commit_user="job") as writer:
            writer.write({"id": [1], "v": [value]})
            done = writer.commit(7)
        assert (done is None) == (value == "again")
    assert rows(table) == [(1, "first")]
    assert len(list(Path(table.path).rglob("bucket-*/data-*"))) == 1


def test_messages_travel_and_are_committed_once(table: morrow.Table) -> None:
    with table.writer(commit_user="job") as writer:
        batches = {}
        for number in range(3):
            writer.write({"id": [1, number], "v": [str(number)] * 2})
            batches[number] = pickle.loads(pickle.dumps(writer.prepare()))
    assert rows(table) == []
    committer = table.committer("job")
    assert committer.commit(batches[0], 0) is not None
    assert committer.filter_and_commit(batches) == 2
    assert committer.filter_and_commit(batches) == 0
    assert committer.commit(batches[2], 2) is None
    assert rows(table) == [(0, "0"), (1, "2"), (2, "2")]


def test_prepared_messages_can_be_dropped(table: morrow.Table) -> None:
    with table.writer(commit_user="job") as writer:
        writer.write({"id": [1], "v": ["a"]})
        messages = writer.prepare()
    assert len(list(Path(table.path).rglob("bucket-*/data-*"))) == 1
    table.committer("job").abort(messages)
    assert data_files(Path(table.path)) == set()


def test_an_unclear_answer_is_settled_by_repeating(table: morrow.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    create = LocalStore.create

    def unclear(store: LocalStore, path: str, data: bytes) -> bool:
        if "/snapshot-" not in path:
            return create(store, path, data)
        create(store, path, data)
        raise UnclearOutcome("no answer")

    writer = table.writer(commit_user="job")
    writer.write({"id": [1], "v": ["a"]})
    with monkeypatch.context() as patched:
        patched.setattr(LocalStore, "create", unclear)
        patched.setattr(LocalStore, "read", _no_answer_about_snapshots(LocalStore.read))
        with pytest.raises(UnclearOutcome):
            writer.commit(1)
    assert writer.commit(1) is None
    writer.close()
    assert rows(table) == [(1, "a")]
    assert len(table.snapshots()) == 1


def _no_answer_about_snapshots(read):  # type: ignore[no-untyped-def]  # like the method that it replaces
    def failing(store: LocalStore, path: str) -> bytes:
        if "/snapshot-" in path:
            raise StorageError("no answer")
        return read(store, path)

    return failing


def test_a_failed_commit_cleans_up(table: morrow.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_store: LocalStore, path: str, _data: bytes) -> bool:
        raise StorageError(f"{path}: no space left")

    monkeypatch.setattr(LocalStore, "create", full)
    with pytest.raises(StorageError, match="no space left"):
        table.append({"id": [1], "v": ["a"]})
    assert data_files(Path(table.path)) == set()


def test_a_merge_that_meets_an_update_is_done_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = new_table(tmp_path, "id BIGINT, v STRING")
    table.append({"id": [1, 2], "v": ["a", "b"]})
    merge = table.merge({"id": [1], "v": ["x"]}, on="id").when_matched_update({"v": "target.v || source.v"})
    from morrow.writers.operations import merge as module

    run, done = module._merge_batch, []

    def raced(*arguments: object) -> None:
        if not done:
            done.append(table.update({"v": "'y'"}, "id = 1"))
        run(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "_merge_batch", raced)
    merge.execute()
    assert rows(table) == [(1, "yx"), (2, "b")]


@pytest.mark.parametrize("identifier", [-1, 2**63, "1", True])
def test_what_is_no_identifier(table: morrow.Table, identifier: object) -> None:
    with table.writer("me") as writer:
        writer.write({"id": [1], "v": ["a"]})
        with pytest.raises(InvalidArgument, match="a commit identifier is an integer"):
            writer.commit(identifier)  # type: ignore[arg-type]


def test_properties_and_watermark_are_kept(table: morrow.Table) -> None:
    writer = table.writer()
    writer.write({"id": [1], "v": ["a"]})
    snapshot = writer.commit(watermark=1_700_000_000_000, properties={"source": "kafka"})
    assert snapshot is not None
    assert (snapshot.watermark, dict(snapshot.properties)) == (1_700_000_000_000, {"source": "kafka"})


@pytest.mark.parametrize("keys", [[], ["id"]], ids=["append", "keyed"])
def test_messages_are_committed_once(keys: list[str], tmp_path: Path) -> None:
    options = {"bucket": "1", "bucket-key": "id"}
    table = morrow.Catalog(tmp_path).create_table("db.t", schema="id INT", primary_keys=keys, options=options)
    with table.writer() as writer:
        writer.write([{"id": 1}, {"id": 2}])
        messages = writer.prepare()
    table.committer("job").commit(messages, 1)

    for again in (
        lambda: table.committer("other").commit(messages),
        lambda: table.committer("job").commit(messages, 2),
    ):
        with pytest.raises(InvalidArgument, match="they were committed before"):
            again()
    assert table.scan().to_polars()["id"].to_list() == [1, 2]


@pytest.mark.parametrize("keys", [[], ["id"]], ids=["append", "keyed"])
def test_what_was_prepared_for_a_table_that_was_dropped_is_not_committed_to_its_successor(
    tmp_path: Path, keys: list[str]
) -> None:
    def made() -> morrow.Table:
        return new_table(tmp_path, "id INT NOT NULL, v STRING", keys=keys, options={"bucket": 1, "bucket-key": "id"})

    table = made()
    table.append({"id": [1], "v": ["old"]})
    with table.writer(commit_user="job") as writer:
        writer.write({"id": [2], "v": ["old"]})
        messages = writer.prepare()
    morrow.Catalog(tmp_path).drop_table("db.t")
    made().append({"id": [3], "v": ["new"]})
    with pytest.raises(FileMissing, match="may have been dropped, and created again"):
        table.committer("job").commit(messages)
    assert morrow.open(table.path).to_polars().rows() == [(3, "new")]


@pytest.mark.parametrize("user", ["\ud800", "a\0b", 5])
def test_users_that_snapshots_cannot_name(table: morrow.Table, user: Any) -> None:
    for make in (table.writer, table.committer):
        with pytest.raises(InvalidArgument, match="commit_user"):
            make(user)
