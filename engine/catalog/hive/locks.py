"""The metastore's locks, which Java Paimon takes too: exclusive ones of a table, asked for until they are acquired."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from morrow.engine.catalog.hive.client import Gone, Metastore, thrift_types, user
from morrow.engine.errors import StorageError, UnclearOutcome
from morrow.engine.telling import logger

SHORTEST_SLEEP = 0.05

log = logger(__name__)


class Locks:
    """The locks of one metastore. A thread that holds one may take it again."""

    def __init__(self, metastore: Metastore, timeout: float, longest_sleep: float) -> None:
        self._metastore, self._timeout, self._longest_sleep = metastore, timeout, longest_sleep
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
            StorageError: others have it for longer than ``lock-acquire-timeout``, or the metastore does not answer.
        """
        held = self._held()
        if (database, table) in held:
            yield
            return
        held[database, table] = self._acquired(database, table)
        try:
            yield
        finally:
            self._released(held.pop((database, table)))

    def check(self, database: str, table: str) -> None:
        """Raises `StorageError` where the metastore has taken the lock of a table away from this thread."""
        number = self._held().get((database, table))
        if number is not None:
            try:
                if self._state(number) == thrift_types().LockState.ACQUIRED:
                    return
            except (Gone, StorageError) as error:
                raise self._lost(database, table) from error
        raise self._lost(database, table)

    def _lost(self, database: str, table: str) -> StorageError:
        return StorageError(
            f"{self._metastore.where}: the lock of {database}.{table} was lost before the commit; nothing was "
            "committed: the metastore ends locks after its hive.txn.timeout"
        )

    def _held(self) -> dict[tuple[str, str], int]:
        if not hasattr(self._own, "held"):
            self._own.held = {}
        found: dict[tuple[str, str], int] = self._own.held
        return found

    def _acquired(self, database: str, table: str) -> int:
        types = thrift_types()
        # The kind of operation is left out, as Java does: old servers do not know it.
        component = types.LockComponent(
            types.LockType.EXCLUSIVE, types.LockLevel.TABLE, database, table, operationType=None
        )
        begin, sleep = time.monotonic(), SHORTEST_SLEEP
        request = types.LockRequest([component], user=user(), hostname=socket.gethostname())
        answer = self._metastore.call("lock", request)
        number, state = int(answer.lockid), answer.state
        try:
            while state == types.LockState.WAITING and time.monotonic() - begin < self._timeout:
                sleep = min(2 * sleep, self._longest_sleep)
                time.sleep(sleep)
                state = self._state(number)
        except BaseException:
            self._released(number)
            raise
        if state == types.LockState.ACQUIRED:
            return number
        self._released(number)
        raise StorageError(
            f"{self._metastore.where}: the lock of {database}.{table} was not to be had for "
            f"{time.monotonic() - begin:.0f} s; SHOW LOCKS in Hive says who holds it"
        )

    def _state(self, number: int) -> Any:
        return self._metastore.call("check_lock", thrift_types().CheckLockRequest(number)).state

    def _released(self, number: int) -> None:
        try:
            self._metastore.call("unlock", thrift_types().UnlockRequest(number))
        except (Gone, StorageError, UnclearOutcome) as error:
            log.warning("the lock %d of the metastore ends by itself: %s", number, error)
