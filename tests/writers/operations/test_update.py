"""Updates set columns of the rows that match."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import morrow
from morrow.engine.errors import ColumnNotFound, InvalidArgument, Unsupported
from tests.support.written import new_table, rows


def test_sql_polars_and_plain_values(any_table: morrow.Table) -> None:
    any_table.update({"n": "n * 2 + id", "v": pl.col("v").str.to_uppercase()}, where="id <= 2")
    any_table.update({"n": 5}, where=pl.col("n").is_null())
    assert rows(any_table) == [(1, "x", 21, "A"), (2, "x", 42, "B"), (3, "y", 30, "c"), (4, "y", 5, "d")]


def test_all_rows_and_every_expression_sees_the_old_row(any_table: morrow.Table) -> None:
    any_table.update({"n": "length(v)", "v": "v || coalesce(CAST(n AS VARCHAR), '-')"})
    assert rows(any_table, columns=["n", "v"]) == [(1, "a10"), (1, "b20"), (1, "c30"), (1, "d-")]


def test_no_row_matches(any_table: morrow.Table) -> None:
    assert any_table.update({"n": 1}, where="id > 99") is None


def test_a_row_may_move_to_another_partition(tmp_path: Path) -> None:
    for keys in ([], ["id"]):
        table = new_table(tmp_path, "id INT, p STRING", keys=keys, by=["p"], name=f"t{len(keys)}")
        table.append({"id": [1, 2], "p": ["x", "x"]})
        table.update({"p": "'y'"}, "id = 1")
        assert rows(table) == [(1, "y"), (2, "x")]


def test_assignment_casts_as_sql_does(tmp_path: Path) -> None:
    table = new_table(tmp_path, "id INT, m DECIMAL(10, 2), f FLOAT, d DATE, t TIMESTAMP(3), l ARRAY<INT>")
    table.append(pl.DataFrame({"id": [1], "m": [Decimal("1.50")], "f": None, "d": None, "t": None, "l": None}))
    table.update({"m": "m * 1.115", "f": "0.1", "d": "'2024-05-14'", "t": "DATE '2024-05-14'", "l": "[id, 2]"})
    (row,) = table.scan().to_arrow().to_pylist()
    assert row["m"] == Decimal("1.67")
    assert row["f"] == pytest.approx(0.1)
    assert (row["d"], row["t"]) == (dt.date(2024, 5, 14), dt.datetime(2024, 5, 14))
    assert row["l"] == [1, 2]


def test_plain_values_of_all_sorts(tmp_path: Path) -> None:
    table = new_table(tmp_path, "id INT, m DECIMAL(10, 2), d DATE, z TIMESTAMP_LTZ(3), b BYTES, l ARRAY<INT>, s STRING")
    table.append(pl.DataFrame({"id": [1], "m": None, "d": None, "z": None, "b": None, "l": None, "s": None}))
    noon = dt.datetime(2024, 5, 14, 12, tzinfo=dt.UTC)
    new = {"m": Decimal("2.5"), "d": noon.date(), "z": noon, "b": b"x", "l": [1], "s": pl.lit("text")}
    table.update(new)
    (row,) = table.scan().to_arrow().to_pylist()
    assert row == {"id": 1, **new, "s": "text"}
    table.update(dict.fromkeys(new))
    assert set(table.scan(columns=list(new)).to_polars().row(0)) == {None}


@pytest.mark.parametrize(
    ("new", "message"),
    [
        ({"n": "done"}, r"set n: there is no column 'done'; .*polars.lit\('done'\)"),
        ({"nope": "1"}, r"no column 'nope'"),
        ({"n": "sum(n)"}, r"set n: an aggregate function cannot be used here"),
        ({"n": "(SELECT 1)"}, r"set n: a subquery cannot be used here"),
        ({"n": "1; DROP TABLE rows"}, r"set n: the SQL expression .* does not parse"),
        ({"n": "'x'"}, r"column 'n': string where INT is needed"),
        ({"n": 2**40}, r"set n: 1099511627776 does not fit INT"),
        ({"n": "n * 1000000000"}, r"DuckDB cannot compute set n"),
        ({"n": 1.5}, r"set n: 1.5 does not fit INT"),
        ({"v": 5}, r"set v: 5 does not fit STRING"),
        ({"n": pl.col("zz")}, r"set n: there is no column 'zz'"),
        ({"n": pl.col("v") + 1}, r"set n: "),
        ({"id": "id + 1"}, r"'id' is part of the primary key"),
        ({}, r"give the columns to set"),
        ("n = 1", r"give the columns to set"),
    ],
    ids=lambda value: " ".join(map(str, value.values())) if isinstance(value, dict) else value,  # never an address
)
def test_what_is_refused_changes_nothing(keyed: morrow.Table, new: Any, message: str) -> None:
    before = rows(keyed)
    with pytest.raises((InvalidArgument, ColumnNotFound), match=message):
        keyed.update(new)
    assert rows(keyed) == before
    assert len(keyed.snapshots()) == 1


@pytest.mark.parametrize("engine", ["first-row", "aggregation"])
def test_engines_that_update_no_rows(tmp_path: Path, engine: str) -> None:
    table = new_table(tmp_path, "id INT, v INT", keys=["id"], options={"bucket": 1, "merge-engine": engine})
    with pytest.raises(Unsupported, match=f"an update of a table with the merge engine {engine} is not supported"):
        table.update({"v": 1})


@pytest.mark.parametrize("bucket", [1, -2])
def test_rows_that_a_new_version_would_not_move(tmp_path: Path, bucket: int) -> None:
    """With fixed buckets, each partition has its own row for a key, so the old row would remain."""
    table = new_table(tmp_path, "id INT, p STRING, v INT", keys=["id"], by=["p"], options={"bucket": bucket})
    table.append({"id": [1, 1], "p": ["a", "b"], "v": [1, 2]})
    with pytest.raises(Unsupported, match="the partition column 'p', which would not move the row, is not supported"):
        table.update({"p": "'z'"}, "v = 1")
    table.update({"p": "p", "v": "v + 1"})
    table.compact()
    assert rows(table) == [(1, "a", 2), (1, "b", 3)]


def test_not_null_columns(tmp_path: Path) -> None:
    table = new_table(tmp_path, "id INT, v INT NOT NULL")
    table.append({"id": [1], "v": [1]})
    with pytest.raises(InvalidArgument, match="'v' is INT NOT NULL and the data has 1 null"):
        table.update({"v": None})
    assert rows(table) == [(1, 1)]


# Updates of tables whose engine combines versions take effect exactly, or are refused.

GROUPED = {
    "merge-engine": "partial-update",
    "bucket": 1,
    "fields.g.sequence-group": "a,s",
    "fields.s.aggregate-function": "sum",
}


def plain(path: Path, **options: object) -> morrow.Table:
    chosen = {"merge-engine": "partial-update", "bucket": 1, **options}
    table = new_table(path, "id INT, a INT, b STRING", keys=["id"], options=chosen)
    table.upsert({"id": [1, 2], "a": [1, None], "b": ["x", "y"]})
    return table


def grouped(path: Path) -> morrow.Table:
    """Make a table that overwrites a and sums up s in the group of g; row 2 has a null sequence."""
    table = new_table(path, "id INT, g INT, a INT, s INT, b INT", keys=["id"], options=GROUPED)
    table.upsert({"id": [1, 2], "g": [1, None], "a": [1, None], "s": [10, None], "b": [0, 0]})
    return table


def test_a_value_cannot_become_null_where_null_leaves_it(tmp_path: Path) -> None:
    table = plain(tmp_path)
    for value in (None, "NULL", "CASE WHEN id = 2 THEN 5 END", pl.lit(None)):
        with pytest.raises(Unsupported, match="makes 'a' null in a table with the merge engine partial-update"):
            table.update({"a": value})
    assert rows(table) == [(1, 1, "x"), (2, None, "y")]
    table.update({"a": "CASE WHEN id = 1 THEN 5 END", "b": "b || '!'"})
    assert rows(table) == [(1, 5, "x!"), (2, None, "y!")]


def test_nulls_count_in_a_sequence_group(tmp_path: Path) -> None:
    table = grouped(tmp_path)
    table.update({"a": None}, "id = 1")
    assert rows(table, columns=["id", "a"]) == [(1, None), (2, None)]


def test_what_a_function_combined_is_not_combined_again(tmp_path: Path) -> None:
    table = grouped(tmp_path)
    table.update({"b": "b + 1"})
    table.update({"a": 7, "g": "coalesce(g, 0) + 1"}, "id = 1")
    assert rows(table, filter="id = 1") == [(1, 2, 7, 10, 1)]
    with pytest.raises(Unsupported, match="the column 's', whose values the function sum combines"):
        table.update({"s": "5"})
    assert rows(table, filter="id = 1") == [(1, 2, 7, 10, 1)]


def test_without_a_sequence_a_group_takes_nothing(tmp_path: Path) -> None:
    table = grouped(tmp_path)
    with pytest.raises(Unsupported, match="where its sequence group"):
        table.update({"a": "9"})
    table.update({"a": "9", "g": "1"}, "id = 2")
    assert rows(table, columns=["id", "g", "a"]) == [(1, 1, 1), (2, 1, 9)]
    table.upsert({"id": [3], "g": [None], "a": [5], "s": [None], "b": [0]})
    with pytest.raises(Unsupported, match="the value of 'a' would be lost"):
        table.update({"b": "1"})


@pytest.mark.parametrize(
    ("options", "back", "on"),
    [
        ({"sequence.field": "a"}, "a - 1", "a + 1"),
        ({"sequence.field": "a", "sequence.field.sort-order": "descending"}, "a + 1", "a - 1"),
        ({"sequence.field": "a", "merge-engine": "partial-update"}, "a - 1", "a + 1"),
    ],
    ids=["ascending", "descending", "partial-update"],
)
def test_a_sequence_is_not_set_back(tmp_path: Path, options: dict[str, object], back: str, on: str) -> None:
    table = new_table(tmp_path, "id INT, a INT, b INT", keys=["id"], options={"bucket": 1, **options})
    table.upsert({"id": [1], "a": [5], "b": [0]})
    with pytest.raises(Unsupported, match="sets back the sequence"):
        table.update({"a": back, "b": "1"})
    table.update({"a": on, "b": "b + 1"})
    table.update({"b": "b + 1"})
    assert [b for *_, b in rows(table)] == [2]


def test_merges_are_held_to_the_same(tmp_path: Path) -> None:
    table = plain(tmp_path)
    source = {"id": [1, 3], "a": [None, 3], "b": ["n", "new"]}
    with pytest.raises(Unsupported, match="makes 'a' null"):
        table.merge(pl.DataFrame(source), on="id").when_matched_update().when_not_matched_insert().execute()
    assert rows(table) == [(1, 1, "x"), (2, None, "y")]
    table.merge(pl.DataFrame(source), on="id").when_matched_update(
        {"b": "source.b"}
    ).when_not_matched_insert().execute()
    assert rows(table) == [(1, 1, "n"), (2, None, "y"), (3, 3, "new")]


@pytest.mark.parametrize("engine", ["aggregation", "first-row"])
def test_engines_that_update_nothing(tmp_path: Path, engine: str) -> None:
    options = {"merge-engine": engine, "bucket": 1, "fields.v.aggregate-function": "sum"}
    table = new_table(tmp_path, "id INT, v INT", keys=["id"], options=options)
    table.upsert({"id": [1], "v": [1]})
    with pytest.raises(Unsupported, match=f"an update of a table with the merge engine {engine}"):
        table.update({"v": "5"})
    with pytest.raises(Unsupported, match="a merge that updates"):
        table.merge(pl.DataFrame({"id": [1], "v": [5]}), on="id").when_matched_update().execute()


def test_a_row_that_no_group_could_remove_is_not_deleted_in_words_alone(tmp_path: Path) -> None:
    options = {**GROUPED, "partial-update.remove-record-on-sequence-group": "g"}
    table = new_table(tmp_path, "id INT, g INT, a INT, s INT", keys=["id"], options=options)
    table.upsert({"id": [1, 2], "g": [1, None], "a": [1, 1], "s": [1, 1]})
    with pytest.raises(Unsupported, match="it would stay"):
        table.delete("id = 2")
    table.delete("id = 1")
    assert [key for key, *_ in rows(table)] == [2]
