"""The text of Paimon's own statements: parsed by Morrow, left to Spark, or refused."""

from __future__ import annotations

import datetime as dt

import pytest

from morrow.engine.errors import InvalidArgument
from morrow.spark.catalogs.syntax import find_statement, pack_statement, unpack_statement
from morrow.statements.parser import parse_statement
from morrow.statements.statement import CreateTag, DeleteTags, RenameTag, Show, Statement


def parse(text: str) -> Statement | None:
    """Return the statement that Spark's own parser does not read; None for all others."""
    found = find_statement(text)
    return None if found is None else parse_statement(found[0])


@pytest.mark.parametrize(
    ("text", "statement"),
    [
        ("SHOW TAGS tag.`tags` ;;", Show("tags", ("tag", "tags"))),
        (
            "alter /* a */ table pm.`my db`.`a.b``c` -- the rest\n create tag if not exists `T-1`",
            CreateTag(("pm", "my db", "a.b`c"), "T-1", if_not_exists=True),
        ),
        (
            "ALTER TABLE t CREATE TAG x AS OF VERSION 12 RETAIN 7 DAYS",
            CreateTag(("t",), "x", snapshot=12, retained=dt.timedelta(days=7)),
        ),
        ("ALTER TABLE t REPLACE TAG x", CreateTag(("t",), "x", replace=True)),
        ("ALTER TABLE t CREATE OR REPLACE TAG x", CreateTag(("t",), "x", replace=True)),
        ("ALTER TABLE t DELETE TAG 2024_x", DeleteTags(("t",), "2024_x")),
        ("ALTER TABLE t RENAME TAG to TO `ü'`", RenameTag(("t",), "to", "ü'")),
        ("ALTER TABLE tag RENAME TO other", None),
        ("ALTER TABLE t ADD COLUMN tag INT", None),
        ("ALTER TABLE t; CREATE TAG x", None),
        ("SELECT 'SHOW TAGS t", None),
        ("EXPLAIN SHOW TAGS t", None),
        (" ; ", None),
    ],
)
def test_parsed(text: str, statement: Statement | None) -> None:
    assert parse(text) == statement


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("SHOW TAGS 't'", "a name is expected, not \"'t'\""),
        ("ALTER TABLE t CREATE TAG 1", "a name is expected, not '1' at line 1, column 26"),
        ("ALTER TABLE t CREATE TAG a.b", "the end of the statement is expected, not '.'"),
        ("ALTER TABLE t CREATE TAG x RETAIN 5 WEEKS", "DAYS or HOURS or MINUTES is expected, not 'WEEKS'"),
        ("ALTER TABLE t CREATE TAG x AS OF VERSION -1", "a number is expected, not '-'"),
        ("ALTER TABLE t REPLACE TAG IF NOT EXISTS x", "the end of the statement is expected, not 'NOT'"),
        ("ALTER TABLE t\nRENAME TAG x", "ALTER TABLE t RENAME TAG x: TO is expected, not the end"),
        ("SHOW TAGS t; SHOW TAGS t", "one statement is expected, not 2"),
    ],
)
def test_refused(text: str, words: str) -> None:
    with pytest.raises(InvalidArgument) as raised:
        parse(text)
    assert words in str(raised.value)


def test_what_is_packed_comes_back() -> None:
    packed = pack_statement("ALTER TABLE `a.'\"``ü` DELETE TAG `'`", ("db", "a.'\"`ü"))
    assert unpack_statement(packed) == (DeleteTags(("a.'\"`ü",), "'"), "db.a.'\"`ü")
