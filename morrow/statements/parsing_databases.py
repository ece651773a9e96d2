"""Parsers of statements about databases."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from morrow.engine.catalog.databases import COMMENT, LOCATION
from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.statements.parsing_alterations import text_or_null
from morrow.statements.statement import Statement
from morrow.statements.table_statements import AlterDatabase, CreateDatabase, DropDatabase
from morrow.statements.words import DATABASE, Words

Parse = Callable[[Words], Statement]


def _create(words: Words) -> Statement:
    ignores = words.has("IF", "NOT", "EXISTS")
    name = words.name()
    return CreateDatabase(name, ignores, properties_of(words))


def properties_of(words: Words) -> dict[str, str]:
    """Takes what follows the name in CREATE DATABASE: COMMENT, LOCATION and WITH DBPROPERTIES, once each."""
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


def _alter(words: Words) -> Statement:
    name = words.name()
    properties, removed = changes_of(words)
    return AlterDatabase(name, properties, removed)


def changes_of(words: Words) -> tuple[dict[str, str], tuple[str, ...]]:
    """Takes what follows the name in ALTER DATABASE; returns properties to set, and the names of those to remove."""
    if words.has("SET", "LOCATION"):
        return {LOCATION: words.string()}, ()
    if words.has("SET") and words.one_of("DBPROPERTIES", "PROPERTIES") is not None:
        return words.properties(), ()
    if words.has("UNSET") and words.one_of("DBPROPERTIES", "PROPERTIES") is not None:
        words.has("IF", "EXISTS")
        return {}, tuple(words.enclosed(words.property_key))
    raise words.unexpected("SET DBPROPERTIES or UNSET DBPROPERTIES")


def comment_on_database(words: Words) -> Statement:
    """Takes what follows COMMENT ON DATABASE."""
    name = words.name()
    words.need("IS")
    return AlterDatabase(name, {COMMENT: text_or_null(words) or ""})


def _drop(words: Words) -> Statement:
    ignores = words.has("IF", "EXISTS")
    name = words.name()
    cascade = words.has("CASCADE")
    if not cascade:
        words.has("RESTRICT")
    return DropDatabase(name, ignores, cascade)


DATABASES: Sequence[tuple[tuple[str, ...], Parse]] = tuple(
    ((verb, word), parse)
    for verb, parse in (("CREATE", _create), ("ALTER", _alter), ("DROP", _drop))
    for word in DATABASE
)
