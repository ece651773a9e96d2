"""Operations that read and then write, while another commit gets in between: the result is serializable."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path

import polars as pl
import pytest

import morrow
from morrow.engine.errors import CommitConflict
from morrow.engine.io.local import LocalStore
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.structs import replace
from morrow.writers.commit import commit_lock
from morrow.writers.commit.premise import Premise
from morrow.writers.commit.table_commit import TableCommit
from morrow.writers.operations import write_session
from morrow.writers.operations.table_writer import TableWriter
from morrow.writers.target import WriteTarget

SCHEMA = {"p": pl.String, "id": pl.Int32, "n": pl.Int64}
VECTORS = {"deletion-vectors.enabled": "true"}
KINDS: dict[str, tuple[bool, Mapping[str, str]]] = {
    "keyed": (True, {"bucket": "1"}),
    "keyed with vectors": (True, {"bucket": "1"} | VECTORS),
    "dynamic": (True, {"bucket": "-1"}),
    "append": (False, {}),
    "append with vectors": (False, VECTORS),
}
SOME = ("keyed", "append", "append with vectors")
QUICK = {"commit.min-retry-wait": "1 ms", "commit.max-retry-wait": "2 ms"}


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let commits run without queueing, since the same thread makes the commits in between."""
    monkeypatch.setattr(commit_lock, "MAX_WAIT_SECONDS", 0.0)


def table(folder: Path, kind: str = "keyed", **options: str) -> morrow.Table:
    keyed, given = KINDS[kind]
    t = morrow.Catalog(folder).create_table(
        "db.t",
        schema="p STRING NOT NULL, id INT NOT NULL, n BIGINT",
        partition_keys=["p"],
        primary_keys=["p", "id"] if keyed else [],
        options={**given, **QUICK, **{name.replace("_", "-"): value for name, value in options.items()}},
    )
    t.append(rows(*(("a", i, 0) for i in range(4)), ("b", 9, 0)))
    return t


def rows(*given: tuple[str, int, int]) -> pl.DataFrame:
    return pl.DataFrame(list(given), schema=SCHEMA, orient="row")


def rows_of(t: morrow.Table) -> list[tuple[str, int, int]]:
    return sorted(morrow.open(t.path).scan().to_polars().rows())


@pytest.fixture
def between(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Let others commit just before each of the next snapshots is created, once per function."""
    waiting: list[Callable[[], object]] = []
    create = LocalStore.create
    busy: list[int] = []

    def created(store: LocalStore, path: str, data: bytes) -> bool:
        if waiting and not busy and "/snapshot-" in path:
            busy.append(1)
            waiting.pop(0)()
            busy.clear()
        return create(store, path, data)

    monkeypatch.setattr(LocalStore, "create", created)
    return lambda *steps: waiting.extend(steps)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Count how often an operation has read its rows."""
    done: list[int] = []

    def counted(target: WriteTarget) -> object:
        done.append(len(done))
        return readable(target)

    readable = write_session.find_readable_snapshot
    monkeypatch.setattr(write_session, "find_readable_snapshot", counted)
    return done


@pytest.mark.parametrize("kind", KINDS)
def test_no_update_is_lost(tmp_path: Path, kind: str, between: Callable[..., None]) -> None:
    t = table(tmp_path, kind)
    between(lambda: t.update({"n": "n + 10"}), lambda: t.update({"n": "n + 100"}, "id = 3"))
    t.update({"n": "n + 1"}, "p = 'a'")

    assert rows_of(t) == [("a", 0, 11), ("a", 1, 11), ("a", 2, 11), ("a", 3, 111), ("b", 9, 10)]


@pytest.mark.parametrize("kind", SOME)
def test_rows_that_came_meanwhile_are_deleted_too(tmp_path: Path, kind: str, between: Callable[..., None]) -> None:
    t = table(tmp_path, kind)
    between(lambda: t.append(rows(("a", 7, 0), ("a", 8, 1))))
    t.delete("n = 0")
    assert rows_of(t) == [("a", 8, 1)]


@pytest.mark.parametrize("kind", SOME)
def test_a_row_that_does_not_match_any_more_stays(tmp_path: Path, kind: str, between: Callable[..., None]) -> None:
    t = table(tmp_path, kind)
    between(lambda: t.update({"n": "5"}, "id = 2"))
    t.delete("n = 0 AND p = 'a'")
    assert rows_of(t) == [("a", 2, 5), ("b", 9, 0)]


@pytest.mark.parametrize("kind", SOME)
def test_a_merge_inserts_no_row_that_has_come_meanwhile(
    tmp_path: Path, kind: str, between: Callable[..., None]
) -> None:
    t = table(tmp_path, kind)
    between(lambda: t.append(rows(("a", 7, 1))))
    merge = t.merge(rows(("a", 7, 10), ("a", 3, 10)), on=["p", "id"])
    merge.when_matched_update({"n": "target.n + source.n"}).when_not_matched_insert().execute()

    assert rows_of(t) == [("a", 0, 0), ("a", 1, 0), ("a", 2, 0), ("a", 3, 10), ("a", 7, 11), ("b", 9, 0)]


def test_partitions_that_came_meanwhile_are_dropped_too(tmp_path: Path, between: Callable[..., None]) -> None:
    t = table(tmp_path)
    between(lambda: t.upsert(rows(("c", 1, 1))))
    t.delete("p >= 'b'")
    assert {row[0] for row in rows_of(t)} == {"a"}


def test_keys_are_deleted_with_the_rows_that_they_have_by_then(tmp_path: Path, between: Callable[..., None]) -> None:
    t = table(tmp_path, changelog_producer="input")
    between(lambda: t.update({"n": "5"}, "id = 2"))
    t.delete([{"p": "a", "id": 2}])
    assert [row[-1] for row in t.changes(filter="id = 2").to_polars().rows()][-1] == 5
    assert 2 not in {row[1] for row in rows_of(t)}


@pytest.mark.parametrize(
    ("kind", "step"),
    [
        ("keyed", lambda t: t.upsert(rows(("b", 1, 1)))),
        ("keyed", lambda t: t.upsert(rows(("a", 50, 1)))),
        ("keyed", lambda t: t.compact(full=True)),
        ("append", lambda t: t.append(rows(("b", 1, 0)))),
        ("append", lambda t: t.append(rows(("a", 1, 7)))),
        ("append with vectors", lambda t: t.delete("p = 'b'")),
        ("append with vectors", lambda t: t.delete("id = 9")),
    ],
)
def test_what_has_nothing_to_do_with_it_is_no_conflict(
    tmp_path: Path,
    kind: str,
    step: Callable[[morrow.Table], object],
    between: Callable[..., None],
    reads: list[int],
) -> None:
    t = table(tmp_path, kind)
    t.append(rows(("b", 9, 1)))
    own = len(reads)
    others: list[int] = []
    between(lambda: (step(t), others.append(len(reads) - own - 1)))
    t.update({"n": "n + 1"}, "p = 'a' AND id < 10 AND n = 0")

    assert len(reads) - own - others[0] == 1
    assert [row[2] for row in rows_of(t) if row[0] == "a" and row[1] < 4 and row[2] < 7] == [1, 1, 1, 1]


def test_who_is_never_fast_enough_is_told(tmp_path: Path, between: Callable[..., None]) -> None:
    t = table(tmp_path, **{"commit.max-retries": "2"})
    between(*(lambda: t.upsert(rows(("a", 1, 7))) for _ in range(3)))
    with pytest.raises(CommitConflict, match="changed rows after they were read"):
        t.update({"n": "n + 1"})
    assert rows_of(t)[1] == ("a", 1, 7)
    assert t.remove_orphan_files(older_than=timedelta(0)).paths == ()


def test_rows_that_wait_for_compaction_are_read(tmp_path: Path) -> None:
    """A writer was killed before it compacted its rows, and reads with deletion vectors skip level 0."""
    t = table(tmp_path, "keyed with vectors")
    target = WriteTarget.of(TableMetadata(LocalStore(), t.path))
    lazy = replace(target, write=replace(target.write, write_only=True))
    writer = TableWriter(lazy)
    writer.write(rows(("a", 1, 5)))
    TableCommit(lazy).commit(writer.prepare_commit())
    assert ("a", 1, 5) not in rows_of(t)

    t.update({"n": "n + 1"})

    assert ("a", 1, 6) in rows_of(t)


def test_a_premise_is_about_a_snapshot_that_is_there(tmp_path: Path) -> None:
    t = table(tmp_path)
    t.upsert(rows(("a", 1, 1)))
    target = WriteTarget.of(TableMetadata(LocalStore(), t.path))
    premise = Premise(target.metadata.latest_snapshot())
    t.rollback(1)
    with pytest.raises(CommitConflict, match="was rolled back"):
        premise.check(target, target.metadata.latest_snapshot())
    t.upsert(rows(("a", 1, 2)))
    with pytest.raises(CommitConflict, match="was rolled back"):
        premise.check(target, target.metadata.latest_snapshot())

    premise = Premise(target.metadata.latest_snapshot())
    for n in range(3):
        t.upsert(rows(("b", 1, n)))
    t.expire_snapshots(retain_max=1, retain_min=1, older_than=timedelta(0))
    with pytest.raises(CommitConflict, match="expired while rows were read"):
        premise.check(target, target.metadata.latest_snapshot())
