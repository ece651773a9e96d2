"""Two writers of one bucket whose keys are looked up: no row is lost, none is read twice, both are there at once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl
import pytest

import morrow
from tests.support.processes import PROCESSES as FORKED

PROCESSES, COMMITS = 2, 3
SCHEMA = {"k": pl.Int32, "v": pl.String}


def keyed(folder: Path, **options: str) -> morrow.Table:
    """Makes a table of one bucket; in the names of options ``_`` stands for a dash."""
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
    other.write(frame((3, "by other"), (2, "by other")))  # numbers decide, and both count on from the same
    prepared, later = one.prepare(), other.prepare()

    t.committer("one").commit(prepared)
    last = t.committer("other").commit(later)

    assert last is not None
    assert last.commit_kind == "COMPACT"
    assert rows_of(t) == [(0, "old"), (1, "by one"), (2, "by other"), (3, "by other"), (4, "old")]
    assert all(file.level > 0 for file in t.scan().plan.files)


def test_a_compaction_in_between_takes_no_row_out_of_sight_of_a_lookup(tmp_path: Path) -> None:
    """The marks of the write are of a file that is gone when it commits."""
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
    other.write(frame((2, "beside"), (1, "by other")))  # numbers decide, and both count on from the same
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
    """Applies the changes; each retraction is of the row that is there."""
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
