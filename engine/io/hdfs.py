"""HDFS as a file store, through hdfs-native, which needs neither Java nor libhdfs.

A file that must appear whole, or only if it does not exist, is written under a hidden name, synced to the disks of the
datanodes and then renamed. The namenode renames atomically, and refuses to if the target exists. If a file has several
blocks, only the last one is synced; ``dfs.datanode.synconclose`` of the servers syncs the others as well.

Each process has one client for each address.
"""

from __future__ import annotations

import io
import os
import re
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar, cast

from morrow.engine.errors import FileMissing, InvalidArgument, MorrowError, StorageError, UnclearOutcome
from morrow.engine.io.secrets import StorageOptions
from morrow.engine.io.storage_options import (
    DEFAULT_FILE_SYSTEM,
    FAILOVER_ATTEMPTS,
    HADOOP_USER,
    HadoopOptions,
    parse_hadoop_options,
)
from morrow.engine.io.store import WALKED_AT_ONCE, FileStatus, RangeInput, RangeOutput, Walk
from morrow.engine.plugins import require_extra
from morrow.engine.redaction import redact_error, redact_text

if TYPE_CHECKING:
    from hdfs_native import Client, FileWriter
    from hdfs_native import FileStatus as Found

T = TypeVar("T")

STREAM_BUFFER = 1 << 20
NOT_EMPTY, NO_FOLDER = "PathIsNotEmptyDirectoryException", "is not a directory"
ERASURE_CODED = "erasure-coded"


class HdfsStore:
    """One HDFS file system; paths are absolute. Readers get the bytes of whole files."""

    is_local = False
    has_urls = False
    checks_pages = False

    def __init__(self, base_url: str, options: Mapping[str, str] | None = None) -> None:
        self._base_url = base_url
        self._options = parse_hadoop_options(options or {})
        self.storage_options: Mapping[str, str] = (
            options if isinstance(options, StorageOptions) else StorageOptions(options, base_url)
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen_store, (redact_text(self._base_url), self.storage_options, self.checks_pages)

    @classmethod
    def of_url(cls, url: str, options: Mapping[str, str] | None) -> tuple[HdfsStore, str]:
        """Return the store of ``hdfs://host[:port]/path`` and the path in it.

        The default host is the one of ``fs.defaultFS``. A host without a port is a name service, or has port 8020.

        Raises `Unsupported`: hdfs-native is not installed. InvalidArgument: an unknown option, or the host is unknown.
        """
        scheme, _, rest = url.partition("://")
        authority, _, path = rest.partition("/")
        store = cls(f"{scheme.lower()}://{authority}", options)
        store._client()  # reports an invalid address immediately
        return store, "/" + "/".join(part for part in path.split("/") if part)

    def read(self, path: str) -> bytes:
        return self._ask(path, lambda: self._client().read(normalize_path(path)).read())

    def read_range(self, path: str, start: int, length: int) -> bytes:
        def ask() -> bytes:
            reader = self._client().read(normalize_path(path))
            least = min(length, len(reader) - start)
            return reader.read_range(start, least) if least > 0 else b""

        return self._ask(path, ask)

    def open(self, path: str) -> BinaryIO:
        reader = self._ask(path, lambda: self._client().read(normalize_path(path)))

        def read_range(offset: int, length: int) -> bytes:
            return self._ask(path, lambda: reader.read_range(offset, length))

        return io.BufferedReader(RangeInput(read_range, len(reader)), STREAM_BUFFER)

    def size(self, path: str) -> int | None:
        found = self._find(path)
        return None if found is None or found.isdir else found.length

    def exists(self, path: str) -> bool:
        return self.size(path) is not None

    def list(self, folder: str) -> list[FileStatus]:
        return [_to_file_status(found) for found in self._list(folder)]

    def walk(self, folder: str) -> Walk:
        piece: list[tuple[str, FileStatus]] = []
        for entry in self._below(folder):
            piece.append(entry)
            if len(piece) == WALKED_AT_ONCE:
                yield piece
                piece = []
        if piece:
            yield piece

    def is_dir(self, folder: str) -> bool:
        found = self._find(folder)
        return found is not None and found.isdir

    def url(self, path: str) -> str:
        return f"{self._base_url}{normalize_path(path) if path else ''}"

    def create(self, path: str, data: bytes) -> bool:
        unfinished = self._fill(path, data)
        try:
            self._ask(path, lambda: self._client().rename(unfinished, normalize_path(path), overwrite=False))
        except (StorageError, FileMissing) as error:
            if self._take_back(path, unfinished):
                if isinstance(error.__cause__, FileExistsError):
                    return False
                raise
            raise self._unclear(path, error) from error
        return True

    def write(self, path: str, data: bytes) -> None:
        unfinished = self._fill(path, data)
        try:
            self._ask(path, lambda: self._client().rename(unfinished, normalize_path(path), overwrite=True))
        except BaseException:
            self.discard([unfinished])
            raise

    @contextmanager
    def output(self, path: str) -> Iterator[BinaryIO]:
        writer = self._ask(path, lambda: self._client().create(normalize_path(path), self._writing()))
        try:
            put = RangeOutput(lambda data: int(self._ask(path, lambda: writer.write(data))))
            with io.BufferedWriter(put, STREAM_BUFFER) as stream:
                yield cast(BinaryIO, stream)
                stream.flush()
                self._finish(path, writer, stream.raw.tell())
        except BaseException:
            self.discard([path])
            raise

    def local_target(self, path: str) -> str | None:  # noqa: ARG002  # there is no local path
        return None

    def sync(self, paths: Sequence[str]) -> None:
        """Do nothing: written files are already on the disks of the datanodes."""

    def delete(self, path: str) -> bool:
        return self._ask(path, lambda: self._client().delete(normalize_path(path)))

    def delete_many(self, paths: Sequence[str]) -> None:
        failed: list[StorageError] = []
        for path in paths:
            try:
                with suppress(FileMissing):
                    self._ask(path, partial(self._client().delete, normalize_path(path)))
            except StorageError as error:
                failed.append(error)
        if failed:
            raise failed[0]

    def move(self, source: str, target: str) -> None:
        self._rename(source, target, overwrite=True)

    def remove_empty_folder(self, folder: str) -> bool:
        if not self.is_dir(folder):
            return False
        try:
            return self._ask(folder, lambda: self._client().delete(normalize_path(folder)))
        except StorageError as error:
            if NOT_EMPTY in str(error):
                return False
            raise

    def discard(self, paths: Sequence[str]) -> None:
        with suppress(StorageError):
            self.delete_many(paths)

    def delete_folder(self, folder: str) -> None:
        if normalize_path(folder) == "/":
            raise InvalidArgument(f"{self._base_url} itself is not deleted; name a folder in it")
        self._ask(folder, lambda: self._client().delete(normalize_path(folder), recursive=True))

    def make_folder(self, folder: str) -> None:
        self._ask(folder, lambda: self._client().mkdirs(normalize_path(folder), create_parent=True))

    def move_folder(self, source: str, target: str) -> None:
        self._rename(source, target, overwrite=False)

    # Helpers

    def _client(self) -> Client:
        return connect(self._base_url, self._options)

    def _writing(self) -> Any:
        from hdfs_native import WriteOptions

        return WriteOptions(
            block_size=self._options.block_size,
            replication=self._options.replication,
            overwrite=False,
            create_parent=True,
        )

    def _fill(self, path: str, data: bytes) -> str:
        """Write a hidden file next to `path`, durably, and return its path."""
        folder, _, name = normalize_path(path).rpartition("/")
        unfinished = f"{folder}/.{name}.{uuid.uuid4().hex}.tmp"
        try:
            writer = self._ask(path, lambda: self._client().create(unfinished, self._writing()))
            self._ask(path, lambda: writer.write(data))
            self._finish(path, writer, len(data))
        except BaseException:
            self.discard([unfinished])
            raise
        return unfinished

    def _finish(self, path: str, writer: FileWriter, size: int) -> None:
        if size:
            try:
                self._ask(path, writer.hsync)
            except StorageError as error:
                if ERASURE_CODED not in str(error):  # Java's client does not sync erasure-coded files either
                    raise
        self._ask(path, writer.close)

    def _take_back(self, path: str, unfinished: str) -> bool:
        """Remove the hidden file, so that it can no longer be renamed; return False if it does not exist."""
        try:
            return self.delete(unfinished)
        except StorageError as error:
            raise self._unclear(path, error) from error

    def _unclear(self, path: str, error: Exception) -> UnclearOutcome:
        return UnclearOutcome(f"{self.url(path)}: {error}; whether the file was created is not known, look for it")

    def _rename(self, source: str, target: str, *, overwrite: bool) -> None:
        self.make_folder(normalize_path(target).rpartition("/")[0] or "/")
        self._ask(
            source, lambda: self._client().rename(normalize_path(source), normalize_path(target), overwrite=overwrite)
        )

    def _find(self, path: str) -> Found | None:
        try:
            return self._ask(path, lambda: self._client().get_file_info(normalize_path(path)))
        except FileMissing:
            return None

    def _list(self, folder: str) -> Iterator[Found]:
        own = normalize_path(folder)
        try:
            listed = self._ask(folder, lambda: iter(self._client().list_status(own)))
            while (found := self._ask(folder, lambda: next(listed, None))) is not None:
                if found.path.rstrip("/") != own.rstrip("/"):  # listing a file returns the file itself
                    yield found
        except FileMissing:
            return
        except StorageError as error:
            if NO_FOLDER not in str(error):
                raise

    def _below(self, folder: str) -> Iterator[tuple[str, FileStatus]]:
        inner: list[tuple[str, FileStatus]] = []
        for found in self._list(folder):
            status = _to_file_status(found)
            entry = f"{folder.rstrip('/')}/{status.name}", status
            if status.is_dir:
                inner.append(entry)
            else:
                yield entry
        for path, status in inner:
            yield from self._below(path)
            yield path, status

    def _ask(self, path: str, ask: Callable[[], T]) -> T:
        try:
            return ask()
        except FileNotFoundError as error:
            raise FileMissing(self.url(path)) from redact_error(error)
        except MorrowError:
            raise
        except (OSError, RuntimeError, ValueError) as error:
            hint = f"check the address, the user ({HADOOP_USER}) and its permissions"
            raise StorageError(f"{self.url(path)}: {extract_message(error)}; {hint}") from error


def _reopen_store(base_url: str, options: Mapping[str, str], checks_pages: bool) -> HdfsStore:
    store = HdfsStore(base_url, options)
    store.checks_pages = checks_pages
    return store


def _to_file_status(found: Found) -> FileStatus:
    name = found.path.rstrip("/").rsplit("/", 1)[-1]
    return FileStatus(name, 0 if found.isdir else found.length, found.modification_time, found.isdir)


DEFAULT_PORT = 8020
FEW_ATTEMPTS = "4"
"""Attempts to reach a single namenode, about ten seconds. hdfs-native's default takes three minutes."""
NO_HOSTS = "No NameNode hosts found"
REMOTE = re.compile(r'RPCError\("(?:[\w$]+\.)*([\w$]+)", "(.*?)(?:\\n|"\))', re.DOTALL)
"""A namenode error as hdfs-native prints it: its class, and the first line of its message."""

_clients: dict[tuple[object, ...], Client] = {}
_making = threading.Lock()


def connect(base_url: str, options: HadoopOptions) -> Client:
    """Return the client that this process has for ``hdfs://host[:port]``; a forked process makes its own.

    Raises `Unsupported`: hdfs-native is not installed. `InvalidArgument`: the address is invalid.
    """
    config = tuple(sorted(options.config.items()))
    key = (
        os.getpid(),
        base_url,
        os.environ.get(HADOOP_USER),
        config,
        options.conf_dir,
        options.principal,
        options.keytab,
    )
    with _making:
        if key not in _clients:
            _clients[key] = _make_client(base_url, options)
        return _clients[key]


def normalize_path(path: str) -> str:
    """Return the path with one slash before each segment, as the namenode requires."""
    return "/" + "/".join(part for part in path.split("/") if part)


def extract_message(error: BaseException) -> str:
    """Return the message of an error on one line, without the namenode's Java stack trace."""
    text = str(redact_error(error))
    remote = REMOTE.search(text)
    if remote is not None:
        return f"{remote[1]}: {remote[2]}"
    return (text.strip().splitlines() or [type(error).__name__])[0]


def _make_client(base_url: str, options: HadoopOptions) -> Client:
    with require_extra("HDFS", "hdfs_native", "hdfs"):
        from hdfs_native import Client
    scheme, _, host = base_url.partition("://")
    if "@" in host:
        raise InvalidArgument(f"{redact_text(base_url)}: the user is not a part of the address; set {HADOOP_USER}")
    config = dict(options.config)
    if ":" in host:
        config.setdefault(FAILOVER_ATTEMPTS, FEW_ATTEMPTS)
    more = {"kerberos_principal": options.principal, "kerberos_keytab": options.keytab}
    for address in (host, f"{host}:{DEFAULT_PORT}") if host and ":" not in host else (host,):
        try:
            return Client(f"{scheme}://{address}" if host else None, config, options.conf_dir, **more)
        except (RuntimeError, ValueError, OSError) as error:
            why = extract_message(error)
            if NO_HOSTS not in why:
                break
    hint = (
        f"give hdfs://host:port/path, or {DEFAULT_FILE_SYSTEM} and the name services in HADOOP_CONF_DIR or as options"
    )
    raise InvalidArgument(f"cannot open {redact_text(base_url)}: {why}; {hint}")
