"""The metastore by its thrift interface: connections that are kept, and its refusals as errors of Morrow.

The messages are those of Hive 2 and 3; `pymetastore` brings the classes that thrift generates of them.
"""

from __future__ import annotations

import getpass
import os
import threading
from contextlib import suppress
from functools import cache
from typing import Any, cast

from morrow.engine.catalog.hive.wire import Wire
from morrow.engine.errors import InvalidArgument, StorageError, UnclearOutcome
from morrow.engine.extras import needing
from morrow.engine.io.hadoop_options import USER
from morrow.engine.telling import shown

SCHEME = "thrift://"
PLAIN = Wire()
DEFAULT_PORT = 9083
MOST_IDLE = 4
"""The most connections that are kept while nobody uses them."""
NOT_THERE = (
    *("NoSuchObjectException", "UnknownTableException", "UnknownDBException"),
    *("NoSuchLockException", "NoSuchTxnException", "TxnAbortedException"),
)
UNKNOWN_METHOD = 1
REFUSED = ("InvalidObjectException", "InvalidOperationException", "InvalidInputException")
MOST_TEXT = 300
CHANGES = ("create", "drop", "alter", "add", "lock", "unlock")
"""How the names of calls begin that must not be repeated when their answer is lost."""


class Gone(Exception):
    """The metastore has no such object."""


class Taken(Exception):
    """The metastore has an object of this name."""


class UnknownMethod(StorageError):
    """The metastore is too old for a call."""


class Metastore:
    """The servers of one metastore, which stand in for each other. Several threads may use it; it can be pickled."""

    def __init__(self, uris: str, timeout: float, *, tells_user: bool = True, wire: Wire = PLAIN) -> None:
        self.where, self._wire = uris, wire
        self._addresses = addresses(uris)
        self._timeout, self._tells_user = timeout, tells_user
        self._idle: list[tuple[Any, Any]] = []
        self._lock, self._process = threading.Lock(), os.getpid()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in ("_idle", "_lock", "_process")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._idle, self._lock, self._process = [], threading.Lock(), os.getpid()

    def call(self, name: str, *arguments: object) -> Any:
        """Returns the answer to a call of the metastore's interface.

        Raises:
            Gone, Taken: what the call names is not there, or is there.
            InvalidArgument: the metastore refuses it. StorageError: it fails, or does not answer.
            UnclearOutcome: the answer to a change was lost.
        """
        repeats = not name.startswith(CHANGES)
        for is_last in (not repeats, True):
            transport, client = self._connected()
            try:
                answer = getattr(client, name)(*arguments)
            except (_transport_error(), OSError) as error:
                transport.close()
                if is_last:
                    raise self._lost(name, error, is_change=not repeats) from error
            except _thrift_error() as error:
                self._keep(transport, client)
                raise self._refusal(name, error) from None
            except BaseException:
                transport.close()  # interrupted: the rest of an answer may be on its way
                raise
            else:
                self._keep(transport, client)
                return answer
        raise AssertionError(name)

    def knows(self, name: str) -> bool:
        """Returns whether the server has a method without arguments, which old ones lack. Raises as `call`."""
        try:
            self.call(name)
        except UnknownMethod:
            return False
        return True

    def _connected(self) -> tuple[Any, Any]:
        if self._process != os.getpid():  # forked: the other process reads what comes
            self._idle, self._lock, self._process = [], threading.Lock(), os.getpid()
        while True:
            with self._lock:
                found = self._idle.pop() if self._idle else None
            if found is None:
                return self._connect()
            if found[0].isOpen():
                return found
            found[0].close()

    def _connect(self) -> tuple[Any, Any]:
        with needing("Hive's metastore", "pymetastore", "hive"):
            from pymetastore.hive_metastore.ThriftHiveMetastore import Client

        problem: Exception | None = None
        for host, port in self._addresses:
            transport = self._wire.transport(host, port, self._timeout)
            try:
                transport.open()
                client = Client(self._wire.protocol(transport))
                if self._tells_user:
                    name = user()
                    client.set_ugi(name, [name])
            except (_transport_error(), OSError) as error:
                problem = error
                transport.close()
                continue
            except _thrift_error() as error:
                transport.close()
                raise self._refusal("set_ugi", error) from None
            return transport, client
        raise StorageError(f"{self.where}: the metastore does not answer: {_line(problem)}; check the option uri")

    def _keep(self, transport: Any, client: Any) -> None:
        with self._lock:
            if len(self._idle) < MOST_IDLE:
                self._idle.append((transport, client))
                return
        transport.close()

    def _lost(self, name: str, error: Exception, *, is_change: bool) -> StorageError:
        if is_change:
            return UnclearOutcome(f"{self.where}: {name}: no answer ({_line(error)}); whether it was done is not known")
        return StorageError(f"{self.where}: {name}: no answer ({_line(error)})")

    def _refusal(self, name: str, error: Exception) -> Exception:
        kind = type(error).__name__
        if kind == "TApplicationException" and getattr(error, "type", None) == UNKNOWN_METHOD:
            return UnknownMethod(f"{self.where}: the metastore does not know {name}")
        if kind in NOT_THERE:
            return Gone(_line(error))
        if kind == "AlreadyExistsException":
            return Taken(_line(error))
        if kind in REFUSED:
            return InvalidArgument(f"{self.where}: Hive's metastore refuses {name}: {_line(error)}")
        return StorageError(f"{self.where}: {name} fails in Hive's metastore: {_line(error)}")


@cache
def thrift_types() -> Any:
    """Returns the module of the metastore's messages. Raises `Unsupported` where it is not installed."""
    with needing("Hive's metastore", "pymetastore", "hive"):
        from pymetastore.hive_metastore import ttypes
    return ttypes


def addresses(uris: str) -> tuple[tuple[str, int], ...]:
    """Returns host and port of each server of ``thrift://a:9083,thrift://b``. Raises `InvalidArgument`."""
    found = []
    for uri in filter(None, (each.strip() for each in uris.split(","))):
        place = uri.removeprefix(SCHEME).rstrip("/")
        host, colon, port = place.rpartition(":")
        host, port = (host, port) if colon and not port.endswith("]") else (place, str(DEFAULT_PORT))
        if not uri.startswith(SCHEME) or not host or "@" in host or not port.isdigit() or not 0 < int(port) < 1 << 16:
            raise InvalidArgument(f"{uri!r} is no address of a metastore; write thrift://host:{DEFAULT_PORT}")
        found.append((host.strip("[]"), int(port)))
    if not found:
        raise InvalidArgument(f"{uris!r} is no address of a metastore; write thrift://host:{DEFAULT_PORT}")
    return tuple(found)


def user() -> str:
    """Returns the name by which Hadoop's services know this process."""
    name = os.environ.get(USER)
    if not name:
        with suppress(OSError, KeyError):  # a user without a name
            name = getpass.getuser()
    return name or "morrow"


def _transport_error() -> type[Exception]:
    from thrift.transport.TTransport import TTransportException

    return cast("type[Exception]", TTransportException)


def _thrift_error() -> type[Exception]:
    from thrift.Thrift import TException

    return cast("type[Exception]", TException)


def _line(error: Exception | None) -> str:
    text = str(getattr(error, "message", None) or error or "")
    return " ".join(shown(text).split())[:MOST_TEXT] or type(error).__name__
