"""Statements of Paimon's that Spark does not know, parsed from their text."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from morrow.engine.errors import InvalidArgument
from morrow.spark.catalogs.words import SparkWords
from morrow.statements.words import either

UNITS: Mapping[str, dt.timedelta] = {
    "DAYS": dt.timedelta(days=1),
    "HOURS": dt.timedelta(hours=1),
    "MINUTES": dt.timedelta(minutes=1),
}
"""The units of RETAIN."""

ALL_ANALYZED = "analyze all"
"""The verb of ANALYZE TABLES, which names a database."""

CONSTRAINT = "constraint"
"""The verb of ALTER TABLE ... ADD | DROP CONSTRAINT, which tables do not have."""


@dataclass(frozen=True)
class Statement:
    """A statement: what it does, the parts of its table's name, and its other parts, which JSON can hold."""

    verb: str
    table: tuple[str, ...]
    parts: Mapping[str, Any] = field(default_factory=dict)


def parsed(text: str) -> Statement | None:
    """Returns a statement of Paimon's; None for all others, which are Spark's.

    Raises:
        InvalidArgument: it begins as one of Paimon's, and goes on otherwise.
    """
    try:
        words = SparkWords(text)
    except InvalidArgument:
        return None
    if words.has("SHOW", "TAGS"):
        return _ended(words, Statement("show tags", words.path()))
    if words.has("CREATE", "TABLE"):
        return _like(words)
    if words.has("ANALYZE", "TABLE"):
        return _analyzed(words)
    if words.has("ANALYZE", "TABLES"):
        return _all_analyzed(words)
    if words.has("ALTER", "TABLE"):
        try:
            table = words.path()
        except InvalidArgument:
            return None
        if words.has("ADD", "CONSTRAINT") or words.has("DROP", "CONSTRAINT"):
            return Statement(CONSTRAINT, table)
        for begin, parse in _OF_TAGS:
            if words.has(*begin):
                return _ended(words, parse(words, table))
    return None


def _like(words: SparkWords) -> Statement | None:
    """Parses CREATE TABLE ... LIKE; None for every other CREATE TABLE."""
    ignores = words.has("IF", "NOT", "EXISTS")
    try:
        table = words.path()
    except InvalidArgument:
        return None
    if not words.has("LIKE"):
        return None
    parts: dict[str, Any] = {"source": words.path(), "if not exists": ignores, "properties": {}}
    while not words.is_at_end():
        if words.has("USING"):
            parts["provider"] = words.name()
        elif words.has("TBLPROPERTIES"):
            parts["properties"] = words.properties()
        else:
            raise words.unexpected("USING, TBLPROPERTIES or the end")
    return _ended(words, Statement("create like", table, parts))


def _analyzed(words: SparkWords) -> Statement | None:
    """Parses ANALYZE TABLE; None where no name follows."""
    try:
        table = words.path()
    except InvalidArgument:
        return None
    of_partitions = words.has("PARTITION")
    if of_partitions:
        words.enclosed(lambda: words.until(","))
    words.need("COMPUTE", "STATISTICS")
    parts: dict[str, Any] = {"partition": of_partitions, "noscan": words.has("NOSCAN"), "columns": []}
    if words.has("FOR", "ALL", "COLUMNS"):
        parts["columns"] = None
    elif words.has("FOR", "COLUMNS"):
        parts["columns"] = words.listed(words.name)
    return _ended(words, Statement("analyze", table, parts))


def _all_analyzed(words: SparkWords) -> Statement:
    """Parses ANALYZE TABLES; its name is that of a database, empty for the current one."""
    named = words.has("IN") or words.has("FROM")
    path = words.path() if named else ()
    words.need("COMPUTE", "STATISTICS")
    return _ended(words, Statement(ALL_ANALYZED, path, {"noscan": words.has("NOSCAN")}))


def _ended(words: SparkWords, statement: Statement) -> Statement:
    words.end()
    return statement


def _created(*, replace: bool) -> Callable[[SparkWords, tuple[str, ...]], Statement]:
    def parse(words: SparkWords, table: tuple[str, ...]) -> Statement:
        ignores = not replace and words.has("IF", "NOT", "EXISTS")
        parts: dict[str, Any] = {"tag": words.name(), "replace": replace, "if not exists": ignores}
        if words.has("AS", "OF", "VERSION"):
            parts["snapshot"] = words.number()
        if words.has("RETAIN"):
            number = words.number()
            unit = words.one_of(*UNITS)
            if unit is None:
                raise words.unexpected(either(UNITS))
            parts["seconds"] = number * UNITS[unit].total_seconds()
        return Statement("create tag", table, parts)

    return parse


def _deleted(words: SparkWords, table: tuple[str, ...]) -> Statement:
    ignores = words.has("IF", "EXISTS")
    return Statement("delete tag", table, {"tags": words.name(), "if exists": ignores})


def _renamed(words: SparkWords, table: tuple[str, ...]) -> Statement:
    ignores = words.has("IF", "EXISTS")
    tag = words.name()
    words.need("TO")
    return Statement("rename tag", table, {"tag": tag, "to": words.name(), "if exists": ignores})


_OF_TAGS: tuple[tuple[tuple[str, ...], Callable[[SparkWords, tuple[str, ...]], Statement]], ...] = (
    (("CREATE", "TAG"), _created(replace=False)),
    (("CREATE", "OR", "REPLACE", "TAG"), _created(replace=True)),
    (("REPLACE", "TAG"), _created(replace=True)),
    (("DELETE", "TAG"), _deleted),
    (("RENAME", "TAG"), _renamed),
)
"""What follows ALTER TABLE and a name, and what parses the rest."""
