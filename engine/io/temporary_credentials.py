"""Stores with temporary credentials, of S3 roles (from STS) or from a catalog.

Both are requested again before they expire.

The options of a store may have a role, together with the credentials with which it is assumed. Without credentials,
boto3 looks in the environment, in AWS's files and at the machine:

==================================================  ===========================================================
``aws_assumed_role_arn``                            the role
``aws_assumed_role_session_name``                   what STS calls the session, else ``morrow``
``aws_assumed_role_duration``                       for how long, from ``15m`` to ``12h``; else ``30m``
``aws_assumed_role_external_id``, ``.._policy``     as STS has them
``aws_assumed_role_sts_endpoint``, ``.._sts_region``  the STS that is asked, else that of the store's region
==================================================  ===========================================================
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeAlias, cast

from morrow.engine.errors import InvalidArgument, StorageError
from morrow.engine.io.object_store import ObjectStore
from morrow.engine.io.secrets import StorageOptions
from morrow.engine.io.storage_options import KEYS, ROLE_PREFIX, TOKEN, parse_duration
from morrow.engine.io.store import FileStore
from morrow.engine.plugins import require_extra
from morrow.engine.redaction import register_secrets, suggest_name
from morrow.engine.units import MILLIS_PER_SECOND

Lend: TypeAlias = Callable[[], tuple[FileStore, float]]
"""A function that returns a store, and the expiry of its credentials in epoch milliseconds."""

SAFE_SECONDS = 3600.0
"""Credentials are renewed this long before they expire, or after half of their lifetime if it is short."""


class RenewedStore:
    """A `FileStore` with the latest credentials. It is pickled without them: the other process requests them again."""

    def __init__(self, lend: Lend) -> None:
        self._lend = lend
        self._start()

    def _start(self) -> None:
        self._lock = threading.Lock()
        self._store: FileStore | None = None
        self._until = self._ends = 0.0

    def __getstate__(self) -> Any:
        return self._lend

    def __setstate__(self, lend: Any) -> None:
        self._lend = lend
        self._start()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # looked up by pickle and copy before there is a store
            raise AttributeError(name)
        return getattr(self._current(), name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RenewedStore) and self._lend == other._lend

    def __hash__(self) -> int:
        return hash(self._lend)

    def _current(self) -> FileStore:
        with self._lock:
            now = time.time()
            if self._store is None or now >= self._ends:
                self._renew(now)
            elif now >= self._until:
                try:
                    self._renew(now)
                except StorageError:  # the current credentials are still valid
                    self._until = now + (self._ends - now) / 2
            return cast(FileStore, self._store)

    def _renew(self, now: float) -> None:
        self._store, ends = self._lend()
        self._ends = ends / MILLIS_PER_SECOND
        left = self._ends - now
        self._until = now + max(left - SAFE_SECONDS, left / 2)


def make_renewed_store(lend: Lend) -> FileStore:
    """Return a store with credentials that are renewed."""
    return cast(FileStore, RenewedStore(lend))


ARN, SESSION_NAME, DURATION = f"{ROLE_PREFIX}arn", f"{ROLE_PREFIX}session_name", f"{ROLE_PREFIX}duration"
EXTERNAL_ID, POLICY = f"{ROLE_PREFIX}external_id", f"{ROLE_PREFIX}policy"
ENDPOINT, REGION = f"{ROLE_PREFIX}sts_endpoint", f"{ROLE_PREFIX}sts_region"
NAMES = (ARN, SESSION_NAME, DURATION, EXTERNAL_ID, POLICY, ENDPOINT, REGION)
HADOOPS_DURATION = "30m"
ANYWHERE = "us-east-1"
TRIES, CONNECT_SECONDS, READ_SECONDS = 5, 10, 30
MAX_CACHED_CREDENTIALS = 64

_cached: dict[tuple[object, ...], tuple[dict[str, str], float, float]] = {}
"""Credentials that STS gave this process, with their expiry and the time when half of their lifetime is over."""
_asking = threading.Lock()


def _reset_after_fork() -> None:
    global _asking
    _asking = threading.Lock()  # another thread of the parent may have held it


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_after_fork)


class RoleStore(RenewedStore):
    """A bucket that is accessed in a role. It is pickled with the role, without the credentials that assume it."""

    checks_pages = False

    def __init__(self, base_url: str, options: StorageOptions) -> None:
        self.storage_options = options
        super().__init__(Assumed(base_url, options))

    def __getstate__(self) -> Any:
        return super().__getstate__(), self.checks_pages

    def __setstate__(self, state: Any) -> None:
        lend, self.checks_pages = state
        self.storage_options = lend.options
        super().__setstate__(lend)

    @property
    def url_options(self) -> Mapping[str, str]:
        """The options with which Polars can currently open the store's URLs."""
        return self._current().storage_options


class Assumed:
    """The function of a `RenewedStore` that opens a store with the credentials of a role."""

    def __init__(self, base_url: str, options: StorageOptions) -> None:
        self.base_url, self.options = base_url, options

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Assumed) and (self.base_url, self.options) == (other.base_url, other.options)

    def __hash__(self) -> int:
        return hash((self.base_url, *sorted(self.options.items())))

    def __call__(self) -> tuple[FileStore, float]:
        lent, ends = _get_credentials(self.options, self.base_url)
        others = {name: value for name, value in self.options.items() if not name.startswith(ROLE_PREFIX)}
        return ObjectStore.of_url(self.base_url, {**others, **lent}), ends * MILLIS_PER_SECOND


def open_with_role(url: str, options: Mapping[str, str]) -> RoleStore:
    """Return the store of a URL, accessed in a role.

    Raises `InvalidArgument`: an unknown role option, or an invalid value. `Unsupported`: boto3 is not installed.
    """
    for name in options:
        if name.startswith(ROLE_PREFIX) and name not in NAMES:
            known = ", ".join(NAMES)
            raise InvalidArgument(
                f"the storage option {name!r} is not known; {suggest_name(name, NAMES)}known are {known}"
            )
    if not options.get(ARN, "").strip():
        raise InvalidArgument(f"{', '.join(n for n in NAMES if n in options)} needs the storage option {ARN!r}")
    parse_duration(options.get(DURATION, HADOOPS_DURATION), DURATION)
    register_secrets(options, url=url)
    with require_extra("assuming a role of S3", "boto3", "aws"):
        import boto3  # noqa: F401
    ObjectStore.of_url(url, {name: value for name, value in options.items() if not name.startswith(ROLE_PREFIX)})
    base = ObjectStore.base_of(url)
    return RoleStore(base, options if isinstance(options, StorageOptions) else StorageOptions(options, base))


def _get_credentials(options: Mapping[str, str], where: str) -> tuple[dict[str, str], float]:
    """Return credentials of the role and their expiry (epoch seconds); requested again after half of their lifetime."""
    key = (os.getpid(), *sorted(options.items()), *sorted(n for n in os.environ.items() if n[0].startswith("AWS_")))
    with _asking:
        lent, ends, half = _cached.get(key, ({}, 0.0, 0.0))
        if time.time() >= half:
            lent, ends = _request_credentials(options, where)
            register_secrets(lent)
            while len(_cached) >= MAX_CACHED_CREDENTIALS:
                del _cached[next(iter(_cached))]
            now = time.time()
            _cached[key] = (lent, ends, now + (ends - now) / 2)
        return lent, ends


def _request_credentials(options: Mapping[str, str], where: str) -> tuple[dict[str, str], float]:
    """Request credentials from STS. Raises `StorageError` if STS refuses or cannot be reached."""
    role = options[ARN]
    asked: dict[str, Any] = {
        "RoleArn": role,
        "RoleSessionName": options.get(SESSION_NAME, "morrow"),
        "DurationSeconds": parse_duration(options.get(DURATION, HADOOPS_DURATION), DURATION),
    }
    asked |= {name: options[of] for name, of in (("ExternalId", EXTERNAL_ID), ("Policy", POLICY)) if of in options}
    with _explain_sts_errors(f"{where}: the role {role} was not assumed"):
        found = _make_sts_client(options).assume_role(**asked).get("Credentials") or {}
        lent = [found.get(name) for name in ("AccessKeyId", "SecretAccessKey", "SessionToken")]
        ends = found.get("Expiration")
        if not all(isinstance(each, str) and each for each in lent) or ends is None:
            raise StorageError(f"{where}: STS answered without credentials for {role}; check {ENDPOINT}")
        return dict(zip((*KEYS, TOKEN), map(str, lent), strict=True)), float(ends.timestamp())


def _make_sts_client(options: Mapping[str, str]) -> Any:
    import boto3
    from botocore.config import Config

    given = dict(zip((*KEYS, TOKEN), ("aws_access_key_id", "aws_secret_access_key", "aws_session_token"), strict=True))
    session = boto3.session.Session(**{name: options[of] for of, name in given.items() if of in options})
    endpoint = options.get(ENDPOINT, "").strip()
    retries: Any = {"mode": "standard", "total_max_attempts": TRIES}
    proxy = options.get("proxy_url")
    return session.client(
        "sts",
        region_name=options.get(REGION) or options.get("aws_region") or session.region_name or ANYWHERE,
        endpoint_url=(endpoint if "://" in endpoint else f"https://{endpoint}") if endpoint else None,
        verify=False if options.get("allow_invalid_certificates") == "true" else None,
        config=Config(
            retries=retries,
            connect_timeout=CONNECT_SECONDS,
            read_timeout=READ_SECONDS,
            proxies={"http": proxy, "https": proxy} if proxy else None,
        ),
    )


@contextmanager
def _explain_sts_errors(what: str) -> Iterator[None]:
    from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError, ParamValidationError
    from botocore.parsers import ResponseParserError

    try:
        yield
    except (NoCredentialsError, ParamValidationError) as error:
        raise InvalidArgument(f"{what}: {_join_lines(error)}; docs/stores.md has the options of a role") from error
    except (ResponseParserError, LookupError, AttributeError) as error:  # boto3 cannot parse the answer
        raise StorageError(f"{what}: no STS answers there ({_join_lines(error)}); check {ENDPOINT}") from error
    except (BotoCoreError, ClientError, ValueError) as error:
        raise StorageError(
            f"{what}: {_join_lines(error)}; check the role, its trust policy, and who assumes it"
        ) from error


def _join_lines(error: Exception) -> str:
    return " ".join(str(error).split())
