"""Requests to a REST server: paths, authorization, pages, retries, and refusals as values.

A server that is busy (429, 503) is asked again after the time that it names, or after a pause that grows. So is one
whose connection was cut: whether the request was carried out is then unknown, which the `Refusal` of a later try says.
Who sent it looks for what it did.
"""

from __future__ import annotations

import json
import math
import os
import random
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

from morrow.engine.catalog.rest.signing import JSON, Request, now, quoted, signer_of
from morrow.engine.catalog.settings import URI, Settings
from morrow.engine.errors import InvalidArgument, StorageError, UnclearOutcome, Unsupported
from morrow.engine.telling import redacted

if TYPE_CHECKING:
    import urllib3

VERSION = "v1"
HEADER = "header."
"""The prefix of options that are headers of every request."""
MOST_TRIES = 6
FIRST_WAIT, LONGEST_WAIT, JITTER = 0.5, 64.0, 0.1
"""Seconds before a request is sent again, doubled each time; a server that wants to be left alone longer has failed."""
CONNECT_SECONDS, READ_SECONDS = 5.0, 180.0
MOST_CONNECTIONS = 3
"""Tries where nobody has ever been at the address; a server that was there may restart, and is waited for."""
MOST_PAGES = 100_000
"""Pages of one list; a server that gives more repeats itself, or makes names up."""
BUSY = (429, 503)
NOT_IMPLEMENTED = 501
STEPS = ("", ".", "..")
"""Segments of paths that are no names."""
GET, POST, DELETE = "GET", "POST", "DELETE"


class Refusal(Exception):
    """An answer other than success. `order`: not to a question; `unclear`: an earlier try may have been carried out."""

    def __init__(self, code: int, kind: str, name: str, message: str, *, order: bool, unclear: bool) -> None:
        super().__init__(message)
        self.order = order
        self.code, self.kind, self.name, self.message, self.unclear = code, kind, name, message, unclear

    @property
    def may_be_done(self) -> bool:
        """Whether what was ordered may have been done, or be done yet: gateways answer for servers that are at work."""
        return self.unclear or (self.code >= 500 and self.code != NOT_IMPLEMENTED)


class Answer(dict[str, Any]):
    """A JSON object. `unclear`: an earlier try may have been carried out."""

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
    """A server. Several threads may ask; it is pickled without its connections and without secrets."""

    def __init__(self, settings: Settings, prefix: str = "") -> None:
        uri = settings.required(URI).rstrip("/")
        if "@" in uri.partition("://")[2].partition("/")[0]:
            raise InvalidArgument("the address of a REST catalog has no user and password; set token.provider")
        self.where = redacted(uri if "://" in uri else f"http://{uri}")
        self._uri = uri if "://" in uri else f"http://{uri}"
        self.settings, self.prefix = settings, prefix
        self._start()

    def _start(self) -> None:
        try:
            import urllib3  # noqa: F401  # is it there?
        except ImportError as error:
            raise Unsupported("a REST catalog without urllib3", hint="pip install 'morrow[rest]'") from error
        self._sign = signer_of(self.settings)
        self._lock = threading.Lock()
        self._pool: tuple[int, urllib3.PoolManager] | None = None
        self._reached = False

    def __getstate__(self) -> dict[str, Any]:
        return {name: self.__dict__[name] for name in ("where", "settings", "prefix")} | {"_uri": redacted(self._uri)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._start()

    def get(self, *path: str, **query: str) -> dict[str, Any]:
        """Returns the answer to a question. Raises `Refusal`, `StorageError`."""
        return self._ask(GET, path, query)

    def post(self, *path: str, body: Mapping[str, Any]) -> Answer:
        """Returns the answer to an order. Raises `Refusal`, `StorageError`, and `UnclearOutcome` without an answer."""
        return self._ask(POST, path, {}, body)

    def delete(self, *path: str) -> None:
        """Has something removed. Raises as `post`."""
        self._ask(DELETE, path, {})

    def pages(self, member: str, *path: str) -> Iterator[str]:
        """Yields the names in `member` of all pages.

        Raises: as `get`, and `StorageError` where pages repeat, never end, or are no lists of names.
        """
        query: dict[str, str] = {}
        seen, told = set(), set()
        for _ in range(MOST_PAGES):
            answer = self.get(*path, **query)
            entries, token = answer.get(member) or [], answer.get("nextPageToken")
            is_list = isinstance(entries, list) and all(isinstance(entry, str) for entry in entries)
            if not is_list or not isinstance(token, (str, int, type(None))):
                raise StorageError(f"{self.where}: the server gives no list of names as {'/'.join(path)}")
            new = [entry for entry in dict.fromkeys(entries) if entry not in told]  # a page may shift under its reader
            yield from new
            if not token or not entries:
                return
            if token in seen or not new:
                raise StorageError(f"{self.where}: the server gives a page of {'/'.join(path)} once more: {token!r}")
            seen.add(token)
            told.update(new)
            query = {"pageToken": str(token)}
        raise StorageError(f"{self.where}: the server gives more than {MOST_PAGES:,} pages of {'/'.join(path)}")

    def config(self, **query: str) -> dict[str, Any]:
        """Returns what the server says of itself."""
        return self._asked(GET, f"/{VERSION}/config", query, "")

    def _ask(
        self, method: str, path: tuple[str, ...], query: Mapping[str, str], body: Mapping[str, Any] | None = None
    ) -> Answer:
        if self.prefix in STEPS[1:]:
            raise StorageError(f"{self.where}: {self.prefix!r} is no prefix of paths; check what the server is told")
        for part in path:
            if part in STEPS:  # a client or server would go there: an order about another thing
                raise InvalidArgument(f"{part!r} is no name in a REST catalog")
        parts = [VERSION, *([quoted(self.prefix)] if self.prefix else []), *map(quoted, path)]
        data = "" if body is None else json.dumps(body, ensure_ascii=False, separators=(",", ":"))
        return self._asked(method, "/" + "/".join(parts), query, data)

    def _asked(self, method: str, path: str, query: Mapping[str, str], data: str) -> Answer:
        tries = _Tries()
        while True:
            answer = self._sent(tries, method, path, query, data)
            if answer is not None:
                return self._read(method, answer, tries)
            if tries.over:
                if tries.unclear:
                    hint = "whether it was done is not known"
                    raise UnclearOutcome(f"{self.where}{path}: {method}: {tries.last}; {hint}")
                raise StorageError(f"{self.where}{path}: {tries.last}; check the option {URI} and the server")

    def _sent(
        self, tries: _Tries, method: str, path: str, query: Mapping[str, str], data: str
    ) -> urllib3.BaseHTTPResponse | None:
        """Sends a request once; returns None, after a pause, where it should be sent again."""
        import urllib3

        tries.sent += 1
        # Parameters are written as they are signed.
        url = self._uri + path + (f"?{urlencode(query, quote_via=lambda text, *_: quoted(text))}" if query else "")
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
            late = not isinstance(error, urllib3.exceptions.NewConnectionError)  # which is refused, or an unknown host
            tries.over = not self._reached and (late or tries.sent >= MOST_CONNECTIONS)
            tries.last = _words(error)
        except urllib3.exceptions.HTTPError as error:
            tries.last = _words(error)
            tries.unclear = tries.unclear or method != GET
            self._reached = True
        else:
            self._reached = True
            if answer.status not in BUSY:
                return answer
            tries.last = f"the server is busy ({answer.status})"
            tries.unclear = tries.unclear or (method != GET and answer.status != 429)
            named = _seconds(answer.headers.get("Retry-After"))
            wait = wait if named is None else named
            if tries.sent >= MOST_TRIES or wait > LONGEST_WAIT:
                return answer
        tries.over = tries.over or tries.sent >= MOST_TRIES
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
                raise error(f"{self.where}: the answer is no JSON object; check the option {URI}")
            return Answer(found, unclear=tries.unclear)
        told = found if isinstance(found, dict) else {}
        code = told.get("code")
        message = str(told.get("message") or f"HTTP {answer.status} without a message")
        if 300 <= answer.status < 400:  # not followed: signatures and tokens are for this server
            host = urlsplit(answer.headers.get("Location", "")).netloc.rpartition("@")[2]
            message += f"; the server redirects{' to ' + host if host else ''}: set the option {URI} to where it is"
        kind, name = str(told.get("resourceType") or "").upper(), str(told.get("resourceName") or "")
        raise Refusal(
            code if isinstance(code, int) else answer.status,
            kind,
            name,
            " ".join(redacted(message).split()),
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
            if self._pool is None or self._pool[0] != os.getpid():  # a fork has connections of its own
                self._pool = (os.getpid(), urllib3.PoolManager(maxsize=16))
            return self._pool[1]


def _words(error: Exception) -> str:
    lines = redacted(str(error)).strip().splitlines() or [type(error).__name__]
    return lines[0]


def _seconds(text: str | None) -> float | None:
    """Returns the seconds of a header ``Retry-After``: a number, or a time."""
    if text is None:
        return None
    with suppress(ValueError):
        seconds = float(text)
        return None if math.isnan(seconds) else max(seconds, 0.0)
    try:
        return max((parsedate_to_datetime(text) - now()).total_seconds(), 0.0)
    except (ValueError, TypeError):
        return None
