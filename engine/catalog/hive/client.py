"""Connections to the Hive metastore through its Thrift interface, and the metastore's locks.

The messages are the ones of Hive 2 and 3; `pymetastore` contains the classes that Thrift generates for them.

The locks are exclusive table locks, which Java Paimon acquires too. A request is repeated until the lock is acquired.
``hive-site.xml`` selects TLS, framed transport and the Thrift protocol.

Trusted certificates are in PEM format. `keytool` exports them from a Java trust store.
"""

from __future__ import annotations

import getpass
import os
import select
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any, cast

from morrow.engine.errors import InvalidArgument, StorageError, UnclearOutcome, Unsupported
from morrow.engine.io.storage_options import HADOOP_USER
from morrow.engine.plugins import require_extra
from morrow.engine.redaction import clean_text, get_logger

PEM_BEGIN, PEM_END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
JAVA_STORES = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce", b"\x30")
"""The first bytes of Java's trust stores: JKS, JCEKS, and PKCS #12."""


@dataclass(frozen=True)
class Wire:
    """The connection settings. `trusted` has the trusted certificates (DER); if empty, the machine's own are used."""

    tls: bool = False
    framed: bool = False
    compact: bool = False
    trusted: bytes = field(default=b"", repr=False)
    principal: str = ""
    """The metastore's name in Kerberos, ``hive/_HOST@REALM``; empty without Kerberos."""

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_context"}

    def transport(self, host: str, port: int, seconds: float) -> Any:
        """Return a Thrift transport that is not open yet."""
        from thrift.transport import TTransport
        from thrift.transport.TSocket import TSocket

        connection = _load_tls_socket()(host, port, self._context) if self.tls else TSocket(host, port)
        connection.setTimeout(seconds * 1000)
        if self.principal:
            with require_extra("Kerberos of Hive's metastore", "kerberos", "kerberos"):
                import kerberos  # noqa: F401
            with require_extra("Kerberos of Hive's metastore", "puresasl", "kerberos"):
                import puresasl.client  # noqa: F401
            service, _, name = self.principal.partition("@")[0].partition("/")
            server = host if name in ("", ANY_HOST) else name
            return TTransport.TSaslClientTransport(connection, server, service, mechanism="GSSAPI", qops=[b"auth"])
        return (TTransport.TFramedTransport if self.framed else TTransport.TBufferedTransport)(connection)

    def protocol(self, transport: Any) -> Any:
        """Return the Thrift protocol for a connection."""
        if self.compact:
            from thrift.protocol.TCompactProtocol import TCompactProtocol

            return TCompactProtocol(transport)
        from thrift.protocol.TBinaryProtocol import TBinaryProtocol

        return TBinaryProtocol(transport)

    @cached_property
    def _context(self) -> ssl.SSLContext:
        return _make_context(self.trusted)


@cache
def _load_tls_socket() -> Any:
    from thrift.transport.TSocket import TSocket
    from thrift.transport.TTransport import TTransportException

    class Socket(TSocket):  # type: ignore[misc]  # thrift has no types
        """A TLS socket. Thrift's own reports no reason for failures, and does not notice that the server closed it."""

        def __init__(self, host: str, port: int, context: ssl.SSLContext) -> None:
            super().__init__(host, port)
            self._context = context

        def open(self) -> None:
            super().open()
            plain: Any = self.handle
            try:
                self.handle: Any = self._context.wrap_socket(plain, server_hostname=self.host)
            except OSError as error:
                self.close()
                raise TTransportException(TTransportException.NOT_OPEN, f"TLS: {error}") from error

        def isOpen(self) -> bool:  # noqa: N802  # thrift's name
            return self.handle is not None and not select.select([self.handle], [], [], 0)[0]

    return Socket


def read_trust_store(path: str) -> bytes:
    """Return the certificates (DER) of a PEM file; empty without a path.

    Raises:
        InvalidArgument: the file cannot be read, or is damaged.
        Unsupported: a trust store of Java.
    """
    if not path:
        return b""
    try:
        data = Path(path).expanduser().read_bytes()
    except OSError as error:
        raise InvalidArgument(f"the trust store {path}: {error.strerror}") from error
    if data.startswith(JAVA_STORES):
        hint = f"write its certificates as PEM: keytool -list -rfc -keystore {path} > trusted.pem"
        raise Unsupported(f"the trust store {path} in Java's format", hint=hint)
    found = _parse_pem(data)
    if not found:
        raise InvalidArgument(f"the trust store {path} holds no certificate in PEM format")
    try:
        _make_context(found)
    except ssl.SSLError as error:
        raise InvalidArgument(f"the trust store {path} is damaged: {error}") from error
    return found


def _make_context(certificates: bytes) -> ssl.SSLContext:
    if not certificates:
        return ssl.create_default_context()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=certificates)
    return context


def _parse_pem(data: bytes) -> bytes:
    parts = data.decode("latin-1").split(PEM_BEGIN)[1:]
    try:
        return b"".join(ssl.PEM_cert_to_DER_cert(f"{PEM_BEGIN}{part.partition(PEM_END)[0]}{PEM_END}") for part in parts)
    except ValueError:
        return b""


SCHEME = "thrift://"
PLAIN = Wire()
ANY_HOST = "_HOST"
"""The host in a principal that stands for the server's own."""
DEFAULT_PORT = 9083
MAX_IDLE = 4
"""Maximum number of idle connections."""
NOT_THERE = (
    *("NoSuchObjectException", "UnknownTableException", "UnknownDBException"),
    *("NoSuchLockException", "NoSuchTxnException", "TxnAbortedException"),
)
UNKNOWN_METHOD = 1
REFUSED = ("InvalidObjectException", "InvalidOperationException", "InvalidInputException")
MAX_MESSAGE_CHARS = 300
CHANGES = ("create", "drop", "alter", "add", "lock", "unlock")
"""Prefixes of calls that must not be repeated when their answer is lost."""


class ObjectMissing(Exception):
    """The object does not exist in the metastore."""


class ObjectExists(Exception):
    """The metastore has an object of this name."""


class UnknownMethod(StorageError):
    """The metastore is too old for a call."""


class Metastore:
    """The servers of one metastore, any of which may answer. Thread-safe; can be pickled."""

    def __init__(self, uris: str, timeout: float, *, tells_user: bool = True, wire: Wire = PLAIN) -> None:
        self.where, self._wire = uris, wire
        self._addresses = parse_addresses(uris)
        self._timeout, self._tells_user = timeout, tells_user
        self._idle: list[tuple[Any, Any]] = []
        self._lock, self._process = threading.Lock(), os.getpid()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in ("_idle", "_lock", "_process")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._idle, self._lock, self._process = [], threading.Lock(), os.getpid()

    def call(self, name: str, *arguments: object) -> Any:
        """Call a method of the metastore's interface and return the answer.

        Raises:
            ObjectMissing, ObjectExists: the object that the call names does not exist, or already exists.
            InvalidArgument: the metastore refuses the call. StorageError: it fails, or does not answer.
            UnclearOutcome: the answer to a change was lost.
        """
        repeats = not name.startswith(CHANGES)
        for is_last in (not repeats, True):
            transport, client = self._take_connection()
            try:
                answer = getattr(client, name)(*arguments)
            except (_load_transport_error(), OSError) as error:
                transport.close()
                if is_last:
                    raise self._lost(name, error, is_change=not repeats) from error
            except _load_thrift_error() as error:
                self._keep(transport, client)
                raise self._refusal(name, error) from None
            except BaseException:
                transport.close()  # interrupted: the rest of the answer may still arrive
                raise
            else:
                self._keep(transport, client)
                return answer
        raise AssertionError(name)

    def knows(self, name: str) -> bool:
        """Return whether the server has this method (without arguments), which old servers lack. Raises as `call`."""
        try:
            self.call(name)
        except UnknownMethod:
            return False
        return True

    def _take_connection(self) -> tuple[Any, Any]:
        if self._process != os.getpid():  # after a fork, the parent process reads the answers
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
        with require_extra("Hive's metastore", "pymetastore", "hive"):
            from pymetastore.hive_metastore.ThriftHiveMetastore import Client

        problem: Exception | None = None
        for host, port in self._addresses:
            transport = self._wire.transport(host, port, self._timeout)
            try:
                self._open(transport)
                client = Client(self._wire.protocol(transport))
                if self._tells_user:
                    name = find_user()
                    client.set_ugi(name, [name])
            except (_load_transport_error(), OSError) as error:
                problem = error
                transport.close()
                continue
            except _load_thrift_error() as error:
                transport.close()
                raise self._refusal("set_ugi", error) from None
            return transport, client
        raise StorageError(
            f"{self.where}: the metastore does not answer: {_shorten_error(problem)}; check the option uri"
        )

    def _open(self, transport: Any) -> None:
        """Open a transport. Raises `StorageError` if Kerberos refuses; others as thrift."""
        if not self._wire.principal:
            transport.open()
            return
        try:
            transport.open()
        except _load_kerberos_errors() as error:
            hint = "run kinit, and check the option hive.metastore.kerberos.principal"
            raise StorageError(f"{self.where}: Kerberos refuses: {_shorten_error(error)}; {hint}") from None

    def _keep(self, transport: Any, client: Any) -> None:
        with self._lock:
            if len(self._idle) < MAX_IDLE:
                self._idle.append((transport, client))
                return
        transport.close()

    def _lost(self, name: str, error: Exception, *, is_change: bool) -> StorageError:
        if is_change:
            return UnclearOutcome(
                f"{self.where}: {name}: no answer ({_shorten_error(error)}); whether it was done is not known"
            )
        return StorageError(f"{self.where}: {name}: no answer ({_shorten_error(error)})")

    def _refusal(self, name: str, error: Exception) -> Exception:
        kind = type(error).__name__
        if kind == "TApplicationException" and getattr(error, "type", None) == UNKNOWN_METHOD:
            return UnknownMethod(f"{self.where}: the metastore does not know {name}")
        if kind in NOT_THERE:
            return ObjectMissing(_shorten_error(error))
        if kind == "AlreadyExistsException":
            return ObjectExists(_shorten_error(error))
        if kind in REFUSED:
            return InvalidArgument(f"{self.where}: Hive's metastore refuses {name}: {_shorten_error(error)}")
        return StorageError(f"{self.where}: {name} fails in Hive's metastore: {_shorten_error(error)}")


@cache
def load_thrift_types() -> Any:
    """Return the module of the metastore's messages. Raises `Unsupported` if it is not installed."""
    with require_extra("Hive's metastore", "pymetastore", "hive"):
        from pymetastore.hive_metastore import ttypes
    return ttypes


def parse_addresses(uris: str) -> tuple[tuple[str, int], ...]:
    """Return host and port of each server of ``thrift://a:9083,thrift://b``. Raises `InvalidArgument`."""
    found = []
    for uri in filter(None, (each.strip() for each in uris.split(","))):
        place = uri.removeprefix(SCHEME).rstrip("/")
        host, colon, port = place.rpartition(":")
        host, port = (host, port) if colon and not port.endswith("]") else (place, str(DEFAULT_PORT))
        if not uri.startswith(SCHEME) or not host or "@" in host or not port.isdigit() or not 0 < int(port) < 1 << 16:
            raise InvalidArgument(f"{uri!r} is not a metastore's address; write thrift://host:{DEFAULT_PORT}")
        found.append((host.strip("[]"), int(port)))
    if not found:
        raise InvalidArgument(f"{uris!r} is not a metastore's address; write thrift://host:{DEFAULT_PORT}")
    return tuple(found)


def find_user() -> str:
    """Return the user name that this process has for Hadoop services."""
    name = os.environ.get(HADOOP_USER)
    if not name:
        with suppress(OSError, KeyError):  # a user without a name
            name = getpass.getuser()
    return name or "morrow"


def _load_transport_error() -> type[Exception]:
    from thrift.transport.TTransport import TTransportException

    return cast("type[Exception]", TTransportException)


def _load_kerberos_errors() -> tuple[type[Exception], ...]:
    from kerberos import KrbError
    from puresasl import SASLError, SASLProtocolException

    return KrbError, SASLError, SASLProtocolException


def _load_thrift_error() -> type[Exception]:
    from thrift.Thrift import TException

    return cast("type[Exception]", TException)


def _shorten_error(error: Exception | None) -> str:
    text = str(getattr(error, "message", None) or error or "")
    return " ".join(clean_text(text).split())[:MAX_MESSAGE_CHARS] or type(error).__name__


SHORTEST_SLEEP = 0.05

log = get_logger(__name__)


class Locks:
    """The locks of one metastore. A thread may acquire a lock again that it already holds."""

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
        """Hold the lock of a table within the block.

        Raises:
            StorageError: others hold the lock for longer than ``lock-acquire-timeout``, or the metastore does not
                answer.
        """
        held = self._get_held()
        if (database, table) in held:
            yield
            return
        held[database, table] = self._acquire(database, table)
        try:
            yield
        finally:
            self._release(held.pop((database, table)))

    def check(self, database: str, table: str) -> None:
        """Raise `StorageError` if the metastore has revoked this thread's lock of the table."""
        number = self._get_held().get((database, table))
        if number is not None:
            try:
                if self._state(number) == load_thrift_types().LockState.ACQUIRED:
                    return
            except (ObjectMissing, StorageError) as error:
                raise self._lost(database, table) from error
        raise self._lost(database, table)

    def _lost(self, database: str, table: str) -> StorageError:
        return StorageError(
            f"{self._metastore.where}: the lock of {database}.{table} was lost before the commit; nothing was "
            "committed: the metastore ends locks after its hive.txn.timeout"
        )

    def _get_held(self) -> dict[tuple[str, str], int]:
        if not hasattr(self._own, "held"):
            self._own.held = {}
        found: dict[tuple[str, str], int] = self._own.held
        return found

    def _acquire(self, database: str, table: str) -> int:
        types = load_thrift_types()
        # The kind of operation is left out, as Java does: old servers do not know it.
        component = types.LockComponent(
            types.LockType.EXCLUSIVE, types.LockLevel.TABLE, database, table, operationType=None
        )
        begin, sleep = time.monotonic(), SHORTEST_SLEEP
        request = types.LockRequest([component], user=find_user(), hostname=socket.gethostname())
        answer = self._metastore.call("lock", request)
        number, state = int(answer.lockid), answer.state
        try:
            while state == types.LockState.WAITING and time.monotonic() - begin < self._timeout:
                sleep = min(2 * sleep, self._longest_sleep)
                time.sleep(sleep)
                state = self._state(number)
        except BaseException:
            self._release(number)
            raise
        if state == types.LockState.ACQUIRED:
            return number
        self._release(number)
        raise StorageError(
            f"{self._metastore.where}: the lock of {database}.{table} could not be acquired in "
            f"{time.monotonic() - begin:.0f} s; SHOW LOCKS in Hive says who holds it"
        )

    def _state(self, number: int) -> Any:
        return self._metastore.call("check_lock", load_thrift_types().CheckLockRequest(number)).state

    def _release(self, number: int) -> None:
        try:
            self._metastore.call("unlock", load_thrift_types().UnlockRequest(number))
        except (ObjectMissing, StorageError, UnclearOutcome) as error:
            log.warning("the lock %d of the metastore ends by itself: %s", number, error)
