"""Chain tables: whole partitions of one branch, merged with the changes of another one."""

from __future__ import annotations

import datetime as dt
import random
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

import morrow
from morrow.engine.errors import InvalidArgument, SnapshotNotFound, UnclearOutcome, Unsupported

OPTIONS: dict[str, object] = {
    "bucket": 2,
    "chain-table.enabled": True,
    "sequence.field": "s",
    "partition.timestamp-pattern": "$dt",
    "partition.timestamp-formatter": "yyyyMMdd",
}
BRANCHES = {"scan.fallback-snapshot-branch": "whole", "scan.fallback-delta-branch": "changes"}
Row = tuple[Any, ...]


class ChainTable:
    """A chain table and its two branches, with rows of a key, an order and a day."""

    def __init__(self, folder: Path, columns: str = "k INT NOT NULL, s INT", **options: object) -> None:
        self.folder, self.path = folder, folder / "db.db" / "t"
        names = ["region", "dt"] if "region" in columns else ["dt"]
        morrow.Catalog(folder).create_table(
            "db.t",
            schema=f"{columns}, dt STRING NOT NULL",
            primary_keys=["k", *names],
            partition_keys=names,
            options={**OPTIONS, **options},
        )
        for branch in ("whole", "changes"):
            self.main.branches.create(branch)
        for table in (self.main, self.whole, self.changes):
            table.alter.set_options(BRANCHES)

    @property
    def main(self) -> morrow.Table:
        return morrow.open(self.path)

    @property
    def whole(self) -> morrow.Table:
        return morrow.open(self.path, branch="whole")

    @property
    def changes(self) -> morrow.Table:
        return morrow.open(self.path, branch="changes")

    def rows(self, **how: Any) -> list[Row]:
        return sorted(self.main.scan(**how).to_polars().rows())


def write(table: morrow.Table, *rows: Row) -> None:
    names = table.schema.names
    table.upsert([dict(zip(names, row, strict=True)) for row in rows])


@pytest.fixture
def chain(tmp_path: Path) -> ChainTable:
    return ChainTable(tmp_path)


def test_changes_are_merged_with_the_nearest_earlier_whole_partition(chain: ChainTable) -> None:
    write(chain.whole, (1, 10, "20250801"), (2, 10, "20250801"), (9, 10, "20250803"))
    write(chain.changes, (2, 20, "20250802"), (3, 20, "20250802"), (1, 30, "20250804"))

    assert chain.rows(filter="dt = '20250802'") == [(1, 10, "20250802"), (2, 20, "20250802"), (3, 20, "20250802")]
    assert chain.rows(filter="dt > '20250802'") == [(1, 30, "20250804"), (9, 10, "20250803"), (9, 10, "20250804")]
    assert chain.main.count() == 8
    assert chain.main.count("k = 2 AND s > 10") == 1


def test_without_a_whole_partition_all_changes_are_merged(chain: ChainTable) -> None:
    write(chain.changes, (1, 1, "20250801"), (2, 1, "20250801"), (1, 2, "20250805"))

    assert chain.rows(filter="dt = '20250805'") == [(1, 2, "20250805"), (2, 1, "20250805")]


def test_main_and_the_snapshot_branch_hide_other_states_of_a_partition(chain: ChainTable) -> None:
    write(chain.changes, (1, 1, "20250801"), (1, 2, "20250802"))
    write(chain.whole, (5, 1, "20250802"))
    write(chain.main, (7, 1, "20250801"))

    assert chain.rows() == [(5, 1, "20250802"), (7, 1, "20250801")]


def test_groups_have_chains_of_their_own(tmp_path: Path) -> None:
    keys = {"chain-table.chain-partition-keys": "dt"}
    chain = ChainTable(tmp_path, "k INT NOT NULL, s INT, region STRING NOT NULL", **keys)
    write(chain.whole, (1, 1, "cn", "20250801"), (2, 1, "us", "20250802"))
    write(chain.changes, (3, 2, "cn", "20250803"), (3, 2, "us", "20250803"))

    assert chain.rows(filter="dt = '20250803'") == [
        *[(1, 1, "cn", "20250803"), (2, 1, "us", "20250803")],
        *[(3, 2, "cn", "20250803"), (3, 2, "us", "20250803")],
    ]


def test_a_deleted_key_stays_deleted_after_compactions(tmp_path: Path) -> None:
    chain = ChainTable(tmp_path, "k INT NOT NULL, s INT, kind STRING", **{"rowkind.field": "kind"})
    write(chain.whole, (1, 1, "+I", "20250801"), (2, 1, "+I", "20250801"))
    write(chain.changes, (1, 2, "-D", "20250802"))
    chain.changes.compact(full=True)

    assert chain.rows(filter="dt = '20250802'") == [(2, 1, "+I", "20250802")]
    assert chain.main.compact_chain({"dt": "20250802"})
    assert chain.whole.count("dt = '20250802'") == 1


def test_compaction_writes_a_whole_partition(chain: ChainTable) -> None:
    write(chain.whole, (1, 1, "20250801"))
    write(chain.changes, (2, 2, "20250802"), (3, 3, "20250803"))

    assert morrow.sql("CALL sys.compact_chain_table('db.t', 'dt=20250802')", chain.folder).fetchall() == [(True,)]
    assert sorted(chain.whole.scan(filter="dt = '20250802'").to_polars()["k"]) == [1, 2]
    write(chain.changes, (4, 4, "20250802"))
    assert not chain.main.compact_chain({"dt": "20250802"})
    assert chain.main.compact_chain({"dt": "20250802"}, overwrite=True)
    assert sorted(chain.whole.scan(filter="dt = '20250802'").to_polars()["k"]) == [1, 2, 4]
    assert [each.commit_kind for each in chain.whole.snapshots()] == ["APPEND", "APPEND", "OVERWRITE"]
    assert not chain.main.compact_chain({"dt": "20251231"})


def test_overwritten_changes_are_merged_again(chain: ChainTable) -> None:
    write(chain.whole, (1, 1, "20250801"), (1, 1, "20250802"))
    write(chain.changes, (2, 2, "20250802"))
    assert chain.rows(filter="dt = '20250802'") == [(1, 1, "20250802")]

    chain.changes.overwrite([{"k": 3, "s": 3, "dt": "20250802"}])

    assert chain.whole.count("dt = '20250802'") == 0
    assert chain.rows(filter="dt = '20250802'") == [(1, 1, "20250802"), (3, 3, "20250802")]


def test_overwritten_changes_stay_if_the_whole_partition_cannot_be_dropped(chain: ChainTable) -> None:
    """The overwrite is committed before the drop is refused, so its files must stay."""
    write(chain.whole, (1, 1, "20250801"))
    write(chain.changes, (2, 2, "20250801"), (2, 2, "20250802"))

    with pytest.raises(UnclearOutcome, match=r"snapshot 2 is committed, but the snapshot branch still has .*20250801"):
        chain.changes.overwrite([{"k": 3, "s": 3, "dt": "20250801"}])

    assert chain.changes.scan(filter="dt = '20250801'").to_polars().rows() == [(3, 3, "20250801")]
    assert len(chain.changes.snapshots()) == 2
    assert chain.rows(filter="dt = '20250802'") == [(1, 1, "20250802"), (2, 2, "20250802")]


def test_a_whole_partition_that_changes_need_is_not_dropped(chain: ChainTable) -> None:
    write(chain.whole, (1, 1, "20250801"), (1, 1, "20250805"))
    write(chain.changes, (2, 2, "20250802"), (2, 2, "20250806"))

    with pytest.raises(InvalidArgument, match="1 later partitions of the delta branch are merged with it"):
        chain.whole.drop_partition({"dt": "20250801"})
    chain.whole.drop_partition({"dt": "20250805"})  # the one before takes its place
    chain.changes.drop_partition({"dt": "20250802"})

    assert chain.rows(filter="dt = '20250806'") == [(1, 1, "20250806"), (2, 2, "20250806")]


def test_new_columns_of_all_branches(chain: ChainTable) -> None:
    write(chain.whole, (1, 1, "20250801"))
    for table in (chain.main, chain.whole, chain.changes):
        table.alter.add_column("v", "STRING")
    chain.whole.alter.set_options({"num-sorted-run.compaction-trigger": 3})  # one schema more than the others
    write(chain.whole, (3, 3, "20250801", "whole"))
    write(chain.changes, (2, 2, "20250802", "new"))

    found = chain.main.scan(["k", "v"], filter="dt = '20250802'").to_polars()
    assert sorted(found.rows()) == [(1, None), (2, "new"), (3, "whole")]


def test_what_is_refused(chain: ChainTable) -> None:
    write(chain.whole, (1, 1, "20250801"))
    write(chain.changes, (2, 2, "20250802"), (3, 2, "no day"))

    with pytest.raises(InvalidArgument, match=r"'no day'.* is not a time"):
        chain.rows()
    with pytest.raises(Unsupported, match="changes of a whole chain table is not supported; read the changes of"):
        chain.main.changes()
    with pytest.raises(Unsupported, match="read from the branch 'changes'"):
        chain.main.delete("dt = '20250802'")
    with pytest.raises(Unsupported, match="expiry of partitions of a chain table without branches, or by update-time"):
        chain.changes.expire_partitions("1 d", strategy="update-time")
    with pytest.raises(InvalidArgument, match=r"'scan\.fallback-delta-branch' names it"):
        chain.main.branches.delete("changes")


def test_past_states_have_all_branches_as_of_one_time(chain: ChainTable) -> None:
    def now() -> dt.datetime:
        time.sleep(0.002)  # the times of snapshots are milliseconds
        found = dt.datetime.now(dt.UTC)
        time.sleep(0.002)
        return found

    write(chain.whole, (1, 10, "20250801"))
    first = now()
    write(chain.changes, (2, 20, "20250802"))
    second = now()
    write(chain.changes, (1, 30, "20250802"))
    write(chain.main, (7, 7, "20250803"))
    write(chain.whole, (3, 3, "20250802"))

    assert chain.rows(timestamp=first) == [(1, 10, "20250801")]
    assert chain.rows(timestamp=second) == [(1, 10, "20250801"), (1, 10, "20250802"), (2, 20, "20250802")]
    third = [(1, 10, "20250801"), (1, 30, "20250802"), (2, 20, "20250802"), (7, 7, "20250803")]
    assert chain.rows(snapshot=1) == third
    assert chain.rows() == [(1, 10, "20250801"), (3, 3, "20250802"), (7, 7, "20250803")]
    chain.main.tags.create("then")
    write(chain.whole, (4, 4, "20250803"), (4, 4, "20250804"))
    assert chain.rows(tag="then") == third
    with pytest.raises(SnapshotNotFound):
        chain.rows(timestamp=first - dt.timedelta(minutes=1))


def test_days_whose_text_does_not_sort_by_time(tmp_path: Path) -> None:
    chain = ChainTable(tmp_path, **{"partition.timestamp-formatter": "d-M-yyyy"})
    write(chain.whole, (1, 1, "1-8-2025"))
    write(chain.changes, (2, 2, "15-8-2025"), (2, 2, "9-8-2025"))

    with pytest.raises(Unsupported, match="whose values and times are in different orders"):
        chain.rows()


@pytest.mark.parametrize(
    ("options", "needed"),
    [
        ({"sequence.field": None}, "'sequence.field'"),
        ({"bucket": -1}, "'bucket' above 0"),
        ({"changelog-producer": "lookup"}, "'changelog-producer' = none or input"),
        ({"deletion-vectors.enabled": True}, "'deletion-vectors.enabled' = false"),
        ({"partition.timestamp-formatter": None}, "'partition.timestamp-formatter'"),
        ({"chain-table.chain-partition-keys": "k"}, r"the last partition keys as \('k',\)"),
    ],
)
def test_needed_options(tmp_path: Path, options: dict[str, object], needed: str) -> None:
    given = {key: value for key, value in {**OPTIONS, **options}.items() if value is not None}
    with pytest.raises(InvalidArgument, match=f"'chain-table.enabled' needs {needed}"):
        morrow.Catalog(tmp_path).create_table(
            *("db.t", "k INT NOT NULL, s INT, dt STRING NOT NULL"),
            primary_keys=["k", "dt"],
            partition_keys=["dt"],
            options=given,
        )


@pytest.mark.parametrize("seed", range(2))
def test_random_histories(tmp_path: Path, seed: int) -> None:
    rng, chain = random.Random(seed), ChainTable(tmp_path)
    model: dict[str, dict[str, dict[int, int]]] = {name: defaultdict(dict) for name in ("main", "whole", "changes")}
    for step in range(1, 7):
        name = rng.choice(["whole", "changes", "changes", "main"])
        days = [f"2025080{rng.randrange(1, 7)}" for _ in range(2)]
        rows = [(k, step, day) for day in sorted(set(days)) for k in rng.sample(range(8), 3)]
        write(getattr(chain, name), *rows)
        for k, s, day in rows:
            model[name][day][k] = s
        if rng.random() < 0.4:
            getattr(chain, name).compact(full=True)
        expected = sorted((k, s, day) for day, found in merge(model).items() for k, s in found.items())
        assert chain.rows() == expected
        assert chain.main.count("dt >= '20250803' AND k < 4") == sum(
            k < 4 and dt >= "20250803" for k, _, dt in expected
        )
        asked = morrow.sql("SELECT * FROM db.t WHERE s > 3", chain.folder).fetchall()
        assert sorted(asked) == [row for row in expected if row[1] > 3]
        assert sorted(tuple(row.values()) for row in chain.main.dataset().to_table().to_pylist()) == expected


def merge(model: dict[str, dict[str, dict[int, int]]]) -> dict[str, dict[int, int]]:
    """Return the rows of each day, from main, the snapshot branch, or merged."""
    found: dict[str, dict[int, int]] = {}
    for day in sorted(model["changes"]):
        anchor = max((each for each in model["whole"] if each < day), default="")
        found[day] = dict(model["whole"].get(anchor, {}))
        for other in sorted(model["changes"]):
            if anchor < other <= day:
                for k, s in model["changes"][other].items():
                    found[day][k] = max(s, found[day].get(k, 0))
    return {**found, **model["whole"], **model["main"]}


def test_old_segments_expire_and_remaining_partitions_keep_their_rows(chain: ChainTable) -> None:
    for day in ("20250801", "20250805", "20250810"):
        write(chain.whole, (1, 1, day), (int(day[-2:]) + 100, 1, day))
    for day in ("20250730", "20250802", "20250805", "20250807", "20250812"):
        write(chain.changes, (int(day[-2:]), 2, day))
    remaining = chain.rows(filter="dt >= '20250810'")

    now = dt.datetime(2025, 8, 15)
    assert list(chain.main.expire_partitions("7 d", now=now)) == [
        {"dt": day} for day in ("20250730", "20250801", "20250802")
    ]
    assert chain.rows(filter="dt >= '20250810'") == remaining
    assert sorted(set(chain.whole.to_polars()["dt"])) == ["20250805", "20250810"]
    assert sorted(set(chain.changes.to_polars()["dt"])) == ["20250805", "20250807", "20250812"]
    assert list(chain.changes.expire_partitions("7 d", now=now)) == []

    chain.whole.alter.set_options({"partition.expiration-batch-size": 1})
    expired = chain.whole.expire_partitions("1 d", now=now)
    assert [each["dt"] for each in expired] == ["20250805", "20250807"]
    assert expired.left == 2
    assert chain.rows(filter="dt >= '20250810'") == remaining


def test_each_group_keeps_its_newest_old_whole_partition(tmp_path: Path) -> None:
    keys = {"chain-table.chain-partition-keys": "dt"}
    chain = ChainTable(tmp_path, "k INT NOT NULL, s INT, region STRING NOT NULL", **keys)
    for region, days in (("cn", ("20250801", "20250802", "20250803")), ("us", ("20250801",))):
        for day in days:
            write(chain.whole, (1, 1, region, day))
            write(chain.changes, (2, 2, region, day))
    write(chain.changes, (3, 3, "eu", "20250701"))

    found = chain.main.expire_partitions("1 d", now=dt.datetime(2025, 9, 1), max_expires=1)
    assert list(found) == [{"region": "cn", "dt": "20250801"}]
    assert len(chain.main.expire_partitions("1 d", now=dt.datetime(2025, 9, 1))) == 1
    assert {row[2:] for row in chain.rows()} == {("cn", "20250803"), ("us", "20250801"), ("eu", "20250701")}
    assert chain.main.expire_partitions("1 d", now=dt.datetime(2025, 9, 1)) == []
