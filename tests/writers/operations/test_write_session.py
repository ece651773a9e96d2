"""Two writers look up keys in the same bucket: both rows are kept, and no row is lost or read twice."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import polars as pl
import pytest

import morrow
from morrow.engine.errors import CommitConflict
from morrow.writers.commit.messages import CommitMessage
from tests.support.processes import PROCESSES as FORKED
from tests.writers.commit.test_sequence_numbers import frame as numbered_frame
from tests.writers.commit.test_sequence_numbers import leftovers
from tests.writers.commit.test_sequence_numbers import rows_of as numbered_rows

PROCESSES, COMMITS = 2, 3
SCHEMA = {"k": pl.Int32, "v": pl.String}


def keyed(folder: Path, **options: str) -> morrow.Table:
    """Create a table with one bucket; option names have ``_`` for a dash."""
    named = {name.replace("_", "-"): value for name, value in options.items()}
    catalog = morrow.Catalog(folder)
    return catalog.create_table(
        "db.t", schema="k INT NOT NULL, v STRING", primary_keys=["k"], options={"bucket": "1", **named}
    )


def frame(*rows: tuple[int, str]) -> pl.DataFrame:
    return pl.DataFrame(list(rows), schema=SCHEMA, orient="row")


def rows_of(table: morrow.Table) -> list[tuple[int, str]]:
    return sorted(table.scan().to_polars().rows())


VECTORS = {"deletion-vectors.enabled": "true"}


def test_the_later_commit_is_compacted_again(tmp_path: Path) -> None:
    t = keyed(tmp_path, **VECTORS)
    t.upsert(frame(*((key, "old") for key in range(5))))
    one, other = t.writer("one"), t.writer("other")
    one.write(frame((2, "by one"), (1, "by one")))
    other.write(frame((3, "by other"), (2, "by other")))  # the larger number wins, and both count on from the same one
    prepared, later = one.prepare(), other.prepare()

    t.committer("one").commit(prepared)
    last = t.committer("other").commit(later)

    assert last is not None
    assert last.commit_kind == "COMPACT"
    assert rows_of(t) == [(0, "old"), (1, "by one"), (2, "by other"), (3, "by other"), (4, "old")]
    assert all(file.level > 0 for file in t.scan().plan.files)


def test_a_compaction_in_between_takes_no_row_out_of_sight_of_a_lookup(tmp_path: Path) -> None:
    """The write marks rows of a file that is gone when it commits."""
    t = keyed(tmp_path, **VECTORS)
    t.upsert(frame(*((key, "old" * 50) for key in range(10))))
    t.upsert(frame(*((100 + key, str(key) * 40) for key in range(60))))
    writer = t.writer("w")
    writer.write(frame((1, "new")))
    prepared = writer.prepare()
    t.compact(full=True)

    t.committer("w").commit(prepared)

    assert dict(rows_of(t))[1] == "new"
    assert t.scan().count() == 70


def test_a_changelog_tells_of_what_was_there_when_it_is_committed(tmp_path: Path) -> None:
    t = keyed(tmp_path, changelog_producer="lookup")
    t.upsert(frame((1, "old")))
    one, other = t.writer("one"), t.writer("other")
    one.write(frame((1, "by one")))
    other.write(frame((2, "beside"), (1, "by other")))  # the larger number wins, and both count on from the same one
    prepared, later = one.prepare(), other.prepare()
    t.committer("one").commit(prepared)
    t.committer("other").commit(later)

    assert [row[::2] for row in t.changes(filter="k = 1").to_polars().rows()] == [
        ("+I", "old"),
        *(("-U", "old"), ("+U", "by one")),
        *(("-U", "by one"), ("+U", "by other")),
    ]


def _commit_many(path: str, number: int) -> None:
    table = morrow.open(path)
    for commit in range(COMMITS):
        own = 1 + number * COMMITS + commit
        table.upsert(frame((0, f"{number}/{commit}"), (own, f"{number}/{commit}")))
        seen = dict(rows_of(table))
        assert seen[own] == f"{number}/{commit}"


@pytest.mark.parametrize("options", [VECTORS, {"changelog-producer": "lookup"}], ids=str)
def test_processes_that_write_the_same_bucket(tmp_path: Path, options: dict[str, str]) -> None:
    t = keyed(tmp_path, **options)
    workers = [FORKED.Process(target=_commit_many, args=(t.path, number)) for number in range(PROCESSES)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()

    assert [worker.exitcode for worker in workers] == [0] * PROCESSES
    expected = [(1 + n * COMMITS + c, f"{n}/{c}") for n in range(PROCESSES) for c in range(COMMITS)]
    rows = rows_of(t)
    assert rows[1:] == expected
    assert rows[0][0] == 0
    assert rows[0][1] in {f"{number}/{COMMITS - 1}" for number in range(PROCESSES)}
    if "changelog-producer" in options:
        assert _replayed(t.changes().to_polars().rows()) == rows


def _replayed(changes: Sequence[tuple[str, int, str]]) -> list[tuple[int, str]]:
    """Apply the changes, and check that each retraction equals the present row."""
    state: dict[int, str] = {}
    for kind, key, value in changes:
        if kind in ("-U", "-D"):
            assert state.pop(key) == value
        else:
            assert key not in state
            state[key] = value
    return sorted(state.items())


def test_batches_that_are_committed_again_are_compacted_too(tmp_path: Path) -> None:
    t = keyed(tmp_path, **VECTORS)
    t.upsert(frame((1, "old")))
    one, other = t.writer("one"), t.writer("other")
    one.write(frame((1, "by one")))
    other.write(frame((2, "by other")))
    prepared, later = one.prepare(), other.prepare()
    t.committer("one").commit(prepared)

    assert t.committer("other").filter_and_commit({1: later}) == 1
    assert rows_of(t) == [(1, "by one"), (2, "by other")]


# Two writers assign the same new key to a bucket or partition: only the later commit's assignment remains.

DYNAMIC = {"bucket": "-1", "dynamic-bucket.target-row-num": "10"}


def dynamic(folder: Path, **options: str) -> morrow.Table:
    catalog = morrow.Catalog(folder)
    return catalog.create_table(
        "db.t", schema="id INT NOT NULL, v STRING", primary_keys=["id"], options=DYNAMIC | dict(options)
    )


def prepared(t: morrow.Table, ids: range, v: str) -> list[CommitMessage]:
    with t.writer() as writer:
        writer.write(numbered_frame(ids, v))
        return writer.prepare()


@pytest.mark.parametrize("changelog", ["none", "input", "lookup"])
def test_new_keys_of_two_writers(tmp_path: Path, changelog: str) -> None:
    t = dynamic(tmp_path, **{"changelog-producer": changelog})
    t.upsert(numbered_frame(range(15), "old"))
    first, second = prepared(t, range(5, 40), "first"), prepared(t, range(39, 2, -1), "second")

    t.committer("one").commit(first)
    t.committer("two").commit(second, 3)

    expected = {**dict.fromkeys(range(3), "old"), **dict.fromkeys(range(3, 40), "second")}
    assert numbered_rows(t) == expected
    t.upsert(numbered_frame(range(40), "last"))
    assert numbered_rows(t) == dict.fromkeys(range(40), "last")
    t.compact(full=True)
    assert numbered_rows(t) == dict.fromkeys(range(40), "last")
    assert leftovers(t) == ()
    if changelog == "input":
        told = t.changes(filter="id = 7").to_polars()["v"].to_list()
        assert told == ["old", "first", "second", "last"]


def test_keys_of_a_commit_that_was_rolled_back(tmp_path: Path) -> None:
    """The writer still knows the buckets of keys that the table has lost."""
    t = dynamic(tmp_path)
    t.upsert(numbered_frame(range(3), "old"))
    with t.writer() as writer:
        writer.write(numbered_frame(range(20), "gone"))
        writer.commit()
        t.rollback(snapshot=1)
        for ids in (range(3, 24), range(30)):
            writer.write(numbered_frame(ids, "new"))
            writer.commit()
            assert numbered_rows(t) == {**dict.fromkeys(range(3), "old"), **dict.fromkeys(ids, "new")}
    t.upsert(numbered_frame(range(30), "last"))
    assert numbered_rows(t) == dict.fromkeys(range(30), "last")


def test_keys_that_were_overwritten_meanwhile(tmp_path: Path) -> None:
    """Overwriting fills the buckets from the beginning: key 25 moves from the third bucket to the first."""
    t = dynamic(tmp_path)
    t.upsert(numbered_frame(range(30), "old"))
    waiting = prepared(t, range(25, 26), "new")
    t.overwrite(numbered_frame(range(25, 28), "overwritten"))

    t.committer("w").commit(waiting)

    assert numbered_rows(t) == {25: "new", 26: "overwritten", 27: "overwritten"}


def test_threads_that_add_the_same_keys(tmp_path: Path) -> None:
    t = dynamic(tmp_path)
    done: list[tuple[int, str]] = []

    def write(number: int) -> None:
        for step in range(3):
            ids = range(step * 10, step * 10 + 25)
            snapshot = morrow.open(t.path).upsert(numbered_frame(ids, f"{number}/{step}"))
            assert snapshot is not None
            done.append((snapshot.id, f"{number}/{step}"))

    threads = [threading.Thread(target=write, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(done) == 9
    found = numbered_rows(t)
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
