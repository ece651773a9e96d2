"""Databases, tables and tags: CREATE, ALTER and DROP as statements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sqlglot.tokenizer_core import TokenType

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.schema.sql import Columns, parse_columns
from morrow.statements.parsing_alterations import COMMENT, check_literal, parse_alteration, text_or_null
from morrow.statements.parsing_databases import DATABASES, comment_on_database
from morrow.statements.statement import Name, Statement
from morrow.statements.table_statements import (
    AlterChange,
    AlterTable,
    Analyze,
    AnalyzeTables,
    CreateTable,
    CreateTableLike,
    DropTable,
)
from morrow.statements.words import DATABASE, Words

PROVIDERS = ("paimon", "morrow")

Parse = Callable[[Words], Statement]


# Tables


def _create(*, replace: bool, must_exist: bool = False) -> Parse:
    def parse(words: Words) -> Statement:
        ignores = not replace and words.has("IF", "NOT", "EXISTS")
        table = words.path()
        if not replace and words.has("LIKE"):
            return _like(words, table, ignores)
        columns = _columns(words) if words.comes("(") else None
        parts = _clauses(words)
        query = None
        if words.has("AS"):
            query = words.rest()
        if (columns is None) == (query is None):
            if columns is None:
                raise words.unexpected("columns in parentheses, or AS and a query")
            raise Unsupported("CREATE TABLE with columns and AS", hint="name the columns in the query")
        options = dict(parts.get("options", {}))
        comment = parts.get(COMMENT, options.pop(COMMENT, None))
        return CreateTable(
            *(table, columns, query, tuple(parts.get("partitions", ())), options, comment),
            *(ignores, replace, must_exist),
        )

    return parse


def _columns(words: Words) -> Columns:
    words.needs(TokenType.L_PAREN, "(")
    if words.comes(")"):
        raise InvalidArgument(f"{words}: a table needs a column")
    start = words.at
    _check_columns(words)
    words.until()
    end = words.at
    words.needs(TokenType.R_PAREN, ")")
    return parse_columns(words.plain(start, end))


def _check_columns(words: Words) -> None:
    """Refuses what is no literal behind DEFAULT, and constraints that nobody would hold."""
    depth, at = 0, words.at
    while at < len(words.tokens) and depth >= 0:
        token = words.tokens[at]
        depth += (token.text in "(<[") - (token.text in ")>]") if token.token_type is not TokenType.STRING else 0
        word = token.text.upper()
        if depth == 0 and token.token_type is not TokenType.IDENTIFIER:
            if word == "DEFAULT":
                check_literal(words, at + 1)
            if word in ("CHECK", "UNIQUE", "REFERENCES", "FOREIGN", "GENERATED", "CONSTRAINT", "COLLATE"):
                before = words.tokens[at - 1].text
                if word not in ("CHECK", "UNIQUE") or before != ",":
                    _refuse_constraint(words, at, word)
        at += 1


def _refuse_constraint(words: Words, at: int, word: str) -> None:
    """A column may have such a name: then a type follows."""
    if words.tokens[at - 1].text not in ("(", ","):
        raise Unsupported(f"{word} in a table", hint="Paimon has keys, NOT NULL, comments and default values")


def _clauses(words: Words) -> dict[str, Any]:
    """Takes what stands between the columns of a table and its query."""
    found: dict[str, Any] = {}

    def put(key: str, value: object) -> None:
        if key in found:
            raise InvalidArgument(f"{words}: a part of CREATE TABLE is given twice")
        found[key] = value

    while not words.is_at_end() and not words.comes("AS"):
        if words.has("USING"):
            put("provider", _provider(words))
        elif words.has("PARTITIONED", "BY"):
            put("partitions", _partitioned(words))
        elif words.has("COMMENT"):
            put(COMMENT, words.string())
        elif words.has("TBLPROPERTIES") or words.has("WITH"):
            put("options", words.properties())
        elif word := words.one_of("LOCATION", "CLUSTERED", "CLUSTER", "STORED", "ROW", "SKEWED", "OPTIONS", "LIKE"):
            raise Unsupported(f"CREATE TABLE with {word}", hint=_INSTEAD.get(word))
        else:
            raise words.unexpected("USING, PARTITIONED BY, COMMENT, TBLPROPERTIES, AS or the end")
    return found


_INSTEAD = {
    "LOCATION": "tables lie in the folder of their catalog",
    "CLUSTERED": "set the option bucket",
    "OPTIONS": "write TBLPROPERTIES",
}


def _provider(words: Words) -> str:
    name = words.name().lower()
    if name not in PROVIDERS:
        raise Unsupported(f"a table USING {name}", hint="write USING paimon, or leave it out")
    return name


def _partitioned(words: Words) -> list[str]:
    def column() -> str:
        name = words.name()
        if words.comes("("):
            raise Unsupported(f"PARTITIONED BY {name}(...)", hint="partition by columns")
        if not words.comes(",") and not words.comes(")"):
            raise Unsupported("PARTITIONED BY columns with types", hint="name columns of the table")
        return name

    return words.enclosed(column)


def _like(words: Words, table: Name, ignores: bool) -> Statement:
    source = words.path()
    options: dict[str, str] = {}
    while not words.is_at_end():
        if words.has("USING"):
            _provider(words)
        elif words.has("TBLPROPERTIES") or words.has("WITH"):
            options = words.properties()
        elif words.has("LOCATION"):
            raise Unsupported("CREATE TABLE LIKE with LOCATION", hint=_INSTEAD["LOCATION"])
        else:
            raise words.unexpected("USING, TBLPROPERTIES or the end")
    if COMMENT in options:
        raise Unsupported(f"the property {COMMENT!r} in CREATE TABLE LIKE")
    return CreateTableLike(table, source, options, ignores)


def _drop_table(words: Words) -> Statement:
    ignores = words.has("IF", "EXISTS")
    table = words.path()
    if words.comes("PURGE") or words.comes("CASCADE"):
        raise Unsupported("DROP TABLE with PURGE or CASCADE", hint="leave it out: the files are removed")
    return DropTable(table, ignores)


def _comment_on(words: Words) -> Statement:
    if words.has("COLUMN"):
        *table, column = words.path()
        words.need("IS")
        return AlterTable(tuple(table), (AlterChange("set comment", (column,), text_or_null(words)),))
    if words.one_of(*DATABASE) is not None:
        return comment_on_database(words)
    words.need("TABLE")
    table_name = words.path()
    words.need("IS")
    return AlterTable(table_name, (AlterChange("set table comment", value=text_or_null(words)),))


def _analyze_tables(words: Words) -> Statement:
    database = (words.name(),) if words.one_of("IN", "FROM") is not None else ()
    words.need("COMPUTE", "STATISTICS")
    if words.comes("NOSCAN"):
        raise Unsupported("ANALYZE TABLES with NOSCAN, which finds nothing that metadata does not tell,")
    return AnalyzeTables(database)


def _analyze(words: Words) -> Statement:
    table = words.path()
    if words.comes("PARTITION"):
        raise Unsupported("ANALYZE TABLE of partitions", hint="analyse the whole table")
    words.need("COMPUTE", "STATISTICS")
    if words.comes("NOSCAN"):
        raise Unsupported("ANALYZE TABLE with NOSCAN, which finds nothing that metadata does not tell,")
    if words.has("FOR", "ALL", "COLUMNS"):
        return Analyze(table, None)
    return Analyze(table, tuple(words.listed(words.name)) if words.has("FOR", "COLUMNS") else ())


TABLES: Sequence[tuple[tuple[str, ...], Parse]] = (
    *DATABASES,
    (("CREATE", "OR", "REPLACE", "TABLE"), _create(replace=True)),
    (("CREATE", "TABLE"), _create(replace=False)),
    (("REPLACE", "TABLE"), _create(replace=True, must_exist=True)),
    (("DROP", "TABLE"), _drop_table),
    (("ALTER", "TABLE"), parse_alteration),
    (("COMMENT", "ON"), _comment_on),
    (("ANALYZE", "TABLE"), _analyze),
    (("ANALYZE", "TABLES"), _analyze_tables),
)
