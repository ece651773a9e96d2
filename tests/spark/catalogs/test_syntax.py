"""The text of Paimon's own statements: parsed by Morrow, left to Spark, or refused."""

from __future__ import annotations

import pytest

from morrow.engine.errors import InvalidArgument
from morrow.spark.catalogs.syntax import Statement, pack_statement, parse_statement, unpack_statement

CREATED = {"tag": "x", "replace": False, "if not exists": False}


@pytest.mark.parametrize(
    ("text", "statement"),
    [
        ("SHOW TAGS tag.`tags` ;;", Statement("show tags", ("tag", "tags"))),
        (
            "alter /* a */ table pm.`my db`.`a.b``c` -- the rest\n create tag if not exists `T-1`",
            Statement("create tag", ("pm", "my db", "a.b`c"), {**CREATED, "tag": "T-1", "if not exists": True}),
        ),
        (
            "ALTER TABLE t CREATE TAG x AS OF VERSION 12 RETAIN 7 DAYS",
            Statement("create tag", ("t",), {**CREATED, "snapshot": 12, "seconds": 604800}),
        ),
        ("ALTER TABLE t REPLACE TAG x", Statement("create tag", ("t",), {**CREATED, "replace": True})),
        ("ALTER TABLE t CREATE OR REPLACE TAG x", Statement("create tag", ("t",), {**CREATED, "replace": True})),
        ("ALTER TABLE t DELETE TAG 2024_x", Statement("delete tag", ("t",), {"tags": "2024_x", "if exists": False})),
        (
            "ALTER TABLE t RENAME TAG to TO `ü'`",
            Statement("rename tag", ("t",), {"tag": "to", "to": "ü'", "if exists": False}),
        ),
        ("ALTER TABLE tag RENAME TO other", None),
        ("ALTER TABLE t ADD COLUMN tag INT", None),
        ("ALTER TABLE t; CREATE TAG x", None),
        ("SELECT 'SHOW TAGS t", None),
        ("EXPLAIN SHOW TAGS t", None),
    ],
)
def test_parsed(text: str, statement: Statement | None) -> None:
    assert parse_statement(text) == statement


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("SHOW TAGS 't'", "a name is expected, not \"'t'\""),
        ("ALTER TABLE t CREATE TAG 1", "a name is expected, not '1'"),
        ("ALTER TABLE t CREATE TAG a.b", "the end of the statement is expected, not '.'"),
        ("ALTER TABLE t CREATE TAG x RETAIN 5 WEEKS", "DAYS or HOURS or MINUTES is expected, not 'WEEKS'"),
        ("ALTER TABLE t CREATE TAG x AS OF VERSION -1", "a number is expected, not '-'"),
        ("ALTER TABLE t REPLACE TAG IF NOT EXISTS x", "the end of the statement is expected, not 'NOT'"),
        ("ALTER TABLE t\nRENAME TAG x", "ALTER TABLE t RENAME TAG x: TO is expected, not the end"),
        ("SHOW TAGS t; SHOW TAGS t", "the end of the statement is expected, not 'SHOW'"),
    ],
)
def test_refused(text: str, words: str) -> None:
    with pytest.raises(InvalidArgument) as raised:
        parse_statement(text)
    assert words in str(raised.value)


def test_what_is_packed_comes_back() -> None:
    statement = Statement("delete tag", ("db", "a.'\"`ü"), {"tags": "'"})
    assert unpack_statement(pack_statement(statement, statement.table)) == (statement, "db.a.'\"`ü")
