"""Parsers of CREATE, ALTER, DROP, COMMENT and ANALYZE: databases, tables, columns, partitions, tags and views."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlglot.tokenizer_core import TokenType

from morrow.engine.catalog.databases import COMMENT, LOCATION
from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.statements import statement as st
from morrow.statements.dml_parser import parse_static_partition
from morrow.statements.tokens import DATABASE, Words, join_words


def _parse_create_database(words: Words) -> st.Statement:
    ignores = words.has("IF", "NOT", "EXISTS")
    name = words.database()
    return st.CreateDatabase(name, ignores, _parse_database_properties(words))


def _parse_database_properties(words: Words) -> dict[str, str]:
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


def _parse_alter_database(words: Words) -> st.Statement:
    name = words.database()
    if words.has("SET", "LOCATION"):
        return st.AlterDatabase(name, {LOCATION: words.string()})
    if words.has("SET") and words.one_of("DBPROPERTIES", "PROPERTIES") is not None:
        return st.AlterDatabase(name, words.properties())
    if words.has("UNSET") and words.one_of("DBPROPERTIES", "PROPERTIES") is not None:
        words.has("IF", "EXISTS")
        return st.AlterDatabase(name, removed=tuple(words.enclosed(words.property_key)))
    raise words.unexpected("SET DBPROPERTIES or UNSET DBPROPERTIES")


def _parse_drop_database(words: Words) -> st.Statement:
    ignores = words.has("IF", "EXISTS")
    name = words.database()
    cascade = words.has("CASCADE")
    if not cascade:
        words.has("RESTRICT")
    return st.DropDatabase(name, ignores, cascade)


def _parse_create_catalog(words: Words) -> st.Statement:
    ignores = words.has("IF", "NOT", "EXISTS")
    name = words.name()
    if words.has("COMMENT"):  # a catalog of a session stores nothing
        words.string()
    options = words.properties() if words.has("WITH") or words.has("OPTIONS") else {}
    return st.CreateCatalog(name, options, ignores)


def _parse_drop_catalog(words: Words) -> st.Statement:
    ignores = words.has("IF", "EXISTS")
    return st.DropCatalog(words.name(), ignores)


CATALOG_PARSERS: Sequence[tuple[tuple[str, ...], Parse]] = (
    (("CREATE", "CATALOG"), _parse_create_catalog),
    (("DROP", "CATALOG"), _parse_drop_catalog),
)
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

UNITS: Mapping[str, dt.timedelta] = {
    "DAYS": dt.timedelta(days=1),
    "HOURS": dt.timedelta(hours=1),
    "MINUTES": dt.timedelta(minutes=1),
}
"""The units of RETAIN."""


def _take_text_or_null(words: Words) -> str | None:
    return None if words.has("NULL") else words.string()


def parse_alteration(words: Words) -> st.Statement:
    if words.comes("IF", "EXISTS"):
        raise Unsupported("ALTER TABLE IF EXISTS")
    table = words.path()
    for begin, parse in _CHANGES:
        if words.has(*begin):
            return parse(words, table)
    raise words.unexpected("ADD, DROP, ALTER, RENAME, SET, UNSET or a statement of tags")


def _parse_rename(words: Words, table: st.Name) -> st.Statement:
    if words.has("TO"):
        to = words.path()
        return st.RenameTable(table, to if len(to) > 1 else (*table[:-1], *to))
    words.has("COLUMN")
    path = words.path()
    words.need("TO")
    return st.AlterTable(table, (st.AlterChange("rename column", path, words.name()),))


def _parse_set_options(words: Words, table: st.Name) -> st.Statement:
    given = words.properties()
    return st.AlterTable(table, tuple(_make_option_change(key, value) for key, value in given.items()))


def _make_option_change(key: str, value: str | None) -> st.AlterChange:
    if key == COMMENT_OPTION:
        return st.AlterChange("set table comment", value=value)
    return st.AlterChange("unset option" if value is None else "set option", (key,), value)


def _parse_unset_options(words: Words, table: st.Name) -> st.Statement:
    words.has("IF", "EXISTS")
    return st.AlterTable(table, tuple(_make_option_change(key, None) for key in words.enclosed(words.property_key)))


_NO_CONSTRAINTS = "columns of the primary key and NOT NULL are all there are"


def _parse_add(words: Words, table: st.Name) -> st.Statement:
    if words.has("IF", "NOT", "EXISTS") or words.comes("PARTITION"):
        return st.AddPartitions(table, _parse_partitions(words))
    if words.comes("CONSTRAINT") or words.comes("PRIMARY"):
        raise Unsupported("ALTER TABLE with CONSTRAINT", hint=_NO_CONSTRAINTS)
    if not words.has("COLUMNS"):
        words.has("COLUMN")
    if words.comes("("):
        columns = words.enclosed(lambda: _parse_new_column(words))
    else:
        columns = words.listed(lambda: _parse_new_column(words))
    return st.AlterTable(table, tuple(st.AlterChange("add column", column.path, new=column) for column in columns))


def _parse_new_column(words: Words) -> st.NewColumn:
    path, start, depth = words.path(), words.at, 0
    while (token := words.next) is not None:
        if depth == 0 and (token.text in ",)" or words.comes("FIRST") or words.comes("AFTER")):
            break
        is_text = token.token_type in (TokenType.STRING, TokenType.IDENTIFIER)
        depth += 0 if is_text else (token.text in "(<") - (token.text in ")>")
        words.at += 1
    if start == words.at:
        raise words.unexpected("a type")
    definition = words.plain(start, words.at)
    return st.NewColumn(path, definition, _parse_position(words))


def _parse_position(words: Words) -> str | None:
    """Parse FIRST (returned as an empty name) or AFTER and a column."""
    if words.has("FIRST"):
        return ""
    return words.name() if words.has("AFTER") else None


def _parse_drop(words: Words, table: st.Name) -> st.Statement:
    ignores = words.has("IF", "EXISTS")
    if words.comes("PARTITION"):
        if ignores:
            raise Unsupported("DROP IF EXISTS PARTITION", hint="a partition without rows is dropped without an error")
        return st.DropPartitions(table, _parse_partitions(words))
    if words.comes("CONSTRAINT") and words.word(1):
        raise Unsupported("ALTER TABLE with CONSTRAINT", hint=_NO_CONSTRAINTS)
    if not words.has("COLUMNS"):
        words.has("COLUMN")
    ignores = words.has("IF", "EXISTS") or ignores
    paths = words.enclosed(words.path) if words.comes("(") else words.listed(words.path)
    return st.AlterTable(table, tuple(st.AlterChange("drop column", path, if_exists=ignores) for path in paths))


def _parse_partitions(words: Words) -> tuple[Mapping[str, str | None], ...]:
    """Parse partitions, with commas between them or, as in Spark's ADD, without."""
    found = list[Mapping[str, str | None]]()
    while not found or words.has(",") or words.comes("PARTITION"):
        words.need("PARTITION")
        found.append(parse_static_partition(words))
    return tuple(found)


def _parse_alter_column(words: Words, table: st.Name) -> st.Statement:
    words.has("COLUMN")
    changes = words.listed(lambda: _parse_column_changes(words))
    return st.AlterTable(table, tuple(change for some in changes for change in some))


def _parse_column_changes(words: Words) -> list[st.AlterChange]:
    path = words.path()
    changes = []
    while not words.is_at_end() and not words.comes(","):
        changes.append(_parse_column_change(words, path))
    if not changes:
        raise words.unexpected("TYPE, COMMENT, SET, DROP, FIRST or AFTER")
    return changes


def _parse_column_change(words: Words, path: st.Name) -> st.AlterChange:
    if words.has("TYPE") or words.has("SET", "DATA", "TYPE"):
        start, depth = words.at, 0
        while (token := words.next) is not None and (depth or token.text not in (",",)):
            if depth == 0 and any(words.comes(word) for word in ("COMMENT", "FIRST", "AFTER", "SET", "USING")):
                break
            depth += (token.text in "(<") - (token.text in ")>")
            words.at += 1
        if start == words.at:
            raise words.unexpected("a type")
        return st.AlterChange("set type", path, words.plain(start, words.at))
    if words.has("COMMENT"):
        return st.AlterChange("set comment", path, words.string() or None)
    if words.comes("FIRST") or words.comes("AFTER"):
        return st.AlterChange("move column", path, _parse_position(words))
    if words.has("SET", "DEFAULT"):
        return st.AlterChange("set default", path, words.until(","))
    if words.has("DROP", "DEFAULT"):
        return st.AlterChange("set default", path)
    if words.has("SET", "NOT", "NULL"):
        return st.AlterChange("set not null", path)
    if words.has("DROP", "NOT", "NULL"):
        return st.AlterChange("drop not null", path)
    raise words.unexpected("TYPE, COMMENT, SET DEFAULT, DROP DEFAULT, SET NOT NULL, DROP NOT NULL, FIRST or AFTER")


def _make_create_tag_parser(*, replace: bool) -> Callable[[Words, st.Name], st.Statement]:
    def parse(words: Words, table: st.Name) -> st.Statement:
        ignores = not replace and words.has("IF", "NOT", "EXISTS")
        tag = words.name()
        snapshot = words.number() if words.has("AS", "OF", "VERSION") else None
        retained = None
        if words.has("RETAIN"):
            number, unit = words.number(), words.one_of(*UNITS)
            if unit is None:
                raise words.unexpected(join_words(UNITS))
            retained = number * UNITS[unit]
        return st.CreateTag(table, tag, snapshot, retained, replace, ignores)

    return parse


def _parse_delete_tag(words: Words, table: st.Name) -> st.Statement:
    ignores = words.has("IF", "EXISTS")
    return st.DeleteTags(table, words.name(), ignores)


def _parse_rename_tag(words: Words, table: st.Name) -> st.Statement:
    ignores = words.has("IF", "EXISTS")
    tag = words.name()
    words.need("TO")
    return st.RenameTag(table, tag, words.name(), ignores)


def _make_refusal(what: str, hint: str | None = None) -> Callable[[Words, st.Name], st.Statement]:
    def parse(_words: Words, _table: st.Name) -> st.Statement:
        raise Unsupported(what, hint=hint)

    return parse


_TAG_CHANGES: Sequence[tuple[tuple[str, ...], Callable[[Words, st.Name], st.Statement]]] = (
    (("CREATE", "TAG"), _make_create_tag_parser(replace=False)),
    (("CREATE", "OR", "REPLACE", "TAG"), _make_create_tag_parser(replace=True)),
    (("REPLACE", "TAG"), _make_create_tag_parser(replace=True)),
    (("DELETE", "TAG"), _parse_delete_tag),
    (("RENAME", "TAG"), _parse_rename_tag),
)
TAG_WORDS = tuple(begin for begin, _ in _TAG_CHANGES)
"""The words after ALTER TABLE and a name that begin a change of tags."""
_CHANGES: Sequence[tuple[tuple[str, ...], Callable[[Words, st.Name], st.Statement]]] = (
    *_TAG_CHANGES,
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

Parse = Callable[[Words], st.Statement]


# Tables


def _parse_create(*, replace: bool, must_exist: bool = False) -> Parse:
    def parse(words: Words) -> st.Statement:
        ignores = not replace and words.has("IF", "NOT", "EXISTS")
        table = words.path()
        if not replace and words.has("LIKE"):
            return _parse_like(words, table, ignores)
        columns = _take_columns(words) if words.comes("(") else None
        parts = _parse_clauses(words)
        query = None
        if words.has("AS") or _begins_query(words):
            query = words.rest()
        if (columns is None) == (query is None):
            if columns is None:
                raise words.unexpected("columns in parentheses, or AS and a query")
            raise Unsupported("CREATE TABLE with columns and AS", hint="name the columns in the query")
        options = dict(parts.get("options", {}))
        comment = parts.get(COMMENT_OPTION, options.pop(COMMENT_OPTION, None))
        return st.CreateTable(
            *(table, columns, query, tuple(parts.get("partitions", ())), options, comment),
            *(ignores, replace, must_exist, parts.get("provider")),
        )

    return parse


def _take_columns(words: Words) -> str:
    """Take the definitions of columns in parentheses, without comments."""
    words.needs(TokenType.L_PAREN, "(")
    if words.comes(")"):
        raise InvalidArgument(f"{words}: a table needs a column")
    start = words.at
    words.until()
    end = words.at
    words.needs(TokenType.R_PAREN, ")")
    return words.plain(start, end)


def _begins_query(words: Words) -> bool:
    """Return whether a query without AS comes next, as Spark allows."""
    if not words.syntax.has_catalogs:
        return False
    is_with = words.comes("WITH") and not words.comes("(", after=1)
    return is_with or any(words.comes(word) for word in ("SELECT", "VALUES", "FROM", "TABLE"))


def _parse_clauses(words: Words) -> dict[str, Any]:
    """Parse the clauses between the columns of a table and its query."""
    found: dict[str, Any] = {}

    def put(key: str, value: object) -> None:
        if key in found:
            raise InvalidArgument(f"{words}: a part of CREATE TABLE is given twice")
        found[key] = value

    while not words.is_at_end() and not words.comes("AS") and not _begins_query(words):
        if words.has("USING"):
            put("provider", words.name())
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


def _parse_partitioning(words: Words) -> list[str]:
    def column() -> str:
        name = words.name()
        if words.comes("("):
            raise Unsupported(f"PARTITIONED BY {name}(...)", hint="partition by columns")
        if not words.comes(",") and not words.comes(")"):
            raise Unsupported("PARTITIONED BY columns with types", hint="name columns of the table")
        return name

    return words.enclosed(column)


def _parse_like(words: Words, table: st.Name, ignores: bool) -> st.Statement:
    source = words.path()
    options: dict[str, str] = {}
    provider = None
    while not words.is_at_end():
        if words.has("USING"):
            provider = words.name()
        elif words.has("TBLPROPERTIES") or words.has("WITH"):
            options = words.properties()
        elif words.has("LOCATION"):
            raise Unsupported("CREATE TABLE LIKE with LOCATION", hint=_INSTEAD["LOCATION"])
        else:
            raise words.unexpected("USING, TBLPROPERTIES or the end")
    if COMMENT_OPTION in options:
        raise Unsupported(f"the property {COMMENT_OPTION!r} in CREATE TABLE LIKE")
    return st.CreateTableLike(table, source, options, ignores, provider)


def _parse_drop_table(words: Words) -> st.Statement:
    ignores = words.has("IF", "EXISTS")
    table = words.path()
    if words.syntax.has_catalogs:
        words.has("PURGE")  # which Spark knows; files are removed with or without it
    elif words.comes("PURGE") or words.comes("CASCADE"):
        raise Unsupported("DROP TABLE with PURGE or CASCADE", hint="leave it out: the files are removed")
    return st.DropTable(table, ignores)


def _parse_comment(words: Words) -> st.Statement:
    if words.has("COLUMN"):
        path = words.path()
        words.need("IS")
        return st.CommentColumn(path, _take_text_or_null(words))
    if words.one_of(*DATABASE) is not None:
        name = words.database()
        words.need("IS")
        return st.AlterDatabase(name, {COMMENT: _take_text_or_null(words) or ""})
    if words.comes("VIEW"):
        raise Unsupported("COMMENT ON VIEW", hint="there is COMMENT ON TABLE, COLUMN and DATABASE")
    if not words.has("TABLE"):
        raise words.unexpected("TABLE, COLUMN or DATABASE")
    table_name = words.path()
    words.need("IS")
    return st.AlterTable(table_name, (st.AlterChange("set table comment", value=_take_text_or_null(words)),))


def _parse_analyze_tables(words: Words) -> st.Statement:
    database = words.database() if words.one_of("IN", "FROM") is not None else ()
    words.need("COMPUTE", "STATISTICS")
    return st.AnalyzeTables(database, words.has("NOSCAN"))


def _parse_analyze(words: Words) -> st.Statement:
    table = words.path()
    partition: dict[str, str | None] | None = None
    if words.has("PARTITION"):
        partition = dict(words.enclosed(lambda: (words.name(), words.until(",") if words.has("=") else None)))
    words.need("COMPUTE", "STATISTICS")
    columns: tuple[str, ...] | None = ()
    has_noscan = words.has("NOSCAN")
    if words.has("FOR", "ALL", "COLUMNS"):
        columns = None
    elif words.has("FOR", "COLUMNS"):
        columns = tuple(words.listed(words.name))
    return st.Analyze(table, columns, partition, has_noscan)


def _parse_create_view(*, replace: bool) -> Parse:
    def parse(words: Words) -> st.Statement:
        ignores = words.has("IF", "NOT", "EXISTS")
        name = words.path()
        columns = tuple(words.enclosed(lambda: _parse_view_column(words))) if words.comes("(") else ()
        comment, options = None, dict[str, str]()
        while (clause := words.one_of("COMMENT", "TBLPROPERTIES")) is not None:
            if clause == "COMMENT":
                comment = words.string()
            else:
                options = words.properties()
        words.need("AS")
        return st.CreateView(name, words.rest(), comment, ignores, replace, columns, options)

    return parse


def _parse_view_column(words: Words) -> tuple[str, str | None]:
    return words.name(), words.string() if words.has("COMMENT") else None


def _parse_alter_view(words: Words) -> st.Statement:
    view = words.path()
    if words.has("AS"):
        return st.AlterView(view, words.rest())
    if words.has("RENAME", "TO"):
        return st.AlterView(view, to=words.path())
    if words.has("SET", "TBLPROPERTIES"):
        return st.AlterView(view, options=words.properties())
    words.need("UNSET", "TBLPROPERTIES")
    words.has("IF", "EXISTS")
    return st.AlterView(view, removed=tuple(words.enclosed(words.property_key)))


def _parse_drop_view(words: Words) -> st.Statement:
    ignores = words.has("IF", "EXISTS")
    return st.DropView(words.path(), ignores)


DDL_PARSERS: Sequence[tuple[tuple[str, ...], Parse]] = (
    *CATALOG_PARSERS,
    *DATABASE_PARSERS,
    (("CREATE", "OR", "REPLACE", "TABLE"), _parse_create(replace=True)),
    (("CREATE", "TABLE"), _parse_create(replace=False)),
    (("REPLACE", "TABLE"), _parse_create(replace=True, must_exist=True)),
    (("DROP", "TABLE"), _parse_drop_table),
    (("ALTER", "TABLE"), parse_alteration),
    (("COMMENT", "ON"), _parse_comment),
    (("ANALYZE", "TABLE"), _parse_analyze),
    (("ANALYZE", "TABLES"), _parse_analyze_tables),
    (("CREATE", "VIEW"), _parse_create_view(replace=False)),
    (("CREATE", "OR", "REPLACE", "VIEW"), _parse_create_view(replace=True)),
    (("ALTER", "VIEW"), _parse_alter_view),
    (("DROP", "VIEW"), _parse_drop_view),
)
