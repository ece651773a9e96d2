"""Object stores (S3, GCS, Azure, HTTP, memory) as file stores, through obstore.

Stores with the same options share their clients. obstore tries a request ten times within half a minute, even if
there is no server at the address. Until a server has answered once, requests use a hasty client, which gives up early.
Afterwards the patient client is used, since the server may restart.

A file is created atomically by one conditional put (``If-None-Match: *``). Three things make its answer uncertain:

* If the answer to a successful put is lost, the repeated put reports that the object exists. Every call therefore
  stores a unique token in the object's metadata: the call whose token is stored created the object.
  (Comparing bytes is not enough, as two processes may create equal files.)
* A timeout says nothing. The object is looked up and the request is sent again, which is safe because of the token.
* Some S3-compatible servers accept the condition and ignore it. Each server is therefore tested once by creating the
  same object twice, and refused if it does not report an error.
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
from enum import StrEnum
from functools import cache, lru_cache, partial
from typing import TYPE_CHECKING, Any, BinaryIO, TypeAlias, cast
from urllib.parse import urlsplit

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
"""Schemes of stores that are used through their S3 interface, with ``s3://`` URLs."""
BUCKET_SCHEMES = ("s3", "s3a", "gs", "gcs", "az", "adl", "azure")
STREAM_BUFFER = 1 << 20
"""Minimum bytes that a stream fetches per request, as a request takes as long as transferring about 100 KiB."""
PLACEHOLDER = ".keep"
"""Name of the empty object that represents an empty folder."""
PART = 8 << 20
"""Bytes of one upload part, which is held in memory. S3 accepts 10,000 parts, so files can have up to 80 GB."""
PARTS_AT_ONCE = 4
CUT, CUT_TRIES = "body error", 2
"""obstore's message for a truncated answer, and the number of retries of such a read."""
DELETED_AT_ONCE = 1000
"""Objects removed by one request: S3's maximum."""

NO_BUCKET = ("NoSuchBucket", "ContainerNotFound", "The specified bucket does not exist")
"""Texts of errors of S3, OSS, Azure and GCS for a missing bucket or container."""
INSTANCE_METADATA = "://169.254.169.254/"
"""The address of a machine's metadata service in all clouds, which obstore asks if it has no credentials."""
ENDPOINTS = ("endpoint", "endpoint_url")
"""Ends of the names of options that have the URL of a server."""
BUILDER_ERROR = "builder error"
"""obstore's text if it makes no request, mostly since the endpoint is http:// and this is not allowed."""


class ObjectStore:
    """One bucket (or container). Paths are keys without a leading slash."""

    is_local = False
    checks_pages = False

    @property
    def has_urls(self) -> bool:
        """Whether Polars can open `url`, which it cannot for the memory store."""
        return not self._base_url.startswith(MEMORY)

    def __init__(self, bucket: Bucket | Clients, base_url: str, storage_options: Mapping[str, str]) -> None:
        self._clients = bucket if isinstance(bucket, Clients) else Clients.reaching(bucket)
        self._bucket = self._clients.patient
        self._base_url = base_url
        self._conditional = ConditionalPut(self._bucket, base_url, self._clients.forbidding)
        self.storage_options: Mapping[str, str] = (
            storage_options
            if isinstance(storage_options, StorageOptions)
            else StorageOptions(storage_options, base_url)
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the address without secrets, which the unpickling process finds by itself: see `morrow.secrets`."""
        if self._base_url.startswith(MEMORY):
            raise Unsupported("pickling a table in memory", where=self._base_url, hint="keep it on a disk")
        return _reopen_store, (redact_text(self._base_url), self.storage_options, self.checks_pages)

    @classmethod
    def of_url(cls, url: str, storage_options: Mapping[str, str] | None) -> ObjectStore:
        """Return the store for `url`; options missing from `storage_options` come from the environment.

        An ``http://`` endpoint is used without encryption, as in Polars.

        Raises `InvalidArgument`: no store supports the scheme, or an option is unknown.
        """
        from obstore.exceptions import BaseError

        register_secrets(storage_options, url=url)
        base = cls.base_of(url)
        if base.startswith(MEMORY):
            return cls(open_memory_bucket(base), base, {})
        options = dict(storage_options or {})
        for key, value in options.items():
            if key.lower().endswith(ENDPOINTS) and "://" not in value:
                raise InvalidArgument(
                    f"cannot open {base}: {key} = {value!r} is not a URL; write http:// or https:// before the host"
                )
        connection = {name: value for key, value in options.items() if (name := find_connection_option(key))}
        if any(key.lower().endswith(ENDPOINTS) and v.startswith("http://") for key, v in options.items()):
            connection.setdefault("allow_http", "true")
        config = {key: value for key, value in options.items() if not find_connection_option(key)}
        try:
            bucket = open_bucket(base, config, connection)
        except (BaseError, ValueError) as error:
            raise InvalidArgument(f"cannot open {base}: {to_summary(error)}; {suggest_remedy(error)}") from error
        return cls(bucket, base, options if storage_options is None else storage_options)

    @staticmethod
    def base_of(url: str) -> str:
        """Return the URL of the bucket, as readers spell it."""
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
            # Stores refuse a range that starts at or after the end; a file would return no bytes.
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
        pages = iter(self._ask(folder, lambda: self._bucket.list(folder.strip("/") + "/", chunk_size=WALKED_AT_ONCE)))
        while page := self._ask(folder, lambda: next(pages, [])):
            yield [(found["path"], _to_file_status(found)) for found in page]

    def is_dir(self, folder: str) -> bool:
        return bool(self.list(folder))

    def url(self, path: str) -> str:
        return f"{self._base_url}/{path}"

    def create(self, path: str, data: bytes) -> bool:
        return self._conditional.create(path, data)

    def write(self, path: str, data: bytes) -> None:
        self._ask_write(path, lambda: self._bucket.put(path, data))

    @contextmanager
    def output(self, path: str) -> Iterator[BinaryIO]:
        import obstore
        from obstore.exceptions import BaseError

        upload = obstore.open_writer(self._bucket, path, buffer_size=PART, max_concurrency=PARTS_AT_ONCE)
        try:
            with io.BufferedWriter(
                RangeOutput(lambda data: int(self._ask_write(path, lambda: upload.write(data)))), STREAM_BUFFER
            ) as stream:
                yield cast(BinaryIO, stream)
            self._ask_write(path, upload.close)
        except BaseException as error:
            # Leaving the block with an error aborts the upload; after a lost answer the whole object may exist.
            with suppress(BaseError, OSError):
                upload.__exit__(type(error), error, None)
            self.discard([path])
            raise

    def local_target(self, path: str) -> str | None:  # noqa: ARG002  # a bucket has no local path
        return None

    def sync(self, paths: Sequence[str]) -> None:
        """Do nothing: an object is durable once its put has been answered."""

    def delete(self, path: str) -> bool:
        if not self.exists(path):
            return False
        self._ask_write(path, lambda: self._bucket.delete(path))
        return True

    def delete_many(self, paths: Sequence[str]) -> None:
        failed: list[StorageError] = []
        for start in range(0, len(paths), DELETED_AT_ONCE):
            batch = list(paths[start : start + DELETED_AT_ONCE])
            try:
                self._ask_write(batch[0], lambda batch=batch: self._bucket.delete(batch))
            except StorageError:
                # The error does not name the object: some stores stop at an object that does not exist.
                failed += self._delete_singly(batch)
        if failed:
            raise failed[0]

    def _delete_singly(self, paths: Sequence[str]) -> Iterator[StorageError]:
        for path in paths:
            try:
                with suppress(FileMissing):
                    self._ask(path, lambda path=path: self._bucket.delete(path))
            except StorageError as error:
                yield error

    def move(self, source: str, target: str) -> None:
        self._ask(source, lambda: self._bucket.copy(source, target))
        self.delete_many([source])

    def remove_empty_folder(self, folder: str) -> bool:  # noqa: ARG002  # object stores have no folders
        return False

    def discard(self, paths: Sequence[str]) -> None:
        if paths:
            with suppress(StorageError):
                self._ask_write(paths[0], lambda: self._bucket.delete(list(paths)))

    def delete_folder(self, folder: str) -> None:
        prefix = folder.strip("/")
        if not prefix:
            raise InvalidArgument(f"{self._base_url} itself is not deleted; name a folder in it")
        listed = self._ask_write(prefix, lambda: self._bucket.list(prefix).collect())
        self._ask_write(prefix, lambda: self._bucket.delete([found["path"] for found in listed]))

    def make_folder(self, folder: str) -> None:
        """Put an empty object below the prefix, as buckets only have prefixes instead of folders."""
        self.write(f"{folder.strip('/')}/{PLACEHOLDER}", b"")

    def move_folder(self, source: str, target: str) -> None:  # noqa: ARG002  # not supported
        raise Unsupported(
            "renaming in an object store",
            where=self.url(source),
            hint="every object would be copied, and readers would see a part; write the rows into a new one",
        )

    def _read(self, path: str, ask: Callable[[Bucket], Any]) -> Any:
        """Run a read, and repeat it in two cases.

        The connection was cut within a listing or an error response, which obstore does not retry; or the hasty client
        gave up before the first answer of a reachable server.
        """
        for _ in range(CUT_TRIES):
            hasty = not self._clients.reached
            try:
                answer = self._ask(path, lambda: ask(self._clients.now))
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
        return self._ask(path, lambda: ask(self._bucket))

    def _ask_write(self, path: str, tell: Any) -> Any:
        """Run a write as `_ask` runs a read; "not found" then means that the bucket is missing."""
        try:
            return self._ask(path, tell)
        except FileMissing as error:
            cause = error.__cause__ or error
            known = explain_store_error(str(cause), self.url(path)) or f"{to_summary(cause)}; make the bucket"
            raise StorageError(f"{self.url(path)}: {known}") from error

    def _ask(self, path: str, ask: Any) -> Any:
        from obstore.exceptions import BaseError

        try:
            return ask()
        except FileNotFoundError as error:
            known = explain_store_error(str(error), self.url(path))
            raise FileMissing(self.url(path), **({"hint": known} if known else {})) from redact_error(error)
        except MorrowError:
            raise
        except (BaseError, OSError) as error:
            if (known := explain_store_error(str(error), self.url(path))) is not None:
                raise StorageError(f"{self.url(path)}: {known}") from error
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
"""Maximum number of cached clients, each with its open connections."""
Items: TypeAlias = tuple[tuple[str, str], ...]
HASTY_TRIES, HASTY_SECONDS = 3, 2
"""Retries of a hasty client, and the seconds after its first attempt in which it makes them."""
_CONNECTING = r"legacy::Error\(\s*Connect\b"
_REASON = r"message: \"([^\"]+)\"|error: \"([^\"]+)\""
_memories: dict[str, Bucket] = {}
_naming = threading.Lock()


@dataclass
class Clients:
    """The clients of one bucket; `reached`: the server has answered one of them, even if with an error.

    `forbidding` makes a client whose puts carry `FORBID_OVERWRITE`; only S3's interface is asked by it.
    """

    patient: Bucket
    hasty: Bucket
    reached: bool = False
    forbidding: Callable[[], Bucket] | None = None

    @classmethod
    def reaching(cls, bucket: Bucket) -> Clients:
        """Return `bucket` as the only client."""
        return cls(bucket, bucket, reached=True)

    @property
    def now(self) -> Bucket:
        return self.patient if self.reached else self.hasty


def find_connection_failure(error: Exception) -> str | None:
    """Return why a connection failed, to the server or to a redirect target; None for other errors."""
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
    """Return a remedy for the error of opening a store from a URL and options."""
    from obstore.exceptions import UnknownConfigurationKeyError

    if isinstance(error, UnknownConfigurationKeyError):
        return "leave the storage option out, or see morrow.open for the names that there are"
    if (twice := re.match(r"Duplicate key (\w+)", str(error))) is not None:
        return f"several storage options mean {twice[1]}: give one of them"
    return "give a path, or an s3://, gs:// or az:// URL"


def open_bucket(base: str, config: Mapping[str, str], connection: Mapping[str, str]) -> Clients:
    """Return clients of the bucket at the URL `base`, with options of the store and of its connections.

    Raises:
        obstore.exceptions.BaseError, ValueError: no store supports the URL, or an option is unknown.
    """
    return _make_clients(base, _sort_items(config), _sort_items(connection), os.getpid(), _sort_items(os.environ))


def _sort_items(options: Mapping[str, str]) -> Items:
    return tuple(sorted(options.items()))


@lru_cache(MAX_CLIENTS)
def _make_clients(base: str, config: Items, connection: Items, process: int, environment: Items) -> Clients:  # noqa: ARG001
    """Return clients, cached since their connections are open and creating clients takes milliseconds."""
    from obstore.store import from_url

    open_with = partial(from_url, base, config=cast(Any, dict(config)) or None)
    plain = partial(open_with, client_options=cast(Any, dict(connection)) or None)
    headers = {**dict(connection), "default_headers": FORBID_OVERWRITE}
    hasty: Any = {"max_retries": HASTY_TRIES, "retry_timeout": timedelta(seconds=HASTY_SECONDS)}
    forbidding = cache(partial(open_with, client_options=cast(Any, headers)))
    return Clients(plain(), plain(retry_config=hasty), forbidding=forbidding)


def open_memory_bucket(base: str) -> Bucket:
    """Return the memory store of this name, which all tables of the process share until the process ends."""
    from obstore.store import MemoryStore

    with _naming:
        return _memories.setdefault(base, MemoryStore())


TOKEN = "writer"
"""Name of the metadata field: a single word, which all stores and proxies preserve."""

ATTEMPTS = 2
HEEDS_CONDITIONS = ".amazonaws.com"
"""Suffix of AWS host names, which are not probed."""

FORBID_OVERWRITE = {"x-oss-forbid-overwrite": "true"}
"""The header by which OSS refuses to replace an object. It does not support ``If-None-Match``."""
OSS_HOSTS = ".aliyuncs.com"
"""Suffix of OSS host names, for which this header is tried first."""


class Condition(StrEnum):
    """How a server is asked to create an object only if there is none."""

    IF_NONE_MATCH = "If-None-Match"
    FORBID_OVERWRITE = "x-oss-forbid-overwrite"


_proven: dict[str, Condition] = {}
"""The condition by which a server, in this process, has proved to refuse a second creation of an object."""


class ConditionalPut:
    """Atomic creation of objects in one bucket; `base_url` names the bucket in messages.

    `forbidding` makes a client of the bucket whose puts carry `FORBID_OVERWRITE`.
    """

    def __init__(self, bucket: Bucket, base_url: str, forbidding: Callable[[], Bucket] | None = None) -> None:
        self._bucket = bucket
        self._base_url = base_url
        self._forbidding = forbidding

    def create(self, key: str, data: bytes) -> bool:
        """Create an object; return True if this call created it, False if it already existed.

        Raises:
            Unsupported: the store cannot create atomically.
            UnclearOutcome: whether the object was created is unknown.
            StorageError: the request failed; nothing was created.
        """
        return self._create(key, data, self._prove(key))

    def _create(self, key: str, data: bytes, condition: Condition) -> bool:
        from obstore import exceptions

        token = uuid.uuid4().hex
        unclear: Exception
        for _ in range(ATTEMPTS):
            try:
                self._put(key, data, token, condition)
            except (NotImplementedError, exceptions.NotSupportedError) as error:
                raise self._without_conditions(to_summary(error)) from error
            except (
                FileNotFoundError,
                exceptions.PermissionDeniedError,
                exceptions.UnauthenticatedError,
                exceptions.InvalidPathError,
            ) as error:
                raise self._make_error(key, error) from error
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

    def _put(self, key: str, data: bytes, token: str, condition: Condition) -> None:
        if condition is Condition.FORBID_OVERWRITE and self._forbidding is not None:
            self._forbidding().put(key, data, use_multipart=False, attributes={TOKEN: token})
        else:
            self._bucket.put(key, data, mode="create", use_multipart=False, attributes={TOKEN: token})

    def _token(self, key: str) -> str | None:
        """Return the token of the call that created the object: empty without a token, None without an object."""
        try:
            return self._bucket.get(key).attributes.get(TOKEN, "")
        except FileNotFoundError:
            return None

    def _prove(self, key: str) -> Condition:
        """Return a condition that the server respects, checked once per server with a probe object next to `key`."""
        server = _find_unknown_server(self._bucket)
        if server is None:
            return Condition.IF_NONE_MATCH
        if server not in _proven:
            conditions = [Condition.IF_NONE_MATCH]
            if self._forbidding is not None:
                conditions.insert(0 if _get_host(server).endswith(OSS_HOSTS) else 1, Condition.FORBID_OVERWRITE)
            respected = next((each for each in conditions if self._respects(key, each)), None)
            if respected is None:
                raise self._without_conditions("the server replaces an object that it was asked to create")
            _proven[server] = respected
        return _proven[server]

    def _respects(self, key: str, condition: Condition) -> bool:
        folder, _, name = key.rpartition("/")
        probe = f"{folder}/.{name}.{uuid.uuid4().hex}.probe".lstrip("/")
        try:
            return self._create(probe, b"", condition) and not self._create(probe, b"", condition)
        finally:
            self._forget(probe)

    def _forget(self, key: str) -> None:
        from obstore.exceptions import BaseError

        with suppress(BaseError, OSError):
            self._bucket.delete(key)

    def _make_error(self, key: str, error: Exception) -> StorageError:
        where = f"{self._base_url}/{key}"
        known = explain_store_error(str(error), where)
        advice = "check the address, the credentials and their permissions"
        return StorageError(f"{where}: {known or f'{to_summary(error)}; {advice}'}")

    def _without_conditions(self, why: str) -> Unsupported:
        return Unsupported(
            "committing without conditional put",
            where=f"{self._base_url} ({why})",
            hint="commits of others would be lost; allow conditional puts ('aws_conditional_put': 'etag'), use a "
            "newer server that heeds If-None-Match or x-oss-forbid-overwrite, or keep the table elsewhere",
        )


def to_summary(error: BaseException) -> str:
    """Return the message without the structures that obstore prints below it, and remove secrets from the error."""
    return (str(redact_error(error)).strip().splitlines() or [type(error).__name__])[0]


def explain_store_error(message: str, url: str) -> str | None:
    """Return what is wrong and what to do, for a store's errors that do not say so; None for others."""
    if any(code in message for code in NO_BUCKET):
        bucket = urlsplit(url).netloc.rpartition("@")[2]
        return f"there is no bucket {bucket!r}; create it, or check its name and the endpoint"
    if INSTANCE_METADATA in message:
        return (
            "no credentials were given, and this machine's metadata service has none; "
            "give storage_options, or set the environment variables of the store"
        )
    if BUILDER_ERROR in message:
        what = "storage_options={'allow_http': 'true'} or AWS_ALLOW_HTTP=true"
        return f"the client refuses the address: an http:// endpoint needs allow_http ({what})"
    return None


def make_name_error(url: str, error: ValueError) -> InvalidArgument:
    """Return the error for an invalid object name, which obstore refuses."""
    return InvalidArgument(
        f"{escape_to_line(url)}: no object has such a name: {escape_to_line(str(error)).partition(': ')[2]}"
    )


def _find_unknown_server(bucket: Any) -> str | None:
    """Return the endpoint of an S3-compatible server; None for stores that are known to respect conditions."""
    from obstore.store import S3Store

    if not isinstance(bucket, S3Store):
        return None
    endpoint = str(bucket.config.get("endpoint") or "")
    return None if not endpoint or _get_host(endpoint).endswith(HEEDS_CONDITIONS) else endpoint


def _get_host(endpoint: str) -> str:
    return endpoint.partition("://")[2].partition("/")[0].partition(":")[0]
