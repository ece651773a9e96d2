"""Concurrent commits of rows with the same keys: the later commit wins as a whole."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import morrow
from morrow.engine.errors import FileMissing, InvalidArgument, StorageError, UnclearOutcome, Unsupported
from morrow.engine.io.local import LocalStore, disable_fsync
from morrow.engine.plan.metadata import METADATA_CACHE, TableMetadata
from morrow.writers.commit import snapshot_metadata
from morrow.writers.commit.messages import CommitMessage
from morrow.writers.commit.table_commit import TableCommit
from morrow.writers.history.commit_maintenance import commit_with_maintenance
from morrow.writers.operations.write_session import commit_once
from morrow.writers.target import WriteTarget
from tests.oracle import MERGE_ENGINES, Record, Rules

SCHEMA = {"id": pl.Int32, "v": pl.String}
VECTORS = {"deletion-vectors.enabled": "true"}
BY_SNAPSHOT = {"sequence.snapshot-ordering": "true", "write-only": "true"}
KINDS: dict[str, dict[str, str]] = {
    "parquet": {},
    "orc": {"file.format": "orc"},
    "avro": {"file.format": "avro"},
    "write only": {"write-only": "true"},
    "thin": {"data-file.thin-mode": "true"},
    "vectors": VECTORS,
    "dynamic": {"bucket": "-1"},
    "lookup": {"changelog-producer": "lookup"},
    "full compaction": {"changelog-producer": "full-compaction"},
    "input": {"changelog-producer": "input"},
    "partial update": {"merge-engine": "partial-update"},
    "aggregation": {"merge-engine": "aggregation", "fields.v.aggregate-function": "last_value"},
    "spilled": {"write-buffer-size": "1 kb", "write-buffer-spillable": "false"},
    "two files": {"target-file-size": "2 kb"},
    "by snapshot": BY_SNAPSHOT,
    "by snapshot, spilled": {**BY_SNAPSHOT, "write-buffer-size": "1 kb", "write-buffer-spillable": "false"},
}


def keyed(folder: Path, options: dict[str, str] | None = None, rows: int = 10) -> morrow.Table:
    catalog = morrow.Catalog(folder)
    t = catalog.create_table(
        "db.t", schema="id INT NOT NULL, v STRING", primary_keys=["id"], options={"bucket": "1"} | (options or {})
    )
    t.upsert(frame(range(rows), "old"))
    return t


def frame(ids: Sequence[int], v: str) -> pl.DataFrame:
    return pl.DataFrame({"id": list(ids), "v": [v] * len(ids)}, schema=SCHEMA)


def prepared(table: morrow.Table, ids: Sequence[int], v: str, user: str = "w") -> list[CommitMessage]:
    with table.writer(user) as writer:
        writer.write(frame(ids, v))
        return writer.prepare()


def rows_of(table: morrow.Table) -> dict[int, str]:
    found = morrow.open(table.path).scan().to_polars().rows()
    assert len(dict(found)) == len(found)
    return dict(found)


def leftovers(table: morrow.Table) -> Sequence[object]:
    """Remove and list the files that no snapshot references."""
    time.sleep(0.002)  # until every file is older than now
    return table.remove_orphan_files(older_than=timedelta(0)).paths


@pytest.mark.parametrize("kind", KINDS)
def test_the_later_commit_wins(tmp_path: Path, kind: str) -> None:
    """The first commit has larger numbers because of its extra rows, and the second has its keys in reverse order."""
    t = keyed(tmp_path, KINDS[kind])
    others = [] if kind == "dynamic" else list(range(100, 130))
    one, two = prepared(t, [*others, *range(10)], "first"), prepared(t, list(range(10))[::-1], "second")

    t.committer("one").commit(one)
    t.committer("two").commit(two)

    expected = dict.fromkeys(range(10), "second") | dict.fromkeys(others, "first")
    assert rows_of(t) == expected
    t.compact(full=True)
    assert rows_of(t) == expected
    assert leftovers(t) == ()


def test_of_first_rows_those_of_the_earlier_commit_stay(tmp_path: Path) -> None:
    t = keyed(tmp_path, {"merge-engine": "first-row"}, rows=2)
    late, early = prepared(t, range(10), "late"), prepared(t, [*range(50, 90), *range(10)], "early")

    t.committer("early").commit(early)
    t.committer("late").commit(late)

    assert rows_of(t) == {0: "old", 1: "old"} | dict.fromkeys([*range(2, 10), *range(50, 90)], "early")


def test_of_rows_that_wait_the_later_commit_wins(tmp_path: Path) -> None:
    """These files have no sequence numbers; the one created later is committed first."""
    t = keyed(tmp_path, {"bucket": "-2"})
    second = prepared(t, range(10), "second")
    time.sleep(0.01)
    first = prepared(t, range(10), "first")

    t.committer("one").commit(first)
    t.committer("two").commit(second)
    t.compact()

    assert rows_of(t) == dict.fromkeys(range(10), "second")


def test_changes_are_told_in_the_order_of_commits(tmp_path: Path) -> None:
    t = keyed(tmp_path, {"changelog-producer": "input"}, rows=1)
    one, two = prepared(t, [5, 0], "first"), prepared(t, [0, 0], "second")
    t.committer("one").commit(one)
    last = t.committer("two").commit(two)

    assert last is not None
    assert last.changelog_record_count == 2
    assert [row[2] for row in t.changes(filter="id = 0").to_polars().rows()] == ["old", "first", "second", "second"]
    numbers = t.system("files").to_polars().sort("min_sequence_number")
    low, high = numbers["min_sequence_number"].to_list(), numbers["max_sequence_number"].to_list()
    assert all(one < other for one, other in zip(high, low[1:]))


def test_a_column_that_was_added_meanwhile(tmp_path: Path) -> None:
    """The rewritten files keep the columns of their schema."""
    t = keyed(tmp_path)
    one, two = prepared(t, range(10), "first"), prepared(t, range(5), "second")
    t.committer("one").commit(one)
    t.alter.drop_column("v")
    t.alter.add_column("v", "INT")
    t.committer("two").commit(two)

    assert set(t.scan().to_polars()["v"]) == {None}
    assert morrow.open(t.path).scan(as_of=2).count() == 10


def test_writers_that_go_on(tmp_path: Path) -> None:
    """Two writers stay open over many commits and take turns."""
    t = keyed(tmp_path, {"num-sorted-run.compaction-trigger": "3"})
    one, two = t.writer(), t.writer()
    for step in range(12):
        for name, writer in (("one", one), ("two", two)):
            writer.write(frame(range(10), f"{name} {step}"))
            writer.commit(step)
            assert set(rows_of(t).values()) == {f"{name} {step}"}
    one.close(), two.close()
    assert len(t.scan().plan.files) < 6


@pytest.mark.parametrize("options", [{"num-sorted-run.compaction-trigger": "2"}, VECTORS], ids=str)
def test_a_writer_goes_on_after_its_files_were_written_again(tmp_path: Path, options: dict[str, str]) -> None:
    """The writer would later compact the files it has prepared, but others have replaced them."""
    t = keyed(tmp_path, options)
    committer = t.committer("w")
    with t.writer("w") as writer:
        for step in range(4):
            writer.write(frame(range(10), f"w {step}"))
            waiting = writer.prepare()
            t.upsert(frame([5, 3], "between"))
            committer.commit(waiting, step)
            assert rows_of(t) == dict.fromkeys(range(10), f"w {step}")
    t.compact(full=True)
    assert rows_of(t) == dict.fromkeys(range(10), "w 3")
    assert leftovers(t) == ()


def test_many_threads_at_once(tmp_path: Path) -> None:
    t = keyed(tmp_path)
    done: list[tuple[int, str]] = []

    def write(number: int) -> None:
        for step in range(4):
            ids = range(10) if number % 2 else range(9, -1, -1)
            snapshot = morrow.open(t.path).upsert(frame(ids, f"{number}/{step}"))
            assert snapshot is not None
            done.append((snapshot.id, f"{number}/{step}"))

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(done) == 16
    for snapshot_id in range(2, 18):
        rows = set(morrow.open(t.path).scan(as_of=snapshot_id).to_polars()["v"])
        assert len(rows) == 1, f"snapshot {snapshot_id} is torn: {rows}"
    assert set(rows_of(t).values()) == {max(done)[1]}


# Failures and repeated commits


def test_messages_that_are_committed_twice_are_refused(tmp_path: Path) -> None:
    t = keyed(tmp_path)
    waiting = prepared(t, range(10), "new")
    t.committer("one").commit(waiting)
    with pytest.raises(InvalidArgument, match="they were committed before"):
        t.committer("other").commit(waiting)
    assert rows_of(t) == dict.fromkeys(range(10), "new")


@dataclass
class Between(LocalStore):
    """A store that calls a function just before a snapshot is created."""

    before: list[Callable[[], object]] = field(default_factory=list)

    def create(self, path: str, data: bytes) -> bool:
        if self.before and "/snapshot-" in path:
            self.before.pop(0)()
        return super().create(path, data)


def commits_through(store: LocalStore, table: morrow.Table, user: str = "w") -> TableCommit:
    return commit_with_maintenance(WriteTarget.of(TableMetadata(store, table.path), user))


def summed(folder: Path) -> morrow.Table:
    """Make a table that shows if a row is applied twice."""
    options = {"bucket": "1", "merge-engine": "aggregation", "fields.n.aggregate-function": "sum"}
    catalog = morrow.Catalog(folder)
    t = catalog.create_table("db.t", schema="id INT NOT NULL, n INT", primary_keys=["id"], options=options)
    t.upsert(pl.DataFrame({"id": [1], "n": [1]}, schema={"id": pl.Int32, "n": pl.Int32}))
    return t


def one_more(table: morrow.Table) -> list[CommitMessage]:
    with table.writer("w") as writer:
        writer.write(pl.DataFrame({"id": [1], "n": [1]}, schema={"id": pl.Int32, "n": pl.Int32}))
        return writer.prepare()


@pytest.mark.usefixtures("_without_turns")
def test_a_lost_race_is_renumbered_again(tmp_path: Path) -> None:
    t = keyed(tmp_path)
    waiting = prepared(t, range(10), "last")
    races = [lambda n=n: t.upsert(frame([*range(n), 3, 1], f"race {n}")) for n in range(20, 60, 20)]

    last = commits_through(Between(before=list(races)), t).commit(waiting)

    assert last is not None
    assert last.id == 4
    assert {v for k, v in rows_of(t).items() if k < 10} == {"last"}
    assert leftovers(t) == ()


@pytest.mark.usefixtures("_without_turns")
def test_a_commit_that_others_have_made_meanwhile_is_not_applied_again(tmp_path: Path) -> None:
    """Both processes commit the same messages after another commit: both renumber them, and one commits."""
    t = summed(tmp_path)
    waiting = one_more(t)
    t.upsert(pl.DataFrame({"id": [1], "n": [1]}, schema={"id": pl.Int32, "n": pl.Int32}))
    twin = lambda: t.committer("w").commit(waiting, 7)  # noqa: E731
    store = Between(before=[twin])

    commits_through(store, t).filter_and_commit({7: waiting})

    assert t.scan().to_polars()["n"].to_list() == [3]
    assert t.snapshots()[-1].id == 3
    assert leftovers(t) == ()


def test_an_answer_that_did_not_come_is_not_applied_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    t = summed(tmp_path)
    waiting = one_more(t)
    t.upsert(pl.DataFrame({"id": [1], "n": [1]}, schema={"id": pl.Int32, "n": pl.Int32}))
    real = LocalStore.create

    def unclear(store: LocalStore, path: str, data: bytes) -> bool:
        if "/snapshot-" not in path:
            return real(store, path, data)
        real(store, path, data)
        raise UnclearOutcome("no answer")

    with monkeypatch.context() as patch:
        patch.setattr(LocalStore, "create", unclear)
        patch.setattr("morrow.writers.commit.committer.UNCLEAR_WAIT_SECONDS", 0.0)
        with pytest.raises(UnclearOutcome):
            t.committer("w").commit(waiting, 7)
    t.committer("w").commit(waiting, 7)

    assert morrow.open(t.path).scan().to_polars()["n"].to_list() == [3]


def test_what_was_written_again_goes_when_the_commit_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    t = keyed(tmp_path)
    waiting = prepared(t, range(10), "lost")
    t.upsert(frame(range(10), "first"))

    def full(*_: object) -> bool:
        raise StorageError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr(LocalStore, "create", full)
        with pytest.raises(StorageError, match="disk full"):
            commit_once(commit_with_maintenance(WriteTarget.of(TableMetadata(LocalStore(), t.path), "w")), waiting, 1)
    assert rows_of(t) == dict.fromkeys(range(10), "first")
    assert leftovers(t) == ()


def test_a_file_that_waits_and_is_gone(tmp_path: Path) -> None:
    t = keyed(tmp_path)
    waiting = prepared(t, range(10), "lost")
    t.upsert(frame(range(10), "first"))
    for path in Path(t.path).glob(f"bucket-0/{waiting[0].new_files[0].file_name}"):
        path.unlink()
    with pytest.raises(FileMissing, match="write these rows again"):
        t.committer("w").commit(waiting)
    assert rows_of(t) == dict.fromkeys(range(10), "first")


@pytest.mark.usefixtures("_without_turns")
def test_large_files_are_written_before_the_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Renumbering leaves a gap for concurrent commits, so their rows do not require another round."""
    monkeypatch.setattr(snapshot_metadata, "MAX_LOCKED_BYTES", 0)
    t = keyed(tmp_path)
    waiting = prepared(t, range(10), "last")
    t.upsert(frame([5], "first"))
    rounds: list[int] = []
    renumbered = snapshot_metadata.renumber_files
    monkeypatch.setattr(snapshot_metadata, "renumber_files", lambda *a, **k: rounds.append(1) or renumbered(*a, **k))

    commits_through(Between(before=[lambda: t.upsert(frame([1, 2], "race"))]), t).commit(waiting)

    assert set(rows_of(t).values()) == {"last"}
    assert len(rounds) == 2  # data and changelog of a single round


def test_what_is_not_contended_is_not_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit on the snapshot that its writer read does not read the table's entries."""
    t = keyed(tmp_path, {"write-only": "true"})
    waiting = prepared(t, range(10), "new")
    monkeypatch.setattr("morrow.writers.commit.manifests.BaseEntries.at", None)
    t.committer("w").commit(waiting)
    assert rows_of(t) == dict.fromkeys(range(10), "new")


# --- versions in the order of their snapshots ---

ORDERED_ENGINES: dict[str, dict[str, str]] = {
    "deduplicate": {},
    "partial-update": {"merge-engine": "partial-update"},
    "aggregation": {"merge-engine": "aggregation", "fields.v.aggregate-function": "last_value"},
    "first-row": {"merge-engine": "first-row"},
    "vectors": {**VECTORS, "deletion-vectors.merge-on-read": "true"},
    "lookup": {"changelog-producer": "lookup"},
}


@pytest.mark.parametrize("engine", ORDERED_ENGINES)
@settings(max_examples=max(settings.default.max_examples // 20, 2))
@given(data=st.data())
def test_snapshots_order_versions_whenever_they_were_written(
    tmp_path_factory: pytest.TempPathFactory, engine: str, data: st.DataObject
) -> None:
    """Writers prepare batches without knowing of each other, and commit them in any order."""
    row = st.tuples(st.integers(0, 5), st.none() | st.sampled_from("abc"))
    batch = st.lists(row, min_size=1, max_size=4, unique_by=lambda each: each[0])
    with disable_fsync():
        table = keyed(tmp_path_factory.mktemp("t"), {**BY_SNAPSHOT, **ORDERED_ENGINES[engine]}, rows=0)
        records: dict[int, list[Record]] = defaultdict(list)
        for turn in data.draw(st.lists(st.lists(batch, min_size=1, max_size=3), min_size=1, max_size=3)):
            written = []
            for number, rows in enumerate(turn):
                with table.writer(f"w{number}") as writer:
                    writer.write(pl.DataFrame(rows, schema=SCHEMA, orient="row"))
                    written.append((rows, writer.prepare()))
            for rows, messages in data.draw(st.permutations(written)):
                table.committer("c").commit(messages)
                for id, v in rows:
                    records[id].append(Record((id,), sum(map(len, records.values())), "+I", (id, v)))
            if engine == "first-row" or data.draw(st.booleans()):
                table.compact(full=engine == "first-row" or data.draw(st.booleans()))
            rules = Rules.of(table.options, table.schemas()[-1].fields, ["id"])
            merge = MERGE_ENGINES[rules.merge_engine]
            expected = {id: merge(versions, ["id", "v"], rules) for id, versions in records.items()}
            assert rows_of(table) == {id: row[1] for id, row in expected.items() if row is not None}
        table.scan().verify()


def test_files_have_the_snapshot_as_their_number(tmp_path: Path) -> None:
    table = keyed(tmp_path, BY_SNAPSHOT, rows=0)
    for number in range(3):
        table.upsert(frame([1, 2, 3 + number], str(number)))
    files = table.system("files").to_polars().sort("min_sequence_number")
    assert files["min_sequence_number"].to_list() == files["max_sequence_number"].to_list() == [1, 2, 3]

    table.compact(full=True)

    (file,) = table.system("files").to_polars().to_dicts()
    assert (file["min_sequence_number"], file["max_sequence_number"]) == (1, 3)
    assert rows_of(table) == {1: "2", 2: "2", 3: "0", 4: "1", 5: "2"}


def test_a_file_of_a_writer_without_snapshot_numbers_is_refused(tmp_path: Path) -> None:
    table = keyed(tmp_path, {"write-only": "true"})
    schema = Path(table.path) / "schema/schema-0"
    schema.write_text(schema.read_text().replace('"write-only"', '"sequence.snapshot-ordering": "true", "write-only"'))
    METADATA_CACHE.clear()
    with pytest.raises(Unsupported, match="without its snapshot's number"):
        rows_of(morrow.open(table.path))


def test_writers_that_compact_cannot_order_by_snapshot(tmp_path: Path) -> None:
    table = keyed(tmp_path, BY_SNAPSHOT, rows=0)
    with pytest.raises(Unsupported, match=r"Table\.compact compacts such tables, too"):
        table.with_options({"write-only": False})
