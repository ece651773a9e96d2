"""A module like PyMySQL over an SQLite file: statements are read as MySQL's by sqlglot, and translated.

It checks that statements are MySQL, and how the driver is called; it does not replace a server.
"""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import sqlglot

FOUND_ROWS = 2
DUPLICATE, LOST = 1062, 2013


class MySQLError(Exception):
    """The base class of PyMySQL's errors, whose first argument is a number."""


class FakeConnection:
    def __init__(self, file: Path) -> None:
        self.made = sqlite3.connect(file, isolation_level=None, check_same_thread=False)
        self.open = True

    def cursor(self) -> FakeCursor:
        return FakeCursor(self)

    def lose(self) -> None:
        """Close the connection as a server does that restarts."""
        self.made.close()


class FakeCursor:
    def __init__(self, connection: FakeConnection) -> None:
        self.connection, self.made = connection, None

    @property
    def rowcount(self) -> int:
        return self.made.rowcount

    def execute(self, statement: str, values: tuple[object, ...]) -> None:
        try:
            self.made = self.connection.made.execute(translate(statement), values)
        except sqlite3.IntegrityError as error:
            raise MySQLError(DUPLICATE, str(error)) from error
        except sqlite3.ProgrammingError as error:
            self.connection.open = False
            raise MySQLError(LOST, "Lost connection to MySQL server during query") from error

    def fetchall(self) -> list[Any]:
        return self.made.fetchall()

    def close(self) -> None:
        pass


def translate(statement: str) -> str:
    """Return a statement of MySQL in SQLite's SQL."""
    statement = statement.replace("%s", "?")
    [tree] = sqlglot.parse(statement, read="mysql")  # raises if it is not MySQL
    assert tree is not None
    if "information_schema" in statement:
        return "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?"
    statement = re.sub(r" CHARACTER SET \w+ COLLATE \w+$", "", statement)
    statement = re.sub(
        r"ON DUPLICATE KEY UPDATE (\w+) = VALUES\(\w+\)",
        r"ON CONFLICT (catalog_key, database_name, property_key) DO UPDATE SET \1 = excluded.\1",
        statement,
    )
    return statement.replace(
        "TIMESTAMPDIFF(SECOND, acquired_at, NOW())", "strftime('%s', 'now') - strftime('%s', acquired_at)"
    )


def make_module(file: Path) -> Any:
    """Return the module; its attribute `calls` has the arguments of each connection, `connections` the connections."""
    calls: list[dict[str, Any]] = []
    connections: list[FakeConnection] = []

    def connect(**given: Any) -> FakeConnection:
        calls.append(given)
        connections.append(FakeConnection(file))
        return connections[-1]

    return SimpleNamespace(
        connect=connect,
        err=SimpleNamespace(MySQLError=MySQLError),
        constants=SimpleNamespace(CLIENT=SimpleNamespace(FOUND_ROWS=FOUND_ROWS)),
        calls=calls,
        connections=connections,
    )
