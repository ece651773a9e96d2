"""How the metastore is spoken to: TLS or not, frames or not, which of thrift's protocols; as ``hive-site.xml`` says.

The certificates that are trusted come as PEM, or from a trust store of Java's kind JKS, which is

    FEEDFEED, version, count            each four bytes, big-endian
    tag, alias, milliseconds            for each entry: four bytes, text, eight bytes
    tag 1: bytes, count, certificates   a key with its chain
    tag 2: certificate                  one that is trusted: (from version 2 on) text X.509, bytes
    SHA-1                               of the password as UTF-16, "Mighty Aphrodite", and all of the above

where text is a length of two bytes and as many bytes, and bytes are a length of four and as many.
"""

from __future__ import annotations

import hashlib
import select
import ssl
import struct
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from morrow.engine.errors import InvalidArgument, Unsupported

JKS = b"\xfe\xed\xfe\xed"
SALT = b"Mighty Aphrodite"
DIGEST_SIZE = 20
TYPED_VERSION = 2
KEY, TRUSTED = 1, 2
PEM_BEGIN, PEM_END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
ASN1_SEQUENCE = b"\x30"
"""The first byte of a PKCS #12 file."""


@dataclass(frozen=True)
class Wire:
    """`trusted`: certificates (DER) by which servers are known, the machine's own where it is empty."""

    tls: bool = False
    framed: bool = False
    compact: bool = False
    trusted: bytes = field(default=b"", repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_context"}

    def transport(self, host: str, port: int, seconds: float) -> Any:
        """Returns a connection of thrift's that is yet to be opened."""
        from thrift.transport import TTransport
        from thrift.transport.TSocket import TSocket

        connection = _tls_socket()(host, port, self._context) if self.tls else TSocket(host, port)
        connection.setTimeout(seconds * 1000)
        return (TTransport.TFramedTransport if self.framed else TTransport.TBufferedTransport)(connection)

    def protocol(self, transport: Any) -> Any:
        """Returns the protocol that is spoken over a connection."""
        if self.compact:
            from thrift.protocol.TCompactProtocol import TCompactProtocol

            return TCompactProtocol(transport)
        from thrift.protocol.TBinaryProtocol import TBinaryProtocol

        return TBinaryProtocol(transport)

    @cached_property
    def _context(self) -> ssl.SSLContext:
        return _trusting(self.trusted)


@cache
def _tls_socket() -> Any:
    from thrift.transport.TSocket import TSocket
    from thrift.transport.TTransport import TTransportException

    class Socket(TSocket):  # type: ignore[misc]  # thrift has no types
        """A socket by TLS. Thrift's own tells no reason, and does not notice that the server ended an idle one."""

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


def trusted_of(path: str, password: str) -> bytes:
    """Returns the certificates (DER) of a trust store; none without a path.

    Raises:
        InvalidArgument: it cannot be read, is damaged, or has another password. Unsupported: of another kind.
    """
    if not path:
        return b""
    try:
        data = Path(path).expanduser().read_bytes()
    except OSError as error:
        raise InvalidArgument(f"the trust store {path}: {error.strerror}") from error
    if data.startswith(JKS):
        found = _of_jks(path, data, password)
    elif data.startswith(ASN1_SEQUENCE):
        hint = f"write its certificates as PEM: keytool -list -rfc -keystore {path} > trusted.pem"
        raise Unsupported(f"the trust store {path}, which is no PEM and of another kind than JKS,", hint=hint)
    else:
        found = _of_pem(data)
    if not found:
        raise InvalidArgument(f"the trust store {path} holds no certificate; it is PEM, or of Java's kind JKS")
    try:
        _trusting(found)
    except ssl.SSLError as error:
        raise InvalidArgument(f"the trust store {path} is damaged: {error}") from error
    return found


def _trusting(certificates: bytes) -> ssl.SSLContext:
    if not certificates:
        return ssl.create_default_context()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=certificates)
    return context


def _of_pem(data: bytes) -> bytes:
    parts = data.decode("latin-1").split(PEM_BEGIN)[1:]
    try:
        return b"".join(ssl.PEM_cert_to_DER_cert(f"{PEM_BEGIN}{part.partition(PEM_END)[0]}{PEM_END}") for part in parts)
    except ValueError:
        return b""


def _of_jks(path: str, data: bytes, password: str) -> bytes:
    body, digest = data[:-DIGEST_SIZE], data[-DIGEST_SIZE:]
    if password:
        seen = hashlib.sha1(password.encode("utf-16-be") + SALT + body, usedforsecurity=False).digest()
        if seen != digest:
            raise InvalidArgument(f"the trust store {path} has another password, or is damaged")
    try:
        return _Entries(body).certificates()
    except (struct.error, IndexError) as error:
        raise InvalidArgument(f"the trust store {path} is damaged: it ends within an entry") from error


class _Entries:
    """The entries of a JKS file, read one after the other."""

    def __init__(self, body: bytes) -> None:
        self._body, self._at = body, len(JKS)

    def certificates(self) -> bytes:
        version, count = self._numbers(">II")
        found = []
        for _ in range(count):
            (tag,) = self._numbers(">I")
            self._bytes(">H")  # the alias
            self._numbers(">Q")
            chain = 1
            if tag == KEY:
                self._bytes(">I")
                (chain,) = self._numbers(">I")
            for _ in range(chain):
                if version >= TYPED_VERSION:
                    self._bytes(">H")
                certificate = self._bytes(">I")
                if tag == TRUSTED:
                    found.append(certificate)
        return b"".join(found)

    def _numbers(self, form: str) -> tuple[int, ...]:
        numbers = struct.unpack_from(form, self._body, self._at)
        self._at += struct.calcsize(form)
        return numbers

    def _bytes(self, form: str) -> bytes:
        (size,) = self._numbers(form)
        found = self._body[self._at : self._at + size]
        if len(found) != size:
            raise IndexError(size)
        self._at += size
        return found
