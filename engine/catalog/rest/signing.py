"""Headers that say who asks a REST server: a bearer token, or the signatures of Alibaba's DLF.

DLF has two signatures: ``DLF4-HMAC-SHA256`` of its own hosts, and ``HMAC-SHA1`` of the hosts ``dlfnext...``. Both sign
the method, the path, the sorted parameters and a digest of the body, with a key that may have a security token.
"""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import hmac
import json
import re
import threading
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from email.utils import format_datetime
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import quote_plus, unquote_plus, urlsplit

from morrow.engine.catalog.settings import URI, Settings
from morrow.engine.errors import InvalidArgument, StorageError, Unsupported
from morrow.engine.options.declaring import honoured
from morrow.engine.options.kinds import TEXT, words
from morrow.engine.telling import remember

TOKEN_PROVIDER = honoured("token.provider", TEXT, "", "How requests are authorized: bear or dlf")
TOKEN = honoured("token", TEXT, "", "Bearer token")
REGION = honoured("dlf.region", TEXT, "", "Region of DLF; by default that in the address")
KEY_ID = honoured("dlf.access-key-id", TEXT, "", "Name of the key of DLF")
KEY_SECRET = honoured("dlf.access-key-secret", TEXT, "", "Secret of the key of DLF")
SECURITY_TOKEN = honoured("dlf.security-token", TEXT, "", "Token of a temporary key of DLF")
TOKEN_PATH = honoured("dlf.token-path", TEXT, "", "File with a key of DLF, read anew before the key expires")
TOKEN_LOADER = honoured("dlf.token-loader", words("local_file"), "", "Where keys of DLF come from")
ALGORITHM = honoured("dlf.signing-algorithm", words("default", "openapi"), "", "Signature; by default the host's")
OPTIONS = (TOKEN_PROVIDER, TOKEN, REGION, KEY_ID, KEY_SECRET, SECURITY_TOKEN, TOKEN_PATH, TOKEN_LOADER, ALGORITHM)

JSON = "application/json"
RENEWED_BEFORE = dt.timedelta(hours=1)
NEXT_HOST = "dlfnext"
REGION_IN_HOST = re.compile(r"(?:pre-)?([a-z]+-[a-z]+(?:-\d+)?)")
UNSIGNED = "UNSIGNED-PAYLOAD"
SIGNED_HEADERS = {
    *("content-md5", "content-type", "x-dlf-content-sha256", "x-dlf-date", "x-dlf-version", "x-dlf-security-token"),
}


@dataclass(frozen=True)
class Request:
    """What is signed: the path as it is sent, parameters as they are meant, and the body."""

    method: str
    path: str
    query: Mapping[str, str]
    body: str


@dataclass(frozen=True)
class Key:
    """A key of DLF. One without an end does not expire."""

    id: str
    secret: str = field(repr=False)
    token: str | None = field(default=None, repr=False)
    ends: dt.datetime | None = None


Signer: TypeAlias = Callable[[Request], Mapping[str, str]]
"""Returns the headers that authorize a request."""


def signer_of(settings: Settings) -> Signer:
    """Returns what authorizes the requests of a catalog.

    Raises:
        InvalidArgument: an option is missing. Unsupported: an unknown ``token.provider``.
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
        return lambda request: signed_sha1(request, keys.current(), host, now(), f"{uuid.uuid4()}{uuid.uuid4().int}")
    region = settings.given.get(REGION) or _region(host)
    return lambda request: signed_sha256(request, keys.current(), region, now())


def now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


def signed_sha256(request: Request, key: Key, region: str, time: dt.datetime) -> dict[str, str]:
    """Returns the headers of the signature ``DLF4-HMAC-SHA256``."""
    stamp = time.strftime("%Y%m%dT%H%M%SZ")
    headers = {"x-dlf-date": stamp, "x-dlf-content-sha256": UNSIGNED, "x-dlf-version": "v1"}
    if request.body:
        headers |= {"Content-Type": JSON, "Content-MD5": _md5(request.body)}
    if key.token is not None:
        headers["x-dlf-security-token"] = key.token
    query = "&".join(f"{k.strip()}={quoted(v).strip()}" if v else k.strip() for k, v in sorted(request.query.items()))
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


def signed_sha1(request: Request, key: Key, host: str, time: dt.datetime, nonce: str) -> dict[str, str]:
    """Returns the headers of the signature ``HMAC-SHA1`` of Alibaba's open API."""
    headers = {"Date": format_datetime(time, usegmt=True), "Accept": JSON, "Host": host}
    if request.body:
        headers |= {"Content-MD5": _md5(request.body), "Content-Type": JSON}
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


def quoted(text: str) -> str:
    """Returns text as part of a path or a parameter, as Java's URLEncoder writes it."""
    return quote_plus(text, safe="*-._").replace("~", "%7E")


class _Keys:
    """The key of DLF that requests are signed with."""

    def __init__(self, settings: Settings) -> None:
        given = settings.given
        self._file = given.get(TOKEN_PATH)
        self._lock = threading.Lock()
        self._key: Key | None = None
        if not self._file:
            if given.get(TOKEN_LOADER):
                settings.required(TOKEN_PATH)
            token = given.get(SECURITY_TOKEN) or None
            self._key = Key(settings.required(KEY_ID), settings.required(KEY_SECRET), token)

    def current(self) -> Key:
        """Returns a key that does not expire soon. Raises `StorageError` where the file has none."""
        with self._lock:
            key = self._key
            if key is None or (key.ends is not None and key.ends - now() < RENEWED_BEFORE):
                key = self._key = _key_in(self._file)
            return key


def _key_in(file: str) -> Key:
    try:
        found: dict[str, Any] = json.loads(Path(file).read_text())
        ends = found.get("Expiration")
        key = Key(
            found["AccessKeyId"],
            found["AccessKeySecret"],
            found.get("SecurityToken"),
            ends and dt.datetime.strptime(ends, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=dt.UTC),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        kind = type(error).__name__  # the file has secrets, which messages of parsers repeat
        raise StorageError(f"{file}: there is no key of DLF ({kind}); it is the option {TOKEN_PATH}") from None
    remember({"secret": key.secret, "token": key.token or ""})
    return key


def _region(host: str) -> str:
    found = REGION_IN_HOST.search(host)
    if found is None:
        raise InvalidArgument(f"the address {host} names no region; set the option {REGION}")
    return found[1]


def _md5(body: str) -> str:
    return base64.b64encode(hashlib.md5(body.encode(), usedforsecurity=False).digest()).decode()
