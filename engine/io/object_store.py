"""Object stores (S3, GCS, Azure, HTTP, memory) as file stores, through obstore.

Stores with the same options share their clients. obstore tries a request ten times within half a minute, even if
no server is at the address. A server that has not yet answered is therefore asked by a hasty client, which gives
up soon. A server that has answered may restart, so the patient client waits for it.

A file is created atomically by one conditional put (``If-None-Match: *``). Three things make its answer uncertain:

* A put that was carried out and whose answer was lost is reported as "exists" when it is sent again. Every call
  therefore leaves a unique token in the object's metadata: the call whose token is there created the object.
  (The bytes alone do not tell: two processes may create equal files.)
* A timeout says nothing. The object is looked up and the request sent once more, which the token makes harmless.
* Some S3-compatible servers accept the condition and ignore it. Each of those is asked once to create the same
  object twice, and refused when it does.
"""

from __future__ import annotations

import io
import os
import re
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, BinaryIO, TypeAlias, cast

from morrow.engine.errors import FileMissing, InvalidArgument, MorrowError, StorageError, UnclearOutcome, Unsupported
from morrow.engine.io.secrets import StorageOptions
from morrow.engine.io.storage_options import find_connection_option
from morrow.engine.io.store import WALKED_AT_ONCE, FileStatus, RangeInput, RangeOutput, Walk
from morrow.engine.redaction import escape_to_line, redact_error, redact_text, register_secrets
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
        return _reopen_store, (redact_text(self._base_url), self.storage_options, self.checks_pages)

    @classmethod
    def of_url(cls, url: str, storage_options: Mapping[str, str] | None) -> ObjectStore:
        """Return the store that serves `url`; options that `storage_options` lacks come from the environment.

        An endpoint that is given as ``http://`` is used without encryption, as in Polars.

        Raises:
            InvalidArgument: no store serves the scheme, or it does not know an option.
        """
        from obstore.exceptions import BaseError

        register_secrets(storage_options, url=url)
        base = cls.base_of(url)
        if base.startswith(MEMORY):
            return cls(open_memory_bucket(base), base, {})
        options = dict(storage_options or {})
        connection = {name: value for key, value in options.items() if (name := find_connection_option(key))}
        if any(key.endswith(("endpoint", "endpoint_url")) and v.startswith("http://") for key, v in options.items()):
            connection.setdefault("allow_http", "true")
        config = {key: value for key, value in options.items() if not find_connection_option(key)}
        try:
            bucket = open_bucket(base, config, connection)
        except (BaseError, ValueError) as error:
            raise InvalidArgument(f"cannot open {base}: {to_summary(error)}; {suggest_remedy(error)}") from error
        return cls(bucket, base, options if storage_options is None else storage_options)

    @staticmethod
    def base_of(url: str) -> str:
        """Return the URL of the bucket, as those who read it spell it."""
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
        files = [_to_file_status(found) for found in listed["objects"]]
        folders = [FileStatus(p.rstrip("/").rsplit("/", 1)[-1], 0, 0, is_dir=True) for p in listed["common_prefixes"]]
        return files + folders

    def walk(self, folder: str) -> Walk:
        pages = iter(self._asked(folder, lambda: self._bucket.list(folder.strip("/") + "/", chunk_size=WALKED_AT_ONCE)))
        while page := self._asked(folder, lambda: next(pages, [])):
            yield [(found["path"], _to_file_status(found)) for found in page]

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
        """Do nothing: an object is durable when its put is answered."""

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
        """Put an empty object below the prefix: buckets have no folders, only common prefixes of names."""
        self.write(f"{folder.strip('/')}/{PLACEHOLDER}", b"")

    def move_folder(self, source: str, target: str) -> None:  # noqa: ARG002  # not supported
        raise Unsupported(
            "renaming in an object store",
            where=self.url(source),
            hint="every object would be copied, and readers would see a part; write the rows into a new one",
        )

    def _read(self, path: str, ask: Callable[[Bucket], Any]) -> Any:
        """Run a read, again where the connection was cut in the middle of a listing or of an error, which obstore
        does not ask for again; and where a hasty client gave up before the first answer, though somebody is there."""
        for _ in range(CUT_TRIES):
            hasty = not self._clients.reached
            try:
                answer = self._asked(path, lambda: ask(self._clients.now))
            except FileMissing:
                self._clients.reached = True
                raise
            except StorageError as error:
                away = isinstance(error.__cause__, Exception) and find_connection_failure(error.__cause__)
                self._clients.reached = self._clients.reached or not away
                if away or not (hasty or CUT in str(error)):
                    raise
            else:
                self._clients.reached = True
                return answer
        return self._asked(path, lambda: ask(self._bucket))

    def _told(self, path: str, tell: Any) -> Any:
        """Run a write as `_asked` runs a read; "not found" means the bucket here."""
        try:
            return self._asked(path, tell)
        except FileMissing as error:
            raise StorageError(f"{self.url(path)}: {to_summary(error.__cause__ or error)}; make the bucket") from error

    def _asked(self, path: str, ask: Any) -> Any:
        from obstore.exceptions import BaseError

        try:
            return ask()
        except FileNotFoundError as error:
            raise FileMissing(self.url(path)) from redact_error(error)
        except MorrowError:
            raise
        except (BaseError, OSError) as error:
            away = find_connection_failure(error)
            what = f" ({away})" if away else ""
            raise StorageError(f"{self.url(path)}: {to_summary(error)}{what}; {self._what_to_do()}") from error
        except ValueError as error:  # a control character
            raise make_name_error(self.url(path), error) from None

    def _what_to_do(self) -> str:
        withheld = getattr(self.storage_options, "withheld", ())
        if not withheld:
            return "check the address and the credentials"
        return (
            f"the options {', '.join(withheld)} were left out when this was pickled: set the environment variables of "
            "the store in this process, or register a resolver, see morrow.secrets"
        )


def _reopen_store(base_url: str, options: Mapping[str, str], checks_pages: bool) -> ObjectStore:
    store = ObjectStore.of_url(base_url, options)
    store.checks_pages = checks_pages
    return store


def _to_file_status(found: ObjectMeta) -> FileStatus:
    name = found["path"].rsplit("/", 1)[-1]
    return FileStatus(name, found["size"], int(found["last_modified"].timestamp() * MILLIS_PER_SECOND))


MAX_CLIENTS = 16
"""Clients that are kept, each with its open connections."""
Items: TypeAlias = tuple[tuple[str, str], ...]
HASTY_TRIES, HASTY_SECONDS = 3, 2
"""How often, and how long after its first try, a hasty client sends a request again."""
_CONNECTING = r"legacy::Error\(\s*Connect\b"
_REASON = r"message: \"([^\"]+)\"|error: \"([^\"]+)\""
_memories: dict[str, Bucket] = {}
_naming = threading.Lock()


@dataclass
class Clients:
    """Those of one bucket; `reached`: the server has answered one of them, whatever it said."""

    patient: Bucket
    hasty: Bucket
    reached: bool = False

    @classmethod
    def reaching(cls, bucket: Bucket) -> Clients:
        """Return a client that needs no other."""
        return cls(bucket, bucket, reached=True)

    @property
    def now(self) -> Bucket:
        return self.patient if self.reached else self.hasty


def find_connection_failure(error: Exception) -> str | None:
    """Return why there was no connection to the server, or to one that it redirects to; None for other errors."""
    text = str(error)
    if re.search(_CONNECTING, text) is None:
        return None
    reason = re.search(_REASON, text)
    at = re.search(r"\"tcp connect error\",\s*([^\s,]+),", text)
    why = "no answer in time" if "TimedOut" in text else "no connection"
    if reason is not None:
        why = reason[1] or reason[2]
    return f"{at[1]}: {why}" if at else why


def suggest_remedy(error: Exception) -> str:
    """Return what helps where no store can be made of a URL and its options."""
    from obstore.exceptions import UnknownConfigurationKeyError

    if isinstance(error, UnknownConfigurationKeyError):
        return "leave the storage option out, or see morrow.open for the names that there are"
    if (twice := re.match(r"Duplicate key (\w+)", str(error))) is not None:
        return f"several storage options mean {twice[1]}: give one of them"
    return "give a path, or an s3://, gs:// or az:// URL"


def open_bucket(base: str, config: Mapping[str, str], connection: Mapping[str, str]) -> Clients:
    """Return clients of the bucket at the URL `base`, with options of the store and of its connections.

    Raises:
        obstore.exceptions.BaseError, ValueError: no store serves the URL, or it does not know an option.
    """
    return _make_clients(base, _sort_items(config), _sort_items(connection), os.getpid(), _sort_items(os.environ))


def _sort_items(options: Mapping[str, str]) -> Items:
    return tuple(sorted(options.items()))


@lru_cache(MAX_CLIENTS)
def _make_clients(base: str, config: Items, connection: Items, process: int, environment: Items) -> Clients:  # noqa: ARG001
    """Return clients, the same ones for the same options in the same environment: their connections are open already,
    and making one takes some milliseconds."""
    from obstore.store import from_url

    made = partial(
        from_url, base, config=cast(Any, dict(config)) or None, client_options=cast(Any, dict(connection)) or None
    )
    hasty: Any = {"max_retries": HASTY_TRIES, "retry_timeout": timedelta(seconds=HASTY_SECONDS)}
    return Clients(made(), made(retry_config=hasty))


def open_memory_bucket(base: str) -> Bucket:
    """Return the memory of a name: it lasts as long as the process, which all tables in it share."""
    from obstore.store import MemoryStore

    with _naming:
        return _memories.setdefault(base, MemoryStore())


TOKEN = "writer"
"""Name of the metadata field: a single word, which every store and proxy passes on."""

ATTEMPTS = 2
HEEDS_CONDITIONS = ".amazonaws.com"
"""Suffix of the host names of AWS, which are not probed."""

_proven: set[str] = set()
"""Servers that have refused the second creation of an object to this process."""


class ConditionalPut:
    """Creates objects of one bucket; `base_url` names it in messages."""

    def __init__(self, bucket: Bucket, base_url: str) -> None:
        self._bucket = bucket
        self._base_url = base_url

    def create(self, key: str, data: bytes) -> bool:
        """Return True if this call created the object, False if another one did.

        Raises:
            Unsupported: the store cannot create atomically.
            UnclearOutcome: whether the object was created is unknown.
            StorageError: refused; nothing was created.
        """
        self._prove(key)
        return self._created(key, data)

    def _created(self, key: str, data: bytes) -> bool:
        from obstore import exceptions

        token = uuid.uuid4().hex
        unclear: Exception
        for _ in range(ATTEMPTS):
            try:
                self._bucket.put(key, data, mode="create", use_multipart=False, attributes={TOKEN: token})
            except (NotImplementedError, exceptions.NotSupportedError) as error:
                raise self._without_conditions(to_summary(error)) from error
            except (
                FileNotFoundError,
                exceptions.PermissionDeniedError,
                exceptions.UnauthenticatedError,
                exceptions.InvalidPathError,
            ) as error:
                raise self._failed(key, error) from error
            except (exceptions.BaseError, OSError) as error:
                unclear = error
            except ValueError as error:  # a control character
                raise make_name_error(f"{self._base_url}/{key}", error) from None
            else:
                return True
            try:
                found = self._token(key)
            except (exceptions.BaseError, OSError) as error:
                unclear = error
                continue
            if found is not None:
                return found == token
        raise UnclearOutcome(
            f"{self._base_url}/{key}: {to_summary(unclear)}; whether the object was created is not known, look for it"
        ) from unclear

    def _token(self, key: str) -> str | None:
        """Return the token of the call that created the object: empty when absent, None when there is no object."""
        try:
            return self._bucket.get(key).attributes.get(TOKEN, "")
        except FileNotFoundError:
            return None

    def _prove(self, key: str) -> None:
        """Check that the server heeds the condition, once per server; the probe object lies beside `key`."""
        server = _find_unknown_server(self._bucket)
        if server is None or server in _proven:
            return
        folder, _, name = key.rpartition("/")
        probe = f"{folder}/.{name}.{uuid.uuid4().hex}.probe".lstrip("/")
        try:
            heeds = self._created(probe, b"") and not self._created(probe, b"")
        finally:
            self._forget(probe)
        if not heeds:
            raise self._without_conditions("the server replaces an object that it was asked to create")
        _proven.add(server)

    def _forget(self, key: str) -> None:
        from obstore.exceptions import BaseError

        with suppress(BaseError, OSError):
            self._bucket.delete(key)

    def _failed(self, key: str, error: Exception) -> StorageError:
        return StorageError(
            f"{self._base_url}/{key}: {to_summary(error)}; check the address, the credentials and their permissions"
        )

    def _without_conditions(self, why: str) -> Unsupported:
        return Unsupported(
            "committing without conditional put",
            where=f"{self._base_url} ({why})",
            hint="commits of others would be lost; allow conditional puts ('aws_conditional_put': 'etag'), use a "
            "newer server that heeds If-None-Match, or keep the table elsewhere",
        )


def to_summary(error: BaseException) -> str:
    """Return the message without the structures that obstore prints below it; the error loses its secrets."""
    return (str(redact_error(error)).strip().splitlines() or [type(error).__name__])[0]


def make_name_error(url: str, error: ValueError) -> InvalidArgument:
    """Return the error for a name that no object can have, which obstore refuses."""
    return InvalidArgument(
        f"{escape_to_line(url)}: no object has such a name: {escape_to_line(str(error)).partition(': ')[2]}"
    )


def _find_unknown_server(bucket: Any) -> str | None:
    """Return the endpoint of an S3-compatible server; None for stores that are known to heed conditions."""
    from obstore.store import S3Store

    if not isinstance(bucket, S3Store):
        return None
    endpoint = str(bucket.config.get("endpoint") or "")
    host = endpoint.partition("://")[2].partition("/")[0].partition(":")[0]
    return None if not endpoint or host.endswith(HEEDS_CONDITIONS) else endpoint
