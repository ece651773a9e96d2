"""SQL that is nested deeper than Python's stack is read up to a limit and refused beyond it."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import pytest

import morrow
from morrow.engine.errors import InvalidArgument
from morrow.engine.plan.filter.sql_parsing import MAX_CALLS, MAX_NESTING, measure_nesting, run_with_stack
from tests.support.written import new_table

FORMS = {
    "parentheses": ("(", "id = 3", ")"),
    "conditions": ("(id = 3 OR ", "id = 3", ")"),
    "both connectives": ("(id = 3 OR (s = 'a' AND ", "id = 3", "))"),
    "NOT": ("NOT ", "id <> 7 AND id = 3", ""),
    "NOT of parentheses": ("NOT (", "id = 3", ")"),
}
CALLS = {
    "functions": ("abs(", "id", ")", " = 3"),
    "lists": ("[", "id", "]", " IS NOT NULL AND id = 3"),
    "CASE": ("CASE WHEN true THEN ", "id", " END", " = 3"),
}


def nested(form: tuple[str, str, str], levels: int) -> str:
    before, inner, behind = form
    count = levels // max(before.count("(") + before.count("NOT"), 1)
    return before * count + inner + behind * count


@pytest.fixture
def table(tmp_path: Path) -> morrow.Table:
    table = new_table(tmp_path, "id BIGINT, s STRING")
    table.append({"id": list(range(6)), "s": list("aabbcc")})
    return table


@pytest.mark.parametrize("form", FORMS)
def test_conditions(table: morrow.Table, form: str) -> None:
    before = sys.getrecursionlimit(), threading.stack_size()
    text = nested(FORMS[form], 500)
    assert table.scan(["id"], text).to_arrow().to_pydict() == {"id": [3]}
    assert (sys.getrecursionlimit(), threading.stack_size()) == before
    with pytest.raises(InvalidArgument, match="nested too deeply"):
        table.scan(filter=nested(FORMS[form], MAX_NESTING + 10))


@pytest.mark.parametrize("form", CALLS)
def test_calls(table: morrow.Table, form: str) -> None:
    """DuckDB evaluates calls in threads of its own, so their stacks limit the depth."""
    before, inner, behind, end = CALLS[form]
    assert table.scan(filter=before * 150 + inner + behind * 150 + end).count() == 1
    assert table.scan(filter=" + ".join(["id"] * 400) + " = 1200").count() == 1
    for levels in (MAX_CALLS + 1, 500, 5000):
        with pytest.raises(InvalidArgument, match="nested too deeply"):
            table.scan(filter=before * levels + inner + behind * levels + end)


def test_queries_and_updates(table: morrow.Table) -> None:
    catalog = morrow.Catalog(Path(table.path).parent.parent)
    condition = nested(FORMS["both connectives"], 500)
    assert catalog.sql(f"SELECT id FROM db.t WHERE {condition}").fetchall() == [(3,)]
    with pytest.raises(InvalidArgument, match=r"the query: .* nested too deeply"):
        catalog.sql(f"SELECT id FROM db.t WHERE {'(' * 3000}id = 3{')' * 3000}")
    table.update({"id": "(" * 400 + "id + 10" + ")" * 400}, where=condition)
    assert table.scan(filter="id = 13").count() == 1
    with pytest.raises(InvalidArgument, match="nested too deeply"):
        table.update({"id": "abs(" * 300 + "id" + ")" * 300}, where="id = 13")


def test_a_caller_that_is_deep_itself(table: morrow.Table) -> None:
    """A filter is parsed on a stack of its own, so a deep caller does not matter."""

    def down(levels: int) -> int:
        return down(levels - 1) if levels else table.scan(filter="(((((((s = 'a' OR abs(id) = 3)))))))").count()

    assert down(sys.getrecursionlimit() - 450) == 3


def test_what_opens_levels() -> None:
    from sqlglot.dialects.duckdb import DuckDB

    for text, depth in (
        ("a = 1", 0),
        ("(a = 1) OR (b = 2)", 1),
        ("NOT NOT a", 2),
        ("NOT (NOT (a)) AND NOT b", 4),
        ("CASE WHEN [{'a': (1)}] IS NULL THEN 1 END = 1", 4),
        ("a = -1 AND b = -2 AND c = - - 3", 2),
    ):
        assert measure_nesting(DuckDB().tokenize(text)) == depth, text


def test_errors_keep_their_type() -> None:
    def fail() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError, match="x"):
        run_with_stack(fail, "a", "filter")
