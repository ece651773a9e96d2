"""Object stores (S3, GCS, Azure, HTTP, memory) as file stores, through obstore."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from morrow.engine.errors import FileMissing, InvalidArgument, MorrowError, StorageError, Unsupported
from morrow.engine.io.conditional_put import ConditionalPut, first_line
from morrow.engine.io.store import WALKED_AT_ONCE, FileStatus, Walk

if TYPE_CHECKING:
    from obstore import ObjectMeta
    from obstore.store import ObjectStore as Bucket

MILLIS = 1000
STREAM_BUFFER = 1 << 20
PLACEHOLDER = ".keep"
"""The empty object that stands for an empty folder."""
"""Bytes fetched at least by a read of a stream: a request takes as long as transferring some 100 KiB."""
PART = 8 << 20
"""Bytes of one part of an upload, the unit held in memory; S3 takes 10,000 parts, so files up to 80 GB."""
PARTS_AT_ONCE = 4
DELETED_AT_ONCE = 1000
"""Objects removed by one request, the most that S3 takes."""

CONNECTION_OPTIONS = frozenset(
    {
        *("allow_http", "allow_invalid_certificates", "connect_timeout", "timeout", "proxy_url", "user_agent"),
        *("http1_only", "http2_only", "pool_idle_timeout", "pool_max_idle_per_host"),
    }
)
"""Settings of the connection. Polars takes them among the others, obstore (whose ``aws_allow_http`` panics) apart."""


class ObjectStore:
    """One bucket (or container). Paths are keys without a leading slash."""

    is_local = False

    def __init__(self, bucket: Bucket, base_url: str, storage_options: Mapping[str, str]) -> None:
        self._bucket = bucket
        self._base_url = base_url
        self._conditional = ConditionalPut(bucket, base_url)
        self.storage_options: Mapping[str, str] = dict(storage_options)

    @classmethod
    def of_url(cls, url: str, storage_options: Mapping[str, str] | None) -> ObjectStore:
        """The store that serves `url`; what `storage_options` lacks comes from the environment.

        An endpoint that is given as ``http://`` is used without encryption, as in Polars.

        Raises:
            InvalidArgument: no store serves the scheme, or an option that it does not know.
        """
        from obstore.exceptions import BaseError
        from obstore.store import from_url

        scheme, _, rest = url.partition("://")
        base = f"{scheme}://{rest.partition('/')[0]}"
        options = dict(storage_options or {})
        connection = {name: value for key, value in options.items() if (name := _connection_option(key))}
        if any(key.endswith(("endpoint", "endpoint_url")) and v.startswith("http://") for key, v in options.items()):
            connection.setdefault("allow_http", "true")
        config = {key: value for key, value in options.items() if not _connection_option(key)}
        try:
            bucket = from_url(base, config=cast(Any, config) or None, client_options=cast(Any, connection) or None)
        except (BaseError, ValueError) as error:
            raise InvalidArgument(
                f"cannot open {base}: {first_line(error)}; give a path, or an s3://, gs:// or az:// URL"
            ) from error
        return cls(bucket, base, options)

    def read(self, path: str) -> bytes:
        return bytes(self._asked(path, lambda: self._bucket.get(path).bytes()))

    def read_range(self, path: str, start: int, length: int) -> bytes:
        try:
            return bytes(self._asked(path, lambda: self._bucket.get_range(path, start=start, length=length)))
        except StorageError:
            # Stores refuse a range that starts behind the end, where a file has no more bytes.
            size = self.size(path)
            if size is not None and start >= size:
                return b""
            raise

    def open(self, path: str) -> BinaryIO:
        size = self.size(path)
        if size is None:
            raise FileMissing(self.url(path))
        return io.BufferedReader(_ObjectStream(self, path, size), STREAM_BUFFER)

    def size(self, path: str) -> int | None:
        try:
            return int(self._asked(path, lambda: self._bucket.head(path))["size"])
        except FileMissing:
            return None

    def exists(self, path: str) -> bool:
        return self.size(path) is not None

    def list(self, folder: str) -> list[FileStatus]:
        listed = self._asked(folder, lambda: self._bucket.list_with_delimiter(folder.rstrip("/") + "/"))
        files = [_file_status(found) for found in listed["objects"]]
        folders = [FileStatus(p.rstrip("/").rsplit("/", 1)[-1], 0, 0, is_dir=True) for p in listed["common_prefixes"]]
        return files + folders

    def walk(self, folder: str) -> Walk:
        pages = iter(self._asked(folder, lambda: self._bucket.list(folder.strip("/") + "/", chunk_size=WALKED_AT_ONCE)))
        while page := self._asked(folder, lambda: next(pages, [])):
            yield [(found["path"], _file_status(found)) for found in page]

    def is_dir(self, folder: str) -> bool:
        return bool(self.list(folder))

    def url(self, path: str) -> str:
        return f"{self._base_url}/{path}"

    def create(self, path: str, data: bytes) -> bool:
        return self._conditional.create(path, data)

    def write(self, path: str, data: bytes) -> None:
        self._told(path, lambda: self._bucket.put(path, data))

    @contextmanager
    def output(self, path: str) -> Iterator[BinaryIO]:
        import obstore
        from obstore.exceptions import BaseError

        upload = obstore.open_writer(self._bucket, path, buffer_size=PART, max_concurrency=PARTS_AT_ONCE)
        try:
            with io.BufferedWriter(_ObjectOutput(self, path, upload), STREAM_BUFFER) as stream:
                yield cast(BinaryIO, stream)
            self._told(path, upload.close)
        except BaseException as error:
            # Its end with an error gives up the parts; an answer that was lost may have left the whole object.
            with suppress(BaseError, OSError):
                upload.__exit__(type(error), error, None)
            self.discard([path])
            raise

    def local_target(self, path: str) -> str | None:  # noqa: ARG002  # a bucket is nowhere on this machine
        return None

    def sync(self, paths: Sequence[str]) -> None:
        """Nothing to do: an object is durable when its put is answered."""

    def delete(self, path: str) -> bool:
        if not self.exists(path):
            return False
        self._told(path, lambda: self._bucket.delete(path))
        return True

    def delete_many(self, paths: Sequence[str]) -> None:
        failed: list[StorageError] = []
        for start in range(0, len(paths), DELETED_AT_ONCE):
            batch = list(paths[start : start + DELETED_AT_ONCE])
            try:
                self._told(batch[0], lambda batch=batch: self._bucket.delete(batch))
            except StorageError:
                # The answer does not say which: some stores give up at an object that is gone already.
                failed += self._deleted_singly(batch)
        if failed:
            raise failed[0]

    def _deleted_singly(self, paths: Sequence[str]) -> Iterator[StorageError]:
        for path in paths:
            try:
                with suppress(FileMissing):
                    self._asked(path, lambda path=path: self._bucket.delete(path))
            except StorageError as error:
                yield error

    def move(self, source: str, target: str) -> None:
        self._asked(source, lambda: self._bucket.copy(source, target))
        self.delete_many([source])

    def remove_empty_folder(self, folder: str) -> bool:  # noqa: ARG002  # there are no folders
        return False

    def discard(self, paths: Sequence[str]) -> None:
        if paths:
            with suppress(StorageError):
                self._told(paths[0], lambda: self._bucket.delete(list(paths)))

    def delete_folder(self, folder: str) -> None:
        prefix = folder.strip("/")
        if not prefix:
            raise InvalidArgument(f"{self._base_url} itself is not deleted; name a folder in it")
        listed = self._told(prefix, lambda: self._bucket.list(prefix).collect())
        self._told(prefix, lambda: self._bucket.delete([found["path"] for found in listed]))

    def make_folder(self, folder: str) -> None:
        """Buckets have no folders, only names that begin alike: an empty object holds the place."""
        self.write(f"{folder.strip('/')}/{PLACEHOLDER}", b"")

    def move_folder(self, source: str, target: str) -> None:  # noqa: ARG002  # nowhere to go
        raise Unsupported(
            "renaming in an object store",
            where=self.url(source),
            hint="every object would be copied, and readers would see a part; write the rows into a new one",
        )

    def _told(self, path: str, tell: Any) -> Any:
        """Like `_asked` for writes, where "not found" means the bucket."""
        try:
            return self._asked(path, tell)
        except FileMissing as error:
            raise StorageError(f"{self.url(path)}: {first_line(error.__cause__ or error)}; make the bucket") from error

    def _asked(self, path: str, ask: Any) -> Any:
        from obstore.exceptions import BaseError

        try:
            return ask()
        except FileNotFoundError as error:
            raise FileMissing(self.url(path)) from error
        except MorrowError:
            raise
        except (BaseError, OSError) as error:
            raise StorageError(
                f"{self.url(path)}: {first_line(error)}; check the address and the credentials"
            ) from error


def _file_status(found: ObjectMeta) -> FileStatus:
    name = found["path"].rsplit("/", 1)[-1]
    return FileStatus(name, found["size"], int(found["last_modified"].timestamp() * MILLIS))


class _ObjectStream(io.RawIOBase):
    """A seekable stream over ranges of one object."""

    def __init__(self, store: ObjectStore, path: str, size: int) -> None:
        self._store, self._path, self._size = store, path, size
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = max(base + offset, 0)
        return self._position

    def readinto(self, buffer: Any) -> int:
        length = min(len(buffer), self._size - self._position)
        if length <= 0:
            return 0
        data = self._store.read_range(self._path, self._position, length)
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)


class _ObjectOutput(io.RawIOBase):
    """A stream whose bytes go into an upload; closing it leaves the upload open."""

    def __init__(self, store: ObjectStore, path: str, upload: Any) -> None:
        self._store, self._path, self._upload = store, path, upload
        self._position = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def write(self, data: Any) -> int:
        written = int(self._store._told(self._path, lambda: self._upload.write(bytes(data))))
        self._position += written
        return written


def _connection_option(key: str) -> str | None:
    """The option's name for obstore, None for an option of the store itself."""
    name = key.lower().removeprefix("aws_")
    return name if name in CONNECTION_OPTIONS else None
