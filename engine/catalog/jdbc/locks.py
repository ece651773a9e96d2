"""Locks as rows of ``paimon_distributed_locks``, which Java Paimon takes too: whose row is there has the lock.

The row of a process that was killed is removed by others when it is older than its time of expiry. A holder that has
had its lock for longer than that may have lost it, and is told so before it commits.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from morrow.engine.catalog.jdbc.databases import Database, Duplicate
from morrow.engine.catalog.jdbc.rows import LOCKS
from morrow.engine.errors import InvalidArgument, StorageError

SHORTEST_SLEEP = 0.003
LONGEST_SLEEP = 0.05
"""Who sleeps for longer finds that others have come and gone: a lock is free for moments only."""
IMPATIENT_SECONDS = 0.2
"""After so long a waiter asks four times as often as at first, after twice that nine times: the oldest comes first."""
COURTESY_SECONDS = 0.01
"""Who has just given a lock back lets others have it first: they ask now and then only."""
MARGIN_SECONDS = 2.0
"""Locks expire by whole seconds of two clocks."""


class Locks:
    """The locks of one catalog. A thread that holds one may take it again."""

    def __init__(self, database: Database, key: str, timeout: float, longest_sleep: float, most_key: int) -> None:
        self._database, self._key = database, key
        self._timeout, self._longest_sleep, self._most_key = timeout, longest_sleep, most_key
        self._own = threading.local()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_own"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._own = threading.local()

    @contextmanager
    def hold(self, database: str, table: str) -> Iterator[None]:
        """Holds the lock of a table within the block.

        Raises:
            StorageError: others have it for longer than ``lock-acquire-timeout``, or the database does not answer.
        """
        name, held = f"{self._key}.{database}.{table}", self._held()
        if name in held:
            yield
            return
        since = self._acquired(name)
        noted = self._noted(name)
        held[name] = since
        try:
            yield
        finally:
            del held[name]
            # Not the row of another process that found this one expired.
            self._database.run(f"DELETE FROM {LOCKS} WHERE lock_id = ? AND acquired_at = ?", name, noted)
            self._own.given_back = (name, time.monotonic())

    def check(self, database: str, table: str) -> None:
        """Raises `StorageError` where this thread may have lost the lock of a table, or does not have it."""
        since = self._held().get(f"{self._key}.{database}.{table}")
        if since is None or time.monotonic() - since > self._timeout - min(MARGIN_SECONDS, self._timeout / 2):
            raise StorageError(
                f"{self._database.where}: the lock of {database}.{table} was held for longer than "
                f"{self._timeout:.0f} s; nothing was committed, raise lock-acquire-timeout"
            )

    def _held(self) -> dict[str, float]:
        if not hasattr(self._own, "held"):
            self._own.held = {}
        found: dict[str, float] = self._own.held
        return found

    def _acquired(self, name: str) -> float:
        """Returns the time at which the lock was asked for successfully."""
        if len(name) > self._most_key:
            raise InvalidArgument(
                f"the name of the lock {name!r} is longer than lock-key-max-length = {self._most_key}"
            )
        begin = time.monotonic()
        last, when = getattr(self._own, "given_back", ("", 0.0))
        if last == name and begin - when < LONGEST_SLEEP:
            time.sleep(COURTESY_SECONDS)
        while True:
            since = time.monotonic()
            if self._tried(name):
                return since
            if since - begin > self._timeout:
                raise StorageError(
                    f"{self._database.where}: the lock {name} was not to be had for {since - begin:.0f} s; who "
                    f"holds it is in {LOCKS}"
                )
            sleep = LONGEST_SLEEP / (1 + (since - begin) / IMPATIENT_SECONDS) ** 2
            time.sleep(min(max(sleep, SHORTEST_SLEEP), self._longest_sleep) * (1 + random.random()) / 2)

    def _tried(self, name: str) -> bool:
        # Those who wait only read: in SQLite, who writes keeps the holder from giving its lock back.
        expired = f"{self._database.lock_age} > expire_time_seconds"
        found = self._database.ask(f"SELECT {expired} FROM {LOCKS} WHERE lock_id = ?", name)
        if found and not found[0][0]:
            return False
        if found:
            self._database.run(f"DELETE FROM {LOCKS} WHERE {expired} AND lock_id = ?", name)
        try:
            self._database.run(
                f"INSERT INTO {LOCKS} (lock_id, expire_time_seconds) VALUES (?, ?)", name, int(self._timeout)
            )
        except Duplicate:
            return False
        return True

    def _noted(self, name: str) -> object:
        """Returns the time that the database has noted for a lock that this thread holds."""
        rows = self._database.ask(f"SELECT acquired_at FROM {LOCKS} WHERE lock_id = ?", name)
        return rows[0][0] if rows else None
