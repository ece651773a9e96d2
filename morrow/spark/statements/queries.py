"""Queries over named tables: Spark's SQL gets a DataFrame for each table, through a placeholder.

USE sets the catalog and database of incomplete names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakKeyDictionary

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from morrow.engine.errors import DatabaseNotFound, InvalidArgument, TableNotFound, Unsupported
from morrow.queries.incremental import CHANGES_BY, has_change_options, parse_change_options
from morrow.spark.catalogs.descriptions import quote_text
from morrow.spark.catalogs.options import parse_travel, set_read_options
from morrow.spark.catalogs.partitions import find_max_partition
from morrow.spark.catalogs.questions import Place, build_full_name, parse_name
from morrow.spark.catalogs.reads import read_changes
from morrow.spark.catalogs.syntax import split_name
from morrow.spark.expressions import quote_name
from morrow.spark.reading.read import to_dataframe
from morrow.spark.source.settings import Clock, get_clock, refuse_settings
from morrow.spark.statements.tokens import SparkWords, replace_parts
from morrow.statements.statement import Use

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from morrow.engine.plan.time_travel import TravelArguments
    from morrow.tables.table import Table

PLACEHOLDER = "morrow_table_"
MAX_PT = ("sys", "max_pt")
"""The parts after the warehouse in the name of the function ``max_pt``."""
WHOLE = re.compile(r"\bTABLE\s*$", re.IGNORECASE)
"""A pattern of the text before a table that is itself a query, and so without an alias."""
SECONDS = "seconds"
"""The option for a time given as a number, in seconds since 1970 as in Spark."""


@dataclass
class Session:
    """A session, and its warehouses by the first part of names."""

    spark: SparkSession
    places: Mapping[str, Place] = field(default_factory=dict)

    def place(self, path: tuple[str, ...]) -> Place | None:
        """Return the warehouse of a name, or None."""
        return self.places.get(path[0]) if len(path) > 1 else None

    def named(self, path: tuple[str, ...]) -> tuple[Place, str]:
        """Return the warehouse and ``database.table``.

        Raises `TableNotFound` if the name is not a warehouse's table.
        """
        path = complete_path(self, path)
        place = self.place(path)
        if place is None or len(path) != 3:
            known = ", ".join(self.places)
            raise TableNotFound(
                f"there is no table {'.'.join(path)}; tables are named catalog.database.table ({known})"
            )
        return place, build_full_name(path[1:2], path[2])

    def table(self, path: tuple[str, ...]) -> Table:
        """Open the table or branch that a statement changes. Raises `TableNotFound`."""
        place, name = self.named(path)
        return place.table(name)


def query(session: Session, text: str) -> DataFrame:
    """Return the rows of a query as a DataFrame. All references to a table read the same state.

    Raises:
        TableNotFound, and the errors of reads.
    """
    text = complete_query(session, text)
    words = SparkWords(text)
    parts: dict[tuple[int, int], str] = {}
    frames: dict[str, DataFrame] = {}
    known: dict[tuple[object, ...], str] = {}
    for first, path in words.paths():
        start = words.start(first)
        if path == MAX_PT:
            path = complete_path(session, path)
        if len(path) == 1 and path[0].lower() in CHANGES_BY and words.word() == "(":
            key: tuple[object, ...] = (path[0].lower(), *_parse_constants(words.expressions(), path[0]))
        elif session.place(path) is None or len(path) < 3:
            continue
        elif path[1:] == MAX_PT and words.word() == "(":
            value = _find_max_partition(session, path[0], words.expressions())
            parts[start, words.taken] = quote_text(value)
            continue
        elif len(path) > 3:  # a column
            parts[start, words.start(first + 5)] = quote_name(path[2])
            continue
        else:
            key = (path, *_parse_state(words))
        stop = words.taken
        if key not in known:
            known[key] = f"{PLACEHOLDER}{len(known)}"
            frames[known[key]] = _make_frame(session, key)
        parts[start, stop] = f"{{{known[key]}}}"
        while words.one_of("TABLESAMPLE", "REPEATABLE"):  # comes before the alias
            words.parenthesized()
        end = words.taken
        if len(path) == 3 and words.alias() is None and not WHOLE.search(text[:start]):
            parts[end, end] = f" AS {quote_name(path[2])}"
    if not parts:
        return session.spark.sql(text)
    if not frames:
        return session.spark.sql(replace_parts(text, parts))
    named: dict[str, Any] = {**frames}
    return session.spark.sql(_insert_placeholders(text, parts), None, **named)


def _find_max_partition(session: Session, catalog: str, arguments: list[str]) -> str:
    """Evaluate ``max_pt`` of a table's name, with or without the catalog. Raises `Unsupported` for other arguments."""
    given = _parse_constants(arguments, MAX_PT[-1])
    if len(given) != 1:
        raise InvalidArgument(f"{MAX_PT[-1]} takes the name of a table")
    name = split_name(given[0])
    return find_max_partition(session.table((catalog, *name) if len(name) == 2 else name))


def _insert_placeholders(text: str, parts: Mapping[tuple[int, int], str]) -> str:
    """Return the text for `str.format`, with placeholders for its parts."""
    doubled, moved, shift = [], {}, 0
    for number, character in enumerate(text):
        doubled.append(character * 2 if character in "{}" else character)
        moved[number] = number + shift
        shift += character in "{}"
    moved[len(text)] = len(text) + shift
    return replace_parts("".join(doubled), {(moved[a], moved[b]): new for (a, b), new in parts.items()})


def _parse_state(words: SparkWords) -> tuple[tuple[str, str], ...]:
    """Parse the state after a table's name, such as VERSION AS OF, to options of a read."""
    for kind, option in (("VERSION", "version"), ("TIMESTAMP", "timestampAsOf")):
        begins = ((kind,), ("FOR", kind), ("FOR", f"SYSTEM_{kind}"), ("FOR", "SYSTEM_TIME")[: 2 * (kind != "VERSION")])
        for begin in begins:
            if begin and words.has(*begin, "AS", "OF"):
                if words.word() in ("TIMESTAMP", "DATE"):
                    words.has(words.word())
                value = words.text_if_any()
                if value is None:
                    return ((SECONDS if kind == "TIMESTAMP" else option, str(words.number())),)
                return ((option, value),)
    if words.word() == "WITH" and words.word(1) == "(":
        words.has("WITH")
        return tuple(sorted(words.properties().items()))
    return ()


def _make_frame(session: Session, key: tuple[Any, ...]) -> DataFrame:
    if isinstance(key[0], str):
        return _read_changes(session, key[0], key[1:])
    path, *options = key
    place, name = session.named(path)
    refuse_settings(session.spark, "a statement", place.name, *name.split(".", 1))
    given: dict[str, str] = dict(options)
    parts = parse_name(name)
    if has_change_options(given):
        return _read_between(session, place.catalog.table(parts.table, branch=parts.branch), given)
    at = _parse_travel(given, get_clock(session.spark))
    if parts.system is not None or name.startswith("sys."):
        return to_dataframe(place.catalog.system(name, **at), session.spark)
    return to_dataframe(set_read_options(place.table(name), given).scan(**at), session.spark)


def _parse_travel(given: Mapping[str, str], clock: Clock) -> TravelArguments:
    if set(given) == {"version"}:
        return {"version": given["version"]}
    if set(given) == {SECONDS}:
        return {"timestamp": int(float(given[SECONDS]) * 1000)}
    return parse_travel(given, clock=clock) if given else {}


def _read_between(session: Session, table: Table, given: Mapping[str, str]) -> DataFrame:
    asked = parse_change_options(table, given)
    found = table.changes(1, 1, mode="diff") if asked is None else table.changes(**asked)
    return read_changes(found, session.spark, with_kinds=False)


def _read_changes(session: Session, function: str, arguments: tuple[str, ...]) -> DataFrame:
    option, count = CHANGES_BY[function]
    if len(arguments) != count + 1:
        raise InvalidArgument(f"{function} takes the name of a table and {count} more")
    place, name = session.named(split_name(arguments[0]))
    return _read_between(session, place.table(name), {option: ",".join(arguments[1:])})


def _parse_constants(texts: list[str], function: str) -> list[str]:
    found = []
    for text in texts:
        words = SparkWords(text)
        value = words.text_if_any()
        found.append(str(words.number()) if value is None else value)
        if not words.is_at_end():
            raise Unsupported(f"{function} of anything but constants")
    return found


DEFAULT = "default"
"""The current database if only a catalog was named, as in Spark."""
OF_SPARK = ("spark_catalog", "system", "global_temp")
"""First parts of names that belong to Spark."""
FUNCTIONS = {"current_catalog": 0, "current_database": 1, "current_schema": 1}
EXPLAINED = ("EXTENDED", "FORMATTED", "COST", "CODEGEN", "SIMPLE")

_CURRENT: WeakKeyDictionary[SparkSession, tuple[str, str]] = WeakKeyDictionary()


class Places(Protocol):
    """A session and its warehouses by name."""

    @property
    def spark(self) -> SparkSession: ...
    @property
    def places(self) -> Mapping[str, Place]: ...


def get_current(session: Places) -> tuple[str, str] | None:
    """Return the catalog and database of the last USE; None if the catalog is Spark's or no longer exists."""
    found = _CURRENT.get(session.spark)
    return found if found is not None and found[0] in session.places else None


def complete_path(session: Places, path: tuple[str, ...]) -> tuple[str, ...]:
    """Complete the name of a table by the current catalog and database."""
    now = get_current(session)
    if now is None or len(path) > 2 or path[0] in session.places or path[0] in OF_SPARK:
        return path
    return (*now, *path) if len(path) == 1 else (now[0], *path)


def complete_database(session: Places, path: tuple[str, ...]) -> tuple[str, ...]:
    """Complete the name of a database by the current catalog; without a name, return the current database."""
    now = get_current(session)
    if now is None or len(path) > 1:
        return path
    return (now[0], *path) if path else now


def use(session: Places, statement: Use) -> bool:
    """Execute USE; return whether it names a warehouse. Spark handles all other names."""
    path = statement.database
    if len(path) == 1 and (statement.word == "DATABASE" or path[0] not in session.places):
        now = get_current(session)
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


def complete_query(session: Places, text: str) -> str:
    """Complete table names in a query by catalog and database, and replace functions such as current_database().

    Names of common table expressions and temporary views stay as they are.

    Raises `Unsupported`: a query whose names are unknown because sqlglot cannot parse it.
    """
    now = get_current(session)
    if now is None:
        return text
    parts: dict[tuple[int, int], str] = {}
    views: set[str] | None = None
    for table in _find_tables(text):
        if not isinstance(table.this, exp.Identifier) or table.find_ancestor(exp.Hint):
            continue
        path = tuple(part.name for part in table.parts)
        if complete_path(session, path) == path or _is_common(table, path):
            continue
        if len(path) == 1:
            views = _list_views(session.spark) if views is None else views
            if path[0].casefold() in views:
                continue
        start = table.parts[0].meta["start"]
        parts[start, start] = "".join(f"{quote_name(name)}." for name in now[: 3 - len(path)])
    words = SparkWords(text)
    for first, path in words.paths():
        if path[0].upper() == "IDENTIFIER" and words.word() == "(":
            raise Unsupported("IDENTIFIER(...) after USE", hint="write the name as catalog.database.table")
        if len(path) == 1 and path[0].lower() in FUNCTIONS and words.has("(", ")"):
            parts[words.start(first), words.taken] = quote_text(now[FUNCTIONS[path[0].lower()]])
    return replace_parts(text, parts)


def _find_tables(text: str) -> Iterator[exp.Table]:
    """Yield the tables of a query, each with its position in the query."""
    try:
        tree = sqlglot.parse_one(_hide_clauses(text), dialect="spark")
    except SqlglotError as error:
        raise Unsupported("this query after USE", hint="name its tables as catalog.database.table") from error
    if isinstance(tree, exp.Command):
        raise Unsupported("this query after USE", hint="name its tables as catalog.database.table")
    return tree.find_all(exp.Table)


def _hide_clauses(text: str) -> str:
    """Return a query with blanks for the parts that sqlglot cannot parse: EXPLAIN, TABLE, options of a read."""
    words, cut = SparkWords(text), list[tuple[int, int]]()
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
    """Return whether a name is that of a common table expression visible at this table."""
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


def _list_views(spark: SparkSession) -> set[str]:
    """Return the names, in lower case, of a session's temporary views, which have precedence over tables."""
    return {row.viewName.casefold() for row in spark.sql("SHOW VIEWS").collect() if row.isTemporary}
