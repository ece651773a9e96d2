"""Parsers of CREATE, ALTER, DROP, COMMENT and ANALYZE: databases, tables, columns, partitions and tags."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlglot.tokenizer_core import TokenType

from morrow.engine.catalog.databases import COMMENT, LOCATION
from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.schema.sql_columns import Columns, parse_columns
from morrow.statements.dml_parser import parse_static_partition
from morrow.statements.statement import (
    AlterChange,
    AlterDatabase,
    AlterTable,
    Analyze,
    AnalyzeTables,
    CreateDatabase,
    CreateTable,
    CreateTableLike,
    CreateTag,
    DeleteTags,
    DropDatabase,
    DropPartitions,
    DropTable,
    Name,
    NewColumn,
    RenameTable,
    RenameTag,
    Statement,
)
from morrow.statements.tokens import DATABASE, OPENING, Words, join_words


def _parse_create_database(words: Words) -> Statement:
    ignores = words.has("IF", "NOT", "EXISTS")
    name = words.name()
    return CreateDatabase(name, ignores, parse_database_properties(words))


def parse_database_properties(words: Words) -> dict[str, str]:
    """Parse the clauses of CREATE DATABASE: COMMENT, LOCATION and WITH DBPROPERTIES, once each."""
    found: dict[str, str] = {}

    def put(given: dict[str, str]) -> None:
        for key, value in given.items():
            if key in found:
                raise InvalidArgument(f"{words}: {key} is given twice")
            found[key] = value

    while not words.is_at_end():
        if words.has("COMMENT"):
            put({COMMENT: words.string()})
        elif words.has("LOCATION"):
            put({LOCATION: words.string()})
        elif words.has("WITH", "DBPROPERTIES") or words.has("WITH", "PROPERTIES"):
            put(words.properties())
        elif words.comes("MANAGED"):
            raise Unsupported("CREATE DATABASE with MANAGED")
        else:
            raise words.unexpected("COMMENT, LOCATION, WITH DBPROPERTIES or the end")
    return found


def _parse_alter_database(words: Words) -> Statement:
    name = words.name()
    properties, removed = parse_database_changes(words)
    return AlterDatabase(name, properties, removed)


def parse_database_changes(words: Words) -> tuple[dict[str, str], tuple[str, ...]]:
    """Parse the clauses of ALTER DATABASE; return the properties to set and the names of properties to remove."""
    if words.has("SET", "LOCATION"):
        return {LOCATION: words.string()}, ()
    if words.has("SET") and words.one_of("DBPROPERTIES", "PROPERTIES") is not None:
        return words.properties(), ()
    if words.has("UNSET") and words.one_of("DBPROPERTIES", "PROPERTIES") is not None:
        words.has("IF", "EXISTS")
        return {}, tuple(words.enclosed(words.property_key))
    raise words.unexpected("SET DBPROPERTIES or UNSET DBPROPERTIES")


def parse_database_comment(words: Words) -> Statement:
    """Parse the rest of COMMENT ON DATABASE."""
    name = words.name()
    words.need("IS")
    return AlterDatabase(name, {COMMENT: take_text_or_null(words) or ""})


def _parse_drop_database(words: Words) -> Statement:
    ignores = words.has("IF", "EXISTS")
    name = words.name()
    cascade = words.has("CASCADE")
    if not cascade:
        words.has("RESTRICT")
    return DropDatabase(name, ignores, cascade)


DATABASE_PARSERS: Sequence[tuple[tuple[str, ...], Parse]] = tuple(
    ((verb, word), parse)
    for verb, parse in (
        ("CREATE", _parse_create_database),
        ("ALTER", _parse_alter_database),
        ("DROP", _parse_drop_database),
    )
    for word in DATABASE
)

COMMENT_OPTION = "comment"


LITERALS = frozenset({"TRUE", "FALSE", "NULL", "DATE", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ", "X"})
"""Words that a literal default value may begin with."""
UNITS: Mapping[str, dt.timedelta] = {
    "DAYS": dt.timedelta(days=1),
    "HOURS": dt.timedelta(hours=1),
    "MINUTES": dt.timedelta(minutes=1),
}
"""The units of RETAIN."""


def take_text_or_null(words: Words) -> str | None:
    return None if words.has("NULL") else words.string()


def parse_alteration(words: Words) -> Statement:
    if words.comes("IF", "EXISTS"):
        raise Unsupported("ALTER TABLE IF EXISTS")
    table = words.path()
    for begin, parse in _CHANGES:
        if words.has(*begin):
            return parse(words, table)
    raise words.unexpected("ADD, DROP, ALTER, RENAME, SET, UNSET or a statement of tags")


def _make_alteration(table: Name, change: AlterChange) -> AlterTable:
    return AlterTable(table, (change,))


def _parse_rename(words: Words, table: Name) -> Statement:
    if words.has("TO"):
        to = words.path()
        return RenameTable(table, to if len(to) > 1 else (*table[:-1], *to))
    words.has("COLUMN")
    path = words.path()
    words.need("TO")
    return _make_alteration(table, AlterChange("rename column", path, words.name()))


def _parse_set_options(words: Words, table: Name) -> Statement:
    given = words.properties()
    return AlterTable(table, tuple(_make_option_change(key, value) for key, value in given.items()))


def _make_option_change(key: str, value: str | None) -> AlterChange:
    if key == COMMENT_OPTION:
        return AlterChange("set table comment", value=value)
    return AlterChange("unset option" if value is None else "set option", (key,), value)


def _parse_unset_options(words: Words, table: Name) -> Statement:
    words.has("IF", "EXISTS")
    return AlterTable(table, tuple(_make_option_change(key, None) for key in words.enclosed(words.property_key)))


def _parse_add(words: Words, table: Name) -> Statement:
    if words.comes("PARTITION") or words.comes("IF", "NOT", "EXISTS"):
        raise Unsupported("ALTER TABLE ADD PARTITION", hint="a partition is there when it has rows")
    if words.comes("CONSTRAINT") or words.comes("PRIMARY"):
        raise Unsupported("ALTER TABLE ADD CONSTRAINT")
    if not words.has("COLUMNS"):
        words.has("COLUMN")
    if words.comes("("):
        columns = words.enclosed(lambda: _parse_new_column(words))
    else:
        columns = words.listed(lambda: _parse_new_column(words))
    return AlterTable(table, tuple(AlterChange("add column", column.path, new=column) for column in columns))


def _parse_new_column(words: Words) -> NewColumn:
    path, start, depth = words.path(), words.at, 0
    while (token := words.next) is not None:
        if depth == 0 and (token.text in ",)" or words.comes("FIRST") or words.comes("AFTER")):
            break
        if depth == 0 and words.comes("DEFAULT"):
            check_literal(words, words.at + 1)
        is_text = token.token_type in (TokenType.STRING, TokenType.IDENTIFIER)
        depth += 0 if is_text else (token.text in "(<") - (token.text in ")>")
        words.at += 1
    if start == words.at:
        raise words.unexpected("a type")
    definition = words.plain(start, words.at)
    return NewColumn(path, definition, _parse_position(words))


def _parse_position(words: Words) -> str | None:
    """Parse FIRST (returned as an empty name) or AFTER and a column."""
    if words.has("FIRST"):
        return ""
    return words.name() if words.has("AFTER") else None


def _parse_drop(words: Words, table: Name) -> Statement:
    ignores = words.has("IF", "EXISTS")
    if words.comes("PARTITION"):
        if ignores:
            raise Unsupported("DROP IF EXISTS PARTITION", hint="a partition without rows is dropped without an error")

        def one() -> Mapping[str, str | None]:
            words.need("PARTITION")
            return parse_static_partition(words)

        return DropPartitions(table, tuple(words.listed(one)))
    if not words.has("COLUMNS"):
        words.has("COLUMN")
    ignores = words.has("IF", "EXISTS") or ignores
    paths = words.enclosed(words.path) if words.comes("(") else words.listed(words.path)
    return AlterTable(table, tuple(AlterChange("drop column", path, if_exists=ignores) for path in paths))


def _parse_alter_column(words: Words, table: Name) -> Statement:
    words.has("COLUMN")
    changes = words.listed(lambda: _parse_column_changes(words))
    return AlterTable(table, tuple(change for some in changes for change in some))


def _parse_column_changes(words: Words) -> list[AlterChange]:
    path = words.path()
    changes = []
    while not words.is_at_end() and not words.comes(","):
        changes.append(_parse_column_change(words, path))
    if not changes:
        raise words.unexpected("TYPE, COMMENT, SET, DROP, FIRST or AFTER")
    return changes


def _parse_column_change(words: Words, path: Name) -> AlterChange:
    if words.has("TYPE") or words.has("SET", "DATA", "TYPE"):
        start, depth = words.at, 0
        while (token := words.next) is not None and (depth or token.text not in (",",)):
            if depth == 0 and any(words.comes(word) for word in ("COMMENT", "FIRST", "AFTER", "SET", "USING")):
                break
            depth += (token.text in "(<") - (token.text in ")>")
            words.at += 1
        return AlterChange("set type", path, words.plain(start, words.at))
    if words.has("COMMENT"):
        return AlterChange("set comment", path, words.string() or None)
    if words.comes("FIRST") or words.comes("AFTER"):
        return AlterChange("move column", path, _parse_position(words))
    if words.has("SET", "DEFAULT"):
        check_literal(words, words.at)
        return AlterChange("set default", path, words.until(","))
    if words.has("DROP", "DEFAULT"):
        return AlterChange("set default", path)
    if words.has("SET", "NOT", "NULL"):
        return AlterChange("set not null", path)
    if words.has("DROP", "NOT", "NULL"):
        return AlterChange("drop not null", path)
    raise words.unexpected("TYPE, COMMENT, SET DEFAULT, DROP DEFAULT, SET NOT NULL, DROP NOT NULL, FIRST or AFTER")


def _make_create_tag_parser(*, replace: bool) -> Callable[[Words, Name], Statement]:
    def parse(words: Words, table: Name) -> Statement:
        ignores = not replace and words.has("IF", "NOT", "EXISTS")
        tag = words.name()
        snapshot = words.number() if words.has("AS", "OF", "VERSION") else None
        retained = None
        if words.has("RETAIN"):
            number, unit = words.number(), words.one_of(*UNITS)
            if unit is None:
                raise words.unexpected(join_words(UNITS))
            retained = number * UNITS[unit]
        return CreateTag(table, tag, snapshot, retained, replace, ignores)

    return parse


def _parse_delete_tag(words: Words, table: Name) -> Statement:
    ignores = words.has("IF", "EXISTS")
    return DeleteTags(table, words.name(), ignores)


def _parse_rename_tag(words: Words, table: Name) -> Statement:
    ignores = words.has("IF", "EXISTS")
    tag = words.name()
    words.need("TO")
    return RenameTag(table, tag, words.name(), ignores)


def _make_refusal(what: str, hint: str | None = None) -> Callable[[Words, Name], Statement]:
    def parse(_words: Words, _table: Name) -> Statement:
        raise Unsupported(what, hint=hint)

    return parse


def check_literal(words: Words, at: int) -> None:
    """Refuse a computed default value, since Paimon stores values and not expressions."""
    token = words.tokens[at] if at < len(words.tokens) else None
    following = words.tokens[at + 1] if at + 1 < len(words.tokens) else None
    if token is None:
        raise words.unexpected("a literal")
    opens = following is not None and following.token_type in OPENING
    is_word = token.token_type not in (TokenType.STRING, TokenType.NUMBER, TokenType.DASH, TokenType.PLUS)
    if opens or (is_word and token.text.upper() not in LITERALS):
        raise Unsupported(f"the default value {token.text}", hint="give a literal")


_CHANGES: Sequence[tuple[tuple[str, ...], Callable[[Words, Name], Statement]]] = (
    (("CREATE", "TAG"), _make_create_tag_parser(replace=False)),
    (("CREATE", "OR", "REPLACE", "TAG"), _make_create_tag_parser(replace=True)),
    (("REPLACE", "TAG"), _make_create_tag_parser(replace=True)),
    (("DELETE", "TAG"), _parse_delete_tag),
    (("RENAME", "TAG"), _parse_rename_tag),
    (("RENAME",), _parse_rename),
    (("SET", "TBLPROPERTIES"), _parse_set_options),
    (("SET", "LOCATION"), _make_refusal("ALTER TABLE SET LOCATION", "tables lie in the folder of their catalog")),
    (("SET",), _parse_set_options),
    (("UNSET", "TBLPROPERTIES"), _parse_unset_options),
    (("RESET",), _parse_unset_options),
    (("ADD",), _parse_add),
    (("DROP",), _parse_drop),
    (("ALTER",), _parse_alter_column),
    (("CHANGE",), _parse_alter_column),
    (("MODIFY",), _make_refusal("ALTER TABLE MODIFY", "write ALTER COLUMN")),
    (("REPLACE", "COLUMNS"), _make_refusal("ALTER TABLE REPLACE COLUMNS", "drop and add columns")),
    (("RECOVER",), _make_refusal("ALTER TABLE RECOVER PARTITIONS")),
)
"""The words after ALTER TABLE and a name, and the parser of the rest."""

PROVIDERS = ("paimon", "morrow")

Parse = Callable[[Words], Statement]


# Tables


def _parse_create(*, replace: bool, must_exist: bool = False) -> Parse:
    def parse(words: Words) -> Statement:
        ignores = not replace and words.has("IF", "NOT", "EXISTS")
        table = words.path()
        if not replace and words.has("LIKE"):
            return _parse_like(words, table, ignores)
        columns = _parse_columns(words) if words.comes("(") else None
        parts = _parse_clauses(words)
        query = None
        if words.has("AS"):
            query = words.rest()
        if (columns is None) == (query is None):
            if columns is None:
                raise words.unexpected("columns in parentheses, or AS and a query")
            raise Unsupported("CREATE TABLE with columns and AS", hint="name the columns in the query")
        options = dict(parts.get("options", {}))
        comment = parts.get(COMMENT_OPTION, options.pop(COMMENT_OPTION, None))
        return CreateTable(
            *(table, columns, query, tuple(parts.get("partitions", ())), options, comment),
            *(ignores, replace, must_exist),
        )

    return parse


def _parse_columns(words: Words) -> Columns:
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
    """Refuse DEFAULT values that are not literals, and constraints that would not be enforced."""
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
    """Refuse a constraint. A column may have the same name as its keyword if a type follows."""
    if words.tokens[at - 1].text not in ("(", ","):
        raise Unsupported(f"{word} in a table", hint="Paimon has keys, NOT NULL, comments and default values")


def _parse_clauses(words: Words) -> dict[str, Any]:
    """Parse the clauses between the columns of a table and its query."""
    found: dict[str, Any] = {}

    def put(key: str, value: object) -> None:
        if key in found:
            raise InvalidArgument(f"{words}: a part of CREATE TABLE is given twice")
        found[key] = value

    while not words.is_at_end() and not words.comes("AS"):
        if words.has("USING"):
            put("provider", _parse_provider(words))
        elif words.has("PARTITIONED", "BY"):
            put("partitions", _parse_partitioning(words))
        elif words.has("COMMENT"):
            put(COMMENT_OPTION, words.string())
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


def _parse_provider(words: Words) -> str:
    name = words.name().lower()
    if name not in PROVIDERS:
        raise Unsupported(f"a table USING {name}", hint="write USING paimon, or leave it out")
    return name


def _parse_partitioning(words: Words) -> list[str]:
    def column() -> str:
        name = words.name()
        if words.comes("("):
            raise Unsupported(f"PARTITIONED BY {name}(...)", hint="partition by columns")
        if not words.comes(",") and not words.comes(")"):
            raise Unsupported("PARTITIONED BY columns with types", hint="name columns of the table")
        return name

    return words.enclosed(column)


def _parse_like(words: Words, table: Name, ignores: bool) -> Statement:
    source = words.path()
    options: dict[str, str] = {}
    while not words.is_at_end():
        if words.has("USING"):
            _parse_provider(words)
        elif words.has("TBLPROPERTIES") or words.has("WITH"):
            options = words.properties()
        elif words.has("LOCATION"):
            raise Unsupported("CREATE TABLE LIKE with LOCATION", hint=_INSTEAD["LOCATION"])
        else:
            raise words.unexpected("USING, TBLPROPERTIES or the end")
    if COMMENT_OPTION in options:
        raise Unsupported(f"the property {COMMENT_OPTION!r} in CREATE TABLE LIKE")
    return CreateTableLike(table, source, options, ignores)


def _parse_drop_table(words: Words) -> Statement:
    ignores = words.has("IF", "EXISTS")
    table = words.path()
    if words.comes("PURGE") or words.comes("CASCADE"):
        raise Unsupported("DROP TABLE with PURGE or CASCADE", hint="leave it out: the files are removed")
    return DropTable(table, ignores)


def _parse_comment(words: Words) -> Statement:
    if words.has("COLUMN"):
        *table, column = words.path()
        words.need("IS")
        return AlterTable(tuple(table), (AlterChange("set comment", (column,), take_text_or_null(words)),))
    if words.one_of(*DATABASE) is not None:
        return parse_database_comment(words)
    words.need("TABLE")
    table_name = words.path()
    words.need("IS")
    return AlterTable(table_name, (AlterChange("set table comment", value=take_text_or_null(words)),))


def _parse_analyze_tables(words: Words) -> Statement:
    database = (words.name(),) if words.one_of("IN", "FROM") is not None else ()
    words.need("COMPUTE", "STATISTICS")
    if words.comes("NOSCAN"):
        raise Unsupported("ANALYZE TABLES with NOSCAN, which finds nothing that metadata does not tell,")
    return AnalyzeTables(database)


def _parse_analyze(words: Words) -> Statement:
    table = words.path()
    if words.comes("PARTITION"):
        raise Unsupported("ANALYZE TABLE of partitions", hint="analyse the whole table")
    words.need("COMPUTE", "STATISTICS")
    if words.comes("NOSCAN"):
        raise Unsupported("ANALYZE TABLE with NOSCAN, which finds nothing that metadata does not tell,")
    if words.has("FOR", "ALL", "COLUMNS"):
        return Analyze(table, None)
    return Analyze(table, tuple(words.listed(words.name)) if words.has("FOR", "COLUMNS") else ())


DDL_PARSERS: Sequence[tuple[tuple[str, ...], Parse]] = (
    *DATABASE_PARSERS,
    (("CREATE", "OR", "REPLACE", "TABLE"), _parse_create(replace=True)),
    (("CREATE", "TABLE"), _parse_create(replace=False)),
    (("REPLACE", "TABLE"), _parse_create(replace=True, must_exist=True)),
    (("DROP", "TABLE"), _parse_drop_table),
    (("ALTER", "TABLE"), parse_alteration),
    (("COMMENT", "ON"), _parse_comment),
    (("ANALYZE", "TABLE"), _parse_analyze),
    (("ANALYZE", "TABLES"), _parse_analyze_tables),
)
