"""MERGE INTO: changes of matched rows, and of rows without a match."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pytest

import morrow
from morrow.engine.errors import ColumnNotFound, InvalidArgument, Unsupported
from tests.support.written import new_table, rows

CHANGES = pl.DataFrame({"id": [2, 3, 9], "p": ["x", "y", "z"], "n": [1, 2, 3], "v": ["B", "gone", "I"]})


def on(table: morrow.Table) -> list[str]:
    return list(table.primary_keys) or ["id"]


def test_update_delete_and_insert(any_table: morrow.Table) -> None:
    (
        any_table.merge(CHANGES, on=on(any_table))
        .when_matched_delete("source.v = 'gone'")
        .when_matched_update({"n": "target.n + source.n", "v": pl.col("source.v")})
        .when_not_matched_insert()
        .execute()
    )
    assert rows(any_table) == [(1, "x", 10, "a"), (2, "x", 21, "B"), (4, "y", None, "d"), (9, "z", 3, "I")]
    assert len([s for s in any_table.snapshots() if s.commit_kind != "COMPACT"]) == 2


def test_all_columns_of_the_source(any_table: morrow.Table) -> None:
    any_table.merge(CHANGES.select("id", "p", "v"), on=on(any_table)).when_matched_update().execute()
    assert rows(any_table, columns=["id", "n", "v"]) == [(1, 10, "a"), (2, 20, "B"), (3, 30, "gone"), (4, None, "d")]


def test_what_the_source_does_not_match(any_table: morrow.Table) -> None:
    (
        any_table.merge(CHANGES, on="target.id = source.id")
        .when_not_matched_by_source_update({"n": "0"}, condition="target.n IS NULL")
        .when_not_matched_by_source_delete()
        .execute()
    )
    assert rows(any_table, columns=["id", "n"]) == [(2, 20), (3, 30), (4, 0)]


def test_any_condition_matches(keyed: morrow.Table) -> None:
    source = {"low": [15], "high": [35]}
    keyed.merge(source, on="target.n BETWEEN source.low AND source.high").when_matched_update({"n": -1}).execute()
    assert rows(keyed, columns=["id", "n"]) == [(1, 10), (2, -1), (3, -1), (4, None)]


def test_insert_chosen_columns_of_chosen_rows(keyed: morrow.Table) -> None:
    source = pl.DataFrame({"id": [8, 9], "name": ["eight", "nine"]})
    (
        keyed.merge(source, on="id")
        .when_not_matched_insert({"id": "source.id", "v": "upper(source.name)"}, condition=pl.col("source.id") > 8)
        .execute()
    )
    assert rows(keyed, filter="id > 4") == [(9, None, None, "NINE")]


def test_nulls_match_nothing(any_table: morrow.Table) -> None:
    source = {"id": [5], "p": ["x"], "n": [None], "v": ["new"]}
    any_table.merge(source, on="n").when_matched_delete().when_not_matched_insert().execute()
    assert rows(any_table, columns=["id"]) == [(1,), (2,), (3,), (4,), (5,)]


def test_nothing_to_do(any_table: morrow.Table) -> None:
    merge = any_table.merge(CHANGES.clear(), on=on(any_table)).when_matched_delete().when_not_matched_insert()
    assert merge.execute() is None


def test_a_merge_is_written_down_before_it_runs(keyed: morrow.Table) -> None:
    merge = keyed.merge(CHANGES, on="id")
    assert merge.when_matched_delete().clauses == (*merge.clauses, *merge.when_matched_delete().clauses)
    assert rows(keyed, columns=["id"]) == [(1,), (2,), (3,), (4,)]


def test_several_sources_for_one_row(any_table: morrow.Table) -> None:
    before = rows(any_table)
    twice = pl.concat([CHANGES, CHANGES.head(1)])
    with pytest.raises(InvalidArgument, match=r"several rows of the source match one row of the table .*'id': 2"):
        any_table.merge(twice, on=on(any_table)).when_matched_update({"n": "source.n"}).execute()
    assert rows(any_table) == before
    any_table.merge(twice, on=on(any_table)).when_not_matched_insert().execute()
    assert rows(any_table) == [*before, (9, "z", 3, "I")]


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda m: m, InvalidArgument, "merge: say what to do"),
        (lambda m: m.when_matched_update({"id": "source.id"}), InvalidArgument, "'id' is part of the primary key"),
        (lambda m: m.when_matched_update({"nope": 1}), ColumnNotFound, "no column 'nope'"),
        (lambda m: m.when_not_matched_by_source_delete("n > 5"), ColumnNotFound, "no column 'n'; write target.n$"),
        (lambda m: m.when_matched_update({"n": "id"}), ColumnNotFound, "'id'; write target.id or source.id$"),
        (lambda m: m.when_matched_delete(pl.col("n") > 5), ColumnNotFound, r"write pl.col\('target.n'\)"),
        (
            lambda m: m.when_matched_update({"n": "n + 1"}),
            ColumnNotFound,
            "no column 'n'; write target.n",
        ),
        (lambda m: m.when_matched_update({"n": "source.x"}), ColumnNotFound, "no column 'source.x'; source has id, p"),
        (lambda m: m.when_not_matched_insert({"n": "target.n"}), ColumnNotFound, "no column 'target.n'"),
        (lambda m: m.when_matched_delete(5), InvalidArgument, "a int is not a condition"),
        (lambda m: m.when_matched_delete("source.v + 1 > 0"), InvalidArgument, "DuckDB cannot compute"),
        (
            lambda m: m.when_not_matched_insert({"v": "source.v"}),
            InvalidArgument,
            "the data lacks the primary key column id",
        ),
    ],
)
def test_what_is_refused(keyed: morrow.Table, make: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make(keyed.merge(CHANGES, on="id")).execute()
    assert len(keyed.snapshots()) == 1


@pytest.mark.parametrize(
    ("on", "error", "message"),
    [
        ([], InvalidArgument, "give the columns or the condition to match on"),
        (["v", "zz"], ColumnNotFound, "no column 'zz'"),
        ("target.id = source.zz", ColumnNotFound, "no column 'source.zz'"),
        ("target.id ==== 1", InvalidArgument, "does not parse"),
    ],
    ids=str,
)
def test_what_cannot_be_matched_on(keyed: morrow.Table, on: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        keyed.merge(CHANGES, on=on).when_matched_delete().execute()


def test_a_column_to_match_on_that_the_source_lacks(keyed: morrow.Table) -> None:
    with pytest.raises(ColumnNotFound, match="merge on 'p': the source has only id"):
        keyed.merge({"id": [1]}, on=["id", "p"]).when_matched_delete().execute()


def test_floats_of_pandas_that_stand_for_integers(tmp_path: Path) -> None:
    table = new_table(tmp_path, "id BIGINT, v INT, d DATE", keys=["id"], options={"bucket": 1})
    table.append({"id": [1, 2], "v": [1, 2], "d": [None, None]})
    given = pd.DataFrame({"id": [1.0, 3.0], "v": [10.0, None], "d": pd.to_datetime(["2024-02-29", None])})
    table.merge(given, on="id").when_matched_update().when_not_matched_insert().execute()
    assert rows(table) == [(1, 10, date(2024, 2, 29)), (2, 2, None), (3, None, None)]
    for wrong in (1.5, 2.0**60):
        with pytest.raises(InvalidArgument, match="column 'id': double where BIGINT NOT NULL is needed"):
            table.merge(pd.DataFrame({"id": [wrong]}), on="id").when_not_matched_insert().execute()


def test_engines_that_do_not_merge(tmp_path: Path) -> None:
    table = new_table(tmp_path, "id INT, v INT", keys=["id"], options={"bucket": 1, "merge-engine": "aggregation"})
    with pytest.raises(Unsupported, match="a merge of a table with the merge engine aggregation"):
        table.merge({"id": [1], "v": [1]}, on="id").when_not_matched_insert().execute()


def test_dates_of_the_source_that_no_calendar_has_are_refused(tmp_path: Path) -> None:
    table = new_table(tmp_path, "day DATE, v INT")
    table.append({"day": [date(2024, 1, 1)], "v": [1]})
    source = pl.DataFrame({"day": pl.Series([2**31 - 1], dtype=pl.Int32).cast(pl.Date), "v": [2]})
    with pytest.raises(InvalidArgument, match="is outside of the years 1 to 9999"):
        table.merge(source, on="day").when_matched_delete().execute()
