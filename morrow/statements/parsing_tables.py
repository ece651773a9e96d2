"""Databases, tables and tags: CREATE, ALTER and DROP as statements."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlglot.tokenizer_core import TokenType

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.schema.sql import Columns, parse_columns
from morrow.statements.parsing_rows import static_partition
from morrow.statements.statement import (
    AlterChange,
    AlterTable,
    Analyze,
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
from morrow.statements.words import OPENING, Words, either

PROVIDERS = ("paimon", "morrow")
COMMENT = "comment"
UNITS: Mapping[str, dt.timedelta] = {
    "DAYS": dt.timedelta(days=1),
    "HOURS": dt.timedelta(hours=1),
    "MINUTES": dt.timedelta(minutes=1),
}
"""The units of RETAIN."""
LITERALS = frozenset({"TRUE", "FALSE", "NULL", "DATE", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ", "X"})
"""Words with which the literal of a default value may begin."""

Parse = Callable[[Words], Statement]


# Databases


def _create_database(words: Words) -> Statement:
    ignores = words.has("IF", "NOT", "EXISTS")
    name = words.name()
    for part in ("COMMENT", "LOCATION", "WITH", "MANAGED"):
        if words.comes(part):
            raise Unsupported(f"CREATE DATABASE with {part}", hint="a database is a folder and nothing else")
    return CreateDatabase(name, ignores)


def _drop_database(words: Words) -> Statement:
    ignores = words.has("IF", "EXISTS")
    name = words.name()
    cascade = words.has("CASCADE")
    if not cascade:
        words.has("RESTRICT")
    return DropDatabase(name, ignores, cascade)


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


def check_literal(words: Words, at: int) -> None:
    """Refuses a default value that is computed: Paimon stores a value, and no expression."""
    token = words.tokens[at] if at < len(words.tokens) else None
    following = words.tokens[at + 1] if at + 1 < len(words.tokens) else None
    if token is None:
        raise words.unexpected("a literal")
    opens = following is not None and following.token_type in OPENING
    is_word = token.token_type not in (TokenType.STRING, TokenType.NUMBER, TokenType.DASH, TokenType.PLUS)
    if opens or (is_word and token.text.upper() not in LITERALS):
        raise Unsupported(f"the default value {token.text}", hint="give a literal")


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
        return AlterTable(tuple(table), (AlterChange("set comment", (column,), _text_or_null(words)),))
    words.need("TABLE")
    table_name = words.path()
    words.need("IS")
    return AlterTable(table_name, (AlterChange("set table comment", value=_text_or_null(words)),))


def _text_or_null(words: Words) -> str | None:
    return None if words.has("NULL") else words.string()


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


# ALTER TABLE


def _alter(words: Words) -> Statement:
    if words.comes("IF", "EXISTS"):
        raise Unsupported("ALTER TABLE IF EXISTS")
    table = words.path()
    for begin, parse in _CHANGES:
        if words.has(*begin):
            return parse(words, table)
    raise words.unexpected("ADD, DROP, ALTER, RENAME, SET, UNSET or a statement of tags")


def _one(table: Name, change: AlterChange) -> AlterTable:
    return AlterTable(table, (change,))


def _rename(words: Words, table: Name) -> Statement:
    if words.has("TO"):
        to = words.path()
        return RenameTable(table, to if len(to) > 1 else (*table[:-1], *to))
    words.has("COLUMN")
    path = words.path()
    words.need("TO")
    return _one(table, AlterChange("rename column", path, words.name()))


def _set_options(words: Words, table: Name) -> Statement:
    given = words.properties()
    return AlterTable(table, tuple(_option(key, value) for key, value in given.items()))


def _option(key: str, value: str | None) -> AlterChange:
    if key == COMMENT:
        return AlterChange("set table comment", value=value)
    return AlterChange("unset option" if value is None else "set option", (key,), value)


def _unset_options(words: Words, table: Name) -> Statement:
    words.has("IF", "EXISTS")
    return AlterTable(table, tuple(_option(key, None) for key in words.enclosed(words.property_key)))


def _add(words: Words, table: Name) -> Statement:
    if words.comes("PARTITION") or words.comes("IF", "NOT", "EXISTS"):
        raise Unsupported("ALTER TABLE ADD PARTITION", hint="a partition is there when it has rows")
    if words.comes("CONSTRAINT") or words.comes("PRIMARY"):
        raise Unsupported("ALTER TABLE ADD CONSTRAINT")
    if not words.has("COLUMNS"):
        words.has("COLUMN")
    if words.comes("("):
        columns = words.enclosed(lambda: _new_column(words))
    else:
        columns = words.listed(lambda: _new_column(words))
    return AlterTable(table, tuple(AlterChange("add column", column.path, new=column) for column in columns))


def _new_column(words: Words) -> NewColumn:
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
    return NewColumn(path, definition, _place(words))


def _place(words: Words) -> str | None:
    """Takes FIRST (an empty name) or AFTER a column."""
    if words.has("FIRST"):
        return ""
    return words.name() if words.has("AFTER") else None


def _drop(words: Words, table: Name) -> Statement:
    ignores = words.has("IF", "EXISTS")
    if words.comes("PARTITION"):
        if ignores:
            raise Unsupported("DROP IF EXISTS PARTITION", hint="a partition without rows is dropped without an error")

        def one() -> Mapping[str, str | None]:
            words.need("PARTITION")
            return static_partition(words)

        return DropPartitions(table, tuple(words.listed(one)))
    if not words.has("COLUMNS"):
        words.has("COLUMN")
    ignores = words.has("IF", "EXISTS") or ignores
    paths = words.enclosed(words.path) if words.comes("(") else words.listed(words.path)
    return AlterTable(table, tuple(AlterChange("drop column", path, if_exists=ignores) for path in paths))


def _alter_column(words: Words, table: Name) -> Statement:
    words.has("COLUMN")
    changes = words.listed(lambda: _column_changes(words))
    return AlterTable(table, tuple(change for some in changes for change in some))


def _column_changes(words: Words) -> list[AlterChange]:
    path = words.path()
    changes = []
    while not words.is_at_end() and not words.comes(","):
        changes.append(_column_change(words, path))
    if not changes:
        raise words.unexpected("TYPE, COMMENT, SET, DROP, FIRST or AFTER")
    return changes


def _column_change(words: Words, path: Name) -> AlterChange:
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
        return AlterChange("move column", path, _place(words))
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


# Tags


def _created(*, replace: bool) -> Callable[[Words, Name], Statement]:
    def parse(words: Words, table: Name) -> Statement:
        ignores = not replace and words.has("IF", "NOT", "EXISTS")
        tag = words.name()
        snapshot = words.number() if words.has("AS", "OF", "VERSION") else None
        retained = None
        if words.has("RETAIN"):
            number, unit = words.number(), words.one_of(*UNITS)
            if unit is None:
                raise words.unexpected(either(UNITS))
            retained = number * UNITS[unit]
        return CreateTag(table, tag, snapshot, retained, replace, ignores)

    return parse


def _deleted(words: Words, table: Name) -> Statement:
    ignores = words.has("IF", "EXISTS")
    return DeleteTags(table, words.name(), ignores)


def _renamed(words: Words, table: Name) -> Statement:
    ignores = words.has("IF", "EXISTS")
    tag = words.name()
    words.need("TO")
    return RenameTag(table, tag, words.name(), ignores)


def _refused(what: str, hint: str | None = None) -> Callable[[Words, Name], Statement]:
    def parse(_words: Words, _table: Name) -> Statement:
        raise Unsupported(what, hint=hint)

    return parse


_CHANGES: Sequence[tuple[tuple[str, ...], Callable[[Words, Name], Statement]]] = (
    (("CREATE", "TAG"), _created(replace=False)),
    (("CREATE", "OR", "REPLACE", "TAG"), _created(replace=True)),
    (("REPLACE", "TAG"), _created(replace=True)),
    (("DELETE", "TAG"), _deleted),
    (("RENAME", "TAG"), _renamed),
    (("RENAME",), _rename),
    (("SET", "TBLPROPERTIES"), _set_options),
    (("SET", "LOCATION"), _refused("ALTER TABLE SET LOCATION", "tables lie in the folder of their catalog")),
    (("SET",), _set_options),
    (("UNSET", "TBLPROPERTIES"), _unset_options),
    (("RESET",), _unset_options),
    (("ADD",), _add),
    (("DROP",), _drop),
    (("ALTER",), _alter_column),
    (("CHANGE",), _alter_column),
    (("MODIFY",), _refused("ALTER TABLE MODIFY", "write ALTER COLUMN")),
    (("REPLACE", "COLUMNS"), _refused("ALTER TABLE REPLACE COLUMNS", "drop and add columns")),
    (("RECOVER",), _refused("ALTER TABLE RECOVER PARTITIONS")),
)
"""What follows ALTER TABLE and a name, and what parses the rest."""

TABLES: Sequence[tuple[tuple[str, ...], Parse]] = (
    (("CREATE", "DATABASE"), _create_database),
    (("CREATE", "SCHEMA"), _create_database),
    (("CREATE", "NAMESPACE"), _create_database),
    (("DROP", "DATABASE"), _drop_database),
    (("DROP", "SCHEMA"), _drop_database),
    (("DROP", "NAMESPACE"), _drop_database),
    (("CREATE", "OR", "REPLACE", "TABLE"), _create(replace=True)),
    (("CREATE", "TABLE"), _create(replace=False)),
    (("REPLACE", "TABLE"), _create(replace=True, must_exist=True)),
    (("DROP", "TABLE"), _drop_table),
    (("ALTER", "TABLE"), _alter),
    (("COMMENT", "ON"), _comment_on),
    (("ANALYZE", "TABLE"), _analyze),
)
