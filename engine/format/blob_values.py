"""Large values that are read on demand, and the places where they may lie.

A value of a BLOB column is a range of a file. `Blob` reads it in parts; values that a user gives to be written may also
be paths, URLs and streams. Frames hold these as descriptors of `REGISTERED`, a scheme of this process: descriptors that
come with data can thus not name a file that the user did not allow.
"""

from __future__ import annotations

import io
import os
import uuid
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO, cast

import msgspec

from morrow.engine.errors import CorruptFile, FileMissing, InvalidArgument, UnsafePath, Unsupported
from morrow.engine.format.blobs import BlobDescriptor, decode_descriptor
from morrow.engine.format.paths import check_external_path, to_store_path
from morrow.engine.io.local import LocalStore
from morrow.engine.io.resolve import is_inside, resolve
from morrow.engine.io.store import FileStore, RangeInput

COPIED_BYTES = 4 << 20
"""Bytes that are read at once to copy a value."""
DESCRIPTOR_OPTIONS = "blob-descriptor."
"""Prefix of the options of the store that descriptors name."""


class Blob(msgspec.Struct, frozen=True, eq=False):
    """A large value, read on demand: its `size`, parts of it (`read`), or a stream (`open`).

    Give one to be written as a value of a BLOB column: `from_path`, `from_url`, `from_stream`, `from_bytes`.
    """

    store: FileStore | None = None
    path: str = ""
    offset: int = 0
    length: int = -1
    data: bytes | None = None
    stream: Callable[[], BinaryIO] | None = None

    @classmethod
    def from_bytes(cls, data: bytes) -> Blob:
        """Return a value in memory."""
        return cls(data=bytes(data))

    @classmethod
    def from_path(cls, path: str | os.PathLike[str], offset: int = 0, length: int | None = None) -> Blob:
        """Return a file, or `length` bytes of it."""
        return cls.from_url(os.fspath(path), offset=offset, length=length)

    @classmethod
    def from_url(
        cls,
        url: str,
        storage_options: Mapping[str, str] | None = None,
        *,
        offset: int = 0,
        length: int | None = None,
    ) -> Blob:
        """Return the file of a URL (``s3://``, ``https://`` and the other stores), or `length` bytes of it."""
        if offset < 0 or (length is not None and length < 0):
            raise InvalidArgument(f"a blob begins at 0 or above and has no negative length, not {offset} and {length}")
        store, path = resolve(url, storage_options)
        return cls(store, path, offset, -1 if length is None else length)

    @classmethod
    def from_stream(cls, stream: BinaryIO | Callable[[], BinaryIO]) -> Blob:
        """Return the rest of a stream, which is read once; or of the streams that a function opens."""
        return cls(stream=stream if callable(stream) else lambda: stream)

    @property
    def size(self) -> int:
        """The number of bytes; no content is read. Raises `FileMissing`. `Unsupported`: a stream that cannot seek."""
        if self.data is not None:
            return len(self.data)
        if self.length >= 0:
            return self.length
        if self.stream is not None:
            with self.stream() as opened:
                if not opened.seekable():
                    raise Unsupported("the size of a stream that cannot seek", hint="read it")
                start = opened.tell()
                return opened.seek(0, io.SEEK_END) - start
        return self._size_of_file() - self.offset

    def _size_of_file(self) -> int:
        size = None if self.store is None else self.store.size(self.path)
        if size is None:
            raise FileMissing(self.path)
        return size

    def read(self, start: int = 0, length: int | None = None) -> bytes:
        """Return `length` bytes from `start` (by default all that follow); fewer only at the end of the value.

        Raises:
            FileMissing, StorageError. CorruptFile: the file is shorter than the value.
            InvalidArgument: a negative start or length.
        """
        if start < 0 or (length is not None and length < 0):
            raise InvalidArgument(f"a range of a blob begins at 0 or above, not {start}, and has no negative length")
        if self.data is not None:
            return self.data[start : None if length is None else start + length]
        if self.stream is not None:
            with self.stream() as opened:
                opened.read(start)
                return opened.read(-1 if length is None else length)
        left = max(self.size - start, 0)
        wanted = left if length is None else min(length, left)
        assert self.store is not None
        found = self.store.read_range(self.path, self.offset + start, wanted) if wanted else b""
        if len(found) < wanted:
            raise CorruptFile(self.path, f"it ends within a blob: {len(found)} of {wanted} bytes")
        return found

    def open(self) -> BinaryIO:
        """Return a stream of the value; seekable unless it comes from a stream that is not."""
        if self.stream is not None:
            return self.stream()
        if self.data is not None:
            return io.BytesIO(self.data)
        return cast(BinaryIO, io.BufferedReader(RangeInput(self.read, self.size)))

    def chunks(self) -> Iterator[bytes]:
        """Yield the value in parts."""
        if self.data is not None:
            yield self.data
            return
        if self.stream is None:
            size = self.size
            for start in range(0, size, COPIED_BYTES):
                yield self.read(start, min(COPIED_BYTES, size - start))
            return
        try:
            opened = self.stream()
            while part := opened.read(COPIED_BYTES):
                yield bytes(part)
        except (TypeError, ValueError) as error:
            raise InvalidArgument(f"a stream of a BLOB: {error}; give an open file of bytes") from error

    @property
    def uri(self) -> str:
        """The URL of the file; empty for a value in memory and for a stream."""
        return "" if self.store is None else self.store.url(self.path)

    @property
    def descriptor(self) -> bytes:
        """The descriptor of the value, as Paimon serializes it.

        Raises `InvalidArgument`: a value in memory or a stream.
        """
        if self.store is None:
            raise InvalidArgument("only a blob in a file has a descriptor; write it to a table first")
        return BlobDescriptor(self.uri, self.offset, self.length).encode()

    def __bytes__(self) -> bytes:
        return self.read()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Blob) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    @property
    def _identity(self) -> tuple[Any, ...]:
        return self.uri, self.offset, self.length, self.data, self.stream

    def __repr__(self) -> str:
        if self.data is not None:
            return f"Blob({len(self.data)} bytes in memory)"
        if self.stream is not None:
            return "Blob(a stream)"
        size = "all" if self.length < 0 else f"{self.length}"
        return f"Blob({size} bytes at {self.offset} of {self.uri})"


class BlobPlaces(msgspec.Struct, frozen=True, dict=True):
    """The folders below which the descriptors of a table may name files, and the store of each.

    Args:
        root: the table's folder.
        roots: URLs: the table's folder, its external paths, and the caller's ``allowed_roots``.
        options: the options of the table, for stores other than its own.
    """

    store: FileStore
    root: str
    where: str
    roots: tuple[str, ...]
    options: Mapping[str, str]

    def locate(self, uri: str) -> tuple[FileStore, str]:
        """Return the store of a file, and its path there.

        Raises `UnsafePath`: the file is outside of the roots, or a link leads out of them.
        """
        location = check_external_path(uri, self.roots, where=self.where)
        path = to_store_path(self.store, location)
        if path is None:
            return resolve(location, self._other_options)
        local_roots = [found for root in self.roots if (found := to_store_path(self.store, root)) is not None]
        if self.store.is_local and not is_inside(self.store, os.path.realpath(path), local_roots):
            raise UnsafePath(
                f"{self.where}: the blob {uri} is behind a link that leads out of the table's folder; if you trust "
                "it, name its folder in morrow.open(..., allowed_roots=[...])"
            )
        return self.store, path

    def find(self, descriptor: bytes) -> Blob:
        """Return the value that a descriptor names. Raises as `locate`, and `CorruptFile` for other bytes."""
        found = decode_descriptor(descriptor, self.where)
        if found.uri not in self._located:
            self._located[found.uri] = self.locate(found.uri)
        return Blob(*self._located[found.uri], found.offset, found.length)

    @cached_property
    def _located(self) -> dict[str, tuple[FileStore, str]]:
        return {}

    @cached_property
    def _other_options(self) -> dict[str, str] | None:
        given = {
            name.removeprefix(DESCRIPTOR_OPTIONS): value
            for name, value in self.options.items()
            if name.startswith(DESCRIPTOR_OPTIONS)
        }
        return given or None


REGISTERED = "morrow-value:"
_SECRET = uuid.uuid4().hex
"""Part of the URIs of local files that a user gives, which data cannot guess."""
_LOCAL = f"{REGISTERED}{_SECRET}:"
_registered: dict[str, Blob] = {}
_numbers = count()


def register_blob(value: Blob) -> bytes:
    """Return a descriptor of a value that a user gives to be written; `find_registered` returns the value.

    Values of other stores and streams stay in memory, streams until they are read.
    """
    if isinstance(value.store, LocalStore):
        return BlobDescriptor(_LOCAL + value.path, value.offset, value.length).encode()
    uri = f"{REGISTERED}{next(_numbers)}"
    _registered[uri] = value
    return BlobDescriptor(uri).encode()


def find_registered(descriptor: BlobDescriptor, where: str) -> Blob:
    """Return the value of a descriptor by `register_blob`. Streams can be read once.

    Raises `InvalidArgument`: another process made the descriptor, or the stream has been read.
    """
    if descriptor.uri.startswith(_LOCAL):
        return Blob(LocalStore(), descriptor.uri.removeprefix(_LOCAL), descriptor.offset, descriptor.length)
    value = _registered.get(descriptor.uri)
    if value is None:
        raise InvalidArgument(f"{where}: a stream was given twice, or by another process; give a path or a URL")
    if value.stream is not None:
        del _registered[descriptor.uri]
    return value


def unregister_blob(value: bytes, where: str) -> bytes:
    """Return the descriptor of the file of a registered value; other descriptors stay as they are."""
    found = decode_descriptor(value, where)
    return find_registered(found, where).descriptor if found.uri.startswith(REGISTERED) else value


def to_blob(value: object) -> Blob | None:
    """Return the blob of a path, a stream or a `Blob`; None for anything else, such as bytes."""
    if isinstance(value, Blob):
        return value
    if isinstance(value, Path):
        return Blob.from_path(value)
    if isinstance(value, io.IOBase) or (hasattr(value, "read") and not isinstance(value, (bytes, str))):
        return Blob.from_stream(cast(BinaryIO, value))
    return None
