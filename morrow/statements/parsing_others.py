"""SHOW, DESCRIBE, USE, CALL and COPY as statements."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot.tokenizer_core import TokenType

from morrow.engine.errors import Unsupported
from morrow.statements.parsing_rows import static_partition
from morrow.statements.row_statements import Delete, Insert, MergeInto, Update
from morrow.statements.statement import (
    Argument,
    CallProcedure,
    CopyTo,
    Describe,
    DescribeDatabase,
    Query,
    Show,
    Statement,
    Use,
)
from morrow.statements.words import DATABASE, Words

EXPLAINED = (Query, Insert, Update, Delete, MergeInto)
"""Statements that EXPLAIN takes."""

Parse = Callable[[Words], Statement]


def _use(words: Words) -> Statement:
    for word in DATABASE:
        if words.comes(word) and len(words.tokens) - words.at > 1:
            words.at += 1
            break
    return Use(words.name())


# SHOW


def _like(words: Words) -> str | None:
    words.has("LIKE")
    return words.string() if not words.is_at_end() else None


def _in_database(words: Words) -> tuple[str, ...]:
    return (words.name(),) if words.has("IN") or words.has("FROM") else ()


def _show_databases(words: Words) -> Statement:
    return Show("databases", like=_like(words))


def _show_tables(words: Words) -> Statement:
    return Show("tables", _in_database(words), _like(words))


def _show_named(what: str) -> Parse:
    return lambda words: Show(what, _in_database(words), _like(words))


def _show_extended(words: Words) -> Statement:
    name = _in_database(words)
    words.need("LIKE")
    pattern = words.string()
    if words.comes("PARTITION"):
        raise Unsupported("SHOW TABLE EXTENDED of a partition", hint="SHOW PARTITIONS")
    return Show("table extended", name, pattern)


def _show_partitions(words: Words) -> Statement:
    table = words.path()
    return Show("partitions", table, partition=static_partition(words) if words.has("PARTITION") else None)


def _show_properties(words: Words) -> Statement:
    table = words.path()
    key = None
    if words.comes("("):
        words.at += 1
        key = words.property_key()
        words.needs(TokenType.R_PAREN, ")")
    return Show("tblproperties", table, key)


def _show_columns(words: Words) -> Statement:
    if not words.has("IN") and not words.has("FROM"):
        raise words.unexpected("IN or FROM")
    return Show("columns", words.path())


def _show(what: str) -> Parse:
    return lambda words: Show(what, words.path())


def _show_procedures(words: Words) -> Statement:
    _in_database(words)
    return Show("procedures", like=_like(words))


def _refused(what: str, hint: str | None = None) -> Parse:
    def parse(_words: Words) -> Statement:
        raise Unsupported(what, hint=hint)

    return parse


# DESCRIBE, CALL, COPY


def _describe(words: Words) -> Statement:
    if words.one_of(*DATABASE) is not None:
        extended = words.has("EXTENDED")
        return DescribeDatabase(words.name(), extended)
    words.has("TABLE")
    extended = words.has("EXTENDED") or words.has("FORMATTED")
    table = words.path()
    if not words.is_at_end():  # of a version, for example
        words.at = len(words.tokens)
        return Query(words.text)
    return Describe(table, extended)


def _call(words: Words) -> Statement:
    procedure = words.path()
    words.needs(TokenType.L_PAREN, "(")
    arguments: list[Argument] = []
    while not words.comes(")"):
        arguments.append(_argument(words))
        if not words.takes(TokenType.COMMA):
            break
    words.needs(TokenType.R_PAREN, ")")
    return CallProcedure(procedure, tuple(arguments))


def _argument(words: Words) -> Argument:
    name = None
    arrow = words.tokens[words.at + 1] if words.at + 1 < len(words.tokens) else None
    if arrow is not None and arrow.token_type in (TokenType.FARROW, TokenType.COLON_EQ):
        name = words.name()
        words.at += 1
    return Argument(name, words.until(","))


def _copy(words: Words) -> Statement:
    if words.comes("INTO"):
        raise Unsupported("COPY INTO", hint="INSERT INTO t SELECT * FROM read_csv('...'), or COPY (...) TO '...'")
    start = words.at
    if words.comes("("):
        words.at += 1
        query = words.until()
        words.needs(TokenType.R_PAREN, ")")
    else:
        words.path()
        if words.comes("("):
            raise Unsupported("COPY of some columns of a table", hint="COPY (SELECT ...) TO")
        query = f"SELECT * FROM {words.raw(start, words.at)}"
    if words.comes("FROM"):
        raise Unsupported("COPY ... FROM", hint="INSERT INTO t SELECT * FROM read_csv('...')")
    words.need("TO")
    token = words.next
    if token is None or token.token_type is not TokenType.STRING:
        raise words.unexpected("a file in single quotes")
    return CopyTo(query, words.rest())


OTHERS: Sequence[tuple[tuple[str, ...], Parse]] = (
    (("USE",), _use),
    (("SHOW", "DATABASES"), _show_databases),
    (("SHOW", "SCHEMAS"), _show_databases),
    (("SHOW", "NAMESPACES"), _show_databases),
    (("SHOW", "TABLES"), _show_tables),
    (("SHOW", "TABLE", "EXTENDED"), _show_extended),
    (("SHOW", "PARTITIONS"), _show_partitions),
    (("SHOW", "TBLPROPERTIES"), _show_properties),
    (("SHOW", "CREATE", "TABLE"), _show("create table")),
    (("SHOW", "COLUMNS"), _show_columns),
    (("SHOW", "TAGS"), _show("tags")),
    (("SHOW", "BRANCHES"), _show("branches")),
    (("SHOW", "SNAPSHOTS"), _show("snapshots")),
    (("SHOW", "PROCEDURES"), _show_procedures),
    (("SHOW", "VIEWS"), _show_named("views")),
    (("SHOW", "FUNCTIONS"), _show_named("functions")),
    (("SHOW",), _refused("this SHOW", "it shows DATABASES, TABLES, COLUMNS, PARTITIONS, TAGS and so on")),
    (("DESCRIBE",), _describe),
    (("DESC",), _describe),
    (("CALL",), _call),
    (("COPY",), _copy),
)
