"""Words of ``morrow sql`` that are no SQL: they stand alone in a line, where a statement would begin."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import typer

import morrow
from morrow.engine.errors import InvalidArgument
from morrow.engine.telling import did_you_mean, shown

LEAVING = frozenset({"exit", "quit", ".exit", ".quit", "\\q"})
"""What leaves, as Ctrl-D does."""
ALSO = {
    "help": ".help",
    "?": ".help",
    "\\?": ".help",
    "\\h": ".help",
    "\\l": ".databases",
    "\\dt": ".tables",
    "\\d": ".schema",
}
"""The same in words of other shells."""


@dataclass(frozen=True)
class Word:
    """A word with what it takes (empty: nothing), what ``.help`` says of it, and the statement that it stands for."""

    takes: str
    says: str
    statement: Callable[[str, morrow.Catalog | None], str]


def leaves(line: str) -> bool:
    """Returns whether a line says that the talk is over."""
    return line.strip().rstrip(";").lower() in LEAVING


def translated(line: str, catalog: morrow.Catalog | None) -> str:
    """Returns the statement that a line stands for, or the line itself where it begins with no word of ours.

    Raises:
        InvalidArgument: an unknown word with a dot or backslash, or one that lacks its argument.
    """
    name, _, argument = line.strip().rstrip("; ").partition(" ")
    name, argument = ALSO.get(name.lower(), name.lower()), argument.strip()
    if not name.startswith((".", "\\")):
        return line
    word = WORDS.get(name)
    if word is None:
        raise InvalidArgument(f"there is no {name}; {did_you_mean(name, WORDS)}.help lists the words that are no SQL")
    if word.takes.startswith("[") or bool(word.takes) == bool(argument):
        return word.statement(argument, catalog)
    raise InvalidArgument(f"{name} takes {word.takes or 'nothing'}: write {name} {word.takes}".rstrip())


def _help(_: str, __: morrow.Catalog | None) -> str:
    lines = [(f"{name} {word.takes}", word.says) for name, word in WORDS.items()]
    width = max(len(call) for call, _ in lines)
    typer.echo("A statement ends with a semicolon and may take many lines; SQL is DuckDB's, with Paimon's statements.")
    typer.echo("Tab completes, the arrows bring back what was typed, Ctrl-C drops the statement.")
    typer.echo("\n".join(f"  {call:{width}}  {says}" for call, says in lines))
    return ""


def _tables(database: str, catalog: morrow.Catalog | None) -> str:
    if catalog is None:
        return "SHOW TABLES;"
    found = [f"{each}.{name}" for each in _databases(database, catalog) for name in catalog.tables(each)]
    typer.echo("\n".join(map(shown, found)) or "there are no tables")
    return ""


def _databases(database: str, catalog: morrow.Catalog) -> list[str]:
    return [database] if database else catalog.databases()


WORDS = {
    ".help": Word("", "Show this.", _help),
    ".databases": Word("", "SHOW DATABASES", lambda _, __: "SHOW DATABASES;"),
    ".tables": Word("[DATABASE]", "All tables, as db.table.", _tables),
    ".schema": Word("TABLE", "DESCRIBE TABLE", lambda table, _: f"DESCRIBE {table};"),
    ".tags": Word("TABLE", "SHOW TAGS TABLE", lambda table, _: f"SHOW TAGS {table};"),
    ".snapshots": Word("TABLE", "SHOW SNAPSHOTS TABLE", lambda table, _: f"SHOW SNAPSHOTS {table};"),
    ".exit": Word("", "Leave; so do exit, quit, \\q and Ctrl-D.", lambda _, __: ""),
}
