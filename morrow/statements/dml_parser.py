"""Parsers of INSERT, UPDATE, DELETE, MERGE and TRUNCATE."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot.tokenizer_core import TokenType

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.statements.statement import Delete, Insert, MergeInto, Name, Statement, Truncate, Update, Values, When
from morrow.statements.tokens import Words

NO_ALIAS = ("SET", "WHERE", "USING", "ON", "WHEN", "FROM", "RETURNING", "VALUES", "SELECT", "PARTITION", "BY")
QUERIES = ("SELECT", "VALUES", "WITH", "FROM", "TABLE")
MATCHED, UNMATCHED, UNMATCHED_BY_SOURCE = "matched", "not matched", "not matched by source"


def _parse_insert(*, overwrite: bool, evolves: bool = False) -> Callable[[Words], Statement]:
    def parse(words: Words) -> Statement:
        words.has("TABLE")
        table = words.path()
        replaced = _parse_replace_where(words) if not overwrite else None
        partition = _parse_partition(words) if words.has("PARTITION") else {}
        columns, by_name = None, words.has("BY", "NAME")
        if by_name:
            replaced = replaced or (_parse_replace_where(words) if not overwrite else None)
        elif not words.has("BY", "POSITION") and words.comes("(") and not _is_query(words):
            columns = tuple(words.enclosed(words.name))
        if columns is None and words.has("IF", "NOT", "EXISTS"):
            raise Unsupported("INSERT ... IF NOT EXISTS")
        if evolves and not by_name:
            raise Unsupported("INSERT WITH SCHEMA EVOLUTION by position", hint="write BY NAME behind the table")
        if words.comes("DEFAULT", "VALUES"):
            raise Unsupported("INSERT ... DEFAULT VALUES", hint="write the values")
        if not words.comes("(") and not any(words.comes(word) for word in QUERIES):
            raise words.unexpected("VALUES or a query")
        query = _query(words)
        if columns is not None and len(set(columns)) != len(columns):
            raise InvalidArgument(f"{words}: a column is named twice")
        return Insert(table, query, columns, partition, by_name, overwrite, replaced, evolves)

    return parse


def _query(words: Words) -> str:
    """Take the rest, a query. Raises `Unsupported` for ON CONFLICT or RETURNING after the query."""
    if not words.syntax.has_returning:
        return words.rest()
    start, end = words.at, len(words.tokens)
    while not words.is_at_end():
        words.until("RETURNING", "CONFLICT", "DUPLICATE")
        _refuse_returning(words)
        if words.one_of("CONFLICT", "DUPLICATE") is not None and words.tokens[words.at - 2].text.upper() == "ON":
            raise Unsupported(
                "INSERT ... ON CONFLICT",
                hint="an INSERT into a table with a primary key is an upsert; MERGE INTO does the rest",
            )
    words.at = end
    return words.raw(start, end)


def _parse_replace_where(words: Words) -> str | None:
    """Parse ``REPLACE WHERE condition``, up to the following query."""
    if not words.has("REPLACE", "WHERE"):
        return None
    return words.until(*QUERIES)


def _is_query(words: Words) -> bool:
    """Return whether the next parentheses enclose a query and not a list of columns."""
    deep = 0
    while words.comes("(", after=deep):
        deep += 1
    return any(words.comes(word, after=deep) for word in QUERIES)


def _parse_partition(words: Words) -> Values:
    """Parse ``(day = '2026-05-01', hour)``."""
    pairs = words.enclosed(lambda: _parse_pair(words))
    names = [name for name, _ in pairs]
    if len(set(names)) != len(names):
        raise InvalidArgument(f"{words}: a partition column is named twice")
    return dict(pairs)


def _parse_pair(words: Words) -> tuple[str, str | None]:
    name = words.name()
    return name, words.until(",") if words.takes(TokenType.EQ) else None


def parse_static_partition(words: Words) -> Values:
    """Parse ``(day = '2026-05-01')``, in which every column has a value."""
    found = _parse_partition(words)
    bare = next((name for name, value in found.items() if value is None), None)
    if bare is not None:
        raise InvalidArgument(f"{words}: the partition column {bare!r} needs a value")
    return found


def _parse_alias(words: Words) -> str | None:
    if words.has("AS"):
        return words.name()
    if words.is_at_end() or any(words.comes(word) for word in NO_ALIAS) or words.comes("("):
        return None
    return words.name()


def _parse_delete(words: Words) -> Statement:
    words.need("FROM")
    table, alias = words.path(), _parse_alias(words)
    source = words.condition("WHERE") if words.has("USING") else None
    where = words.condition() if words.has("WHERE") else None
    _refuse_returning(words)
    return Delete(table, alias, where, source)


def _parse_update(words: Words) -> Statement:
    table, alias = words.path(), _parse_alias(words)
    words.need("SET")
    assignments = tuple(words.listed(lambda: _parse_assignment(words, ",", "WHERE", "FROM")))
    source = words.condition("WHERE") if words.has("FROM") else None
    where = words.condition() if words.has("WHERE") else None
    _refuse_returning(words)
    return Update(table, assignments, alias, where, source)


def _refuse_returning(words: Words) -> None:
    if words.syntax.has_returning and words.comes("RETURNING"):
        raise Unsupported("RETURNING")


def _parse_assignment(words: Words, *ends: str) -> tuple[Name, str]:
    path = words.path()
    words.needs(TokenType.EQ, "=")
    return path, words.condition(*ends)


def _parse_truncate(words: Words) -> Statement:
    words.has("TABLE")
    table = words.path()
    return Truncate(table, parse_static_partition(words) if words.has("PARTITION") else None)


# MERGE INTO


def _parse_merge(words: Words) -> Statement:
    evolves = words.has("WITH", "SCHEMA", "EVOLUTION")
    words.need("INTO")
    table, alias = words.path(), _parse_alias(words)
    words.need("USING")
    start = words.at
    if words.comes("("):
        words.at += 1
        words.until()
        words.needs(TokenType.R_PAREN, ")")
    else:
        _take_source(words)
    source = words.raw(start, words.at)
    source_alias = _parse_alias(words)
    columns = tuple(words.enclosed(words.name)) if source_alias is not None and words.comes("(") else ()
    words.need("ON")
    on = words.until("WHEN")
    clauses = []
    while words.has("WHEN"):
        clauses.append(_parse_when(words))
    if not clauses:
        raise words.unexpected("WHEN MATCHED or WHEN NOT MATCHED")
    _refuse_returning(words)
    return MergeInto(table, alias, source, source_alias, columns, on, tuple(clauses), evolves)


def _take_source(words: Words) -> None:
    """Take the name of a source table or function, with its time travel clause."""
    words.path()
    _take_brackets(words)
    for kind in ("VERSION", "TIMESTAMP", "SYSTEM_VERSION", "SYSTEM_TIME"):
        if words.has("FOR", kind, "AS", "OF") or words.has(kind, "AS", "OF"):
            words.one_of("TIMESTAMP", "DATE")
            words.at += 1
            _take_brackets(words)
            return


def _take_brackets(words: Words) -> None:
    if not words.takes(TokenType.L_PAREN):
        return
    if not words.comes(")"):
        words.until()
    words.needs(TokenType.R_PAREN, ")")


def _parse_when(words: Words) -> When:
    if words.has("MATCHED"):
        when = MATCHED
    else:
        words.need("NOT", "MATCHED")
        when = UNMATCHED_BY_SOURCE if words.has("BY", "SOURCE") else UNMATCHED
        words.has("BY", "TARGET")
    condition = words.until("THEN") if words.has("AND") else None
    words.need("THEN")
    action = words.one_of(*_ACTIONS[when])
    if action is None:
        raise words.unexpected(" or ".join(_ACTIONS[when]))
    if action == "DELETE":
        return When(when, "delete", condition)
    if action == "INSERT":
        return When(when, "insert", condition, _parse_inserted(words))
    words.need("SET")
    if words.takes(TokenType.STAR):
        if when == UNMATCHED_BY_SOURCE:
            raise InvalidArgument(f"{words}: SET * needs a row of the source")
        return When(when, "update", condition)
    return When(when, "update", condition, tuple(words.listed(lambda: _parse_assignment(words, ",", "WHEN"))))


_ACTIONS = {
    MATCHED: ("UPDATE", "DELETE"),
    UNMATCHED: ("INSERT",),
    UNMATCHED_BY_SOURCE: ("UPDATE", "DELETE"),
}


def _parse_inserted(words: Words) -> tuple[tuple[Name, str], ...] | None:
    if words.takes(TokenType.STAR):
        return None
    columns: Sequence[Name] = words.enclosed(words.path) if words.comes("(") else ()
    words.need("VALUES")
    values = words.enclosed(lambda: words.until(","))
    if not columns:
        return tuple(((), value) for value in values)
    if len(columns) != len(values):
        raise InvalidArgument(f"{words}: {len(columns)} columns and {len(values)} values in a WHEN NOT MATCHED clause")
    if len(set(columns)) != len(columns):
        raise InvalidArgument(f"{words}: a column is inserted twice")
    return tuple(zip(columns, values, strict=True))


DML_PARSERS: Sequence[tuple[tuple[str, ...], Callable[[Words], Statement]]] = (
    (("INSERT", "INTO"), _parse_insert(overwrite=False)),
    (("INSERT", "WITH", "SCHEMA", "EVOLUTION", "INTO"), _parse_insert(overwrite=False, evolves=True)),
    (("INSERT", "WITH", "SCHEMA", "EVOLUTION", "OVERWRITE"), _parse_insert(overwrite=True, evolves=True)),
    (("INSERT", "OVERWRITE"), _parse_insert(overwrite=True)),
    (("DELETE",), _parse_delete),
    (("UPDATE",), _parse_update),
    (("TRUNCATE",), _parse_truncate),
    (("MERGE",), _parse_merge),
)
