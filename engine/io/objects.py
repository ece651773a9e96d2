"""Object stores (S3, GCS, Azure, HTTP, memory) as file stores, through obstore."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from morrow.engine.errors import FileMissing, InvalidArgument, MorrowError, StorageError, Unsupported
from morrow.engine.io.buckets import Clients, bucket_of, how_to_open, memory_bucket, unconnected
from morrow.engine.io.conditional_put import ConditionalPut, first_line, no_such_name
from morrow.engine.io.range_streams import RangeInput, RangeOutput
from morrow.engine.io.secrets import StorageOptions
from morrow.engine.io.spellings import connection_option
from morrow.engine.io.store import WALKED_AT_ONCE, FileStatus, Walk
from morrow.engine.telling import harmless, redacted, remember
from morrow.engine.units import MILLIS_PER_SECOND

if TYPE_CHECKING:
    from obstore import ObjectMeta
    from obstore.store import ObjectStore as Bucket

MEMORY = "memory:"
S3 = "s3"
SPOKEN_TO_AS_S3 = ("oss", "s3n")
"""Schemes of stores that are asked by their S3 interface, and whose URLs are those of S3 for all who read."""
BUCKET_SCHEMES = ("s3", "s3a", "gs", "gcs", "az", "adl", "azure")
STREAM_BUFFER = 1 << 20
"""The fewest bytes that a read of a stream fetches: a request takes as long as transferring some 100 KiB."""
PLACEHOLDER = ".keep"
"""Name of the empty object that stands for an empty folder."""
PART = 8 << 20
"""Bytes of one part of an upload, the unit held in memory; S3 accepts 10,000 parts, so files up to 80 GB."""
PARTS_AT_ONCE = 4
CUT, CUT_TRIES = "body error", 2
"""What obstore says of an answer that ended too early, and how often more such a read is tried."""
DELETED_AT_ONCE = 1000
"""Objects removed by one request, the most that S3 accepts."""


class ObjectStore:
    """One bucket (or container). Paths are keys without a leading slash."""

    is_local = False
    checks_pages = False

    @property
    def has_urls(self) -> bool:
        """Whether Polars can open `url`: memory is this process's alone."""
        return not self._base_url.startswith(MEMORY)

    def __init__(self, bucket: Bucket | Clients, base_url: str, storage_options: Mapping[str, str]) -> None:
        self._clients = bucket if isinstance(bucket, Clients) else Clients.reaching(bucket)
        self._bucket = self._clients.patient
        self._base_url = base_url
        self._conditional = ConditionalPut(self._bucket, base_url)
        self.storage_options: Mapping[str, str] = (
            storage_options
            if isinstance(storage_options, StorageOptions)
            else StorageOptions(storage_options, base_url)
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles the address without secrets, which the unpickling process finds by itself: see `morrow.secrets`."""
        if self._base_url.startswith(MEMORY):
            raise Unsupported("pickling a table in memory", where=self._base_url, hint="keep it on a disk")
        return _opened_again, (redacted(self._base_url), self.storage_options, self.checks_pages)

    @classmethod
    def of_url(cls, url: str, storage_options: Mapping[str, str] | None) -> ObjectStore:
        """Returns the store that serves `url`; options that `storage_options` lacks come from the environment.

        An endpoint that is given as ``http://`` is used without encryption, as in Polars.

        Raises:
            InvalidArgument: no store serves the scheme, or it does not know an option.
        """
        from obstore.exceptions import BaseError

        remember(storage_options, url=url)
        base = cls.base_of(url)
        if base.startswith(MEMORY):
            return cls(memory_bucket(base), base, {})
        options = dict(storage_options or {})
        connection = {name: value for key, value in options.items() if (name := connection_option(key))}
        if any(key.endswith(("endpoint", "endpoint_url")) and v.startswith("http://") for key, v in options.items()):
            connection.setdefault("allow_http", "true")
        config = {key: value for key, value in options.items() if not connection_option(key)}
        try:
            bucket = bucket_of(base, config, connection)
        except (BaseError, ValueError) as error:
            raise InvalidArgument(f"cannot open {base}: {first_line(error)}; {how_to_open(error)}") from error
        return cls(bucket, base, options if storage_options is None else storage_options)

    @staticmethod
    def base_of(url: str) -> str:
        """Returns the URL of the bucket, as those who read it spell it."""
        scheme, _, rest = url.partition("://")
        host = rest.partition("/")[0]
        if scheme.lower() in BUCKET_SCHEMES and ":" in host.rpartition("@")[0]:
            host = host.rpartition("@")[2]  # none of these stores accepts a password there
        return f"{S3 if scheme.lower() in SPOKEN_TO_AS_S3 else scheme}://{host}"

    def read(self, path: str) -> bytes:
        return bytes(self._read(path, lambda bucket: bucket.get(path).bytes()))

    def read_range(self, path: str, start: int, length: int) -> bytes:
        try:
            return bytes(self._read(path, lambda bucket: bucket.get_range(path, start=start, length=length)))
        except StorageError:
            # Stores refuse a range that starts at or after the end; a file just has no more bytes there.
            size = self.size(path)
            if size is not None and start >= size:
                return b""
            raise

    def open(self, path: str) -> BinaryIO:
        size = self.size(path)
        if size is None:
            raise FileMissing(self.url(path))
        return io.BufferedReader(RangeInput(partial(self.read_range, path), size), STREAM_BUFFER)

    def size(self, path: str) -> int | None:
        try:
            return int(self._read(path, lambda bucket: bucket.head(path))["size"])
        except FileMissing:
            return None

    def exists(self, path: str) -> bool:
        return self.size(path) is not None

    def list(self, folder: str) -> list[FileStatus]:
        listed = self._read(folder, lambda bucket: bucket.list_with_delimiter(folder.rstrip("/") + "/"))
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
            with io.BufferedWriter(
                RangeOutput(lambda data: int(self._told(path, lambda: upload.write(data)))), STREAM_BUFFER
            ) as stream:
                yield cast(BinaryIO, stream)
            self._told(path, upload.close)
        except BaseException as error:
            # Leaving it with an error aborts the parts; after a lost answer the whole object may exist.
            with suppress(BaseError, OSError):
                upload.__exit__(type(error), error, None)
            self.discard([path])
            raise

    def local_target(self, path: str) -> str | None:  # noqa: ARG002  # a bucket has no local path
        return None

    def sync(self, paths: Sequence[str]) -> None:
        """Does nothing: an object is durable when its put is answered."""

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
                # The answer does not name the object: some stores give up at one that is gone already.
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

    def remove_empty_folder(self, folder: str) -> bool:  # noqa: ARG002  # object stores have no folders
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
        """Puts an empty object below the prefix: buckets have no folders, only common prefixes of names."""
        self.write(f"{folder.strip('/')}/{PLACEHOLDER}", b"")

    def move_folder(self, source: str, target: str) -> None:  # noqa: ARG002  # not supported
        raise Unsupported(
            "renaming in an object store",
            where=self.url(source),
            hint="every object would be copied, and readers would see a part; write the rows into a new one",
        )

    def _read(self, path: str, ask: Callable[[Bucket], Any]) -> Any:
        """Runs a read, again where the connection was cut in the middle of a listing or of an error, which obstore
        does not ask for again; and where a hasty client gave up before the first answer, though somebody is there."""
        for _ in range(CUT_TRIES):
            hasty = not self._clients.reached
            try:
                answer = self._asked(path, lambda: ask(self._clients.now))
            except FileMissing:
                self._clients.reached = True
                raise
            except StorageError as error:
                away = isinstance(error.__cause__, Exception) and unconnected(error.__cause__)
                self._clients.reached = self._clients.reached or not away
                if away or not (hasty or CUT in str(error)):
                    raise
            else:
                self._clients.reached = True
                return answer
        return self._asked(path, lambda: ask(self._bucket))

    def _told(self, path: str, tell: Any) -> Any:
        """Runs a write as `_asked` runs a read; "not found" means the bucket here."""
        try:
            return self._asked(path, tell)
        except FileMissing as error:
            raise StorageError(f"{self.url(path)}: {first_line(error.__cause__ or error)}; make the bucket") from error

    def _asked(self, path: str, ask: Any) -> Any:
        from obstore.exceptions import BaseError

        try:
            return ask()
        except FileNotFoundError as error:
            raise FileMissing(self.url(path)) from harmless(error)
        except MorrowError:
            raise
        except (BaseError, OSError) as error:
            away = unconnected(error)
            what = f" ({away})" if away else ""
            raise StorageError(f"{self.url(path)}: {first_line(error)}{what}; {self._what_to_do()}") from error
        except ValueError as error:  # a control character
            raise no_such_name(self.url(path), error) from None

    def _what_to_do(self) -> str:
        withheld = getattr(self.storage_options, "withheld", ())
        if not withheld:
            return "check the address and the credentials"
        return (
            f"the options {', '.join(withheld)} were left out when this was pickled: set the environment variables of "
            "the store in this process, or register a resolver, see morrow.secrets"
        )


def _opened_again(base_url: str, options: Mapping[str, str], checks_pages: bool) -> ObjectStore:
    store = ObjectStore.of_url(base_url, options)
    store.checks_pages = checks_pages
    return store


def _file_status(found: ObjectMeta) -> FileStatus:
    name = found["path"].rsplit("/", 1)[-1]
    return FileStatus(name, found["size"], int(found["last_modified"].timestamp() * MILLIS_PER_SECOND))
