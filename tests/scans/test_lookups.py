"""Rows by primary key: `Table.get`, `Table.get_many`, and filters that give keys, for all engines and bucket modes."""

from __future__ import annotations

import datetime as dt
import math
import random
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import morrow
import morrow.variant
from morrow.engine.errors import ColumnNotFound, InvalidArgument, Unsupported
from morrow.engine.format.types import TimestampType
from morrow.readers.execution import lookups, strategy
from morrow.readers.files import excerpts
from tests.support.table_factory import TableFactory
from tests.support.written import new_table

ENGINES: dict[str, dict[str, str]] = {
    "deduplicate": {},
    "sequence field": {"sequence.field": "n"},
    "partial-update": {"merge-engine": "partial-update"},
    "aggregation": {"merge-engine": "aggregation", "fields.n.aggregate-function": "sum"},
    "first-row": {"merge-engine": "first-row"},
    "deletion vectors": {"deletion-vectors.enabled": "true"},
    "ORC": {"file.format": "orc"},
    "Avro": {"file.format": "avro"},
}
BUCKETS = {"fixed": "3", "dynamic": "-1", "one": "1"}
KEYS: dict[str, list[Any]] = {
    "BIGINT": [*range(12)],
    "STRING": ["", "a", "ab", "ä", "\U0001f600", "z", "\ud7ff"],
    "CHAR(3)": ["a  ", "ab ", "abc"],
    "DOUBLE": [0.0, -0.0, math.nan, math.inf, -1.5, 2.5],
    "DECIMAL(20, 2)": [Decimal("-1.50"), Decimal("0.00"), Decimal("12345678901234567.89")],
    "DATE": [dt.date(1960, 1, 1), dt.date(2024, 5, 14)],
    "TIMESTAMP(6)": [dt.datetime(1960, 1, 1, 1, 2, 3, 456789), dt.datetime(2024, 5, 14)],
    "BOOLEAN": [False, True],
    "BYTES": [b"", b"\x00", b"\xff"],
}


def same(left: Sequence[Any], right: Sequence[Any]) -> bool:
    return list(map(repr, left)) == list(map(repr, right))


@pytest.fixture(autouse=True)
def pages_of_small_files(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Read the pages of small files, too; one test in three scans these files, as users do."""
    if len(request.node.name) % 3:
        monkeypatch.setattr(lookups, "MIN_ROWS_PER_PAGE_ROW", 0)


def test_nanoseconds_are_values_of_rows_and_keys(tmp_path: Path) -> None:
    """Keys within a microsecond are compacted, too: stored bounds without nanoseconds are `datetime` values."""
    t = new_table(
        tmp_path,
        "at TIMESTAMP(9), n INT, p TIMESTAMP(9)",
        keys=["at", "p"],
        by=["p"],
        options={"bucket": 1, "num-sorted-run.compaction-trigger": 2},
    )
    at, late, p = (pd.Timestamp(nanos) for nanos in (5_000, 5_001, 1))
    for row in ({"at": at, "n": 1, "p": p}, {"at": late, "n": 2, "p": p}, {"at": late, "n": 3, "p": pd.Timestamp(0)}):
        t.upsert([row])
    t.compact(full=True)

    assert t.get((late, p)) == {"at": late, "n": 2, "p": p}
    assert t.get((at, p)) == {"at": at, "n": 1, "p": p}
    t.merge([{"at": late, "p": p}], ["at", "p"]).when_matched_update({"n": "20"}).execute()
    assert [row["n"] for row in t.scan().to_dicts() if row["p"] == p] == [1, 20]
    t.drop_partition({"p": p})
    assert [row["n"] for row in t.scan().to_dicts()] == [3]


def test_years_that_python_lacks_are_refused() -> None:
    far = pa.array([10**18], pa.timestamp("us"))
    with pytest.raises(Unsupported, match=r"TIMESTAMP\(6\) as Python values .* is not supported; .* read by to_arrow"):
        morrow.variant.to_values(far, TimestampType(6))


@pytest.mark.parametrize("modes", BUCKETS)
@pytest.mark.parametrize("engine", ENGINES)
def test_rows_of_keys_are_those_of_a_whole_read(tmp_path: Path, engine: str, modes: str) -> None:
    """Upserts and deletes in several commits: every key, and keys without a row, by each way to ask for them."""
    options = {**ENGINES[engine], "bucket": BUCKETS[modes], "write-only": "true"}
    table = new_table(tmp_path, "id BIGINT, n INT, s STRING", keys=["id"], options=options)
    draw = random.Random(f"{engine} {modes}")
    for commit in range(4):
        ids = draw.sample(range(30), 12)
        texts = [None if draw.random() < 0.3 else f"{commit} {i}" for i in ids]
        table.upsert({"id": ids, "n": [draw.randrange(5) for _ in ids], "s": texts})
        if commit == 2 and engine in ("deduplicate", "sequence field", "deletion vectors"):
            table.delete({"id": ids[:4]})
    if engine in ("first-row", "deletion vectors"):
        table.with_options({"write-only": "false"}).compact(full=True)
    rows = {row["id"]: row for row in table.to_polars().to_dicts()}
    for number in (*range(0, 32, 3), 29):
        assert table.get(number) == rows.get(number)
    asked = draw.sample(range(-3, 40), 20)
    asked += asked[:2]
    nothing = {"n": None, "s": None}
    assert table.get_many({"id": asked}).to_dicts() == [rows.get(i, {"id": i, **nothing}) for i in asked]
    listed = [rows[i] for i in sorted(rows) if i in asked]
    assert table.scan(filter=pl.col("id").is_in(asked)).to_polars().sort("id").to_dicts() == listed
    assert table.count(f"id IN ({', '.join(map(str, asked))})") == len(listed)
    assert table.scan(filter="id = 7 AND n >= 0").to_arrow().to_pylist() == [rows[i] for i in rows if i == 7]
    assert table.scan().lazy().filter(pl.col("id") == 7).collect().to_dicts() == [rows[i] for i in rows if i == 7]
    assert sum(batch.num_rows for batch in table.scan(["s"], "id IN (1, 2, 3)").to_batches()) == len(
        {1, 2, 3} & {*rows}
    )


FORMS = [("1", "parquet"), ("4", "parquet"), ("1", "orc")]
# Reads of ORC cut trailing blanks of CHAR, so the key differs from the bounds in metadata.
CASES = [(kind, *form) for kind in KEYS for form in FORMS if (kind, form[1]) != ("CHAR(3)", "orc")]


@pytest.mark.parametrize(("kind", "bucket", "form"), CASES)
def test_keys_of_every_type(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, bucket: str, form: str) -> None:
    monkeypatch.setattr(strategy, "MIN_ROWS_PER_KEY", 0)
    table = new_table(
        tmp_path,
        f"k {kind}, part INT, v INT",
        keys=["k", "part"],
        options={"bucket": bucket, "write-only": "true", "file.format": form},
    )
    values = KEYS[kind]
    for start in (0, 100):
        table.upsert({"k": values, "part": [1] * len(values), "v": [start + i for i in range(len(values))]})
    table.upsert({"k": values[:1], "part": [2], "v": [7]})
    whole = table.to_polars()
    there = whole.to_dicts()
    for number, value in enumerate(values):
        mine = [row for row in there if same([row["k"], row["part"]], [value, 1])]
        found = table.get({"part": 1, "k": value})
        assert found is not None
        assert found["v"] in ([row["v"] for row in mine] or [100 + number, 101])
        assert table.scan(filter=pl.col("k") == pl.lit(value, whole.schema["k"])).count() == sum(
            row["k"] == value or (value != value and row["k"] != row["k"]) for row in there
        )
    assert table.get((values[0], 2)) is not None
    assert table.get((values[-1], 3)) is None
    assert same(table.get_many(whole.select("k", "part")[::-1])["v"].to_list(), [row["v"] for row in reversed(there)])


def test_keys_of_partitions_of_other_snapshots_and_branches(tmp_path: Path) -> None:
    table = new_table(
        tmp_path,
        "day DATE, id INT, v STRING",
        keys=["day", "id"],
        by=["day"],
        options={"bucket": "2"},
    )
    days = [dt.date(2024, 5, day) for day in (1, 2, 3)]
    table.upsert({"day": days, "id": [1, 1, 2], "v": ["a", "b", "c"]})
    table.tags.create("first")
    table.branches.create("dev", tag="first")
    table.upsert({"day": days[:1], "id": [1], "v": ["new"]})
    table.delete({"day": days[1:2], "id": [1]})
    assert table.get((days[0], 1), ["v"]) == {"v": "new"}
    assert table.get((days[0], 1), ["v"], tag="first") == {"v": "a"}
    assert table.get((days[0], 1), ["v"], branch="dev") == {"v": "a"}
    assert table.get((days[1], 1)) is None
    assert table.get((days[1], 1), snapshot=1) == {"day": days[1], "id": 1, "v": "b"}
    many = table.get_many({"day": days, "id": [1, 1, 2]}, ["v"])
    assert many["v"].to_list() == ["new", None, "c"]
    assert table.get_many({"day": days, "id": [1, 1, 2]}, ["v"], missing="skip")["v"].to_list() == ["new", "c"]


def test_keys_that_move_between_partitions(tmp_path: Path) -> None:
    options = {"bucket": "-1", "write-only": "true"}
    table = new_table(tmp_path, "p INT, id INT, v STRING", keys=["id"], by=["p"], options=options)
    table.upsert({"p": [1, 1], "id": [1, 2], "v": ["a", "b"]})
    table.upsert({"p": [2], "id": [1], "v": ["moved"]})
    assert table.get(1) == {"p": 2, "id": 1, "v": "moved"}
    assert table.get_many({"id": [2, 1, 5]})["p"].to_list() == [1, 2, None]


@pytest.mark.parametrize(("kind", "one", "other"), [("INT", 1, 2), ("DOUBLE", 1.5, -0.0)])
def test_keys_of_several_partitions_are_refused(tmp_path: Path, kind: str, one: object, other: object) -> None:
    table = new_table(tmp_path, f"p INT, id {kind}, v STRING", keys=["id"], by=["p"], options={"bucket": 2})
    table.upsert({"p": [1, 1, 2], "id": [one, other, other], "v": ["a", "b", "c"]})
    assert table.get(one) == {"p": 1, "id": one, "v": "a"}
    assert table.get_many({"id": [one, one]})["v"].to_list() == ["a", "a"]
    for look_up in (lambda: table.get(other), lambda: table.get_many({"id": [one, other]})):
        with pytest.raises(InvalidArgument, match="several partitions have a row with the key"):
            look_up()


def test_columns_that_were_renamed_added_and_widened(tmp_path: Path) -> None:
    table = new_table(tmp_path, "id INT, v INT", keys=["id"], options={"bucket": "1", "write-only": "true"})
    table.upsert({"id": [1, 2, 3], "v": [10, 20, 30]})
    table.alter.rename_column("v", "w")
    table.alter.set_type("w", "BIGINT")
    table.alter.add_column("x", "STRING")
    table.upsert({"id": [2], "w": [2**40], "x": ["new"]})
    assert [table.get(i) for i in (1, 2)] == [{"id": 1, "w": 10, "x": None}, {"id": 2, "w": 2**40, "x": "new"}]
    table.alter.rename_column("id", "key")
    assert table.get(2, ["key", "x"]) == {"key": 2, "x": "new"}


def test_rows_of_pages_are_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second row of a page is not decoded again; other columns, names, types and files are."""
    monkeypatch.setattr(lookups, "MIN_ROWS_PER_PAGE_ROW", 0)
    table = new_table(tmp_path, "id INT, v INT, s STRING", keys=["id"], options={"bucket": "1", "write-only": "true"})
    rest = range(4, 400)
    table.upsert({"id": [1, 2, 3, *rest], "v": [10, 20, None, *rest], "s": ["a", None, "c", *map(str, rest)]})
    table.upsert({"id": [0, 400]})
    morrow.clear_caches()
    cut: list[Sequence[str]] = []
    encode = excerpts._encode_file
    monkeypatch.setattr(excerpts, "_encode_file", lambda *parts: cut.append([*parts[1]]) or encode(*parts))

    assert table.get(1, ["v", "id"]) == {"v": 10, "id": 1}
    assert (table.get(2, ["v", "id"]), table.get(3, ["v", "id"])) == ({"v": 20, "id": 2}, {"v": None, "id": 3})
    assert table.get_many({"id": [3, 2, 2]}, ["v"])["v"].to_list() == [None, 20, 20]
    assert cut == [["v"]]
    assert (table.get(2), table.get(3)) == ({"id": 2, "v": 20, "s": None}, {"id": 3, "v": None, "s": "c"})
    assert cut == [["v"], ["v", "s"]]
    table.alter.set_type("v", "BIGINT")
    table.alter.rename_column("s", "t")
    table.upsert({"id": [2], "v": [2**40], "t": ["b"]})
    assert [table.get(i) for i in (1, 2, 2)] == [{"id": 1, "v": 10, "t": "a"}, *[{"id": 2, "v": 2**40, "t": "b"}] * 2]
    assert table.get(2, snapshot=1) == {"id": 2, "v": 20, "s": None}


def test_rows_that_wait_for_their_bucket_are_not_found(tmp_path: Path) -> None:
    table = new_table(
        tmp_path, "id INT, v INT", keys=["id"], options={"bucket": "-2", "postpone.batch-write-fixed-bucket": "false"}
    )
    table.upsert({"id": [1], "v": [1]})
    assert table.get(1) is None
    table.compact()
    assert table.get(1) == {"id": 1, "v": 1}


@pytest.mark.parametrize("few", [0, 1 << 10], ids=["filtered", "sliced"])
def test_many_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, few: int) -> None:
    """Keys of one prefix, and conditions on the rest of the key, in several row groups; by slices and by filters."""
    monkeypatch.setattr(lookups, "MAX_SLICES", few)
    columns = [("a", "STRING NOT NULL"), ("b", "INT NOT NULL"), ("v", "INT")]
    factory = TableFactory(tmp_path / "t", columns, primary_keys=["a", "b"], options={"bucket": "1"})
    old = pl.DataFrame({"a": [f"a{i // 10}" for i in range(100)], "b": [i % 10 for i in range(100)]}).with_columns(v=1)
    new = old.gather_every(7).with_columns(v=2)
    factory.write_file(old.to_arrow(), level=5, row_group_size=8)
    factory.write_file(new.to_arrow(), row_group_size=3)
    factory.commit()
    table = morrow.open(factory.path)
    rows = old.join(new, on=["a", "b"], how="left").select("a", "b", pl.coalesce("v_right", "v").alias("v"))
    for condition in ("a = 'a3'", "a IN ('a0', 'a9', 'b') AND b BETWEEN 3 AND 5", "a = 'a7' AND (b = 2 OR v = 2)"):
        found = table.scan(filter=condition)
        assert "looked up" in str(found.explain())
        assert (
            found.to_polars()
            .sort("a", "b")
            .equals(pl.SQLContext(t=rows).execute(f"SELECT * FROM t WHERE {condition}").collect())
        )
    monkeypatch.setattr("morrow.readers.execution.section_reads.MAX_FOUND_ROWS", 5)
    assert table.count("a = 'a3'") == 10  # scanned, since too many rows have the key


def test_a_lookup_is_one_way_among_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = new_table(tmp_path, "id INT, v INT", keys=["id"], options={"bucket": "1", "write-only": "true"})
    for start in (0, 50):
        table.upsert({"id": range(start, 100), "v": range(start, 100)})
    morrow.clear_caches()
    many = table.scan(filter=f"id IN ({', '.join(map(str, range(45, 55)))})")
    assert "merge section looked up: the filter gives 10 values of the first key column" in str(many.explain())
    assert "scanned: rows are filtered" in str(table.scan(filter="id > 3").explain())
    monkeypatch.setattr(strategy, "MAX_FEW_KEYS", 1)
    assert "looked up" in str(many.explain())
    table.count()  # computes masks
    assert "scanned: rows are filtered" in str(many.explain())


@pytest.mark.parametrize(
    ("key", "error", "message"),
    [
        (None, InvalidArgument, "None is NoneType"),
        ("1", InvalidArgument, "'id' is INT NOT NULL"),
        ((1, 2), InvalidArgument, "the key has 2 values, not 1"),
        ({"id": 1, "x": 2}, ColumnNotFound, "'x' is not a column of the primary key"),
        ({}, InvalidArgument, "the key lacks 'id'"),
    ],
)
def test_keys_that_are_refused(tmp_path: Path, key: object, error: type[Exception], message: str) -> None:
    table = new_table(tmp_path, "id INT, v INT", keys=["id"], options={"bucket": "1"})
    with pytest.raises(error, match=message):
        table.get(key)
    assert table.get(10**12) is None
    assert table.get(0.5) is None


def test_tables_and_data_that_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="no primary key"):
        new_table(tmp_path / "a", "id INT").get(1)
    table = new_table(tmp_path / "b", "id INT, v INT", keys=["id"], options={"bucket": "1"})
    table.upsert({"id": [1], "v": [1]})
    with pytest.raises(InvalidArgument, match=r"1 of 2 keys have no row, the first is \{'id': 5\}"):
        table.get_many({"id": [1, 5]}, missing="error")
    with pytest.raises(InvalidArgument, match="the data lacks the column 'id'"):
        table.get_many({"v": [1]})
    with pytest.raises(InvalidArgument, match="missing is one of"):
        table.get_many({"id": [1]}, missing="none")  # type: ignore[arg-type]
    assert table.get_many({"id": []}).height == 0
    assert table.get_many([{"id": None}, {"id": 1}])["v"].to_list() == [None, 1]
