"""Splits of scans: their rows together are the rows of the scan, in any process."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
import pytest

import morrow
from morrow.engine.errors import ColumnNotFound, InvalidArgument, Unsupported
from morrow.scans.splits import Split

COLUMNS = "id INT NOT NULL, v STRING, p INT NOT NULL, inner ROW<a INT, b STRING>"
KINDS: dict[str, dict[str, Any]] = {
    "append": {},
    "merged when read": {"options": {"bucket": 2, "write-only": True}},
    "folded when read": {"options": {"bucket": 1, "write-only": True, "merge-engine": "partial-update"}},
    "deletion vectors": {"options": {"bucket": 1, "deletion-vectors.enabled": True}},
    "partitioned": {"partition_keys": ["p"]},
    "ORC": {"options": {"file.format": "orc"}},
}


@pytest.fixture(scope="module", params=KINDS)
def table(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> morrow.Table:
    """Three commits of ids 0 to 11, 6 to 17, 12 to 23, with the number of the commit in `v`; then one more column."""
    settings = {"primary_keys": ["id"] if "bucket" in KINDS[request.param].get("options", {}) else []}
    lake = morrow.Catalog(tmp_path_factory.mktemp("lake"))
    table = lake.create_table("db.t", schema=COLUMNS, **settings, **KINDS[request.param])
    for number in range(3):
        ids = range(number * 6, number * 6 + 12)
        nested = [{"a": i, "b": None} for i in ids]
        table.append({"id": [*ids], "v": [f"v{number}"] * 12, "p": [i % 2 for i in ids], "inner": nested})
    table.alter.add_column("later", "INT")
    return table


SCANS: dict[str, Callable[[morrow.Table], morrow.Scan]] = {
    "all": lambda t: t.scan(),
    "columns": lambda t: t.scan(["v", "id"]),
    "no columns": lambda t: t.scan([]),
    "members": lambda t: t.scan(["inner.a", "id"]),
    "filter": lambda t: t.scan(["v"], "id % 3 = 1 AND id > 3"),
    "filter of polars": lambda t: t.scan(filter=pl.col("id").cast(pl.String).str.contains("1")),
    "nothing": lambda t: t.scan(filter="id > 100"),
    "earlier": lambda t: t.scan(snapshot=2),
}


def lines(*rows: pl.DataFrame | pa.Table) -> list[str]:
    found = [each if isinstance(each, pl.DataFrame) else pl.from_arrow(each) for each in rows]
    return sorted(str(row) for frame in found for row in frame.rows())  # type: ignore[union-attr]  # tables are frames


@pytest.mark.parametrize("kind", SCANS)
def test_splits_hold_the_rows_of_the_scan(table: morrow.Table, kind: str) -> None:
    scan = SCANS[kind](table)
    expected = lines(scan.to_polars())
    for n in (1, 5):
        splits: list[Split] = pickle.loads(pickle.dumps(scan.splits(n)))
        assert len(splits) <= n
        assert lines(*(split.to_polars() for split in splits)) == expected
        assert lines(*(split.to_arrow() for split in splits)) == expected
        assert sum(split.count() for split in splits) == scan.count()
        assert all(split.schema == scan.schema == split.to_arrow().schema for split in splits)
        assert all(batch.num_rows <= 2 for split in splits for batch in split.to_batches(2))


@pytest.mark.parametrize("limit", [0, 5, 1000])
@pytest.mark.parametrize("filter", [None, "id > 3"])
def test_splits_of_a_limit_hold_so_many_rows_together(table: morrow.Table, limit: int, filter: str | None) -> None:
    scan, whole = table.scan(["id"], filter, limit), table.scan(["id"], filter).to_polars()
    for n in (1, 4):
        found = [split.to_polars() for split in scan.splits(n)]
        ids = pl.concat([whole.clear(), *found])
        assert ids.height == scan.count()
        assert ids.join(whole, on="id", how="anti").is_empty()


def test_splits_are_cut_by_number_rows_and_bytes(tmp_path: Path) -> None:
    table = morrow.Catalog(tmp_path).create_table("db.t", schema="id INT")
    table.append({"id": [*range(100)]})
    scan = table.scan()
    assert [split.count() for split in scan.splits(4)] == [25, 25, 25, 25]
    assert [split.count() for split in scan.splits(rows=30)] == [25, 25, 25, 25]
    assert len(scan.splits()) == len(scan.splits(bytes="1 mb")) == 1
    assert len(scan.splits(bytes=scan.splits()[0].size // 3)) in (3, 4)
    assert pl.concat(split.to_polars() for split in scan.splits(7)).equals(scan.to_polars())
    assert len(pickle.dumps(scan.splits(100)[5])) < 2500


def test_a_seed_shuffles_chunks_the_same_way(tmp_path: Path) -> None:
    table = morrow.Catalog(tmp_path).create_table("db.t", schema="id INT")
    table.append({"id": [*range(20)]})

    def ids(seed: int | None) -> list[list[int]]:
        return [split.to_polars()["id"].to_list() for split in table.scan().splits(rows=5, seed=seed)]

    assert ids(None) == [[*range(first, first + 5)] for first in range(0, 20, 5)]
    assert ids(1) == ids(1) != ids(2)
    assert sorted(ids(1)) == ids(None)


def test_shards_are_disjoint_and_may_be_empty(table: morrow.Table) -> None:
    scan = table.scan()
    for count in (1, 2, 50):
        assert lines(*(scan.shard(index, count).to_polars() for index in range(count))) == lines(scan.to_polars())
    empty = scan.shard(49, 50)
    assert empty.schema == scan.schema
    assert empty.to_arrow().num_rows == empty.count() == 0


def test_slices_are_positions_of_the_scan(tmp_path: Path) -> None:
    table = morrow.Catalog(tmp_path).create_table("db.t", schema="id INT", options={"deletion-vectors.enabled": True})
    table.append({"id": [*range(10)]})
    table.append({"id": [*range(10, 20)]})
    table.delete("id IN (3, 12)")
    rows = table.scan().to_polars()
    for start, stop in ((0, 5), (2, 2), (4, 13), (15, 99)):
        assert table.scan().slice(start, stop).to_polars().equals(rows[start:stop])
    assert table.scan(limit=6).slice(4, 9).to_polars().equals(rows[4:6])
    assert len(table.scan().slice(0, 3).paths) == 1
    with pytest.raises(Unsupported, match="use splits or shard"):
        table.scan(filter="id > 3").slice(0, 1)


def test_splits_of_some_buckets(tmp_path: Path) -> None:
    lake = morrow.Catalog(tmp_path)
    table = lake.create_table("db.t", schema="id INT NOT NULL", primary_keys=["id"], options={"bucket": 3})
    table.upsert({"id": [*range(20)]})
    by_bucket = [lines(*(s.to_polars() for s in table.scan().splits(4, buckets=[bucket]))) for bucket in range(3)]
    assert sorted(line for each in by_bucket for line in each) == lines(table.to_polars())
    assert all(by_bucket)
    assert table.scan().splits(buckets=[7]) == []


@pytest.mark.parametrize("table", ["folded when read"], indirect=True)
def test_another_process_reads_a_split_of_its_snapshot(table: morrow.Table, tmp_path: Path) -> None:
    scan = table.scan(["id", "v"], "id > 2")
    data = pickle.dumps(scan.splits(2))
    (tmp_path / "splits").write_bytes(data)
    code = (
        "import pickle, pathlib, sys\n"
        "splits = pickle.loads(pathlib.Path(sys.argv[1]).read_bytes())\n"
        "print(sorted(row for split in splits for row in split.to_polars().rows()))"
    )
    done = subprocess.run([sys.executable, "-c", code, tmp_path / "splits"], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(sorted(scan.to_polars().rows()))


def test_splits_hold_no_secrets() -> None:
    from morrow.engine.io.resolve import resolve

    options = {"aws_access_key_id": "key", "aws_secret_access_key": "hidden-words", "aws_region": "us-east-1"}
    store, _ = resolve("s3://bucket/lake/db.db/t", options)
    split = pickle.dumps(Split((), store, (), "t"))
    assert b"hidden-words" not in split


def test_a_split_is_narrowed(table: morrow.Table) -> None:
    split = table.scan().splits(1)[0]
    narrow = split.narrowed(["v"], "id = 9")
    assert lines(narrow.to_polars()) == lines(table.to_polars(["v"], "id = 9"))
    with pytest.raises(ColumnNotFound, match="no column 'x'"):
        split.narrowed(["x"])
    with pytest.raises(InvalidArgument, match="limit"):
        table.scan(filter="id > 1", limit=1).splits(1)[0].narrowed(filter="id = 1")
    with pytest.raises(Unsupported, match="members"):
        table.scan(["inner.a"]).splits(1)[0].narrowed(["a"])


@pytest.mark.parametrize("table", ["append"], indirect=True)
@pytest.mark.parametrize(
    "call",
    [
        lambda scan: scan.splits(0),
        lambda scan: scan.splits(True),
        lambda scan: scan.splits(2, rows=3),
        lambda scan: scan.splits(rows=0),
        lambda scan: scan.splits(bytes="many"),
        lambda scan: scan.splits(bytes=-1),
        lambda scan: scan.splits(seed="x"),
        lambda scan: scan.splits(buckets=["x"]),
        lambda scan: scan.shard(2, 2),
        lambda scan: scan.shard(-1, 2),
        lambda scan: scan.shard(0, 0),
        lambda scan: scan.slice(3, 2),
        lambda scan: scan.slice(-1, 2),
    ],
)
def test_wrong_calls(table: morrow.Table, call: Callable[[morrow.Scan], object]) -> None:
    with pytest.raises(InvalidArgument):
        call(table.scan())


# --- fragments of datasets ---


def test_fragments_are_the_files_of_a_dataset(table: morrow.Table) -> None:
    dataset = table.dataset()
    fragments = list(pickle.loads(pickle.dumps([*dataset.get_fragments()])))
    assert all(isinstance(fragment, pads.Fragment) for fragment in fragments)
    assert sum(fragment.count_rows() for fragment in fragments) == table.count()
    assert lines(*(fragment.to_table() for fragment in fragments)) == lines(table.to_polars())
    [path] = {path for fragment in fragments for path in fragment.paths if path == fragments[0].paths[0]}
    assert path in str(fragments[0])
    above = pc.field("id") > 15
    assert lines(*(f.to_table(columns=["id"], filter=above) for f in dataset.get_fragments(above))) == lines(
        table.to_polars(["id"], "id > 15")
    )
    first = fragments[0]
    assert first.physical_schema == dataset.schema
    assert first.partition_expression.equals(pc.scalar(True))
    assert first.head(2).num_rows == first.take([1, 0]).num_rows == 2
    assert first.scanner(columns={"twice": pc.field("id") * 2}).to_table().column_names == ["twice"]
    assert sum(batch.num_rows for batch in first.to_batches()) == first.count_rows()
    with pytest.raises(InvalidArgument, match="schema"):
        first.scanner(pa.schema([]))


def test_a_dataset_with_a_limit_is_one_fragment(table: morrow.Table) -> None:
    [fragment] = table.scan(limit=3).dataset().get_fragments()
    assert fragment.count_rows() == 3


def test_splits_of_a_fallback_branch_have_the_schema_of_the_scan(tmp_path: Path) -> None:
    """The branch has a primary key, so its columns are NOT NULL; main's are not."""
    lake = morrow.Catalog(tmp_path)
    main = lake.create_table("db.t", schema="p STRING, id INT, v INT", partition_keys=["p"])
    main.branches.create("b")
    schema = json.loads((tmp_path / "db.db/t/schema/schema-0").read_text())
    schema |= {"id": 1, "primaryKeys": ["p", "id"], "options": {"bucket": "1"}}
    for field in schema["fields"][:2]:
        field["type"] += " NOT NULL"
    (tmp_path / "db.db/t/branch/branch-b/schema/schema-1").write_text(json.dumps(schema))
    main.append({"p": ["a"], "id": [1], "v": [1]})
    main.on_branch("b").append({"p": ["b"], "id": [2], "v": [2]})
    main.alter.set_options({"scan.fallback-branch": "b"})

    scan = main.scan()
    splits = scan.splits(2)
    assert lines(*(split.to_arrow() for split in splits)) == ["('a', 1, 1)", "('b', 2, 2)"]
    assert all(batch.schema == scan.schema for split in splits for batch in split.to_batches())
