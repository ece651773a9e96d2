"""USE: the catalog and database of names that have none, and which names of a query these are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Protocol
from weakref import WeakKeyDictionary

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from morrow.engine.errors import DatabaseNotFound, Unsupported
from morrow.spark.catalogs.created import text_literal
from morrow.spark.catalogs.place import Place
from morrow.spark.reading.expressions import quoted
from morrow.spark.statements.text import Statement, replaced
from morrow.statements.words import DATABASE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULT = "default"
"""The database that is current where only a catalog was named, as in Spark."""
OF_SPARK = ("spark_catalog", "system", "global_temp")
"""What names of Spark's own begin with."""
FUNCTIONS = {"current_catalog": 0, "current_database": 1, "current_schema": 1}
EXPLAINED = ("EXTENDED", "FORMATTED", "COST", "CODEGEN", "SIMPLE")

_CURRENT: WeakKeyDictionary[SparkSession, tuple[str, str]] = WeakKeyDictionary()


class Places(Protocol):
    """A session, and its warehouses by name."""

    @property
    def spark(self) -> SparkSession: ...
    @property
    def places(self) -> Mapping[str, Place]: ...


def current(session: Places) -> tuple[str, str] | None:
    """Returns the catalog and database of the last USE; None where that is Spark's own, or is not there now."""
    found = _CURRENT.get(session.spark)
    return found if found is not None and found[0] in session.places else None


def full_path(session: Places, path: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the name of a table with its catalog and database, where it lacks them."""
    now = current(session)
    if now is None or len(path) > 2 or path[0] in session.places or path[0] in OF_SPARK:
        return path
    return (*now, *path) if len(path) == 1 else (now[0], *path)


def full_database(session: Places, path: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the name of a database with its catalog; without a name the current one."""
    now = current(session)
    if now is None or len(path) > 1:
        return path
    return (now[0], *path) if path else now


def use(session: Places, words: Statement) -> bool:
    """Takes what follows USE; returns whether it names a warehouse: everything else is Spark's."""
    is_database = words.word(1) != "" and words.one_of(*DATABASE) is not None
    path = words.path()
    words.end()
    if len(path) == 1 and (is_database or path[0] not in session.places):
        now = current(session)
        if now is None or path[0] in OF_SPARK:
            _CURRENT.pop(session.spark, None)
            return False
        path = (now[0], *path)
    if path[0] not in session.places:
        _CURRENT.pop(session.spark, None)
        return False
    if len(path) > 2:
        raise DatabaseNotFound(f"there is no database {'.'.join(path)}; they are named catalog.database")
    if len(path) == 2 and path[1] not in session.places[path[0]].catalog.databases():
        raise DatabaseNotFound(f"there is no database {'.'.join(path)}")
    _CURRENT[session.spark] = (path[0], path[1] if len(path) == 2 else DEFAULT)
    return True


def completed(session: Places, text: str) -> str:
    """Returns a query in which the names of tables have a catalog and a database, and what is current stands as text.

    Names of common table expressions and temporary views stay as they are.

    Raises:
        Unsupported: a query that sqlglot does not parse, whose names nobody knows.
    """
    now = current(session)
    if now is None:
        return text
    parts: dict[tuple[int, int], str] = {}
    views: set[str] | None = None
    for table in _tables(text):
        if not isinstance(table.this, exp.Identifier) or table.find_ancestor(exp.Hint):
            continue
        path = tuple(part.name for part in table.parts)
        if full_path(session, path) == path or _is_common(table, path):
            continue
        if len(path) == 1:
            views = _views(session.spark) if views is None else views
            if path[0].casefold() in views:
                continue
        start = table.parts[0].meta["start"]
        parts[start, start] = "".join(f"{quoted(name)}." for name in now[: 3 - len(path)])
    words = Statement(text)
    for first, path in words.paths():
        if path[0].upper() == "IDENTIFIER" and words.word() == "(":
            raise Unsupported("IDENTIFIER(...) after USE", hint="write the name as catalog.database.table")
        if len(path) == 1 and path[0].lower() in FUNCTIONS and words.has("(", ")"):
            parts[words.start(first), words.taken] = text_literal(now[FUNCTIONS[path[0].lower()]])
    return replaced(text, parts)


def _tables(text: str) -> Iterator[exp.Table]:
    """Yields the tables of a query, which know where they stand in it."""
    try:
        tree = sqlglot.parse_one(_plain(text), dialect="spark")
    except SqlglotError as error:
        raise Unsupported("this query after USE", hint="name its tables as catalog.database.table") from error
    if isinstance(tree, exp.Command):
        raise Unsupported("this query after USE", hint="name its tables as catalog.database.table")
    return tree.find_all(exp.Table)


def _plain(text: str) -> str:
    """Returns a query without what sqlglot does not parse, blanks in its place: EXPLAIN, TABLE, options of a read."""
    words, cut = Statement(text), list[tuple[int, int]]()
    if words.has("EXPLAIN"):
        words.one_of(*EXPLAINED)
        cut.append((0, words.taken))
    begins = words.at
    while words.next is not None:
        at = words.at
        if words.word() == "TABLE" and (at == begins or words.tokens[at - 1].text in ("(", "AS")):
            words.at += 1
            cut.append((words.start(at), words.taken))
        elif words.word() == "WITH" and words.word(1) == "(":
            words.at += 1
            words.properties()
            cut.append((words.start(at), words.taken))
        else:
            words.at += 1
    for start, stop in cut:
        is_table = text[start:stop].upper() == "TABLE"
        text = text[:start] + ("FROM" if is_table else "").ljust(stop - start) + text[stop:]
    return text


def _is_common(table: exp.Table, path: tuple[str, ...]) -> bool:
    """Whether a name is that of a common table expression that is known where it stands."""
    if len(path) > 1:
        return False
    node, inside = table.parent, None
    while node is not None:
        if isinstance(node, exp.CTE):
            inside = node
        found = node.args.get("with_") or node.args.get("with")
        if isinstance(found, exp.With):
            known = found.expressions
            if inside in known and not found.args.get("recursive"):
                known = known[: known.index(inside)]
            if any(each.alias.casefold() == path[0].casefold() for each in known):
                return True
        node = node.parent
    return False


def _views(spark: SparkSession) -> set[str]:
    """Returns the names of the temporary views of a session, which come before tables, in lower case."""
    return {row.viewName.casefold() for row in spark.sql("SHOW VIEWS").collect() if row.isTemporary}
