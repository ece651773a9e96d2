"""Updates of tables whose engine combines versions do what they say, or are refused."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import morrow
from morrow.engine.errors import Unsupported
from tests.support.written import new_table, rows

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
    """Makes a table that overwrites a and sums s up in the group of g; row 2 has no sequence."""
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
