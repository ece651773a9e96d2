"""Requests to a REST server: paths, authorization, pages, retries, and refusals as values.

A request to a busy server (429, 503) is repeated after the time that the server names, or after a growing pause. So is
a request whose connection was cut. It is then unknown whether the first request was carried out: the `Refusal` of a
later attempt says so, and the sender looks for the result of the request.

Requests are authorized by a bearer token, or by signatures of Alibaba's DLF: ``DLF4-HMAC-SHA256`` for DLF hosts, and
``HMAC-SHA1`` for the hosts ``dlfnext...``. Both sign the method, the path, the sorted parameters and a digest of the
body, with a key that may have a security token.
"""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import hmac
import json
import math
import os
import random
import re
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from email.utils import format_datetime, parsedate_to_datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import quote, quote_plus, unquote_plus, urlencode, urlsplit

from morrow.engine.catalog.settings import URI, Settings
from morrow.engine.errors import InvalidArgument, StorageError, UnclearOutcome, Unsupported
from morrow.engine.options.declarations import TEXT, declare_honoured, make_choice
from morrow.engine.plugins import require_extra
from morrow.engine.redaction import redact_text, register_secrets

if TYPE_CHECKING:
    import urllib3

VERSION = "v1"
HEADER = "header."
"""The prefix of options that become headers of every request."""
MAX_TRIES = 6
FIRST_WAIT, LONGEST_WAIT, JITTER = 0.5, 64.0, 0.1
"""Seconds before a retry, doubled each time up to the maximum. A longer ``Retry-After`` counts as a failure."""
CONNECT_SECONDS, READ_SECONDS = 5.0, 180.0
MAX_CONNECTIONS = 3
"""Maximum attempts if no server has ever answered. If one has, it may be restarting, so more attempts are made."""
MAX_PAGES = 100_000
"""Maximum pages of one list. A server that sends more repeats itself or invents names."""
BUSY = (429, 503)
NOT_IMPLEMENTED = 501
STEPS = ("", ".", "..")
"""Path segments that are not valid names."""
GET, POST, DELETE = "GET", "POST", "DELETE"


class Refusal(Exception):
    """An error response. `order`: the request was a change; `unclear`: an earlier attempt may have been carried out."""

    def __init__(self, code: int, kind: str, name: str, message: str, *, order: bool, unclear: bool) -> None:
        super().__init__(message)
        self.order = order
        self.code, self.kind, self.name, self.message, self.unclear = code, kind, name, message, unclear

    @property
    def may_be_done(self) -> bool:
        """Whether the change may have been or may still be made: a gateway can fail while the server is working."""
        return self.unclear or (self.code >= 500 and self.code != NOT_IMPLEMENTED)


class Answer(dict[str, Any]):
    """A JSON object. `unclear`: an earlier attempt may have been carried out."""

    def __init__(self, members: Mapping[str, Any], *, unclear: bool) -> None:
        super().__init__(members)
        self.unclear = unclear


@dataclass
class _Tries:
    sent: int = 0
    over: bool = False
    unclear: bool = False
    last: str = ""


class Client:
    """A client of one server. Thread-safe; pickled without its connections and secrets."""

    def __init__(self, settings: Settings, prefix: str = "") -> None:
        uri = settings.required(URI).rstrip("/")
        if "@" in uri.partition("://")[2].partition("/")[0]:
            raise InvalidArgument("the address of a REST catalog has no user and password; set token.provider")
        self.where = redact_text(uri if "://" in uri else f"http://{uri}")
        self._uri = uri if "://" in uri else f"http://{uri}"
        self.settings, self.prefix = settings, prefix
        self._start()

    def _start(self) -> None:
        with require_extra("a REST catalog", "urllib3", "rest"):
            import urllib3  # noqa: F401
        self._sign = make_signer(self.settings)
        self._lock = threading.Lock()
        self._pool: tuple[int, urllib3.PoolManager] | None = None
        self._reached = False

    def __getstate__(self) -> dict[str, Any]:
        return {name: self.__dict__[name] for name in ("where", "settings", "prefix")} | {
            "_uri": redact_text(self._uri)
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._start()

    def get(self, *path: str, **query: str) -> dict[str, Any]:
        """Send a GET request and return the answer. Raises `Refusal`, `StorageError`."""
        return self._ask(GET, path, query)

    def post(self, *path: str, body: Mapping[str, Any]) -> Answer:
        """Send a POST request and return the answer. Raises `Refusal`, `StorageError`, `UnclearOutcome` (no answer)."""
        return self._ask(POST, path, {}, body)

    def delete(self, *path: str) -> None:
        """Send a DELETE request. Raises as `post`."""
        self._ask(DELETE, path, {})

    def pages(self, member: str, *path: str) -> Iterator[str]:
        """Yield the names in `member` of all pages.

        Raises: as `get`, and `StorageError` if pages repeat, never end, or are not lists of names.
        """
        query: dict[str, str] = {}
        seen, told = set(), set()
        for _ in range(MAX_PAGES):
            answer = self.get(*path, **query)
            entries, token = answer.get(member) or [], answer.get("nextPageToken")
            is_list = isinstance(entries, list) and all(isinstance(entry, str) for entry in entries)
            if not is_list or not isinstance(token, (str, int, type(None))):
                raise StorageError(f"{self.where}: the server gives no list of names as {'/'.join(path)}")
            new = [entry for entry in dict.fromkeys(entries) if entry not in told]  # pages may shift meanwhile
            yield from new
            if not token or not entries:
                return
            if token in seen or not new:
                raise StorageError(f"{self.where}: the server gives a page of {'/'.join(path)} again: {token!r}")
            seen.add(token)
            told.update(new)
            query = {"pageToken": str(token)}
        raise StorageError(f"{self.where}: the server gives more than {MAX_PAGES:,} pages of {'/'.join(path)}")

    def config(self, **query: str) -> dict[str, Any]:
        """Return the configuration of the server."""
        return self._request(GET, f"/{VERSION}/config", query, "")

    def _ask(
        self, method: str, path: tuple[str, ...], query: Mapping[str, str], body: Mapping[str, Any] | None = None
    ) -> Answer:
        if self.prefix in STEPS[1:]:
            raise StorageError(f"{self.where}: {self.prefix!r} is not a prefix of paths; check the server's settings")
        for part in path:
            if part in STEPS:  # a client or server would resolve it to another path
                raise InvalidArgument(f"{part!r} is not a valid name in a REST catalog")
        parts = [VERSION, *([quote_parameter(self.prefix)] if self.prefix else []), *map(quote_parameter, path)]
        data = "" if body is None else json.dumps(body, ensure_ascii=False, separators=(",", ":"))
        return self._request(method, "/" + "/".join(parts), query, data)

    def _request(self, method: str, path: str, query: Mapping[str, str], data: str) -> Answer:
        tries = _Tries()
        while True:
            answer = self._send(tries, method, path, query, data)
            if answer is not None:
                return self._read(method, answer, tries)
            if tries.over:
                if tries.unclear:
                    hint = "whether it was done is not known"
                    raise UnclearOutcome(f"{self.where}{path}: {method}: {tries.last}; {hint}")
                raise StorageError(f"{self.where}{path}: {tries.last}; check the option {URI} and the server")

    def _send(
        self, tries: _Tries, method: str, path: str, query: Mapping[str, str], data: str
    ) -> urllib3.BaseHTTPResponse | None:
        """Send a request once; return None, after a pause, if it should be sent again."""
        import urllib3

        tries.sent += 1
        # Parameters are encoded as in the signature.
        url = (
            self._uri
            + path
            + (f"?{urlencode(query, quote_via=lambda text, *_: quote_parameter(text))}" if query else "")
        )
        timeout = urllib3.Timeout(connect=CONNECT_SECONDS, read=READ_SECONDS)
        wait = min(FIRST_WAIT * 2 ** (tries.sent - 1), LONGEST_WAIT)
        try:
            answer = self._connections().request(
                method,
                url,
                body=data.encode() or None,
                headers=self._headers(Request(method, path, query, data)),
                retries=False,
                redirect=False,
                timeout=timeout,
            )
        except (urllib3.exceptions.NewConnectionError, urllib3.exceptions.ConnectTimeoutError) as error:
            late = not isinstance(error, urllib3.exceptions.NewConnectionError)  # else refused, or an unknown host
            tries.over = not self._reached and (late or tries.sent >= MAX_CONNECTIONS)
            tries.last = _shorten_error(error)
        except urllib3.exceptions.HTTPError as error:
            tries.last = _shorten_error(error)
            tries.unclear = tries.unclear or method != GET
            self._reached = True
        else:
            self._reached = True
            if answer.status not in BUSY:
                return answer
            tries.last = f"the server is busy ({answer.status})"
            tries.unclear = tries.unclear or (method != GET and answer.status != 429)
            named = _parse_retry_after(answer.headers.get("Retry-After"))
            wait = wait if named is None else named
            if tries.sent >= MAX_TRIES or wait > LONGEST_WAIT:
                return answer
        tries.over = tries.over or tries.sent >= MAX_TRIES
        if not tries.over:
            time.sleep(wait * (1 + JITTER * random.random()))
        return None

    def _read(self, method: str, answer: urllib3.BaseHTTPResponse, tries: _Tries) -> Answer:
        try:
            found = json.loads(answer.data) if answer.data.strip() else {}
        except ValueError:
            found = None
        if answer.status in (200, 202, 204):
            if not isinstance(found, dict):
                error = StorageError if method == GET else UnclearOutcome
                raise error(f"{self.where}: the answer is not a JSON object; check the option {URI}")
            return Answer(found, unclear=tries.unclear)
        told = found if isinstance(found, dict) else {}
        code = told.get("code")
        message = str(told.get("message") or f"HTTP {answer.status} without a message")
        if 300 <= answer.status < 400:  # redirects are not followed: signatures and tokens are for this server
            host = urlsplit(answer.headers.get("Location", "")).netloc.rpartition("@")[2]
            message += f"; the server redirects{' to ' + host if host else ''}: set the option {URI} to where it is"
        kind, name = str(told.get("resourceType") or "").upper(), str(told.get("resourceName") or "")
        raise Refusal(
            code if isinstance(code, int) else answer.status,
            kind,
            name,
            " ".join(redact_text(message).split()),
            order=method != GET,
            unclear=tries.unclear,
        )

    def _headers(self, request: Request) -> dict[str, str]:
        own = {key.removeprefix(HEADER): text for key, text in self.settings.raw.items() if key.startswith(HEADER)}
        kind = {"Content-Type": JSON} if request.body else {}
        return {"Accept": JSON, **kind, **own, **self._sign(request)}

    def _connections(self) -> urllib3.PoolManager:
        import urllib3

        with self._lock:
            if self._pool is None or self._pool[0] != os.getpid():  # a forked process needs its own connections
                self._pool = (os.getpid(), urllib3.PoolManager(maxsize=16))
            return self._pool[1]


def _shorten_error(error: Exception) -> str:
    lines = redact_text(str(error)).strip().splitlines() or [type(error).__name__]
    return lines[0]


def _parse_retry_after(text: str | None) -> float | None:
    """Return the seconds in a ``Retry-After`` header, which has a number or a time."""
    if text is None:
        return None
    with suppress(ValueError):
        seconds = float(text)
        return None if math.isnan(seconds) else max(seconds, 0.0)
    try:
        return max((parsedate_to_datetime(text) - get_utc_now()).total_seconds(), 0.0)
    except (ValueError, TypeError):
        return None


TOKEN_PROVIDER = declare_honoured("token.provider", TEXT, "", "How requests are authorized: bear or dlf")
TOKEN = declare_honoured("token", TEXT, "", "Bearer token")
REGION = declare_honoured("dlf.region", TEXT, "", "Region of DLF; by default that in the address")
KEY_ID = declare_honoured("dlf.access-key-id", TEXT, "", "Name of the key of DLF")
KEY_SECRET = declare_honoured("dlf.access-key-secret", TEXT, "", "Secret of the key of DLF")
SECURITY_TOKEN = declare_honoured("dlf.security-token", TEXT, "", "Token of a temporary key of DLF")
TOKEN_PATH = declare_honoured("dlf.token-path", TEXT, "", "File with a key of DLF, read anew before the key expires")
TOKEN_LOADER = declare_honoured(
    "dlf.token-loader", make_choice("local_file", "ecs"), "", "Where keys of DLF come from: a file, or the ECS server"
)
ECS_URL = declare_honoured(
    "dlf.token-ecs-metadata-url",
    TEXT,
    "http://100.100.100.200/latest/meta-data/Ram/security-credentials/",
    "Address of the keys in the metadata service of an ECS server",
)
ECS_ROLE = declare_honoured("dlf.token-ecs-role-name", TEXT, "", "Role of the ECS server; by default its only one")
ALGORITHM = declare_honoured(
    "dlf.signing-algorithm", make_choice("default", "openapi"), "", "Signature; by default the host's"
)
OPTIONS = (
    *(TOKEN_PROVIDER, TOKEN, REGION, KEY_ID, KEY_SECRET, SECURITY_TOKEN, TOKEN_PATH, TOKEN_LOADER, ECS_URL, ECS_ROLE),
    ALGORITHM,
)

JSON = "application/json"
ECS_SECONDS = 10.0
"""The time after which the metadata service of an ECS server is considered absent."""
MAX_KEY_BYTES = 1 << 16
RENEWED_BEFORE = dt.timedelta(hours=1)
NEXT_HOST = "dlfnext"
REGION_IN_HOST = re.compile(r"(?:pre-)?([a-z]+-[a-z]+(?:-\d+)?)")
UNSIGNED = "UNSIGNED-PAYLOAD"
SIGNED_HEADERS = {
    *("content-md5", "content-type", "x-dlf-content-sha256", "x-dlf-date", "x-dlf-version", "x-dlf-security-token"),
}


@dataclass(frozen=True)
class Request:
    """The request to sign: encoded path, unencoded query parameters, body."""

    method: str
    path: str
    query: Mapping[str, str]
    body: str


@dataclass(frozen=True)
class Key:
    """A DLF key. Without an end, it does not expire."""

    id: str
    secret: str = field(repr=False)
    token: str | None = field(default=None, repr=False)
    ends: dt.datetime | None = None


Signer: TypeAlias = Callable[[Request], Mapping[str, str]]
"""A function that returns the headers that authorize a request."""


def make_signer(settings: Settings) -> Signer:
    """Return the function that authorizes the requests of a catalog.

    Raises `InvalidArgument`: an option is missing. `Unsupported`: an unknown ``token.provider``.
    """
    kind = settings.required(TOKEN_PROVIDER).lower()
    if kind == "bear":
        token = settings.required(TOKEN)
        return lambda _: {"Authorization": f"Bearer {token}"}
    if kind != "dlf":
        raise Unsupported(f"{TOKEN_PROVIDER.key}={kind!r}", where=settings.raw[URI.key], hint="known are bear and dlf")
    host = urlsplit(settings.raw[URI.key]).netloc
    keys = _Keys(settings)
    chosen = settings.given.get(ALGORITHM) or ("openapi" if NEXT_HOST in host.lower() else "default")
    if chosen == "openapi":
        return lambda request: sign_sha1(
            request, keys.current(), host, get_utc_now(), f"{uuid.uuid4()}{uuid.uuid4().int}"
        )
    region = settings.given.get(REGION) or _find_region(host)
    return lambda request: sign_sha256(request, keys.current(), region, get_utc_now())


def get_utc_now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


def sign_sha256(request: Request, key: Key, region: str, time: dt.datetime) -> dict[str, str]:
    """Return the headers of the signature ``DLF4-HMAC-SHA256``."""
    stamp = time.strftime("%Y%m%dT%H%M%SZ")
    headers = {"x-dlf-date": stamp, "x-dlf-content-sha256": UNSIGNED, "x-dlf-version": "v1"}
    if request.body:
        headers |= {"Content-Type": JSON, "Content-MD5": _hash_md5(request.body)}
    if key.token is not None:
        headers["x-dlf-security-token"] = key.token
    query = "&".join(
        f"{k.strip()}={quote_parameter(v).strip()}" if v else k.strip() for k, v in sorted(request.query.items())
    )
    named = sorted((name.lower(), value.strip()) for name, value in headers.items() if name.lower() in SIGNED_HEADERS)
    canonical = "\n".join([request.method, request.path, query, *(f"{n}:{v}" for n, v in named), UNSIGNED])
    scope = f"{stamp[:8]}/{region}/DlfNext/aliyun_v4_request"
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    secret = f"aliyun_v4{key.secret}".encode()
    for part in scope.split("/"):
        secret = hmac.digest(secret, part.encode(), "sha256")
    text = "\n".join(["DLF4-HMAC-SHA256", stamp, scope, digest])
    signature = hmac.digest(secret, text.encode(), "sha256").hex()
    return {**headers, "Authorization": f"DLF4-HMAC-SHA256 Credential={key.id}/{scope},Signature={signature}"}


def sign_sha1(request: Request, key: Key, host: str, time: dt.datetime, nonce: str) -> dict[str, str]:
    """Return the headers of the signature ``HMAC-SHA1`` of Alibaba's OpenAPI."""
    headers = {"Date": format_datetime(time, usegmt=True), "Accept": JSON, "Host": host}
    if request.body:
        headers |= {"Content-MD5": _hash_md5(request.body), "Content-Type": JSON}
    own = {"method": "HMAC-SHA1", "nonce": nonce, "version": "1.0"}
    headers |= {f"x-acs-signature-{name}": value for name, value in own.items()} | {"x-acs-version": "2026-01-18"}
    if key.token is not None:
        headers["x-acs-security-token"] = key.token
    named = sorted((name.lower(), value.strip()) for name, value in headers.items() if name.startswith("x-acs-"))
    query = "&".join(f"{name}={value}" if value else name for name, value in sorted(request.query.items()))
    resource = unquote_plus(request.path) + (f"?{query}" if query else "")
    heads = [headers["Accept"], headers.get("Content-MD5", ""), headers.get("Content-Type", ""), headers["Date"]]
    text = "\n".join([request.method, *heads, *(f"{name}:{value}" for name, value in named), resource])
    signature = base64.b64encode(hmac.digest(key.secret.encode(), text.encode(), "sha1")).decode()
    return {**headers, "Authorization": f"acs {key.id}:{signature}"}


def quote_parameter(text: str) -> str:
    """Return text as part of a path or a parameter, as Java's URLEncoder writes it."""
    return quote_plus(text, safe="*-._").replace("~", "%7E")


class _Keys:
    """The DLF keys with which requests are signed."""

    def __init__(self, settings: Settings) -> None:
        given = settings.given
        file, loader = given.get(TOKEN_PATH), given.get(TOKEN_LOADER).lower()
        self._lock = threading.Lock()
        self._key: Key | None = None
        self._read = partial(_read_key, file)
        if loader == "ecs":
            self._read = partial(_read_ecs_key, given.get(ECS_URL), given.get(ECS_ROLE))
        elif not file:
            if loader:
                settings.required(TOKEN_PATH)
            token = given.get(SECURITY_TOKEN) or None
            self._key = Key(settings.required(KEY_ID), settings.required(KEY_SECRET), token)

    def current(self) -> Key:
        """Return a key that does not expire soon. Raises `StorageError` if the file or the ECS server has none."""
        with self._lock:
            key = self._key
            if key is None or (key.ends is not None and key.ends - get_utc_now() < RENEWED_BEFORE):
                key = self._key = self._read()
            return key


def _read_ecs_key(url: str, role: str) -> Key:
    """Return the key of a role from the metadata service of an ECS server, which also names the role."""
    url = url.rstrip("/") + "/"
    if not role:
        role = _ask_ecs(url).strip()
        if not role or "/" in role or len(role.split()) > 1:
            hint = f"set the option {ECS_ROLE}"
            raise StorageError(f"{redact_text(url)}: the ECS server has no role, or several ({role[:80]!r}); {hint}")
    place = url + quote(role, safe="")
    return _parse_key(_ask_ecs(place), redact_text(place), f"of the role {role!r}, see the option {ECS_ROLE}")


def _ask_ecs(url: str) -> str:
    """Return the answer of the metadata service, which is never behind a proxy. Raises `StorageError`."""
    from http.client import HTTPException
    from urllib.request import ProxyHandler, build_opener

    if not url.startswith(("http://", "https://")):
        raise InvalidArgument(f"{redact_text(url)!r} is not an address of http, which the option {ECS_URL} needs")
    try:
        with build_opener(ProxyHandler({})).open(url, timeout=ECS_SECONDS) as answer:
            return str(answer.read(MAX_KEY_BYTES).decode())
    except (OSError, HTTPException, ValueError) as error:
        problem = getattr(error, "code", None) or type(getattr(error, "reason", error)).__name__
        hint = f"keys of ecs are for ECS servers with a role; see the option {ECS_URL}"
        raise StorageError(f"{redact_text(url)}: no answer of the metadata service ({problem}); {hint}") from None


def _read_key(file: str) -> Key:
    try:
        text = Path(file).read_text()
    except (OSError, ValueError) as error:
        raise StorageError(
            f"{file}: there is no key of DLF ({type(error).__name__}); it is the option {TOKEN_PATH}"
        ) from None
    return _parse_key(text, file, f"it is the option {TOKEN_PATH}")


def _parse_key(text: str, where: str, hint: str) -> Key:
    try:
        found: dict[str, Any] = json.loads(text)
        ends = found.get("Expiration")
        key = Key(
            found["AccessKeyId"],
            found["AccessKeySecret"],
            found.get("SecurityToken"),
            ends and dt.datetime.strptime(ends, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=dt.UTC),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        kind = type(error).__name__  # the text has secrets, and parser messages may repeat them
        raise StorageError(f"{where}: there is no key of DLF ({kind}); {hint}") from None
    register_secrets({"secret": key.secret, "token": key.token or ""})
    return key


def _find_region(host: str) -> str:
    found = REGION_IN_HOST.search(host)
    if found is None:
        raise InvalidArgument(f"the address {host} names no region; set the option {REGION}")
    return found[1]


def _hash_md5(body: str) -> str:
    return base64.b64encode(hashlib.md5(body.encode(), usedforsecurity=False).digest()).decode()
