"""Connections to a Hive metastore: TLS with trust stores, framed transport and the compact protocol."""

from __future__ import annotations

import pickle
import socket
import ssl
import struct
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from morrow.engine.catalog.hive.client import Metastore
from morrow.engine.catalog.hive.options import read_hive_options
from morrow.engine.catalog.settings import Settings
from morrow.engine.errors import InvalidArgument, MorrowError, StorageError, Unsupported

KEY = """\
-----BEGIN PRIVATE KEY-----
MEECAQAwEwYHKoZIzj0CAQYIKoZIzj0DAQcEJzAlAgEBBCA4dyrXk2DSB0ov5Det
paw0zz+43+5rW2ZjnRFSmqbOZg==
-----END PRIVATE KEY-----
"""
CERTIFICATE = """\
-----BEGIN CERTIFICATE-----
MIIBbjCCARSgAwIBAgIIAqJuHjMvkdswCgYIKoZIzj0EAwIwFDESMBAGA1UEAxMJ
bG9jYWxob3N0MCAXDTIwMDEwMTAwMDAwMFoYDzIxMTkxMjA4MDAwMDAwWjAUMRIw
EAYDVQQDEwlsb2NhbGhvc3QwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAASksZxz
NkHCFXgKjmF+pbhKE//d+fQSAfQ6remZwiSJZQiFNP2B7t0dPdVOgEcGJ28/WLKz
XkOq8U0k7em1V2LVo04wTDAdBgNVHQ4EFgQUb5ICw9C7JkfI7ZmC+pqMBk2tLY4w
GgYDVR0RBBMwEYIJbG9jYWxob3N0hwR/AAABMA8GA1UdEwEB/wQFMAMBAf8wCgYI
KoZIzj0EAwIDSAAwRQIhAI+486+v4DAvzTqTPaTIEdiViSXr93aRRp6QEcYIpN8N
AiAYC4c/PV/PlyUADP/U6kuy1f132EI6qWCaHrLt4UtNSg==
-----END CERTIFICATE-----
"""
"""A certificate for localhost and 127.0.0.1, valid for 100 years from 2020 and trusted only by these tests."""
PASSWORD = "s3cret-word"
ACCEPTED: list[socket.socket] = []
"""Connections that the server has accepted."""


class Handler:
    """A metastore with fixed answers."""

    def set_ugi(self, name: str, groups: list[str]) -> list[str]:  # noqa: ARG002
        return groups

    def get_all_databases(self) -> list[str]:
        return ["default", "ü"]

    def create_database(self, database: object) -> None: ...


@contextmanager
def served(
    folder: Path, *, tls: bool, framed: bool = False, compact: bool = False, sasl: bool = False
) -> Iterator[int]:
    """Serve a metastore; yield its port."""
    from pymetastore.hive_metastore.ThriftHiveMetastore import Processor
    from thrift.protocol import TBinaryProtocol, TCompactProtocol
    from thrift.server.TServer import TThreadedServer
    from thrift.transport import TSocket, TTransport

    class Socket(TSocket.TServerSocket):  # type: ignore[misc]  # thrift is untyped
        def listen(self) -> None:
            super().listen()
            self.port = self.handle.getsockname()[1]
            is_listening.set()

        def accept(self) -> Any:
            connection, _ = self.handle.accept()
            found = TSocket.TSocket()
            try:
                connection = context.wrap_socket(connection, server_side=True) if tls else connection
                found.setHandle(connection)
                ACCEPTED.append(connection)
            except OSError:  # the client does not trust us
                return None
            return found

    is_listening = threading.Event()
    (folder / "key.pem").write_text(KEY + CERTIFICATE)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "key.pem")
    listener = Socket("0.0.0.0", 0)
    frames: Any = TTransport.TFramedTransportFactory() if framed else TTransport.TBufferedTransportFactory()
    frames = make_sasl_frames() if sasl else frames
    protocols = TCompactProtocol.TCompactProtocolFactory() if compact else TBinaryProtocol.TBinaryProtocolFactory()
    server = TThreadedServer(Processor(Handler()), listener, frames, protocols, daemon=True)
    threading.Thread(target=server.serve, daemon=True).start()
    assert is_listening.wait(10)
    yield listener.port
    for connection in ACCEPTED:
        connection.close()
    ACCEPTED.clear()


def make_sasl_frames() -> Any:
    """Return a factory of the server's side of SASL: each connection sends its ticket, then frames."""
    from thrift.transport import TTransport

    class Frames(TTransport.TFramedTransport):  # type: ignore[misc]  # thrift is untyped
        accepted = False

        def read(self, size: int) -> Any:
            inner: Any = self._TFramedTransport__trans
            while not self.accepted:
                status, length = struct.unpack(">BI", inner.readAll(5))
                message = inner.readAll(length)
                TICKETS.append(message)
                if status == SASL_OK:
                    inner.write(struct.pack(">BI", SASL_COMPLETE, 0))
                    inner.flush()
                    self.accepted = True
            return super().read(size)

    class Factory:
        def getTransport(self, transport: Any) -> Any:  # noqa: N802  # thrift's name
            return Frames(transport)

    return Factory()


SASL_OK, SASL_COMPLETE = 2, 5
TICKETS: list[bytes] = []
"""The messages that the server received before the first frame."""


@pytest.fixture
def kerberos(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Install modules like pure-sasl and pykerberos; return the arguments of their clients."""
    made: list[dict[str, Any]] = []
    problem = type("KrbError", (Exception,), {})
    refused = type("GSSError", (problem,), {})
    errors = {name: type(name, (Exception,), {}) for name in ("SASLError", "SASLProtocolException")}

    class SASLClient:
        def __init__(self, host: str, service: str, mechanism: str, **more: Any) -> None:
            self.mechanism, self.complete = mechanism, False
            made.append({"host": host, "service": service, "mechanism": mechanism, **more})

        def process(self, challenge: bytes | None = None) -> bytes:  # noqa: ARG002
            if "nobody" in made[-1]["service"]:
                raise refused("No Kerberos credentials available")
            self.complete = True
            return b"ticket"

        wrap = unwrap = staticmethod(lambda data: data)

        def dispose(self) -> None: ...

    TICKETS.clear()
    for name, module in (
        ("kerberos", SimpleNamespace(KrbError=problem)),
        ("puresasl", SimpleNamespace(client=SimpleNamespace(SASLClient=SASLClient), **errors)),
        ("puresasl.client", SimpleNamespace(SASLClient=SASLClient)),
    ):
        monkeypatch.setitem(sys.modules, name, module)
    return made


def test_kerberos(tmp_path: Path, kerberos: list[dict[str, Any]]) -> None:
    with served(tmp_path, tls=False, sasl=True) as port:
        found = metastore(port, sasl__enabled="true", kerberos__principal="hive/_HOST@EXAMPLE.COM")
        assert found.call("get_all_databases") == ["default", "ü"]
        assert kerberos == [{"host": "127.0.0.1", "service": "hive", "mechanism": "GSSAPI", "qops": [b"auth"]}]
        assert TICKETS == [b"GSSAPI", b"ticket"]
        metastore(port, sasl__enabled="true", kerberos__principal="hms/a.b@X").call("get_all_databases")
        assert (kerberos[-1]["host"], kerberos[-1]["service"]) == ("a.b", "hms")
        with pytest.raises(StorageError, match=r"Kerberos refuses: No Kerberos credentials.*run kinit"):
            metastore(port, sasl__enabled="true", kerberos__principal="nobody/_HOST").call("get_all_databases")


def metastore(port: int, host: str = "127.0.0.1", **given: str) -> Metastore:
    named = {f"hive.metastore.{key.replace('__', '.')}": value for key, value in given.items()}
    settings = Settings.of({"metastore": "hive", "uri": f"thrift://{host}:{port}", "warehouse": "/w", **named})
    options = read_hive_options(settings)
    return Metastore(options.uris, 10, wire=options.wire)


@pytest.fixture(autouse=True)
def stores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HIVE_CONF_DIR", raising=False)
    monkeypatch.chdir(tmp_path)
    Path("trust.pem").write_text(f"Alias name: ca\n\n{CERTIFICATE}\n*****\n")


@pytest.mark.parametrize("password", ["", PASSWORD])
def test_tls(tmp_path: Path, password: str) -> None:
    with served(tmp_path, tls=True) as port:
        found = metastore(port, use__SSL="true", truststore__path="trust.pem", truststore__password=password)
        Path("trust.pem").unlink()
        for each in (found, pickle.loads(pickle.dumps(found))):
            assert each.call("get_all_databases") == ["default", "ü"]
        assert PASSWORD.encode() not in pickle.dumps(found)


@pytest.mark.parametrize(("framed", "compact"), [(True, False), (False, True), (True, True)])
@pytest.mark.parametrize("tls", [False, True])
def test_frames_and_the_compact_protocol(tmp_path: Path, tls: bool, framed: bool, compact: bool) -> None:
    given = {"use__SSL": str(tls).lower(), "truststore__path": "trust.pem"}
    given["thrift__framed__transport__enabled"] = str(framed).lower()
    given["thrift__compact__protocol__enabled"] = str(compact).lower()
    with served(tmp_path, tls=tls, framed=framed, compact=compact) as port:
        assert metastore(port, **given).call("get_all_databases") == ["default", "ü"]


def test_a_server_that_is_not_trusted_is_told_nothing(tmp_path: Path) -> None:
    with served(tmp_path, tls=True) as port, pytest.raises(StorageError, match=r"does not answer: TLS: .*CERTIFICATE"):
        metastore(port, use__SSL="true").call("get_all_databases")


def test_a_server_of_another_name_is_not_trusted(tmp_path: Path) -> None:
    with served(tmp_path, tls=True) as port, pytest.raises(StorageError, match=r"TLS: .*127\.0\.0\.2"):
        metastore(port, host="127.0.0.2", use__SSL="true", truststore__path="trust.pem").call("get_all_databases")


@pytest.mark.parametrize(
    ("given", "data", "error", "told"),
    [
        ({}, None, InvalidArgument, "the trust store other: No such file or directory"),
        ({}, b"", InvalidArgument, "holds no certificate in PEM format"),
        ({}, b"-----BEGIN CERTIFICATE-----\nnope", InvalidArgument, "the trust store other is damaged"),
        ({}, b"0\x82\x03", Unsupported, "keytool -list -rfc -keystore other > trusted.pem"),
        ({}, b"\xfe\xed\xfe\xed\0\0\0\2", Unsupported, "keytool -list -rfc -keystore other > trusted.pem"),
    ],
)
def test_trust_stores_that_cannot_be_used(
    given: dict[str, str], data: bytes | None, error: type[MorrowError], told: str
) -> None:
    if data is not None:
        Path("other").write_bytes(data)
    with pytest.raises(error, match=told):
        metastore(1, use__SSL="true", truststore__path="other", **given)


def test_connections_that_the_server_has_ended_are_made_again(tmp_path: Path) -> None:
    with served(tmp_path, tls=True) as port:
        found = metastore(port, use__SSL="true", truststore__path="trust.pem")
        assert found.call("get_all_databases") == ["default", "ü"]
        ACCEPTED[-1].shutdown(socket.SHUT_RDWR)
        assert found.call("create_database", None) is None  # this call changes the metastore, so it is not sent again
