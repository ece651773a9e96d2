"""Two writers give the same new key a bucket, or a partition: it is in one of them, as the later commit has it."""

from __future__ import annotations

import threading
from pathlib import Path

import polars as pl
import pytest

import morrow
from morrow.engine.errors import CommitConflict
from morrow.writers.commit.messages import CommitMessage
from tests.writers.commit.test_numbering import frame, leftovers, rows_of

DYNAMIC = {"bucket": "-1", "dynamic-bucket.target-row-num": "10"}


def dynamic(folder: Path, **options: str) -> morrow.Table:
    catalog = morrow.Catalog(folder)
    return catalog.create_table(
        "db.t", schema="id INT NOT NULL, v STRING", primary_keys=["id"], options=DYNAMIC | dict(options)
    )


def prepared(t: morrow.Table, ids: range, v: str) -> list[CommitMessage]:
    with t.writer() as writer:
        writer.write(frame(ids, v))
        return writer.prepare()


@pytest.mark.parametrize("changelog", ["none", "input", "lookup"])
def test_new_keys_of_two_writers(tmp_path: Path, changelog: str) -> None:
    t = dynamic(tmp_path, **{"changelog-producer": changelog})
    t.upsert(frame(range(15), "old"))
    first, second = prepared(t, range(5, 40), "first"), prepared(t, range(39, 2, -1), "second")

    t.committer("one").commit(first)
    t.committer("two").commit(second, 3)

    expected = {**dict.fromkeys(range(3), "old"), **dict.fromkeys(range(3, 40), "second")}
    assert rows_of(t) == expected
    t.upsert(frame(range(40), "last"))
    assert rows_of(t) == dict.fromkeys(range(40), "last")
    t.compact(full=True)
    assert rows_of(t) == dict.fromkeys(range(40), "last")
    assert leftovers(t) == ()
    if changelog == "input":
        told = t.changes(filter="id = 7").to_polars()["v"].to_list()
        assert told == ["old", "first", "second", "last"]


def test_keys_of_a_commit_that_was_rolled_back(tmp_path: Path) -> None:
    """The writer goes on: it still knows the buckets of keys that the table has lost."""
    t = dynamic(tmp_path)
    t.upsert(frame(range(3), "old"))
    with t.writer() as writer:
        writer.write(frame(range(20), "gone"))
        writer.commit()
        t.rollback(snapshot=1)
        for ids in (range(3, 24), range(30)):
            writer.write(frame(ids, "new"))
            writer.commit()
            assert rows_of(t) == {**dict.fromkeys(range(3), "old"), **dict.fromkeys(ids, "new")}
    t.upsert(frame(range(30), "last"))
    assert rows_of(t) == dict.fromkeys(range(30), "last")


def test_keys_that_were_overwritten_meanwhile(tmp_path: Path) -> None:
    """Overwriting fills the buckets anew: key 25 was in the third bucket and is in the first one now."""
    t = dynamic(tmp_path)
    t.upsert(frame(range(30), "old"))
    waiting = prepared(t, range(25, 26), "new")
    t.overwrite(frame(range(25, 28), "overwritten"))

    t.committer("w").commit(waiting)

    assert rows_of(t) == {25: "new", 26: "overwritten", 27: "overwritten"}


def test_threads_that_add_the_same_keys(tmp_path: Path) -> None:
    t = dynamic(tmp_path)
    done: list[tuple[int, str]] = []

    def write(number: int) -> None:
        for step in range(3):
            ids = range(step * 10, step * 10 + 25)
            snapshot = morrow.open(t.path).upsert(frame(ids, f"{number}/{step}"))
            assert snapshot is not None
            done.append((snapshot.id, f"{number}/{step}"))

    threads = [threading.Thread(target=write, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(done) == 9
    found = rows_of(t)
    assert sorted(found) == list(range(45))
    assert {found[key] for key in range(20, 25)} == {max(done)[1]}


def moving(folder: Path) -> morrow.Table:
    t = morrow.Catalog(folder).create_table(
        "db.t",
        schema="p STRING, id INT NOT NULL, v STRING",
        primary_keys=["id"],
        partition_keys=["p"],
        options={"bucket": "-1"},
    )
    t.upsert(placed("a", "old"))
    return t


def placed(partition: str, v: str) -> pl.DataFrame:
    return pl.DataFrame(
        {"p": [partition], "id": [1], "v": [v]}, schema={"p": pl.String, "id": pl.Int32, "v": pl.String}
    )


def test_a_key_is_not_moved_to_two_partitions(tmp_path: Path) -> None:
    t = moving(tmp_path)
    one, two = t.writer(), t.writer()
    one.write(placed("b", "one"))
    two.write(placed("c", "two"))
    one.commit()
    with pytest.raises(CommitConflict, match="after rows were given their buckets"):
        two.commit()
    assert t.scan().to_polars().rows() == [("b", 1, "one")]
    two.write(placed("c", "two"))
    two.commit()
    two.write(placed("a", "three"))
    two.commit()
    assert t.scan().to_polars().rows() == [("a", 1, "three")]
    assert leftovers(t) == ()


def test_threads_that_move_a_key(tmp_path: Path) -> None:
    t = moving(tmp_path)
    threads = [
        threading.Thread(target=lambda n=n: [morrow.open(t.path).upsert(placed(p, f"{n}")) for p in "abc"])
        for n in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert t.scan().count() == 1
    assert len([s for s in t.snapshots() if s.commit_kind == "APPEND"]) == 10
