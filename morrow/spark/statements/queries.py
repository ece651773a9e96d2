"""Queries over tables by their full names: each table is a DataFrame that Spark's SQL is given by a placeholder."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from morrow.engine.errors import InvalidArgument, TableNotFound, Unsupported
from morrow.queries.incremental import CHANGES_BY, are_of_changes, changes
from morrow.spark.catalogs.created import text_literal
from morrow.spark.catalogs.partitions import greatest_of
from morrow.spark.catalogs.place import Place, full_name, parsed
from morrow.spark.catalogs.read_options import travel
from morrow.spark.catalogs.words import name_of
from morrow.spark.reading.expressions import quoted
from morrow.spark.reading.read import to_dataframe
from morrow.spark.source.changed import to_dataframe as changed_rows
from morrow.spark.source.instants import Clock, clock_of
from morrow.spark.source.settings import refuse_settings
from morrow.spark.statements.current import completed, full_path
from morrow.spark.statements.text import Statement, replaced

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from morrow.engine.plan.time_travel import TravelArguments
    from morrow.tables.table import Table

QUERIES = ("SELECT", "WITH", "FROM", "VALUES", "TABLE", "(", "EXPLAIN")
"""How statements begin that return rows and change nothing."""
CHANGING = ("INSERT", "UPDATE", "DELETE", "MERGE")
PLACEHOLDER = "morrow_table_"
MAX_PT = ("sys", "max_pt")
"""What follows the name of a warehouse in the name of its function."""
WHOLE = re.compile(r"\bTABLE\s*$", re.IGNORECASE)
"""What stands before a table that is a query by itself, and takes no alias."""
SECONDS = "seconds"
"""A moment as a number, which Spark takes for seconds since 1970."""


@dataclass
class Session:
    """A session, and the warehouses that names begin with, by the names."""

    spark: SparkSession
    places: Mapping[str, Place] = field(default_factory=dict)

    def place(self, path: tuple[str, ...]) -> Place | None:
        """Returns the warehouse that a name is of."""
        return self.places.get(path[0]) if len(path) > 1 else None

    def named(self, path: tuple[str, ...]) -> tuple[Place, str]:
        """Returns the warehouse and ``database.table``. Raises `TableNotFound` for the name of no such table."""
        path = full_path(self, path)
        place = self.place(path)
        if place is None or len(path) != 3:
            known = ", ".join(self.places)
            raise TableNotFound(
                f"there is no table {'.'.join(path)}; tables are named catalog.database.table ({known})"
            )
        return place, full_name(path[1:2], path[2])

    def table(self, path: tuple[str, ...]) -> Table:
        """Opens the table or branch that a statement changes. Raises `TableNotFound`."""
        place, name = self.named(path)
        return place.table(name)


def query(session: Session, text: str) -> DataFrame:
    """Returns the rows of a query as a DataFrame; the same table is read at one state wherever it stands.

    Raises:
        TableNotFound, and what reads of a state raise. Unsupported: a statement in a WITH that changes rows.
    """
    text = completed(session, text)
    words = Statement(text)
    parts: dict[tuple[int, int], str] = {}
    frames: dict[str, DataFrame] = {}
    known: dict[tuple[object, ...], str] = {}
    for first, path in words.paths():
        start = words.start(first)
        if path == MAX_PT:
            path = full_path(session, path)
        if len(path) == 1 and path[0].lower() in CHANGES_BY and words.word() == "(":
            key: tuple[object, ...] = (path[0].lower(), *_constants(words.expressions(), path[0]))
        elif session.place(path) is None or len(path) < 3:
            if len(path) == 1 and path[0].upper() in CHANGING and words.word() in ("INTO", "OVERWRITE", "FROM"):
                raise _changes_rows(path[0].upper(), text)
            continue
        elif path[1:] == MAX_PT and words.word() == "(":
            value = _greatest(session, path[0], words.expressions())
            parts[start, words.taken] = text_literal(value)
            continue
        elif len(path) > 3:  # a column
            parts[start, words.start(first + 5)] = quoted(path[2])
            continue
        else:
            key = (path, *_state(words))
        stop = words.taken
        if key not in known:
            known[key] = f"{PLACEHOLDER}{len(known)}"
            frames[known[key]] = _frame(session, key)
        parts[start, stop] = f"{{{known[key]}}}"
        while words.one_of("TABLESAMPLE", "REPEATABLE"):  # comes before the alias
            words.parenthesized()
        end = words.taken
        if len(path) == 3 and words.alias() is None and not WHOLE.search(text[:start]):
            parts[end, end] = f" AS {quoted(path[2])}"
    if not parts:
        return session.spark.sql(text)
    if not frames:
        return session.spark.sql(replaced(text, parts))
    named: dict[str, Any] = {**frames}
    return session.spark.sql(_with_placeholders(text, parts), None, **named)


def _changes_rows(verb: str, text: str) -> Unsupported:
    """Returns the error of a statement that changes rows and begins as a query does."""
    if Statement(text).word() == "EXPLAIN":
        return Unsupported(f"EXPLAIN of {verb} here", hint="there is EXPLAIN of queries")
    return Unsupported(f"{verb} after WITH", hint="put the WITH into its query")


def _greatest(session: Session, catalog: str, arguments: list[str]) -> str:
    """Returns what ``max_pt`` of a table's name is, with or without the catalog's. Raises `Unsupported` for others."""
    given = _constants(arguments, MAX_PT[-1])
    if len(given) != 1:
        raise InvalidArgument(f"{MAX_PT[-1]} takes the name of a table")
    name = name_of(given[0])
    return greatest_of(session.table((catalog, *name) if len(name) == 2 else name))


def _with_placeholders(text: str, parts: Mapping[tuple[int, int], str]) -> str:
    """Returns the text for `str.format`."""
    doubled, moved, shift = [], {}, 0
    for number, character in enumerate(text):
        doubled.append(character * 2 if character in "{}" else character)
        moved[number] = number + shift
        shift += character in "{}"
    moved[len(text)] = len(text) + shift
    return replaced("".join(doubled), {(moved[a], moved[b]): new for (a, b), new in parts.items()})


def _state(words: Statement) -> tuple[tuple[str, str], ...]:
    """Takes the state of a table that is asked for after its name, as options of a read."""
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


def _frame(session: Session, key: tuple[Any, ...]) -> DataFrame:
    if isinstance(key[0], str):
        return _changes(session, key[0], key[1:])
    path, *options = key
    place, name = session.named(path)
    refuse_settings(session.spark, "a statement", place.name, *name.split(".", 1))
    given: dict[str, str] = dict(options)
    parts = parsed(name)
    if are_of_changes(given):
        return _between(session, place.catalog.table(parts.table, branch=parts.branch), given)
    at = _at(given, clock_of(session.spark))
    if parts.system is not None or name.startswith("sys."):
        return to_dataframe(place.catalog.system(name, **at), session.spark)
    return to_dataframe(place.table(name).scan(**at), session.spark)


def _at(given: Mapping[str, str], clock: Clock) -> TravelArguments:
    if set(given) == {"version"}:
        return {"version": given["version"]}
    if set(given) == {SECONDS}:
        return {"timestamp": int(float(given[SECONDS]) * 1000)}
    return travel(given, clock=clock) if given else {}


def _between(session: Session, table: Table, given: Mapping[str, str]) -> DataFrame:
    asked = changes(table, given)
    found = table.changes(1, 1, mode="diff") if asked is None else table.changes(**asked)
    return changed_rows(found, session.spark, with_kinds=False)


def _changes(session: Session, function: str, arguments: tuple[str, ...]) -> DataFrame:
    option, count = CHANGES_BY[function]
    if len(arguments) != count + 1:
        raise InvalidArgument(f"{function} takes the name of a table and {count} more")
    place, name = session.named(name_of(arguments[0]))
    return _between(session, place.table(name), {option: ",".join(arguments[1:])})


def _constants(texts: list[str], function: str) -> list[str]:
    found = []
    for text in texts:
        words = Statement(text)
        value = words.text_if_any()
        found.append(str(words.number()) if value is None else value)
        if not words.is_at_end():
            raise Unsupported(f"{function} of anything but constants")
    return found
