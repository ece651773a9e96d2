"""Line editing of ``morrow sql`` on a terminal: history, and completion of names, words of SQL, columns and tags."""

from __future__ import annotations

import atexit
import os
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from types import ModuleType

import morrow
from morrow.cli.talking_words import WORDS
from morrow.engine.errors import MorrowError

HISTORY_LINES = 1_000
HISTORY_MODE = 0o600
"""Statements may hold what is for their writer only."""
STATEMENTS = (
    *("SELECT", "INSERT INTO", "UPDATE", "DELETE FROM", "MERGE INTO", "EXPLAIN", "DESCRIBE", "WITH", "COPY", "CALL"),
    *("CREATE TABLE", "CREATE DATABASE", "ALTER TABLE", "DROP TABLE", "DROP DATABASE", "USE"),
    *("SHOW DATABASES", "SHOW TABLES IN", "SHOW TAGS", "SHOW BRANCHES", "SHOW SNAPSHOTS", "SHOW PARTITIONS"),
)
CLAUSES = (
    *("FROM", "WHERE", "GROUP BY", "ORDER BY", "HAVING", "LIMIT", "JOIN", "LEFT JOIN", "USING", "UNION ALL"),
    *("VERSION AS OF", "TIMESTAMP AS OF", "VALUES", "SET", "PRIMARY KEY", "PARTITIONED BY", "TBLPROPERTIES"),
    *("DISTINCT", "BETWEEN", "AND", "NOT", "NULL", "LIKE", "CASE WHEN", "count(", "sum(", "min(", "max(", "avg("),
)
DELIMITERS = " \t\n,()=;<>"
PLAIN = r"[A-Za-z_][A-Za-z0-9_]*"
NAME = rf'(?:{PLAIN}|"(?:[^"]|"")+")'


def begin(catalog: morrow.Catalog | None, names: Sequence[str], before: Callable[[], str]) -> None:
    """Sets up history and completion, where Python has readline; `before` returns the lines of the statement so far."""
    try:
        import readline
    except ImportError:
        return
    _remember(readline)
    completer = Completer(catalog, names)
    found: list[str] = []

    def complete(word: str, number: int) -> str | None:
        if number == 0:
            found[:] = completer.offers(word, f"{before()}{readline.get_line_buffer()}")
        return found[number] if number < len(found) else None

    readline.set_completer(complete)
    readline.set_completer_delims(DELIMITERS)
    by_editline = "libedit" in (readline.__doc__ or "")
    readline.parse_and_bind("bind ^I rl_complete" if by_editline else "tab: complete")


class Completer:
    """Offers what fits into a statement; nothing where the catalog answers with an error."""

    def __init__(self, catalog: morrow.Catalog | None, names: Sequence[str] = ()) -> None:
        self._catalog = catalog
        self._names = list(names)

    def offers(self, word: str, statement: str) -> list[str]:
        """Returns what `word`, the one before the cursor, may become in this statement, the fittest first."""
        with suppress(MorrowError, OSError):
            known = self._offered(word, statement)
            return [*dict.fromkeys(each for each in known if each.lower().startswith(word.lower()))]
        return []

    def _offered(self, word: str, statement: str) -> Iterable[str]:
        if word.startswith("'"):
            return [f"'{tag}'" for table in self._tables_of(statement) for tag in table.tags.names]
        if word.startswith("."):
            return WORDS
        alias, dot, _ = word.rpartition(".")
        columns = [name for table in self._tables_of(statement) for name in table.schema.names]
        found = [*(f"{alias}{dot}{_quoted(name)}" for name in columns), *self._names, *self._table_names(word)]
        return found if dot else [*found, *(_as_typed(words, word) for words in (*STATEMENTS, *CLAUSES))]

    def _table_names(self, word: str) -> Iterable[str]:
        """Yields the databases, and the tables of the one that the word names."""
        if self._catalog is None:
            return
        for database in self._catalog.databases():
            prefix = f"{_quoted(database)}."
            yield prefix
            if word.startswith(prefix):
                yield from (f"{prefix}{_quoted(name)}" for name in self._catalog.tables(database))

    def _tables_of(self, statement: str) -> Iterable[morrow.Table]:
        """Yields the tables that a statement names with their databases."""
        if self._catalog is None:
            return
        for database, name in dict.fromkeys(re.findall(rf"({NAME})\.({NAME})", statement)):
            with suppress(MorrowError, OSError):  # a column of an alias, or a name that is not complete yet
                yield self._catalog.table(f"{_unquoted(database)}.{_unquoted(name)}")


def _quoted(name: str) -> str:
    return name if re.fullmatch(PLAIN, name) else '"{}"'.format(name.replace('"', '""'))


def _unquoted(name: str) -> str:
    return name[1:-1].replace('""', '"') if name.startswith('"') else name


def _as_typed(words: str, word: str) -> str:
    """Returns words of SQL in small letters after a word that begins with one."""
    return words.lower() if word[:1].islower() else words


def _remember(readline: ModuleType) -> None:
    """Reads the history, and keeps what is added to it: other shells may be adding at the same time."""
    state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    history = state / "morrow" / "history"
    with suppress(OSError):
        history.parent.mkdir(parents=True, exist_ok=True)
        history.touch(HISTORY_MODE)
        readline.read_history_file(history)
    readline.set_history_length(HISTORY_LINES)
    known = readline.get_current_history_length()
    atexit.register(_keep, readline, history, known)


def _keep(readline: ModuleType, history: Path, known: int) -> None:
    with suppress(OSError):
        readline.append_history_file(max(0, readline.get_current_history_length() - known), history)
