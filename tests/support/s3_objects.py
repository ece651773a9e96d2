"""S3's buckets and objects in memory; requests are carried out one at a time, so that each is atomic as in S3.

It has metadata, conditional puts, ranges, listings in pages, copies, uploads in parts, and deletions of many objects.
Nothing is authenticated.
"""

from __future__ import annotations

import hashlib
import threading
import time
import uuid
from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from email.utils import formatdate
from urllib.parse import quote, unquote
from xml.etree import ElementTree
from xml.sax.saxutils import escape

MOST_KEYS = 1000
METADATA = "x-amz-meta-"


@dataclass(frozen=True)
class Request:
    """A received request with decoded parameters in `query` and lower-case names in `headers`."""

    method: str
    bucket: str
    key: str
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


@dataclass(frozen=True)
class Answer:
    """An answer; `length` is the Content-Length of an answer whose body is not sent."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    length: int | None = None


@dataclass(frozen=True)
class _Stored:
    body: bytes
    kept: Mapping[str, str]
    modified: float
    etag: str

    @property
    def headers(self) -> dict[str, str]:
        when = formatdate(self.modified, usegmt=True)
        return {"ETag": self.etag, "Last-Modified": when, "Accept-Ranges": "bytes", **self.kept}


class _Bucket:
    """The objects of a bucket, and their keys in order."""

    def __init__(self) -> None:
        self.objects: dict[str, _Stored] = {}
        self.keys: list[str] = []

    def put(self, key: str, body: bytes, kept: Mapping[str, str], parts: int = 0) -> _Stored:
        if key not in self.objects:
            insort(self.keys, key)
        digest = hashlib.md5(body, usedforsecurity=False).hexdigest()
        tag = f'"{digest}-{parts}"' if parts else f'"{digest}"'
        stored = self.objects[key] = _Stored(body, kept, time.time(), tag)
        return stored

    def remove(self, key: str) -> None:
        if self.objects.pop(key, None) is not None:
            del self.keys[bisect_left(self.keys, key)]


class Objects:
    """Buckets, and the requests on them."""

    def __init__(self) -> None:
        self._buckets: dict[str, _Bucket] = {}
        self._uploads: dict[str, dict[int, bytes]] = {}
        self._turn = threading.Lock()

    def make_bucket(self, name: str) -> None:
        """Make an empty bucket."""
        self._buckets[name] = _Bucket()

    def answer(self, request: Request) -> Answer:
        """Carry out a request."""
        with self._turn:
            if not request.bucket:
                return Answer(400)
            if not request.key:
                return self._of_bucket(request)
            bucket = self._buckets.get(request.bucket)
            if bucket is None:
                return _failed(404, "NoSuchBucket")
            if request.method == "PUT":
                return self._put(bucket, request)
            if request.method == "POST":
                return self._upload(bucket, request)
            if request.method == "DELETE":
                bucket.remove(request.key)
                self._uploads.pop(request.query.get("uploadId", ""), None)
                return Answer(204)
            return _got(bucket.objects.get(request.key), request)

    def _of_bucket(self, request: Request) -> Answer:
        if request.method == "PUT":
            self._buckets.setdefault(request.bucket, _Bucket())
            return Answer()
        bucket = self._buckets.get(request.bucket)
        if bucket is None:
            return _failed(404, "NoSuchBucket")
        if request.method == "HEAD":
            return Answer()
        if "location" in request.query:
            return _xml("<LocationConstraint/>")
        if request.method == "POST" and "delete" in request.query:
            keys = [
                element.text or "" for element in ElementTree.fromstring(request.body).iter() if _is(element, "Key")
            ]
            for key in keys:
                bucket.remove(key)
            return _xml(_element("DeleteResult", *(_element("Deleted", _element("Key", escape(key))) for key in keys)))
        return _listed(bucket, request.query) if request.method == "GET" else _failed(405, "MethodNotAllowed")

    def _put(self, bucket: _Bucket, request: Request) -> Answer:
        if "partNumber" in request.query:
            parts = self._uploads.get(request.query.get("uploadId", ""))
            if parts is None:
                return _failed(404, "NoSuchUpload")
            parts[int(request.query["partNumber"])] = request.body
            return Answer(headers={"ETag": f'"{uuid.uuid4().hex}"'})
        if (refused := _refused(bucket, request)) is not None:
            return refused
        source = request.headers.get("x-amz-copy-source")
        if source is None:
            return Answer(headers={"ETag": bucket.put(request.key, request.body, _kept(request)).etag})
        name, _, key = unquote(source).lstrip("/").partition("/")
        found = self._buckets[name].objects.get(key) if name in self._buckets else None
        if found is None:
            return _failed(404, "NoSuchKey")
        copied = bucket.put(request.key, found.body, found.kept)
        return _xml(_element("CopyObjectResult", _element("ETag", copied.etag), _modified(copied)))

    def _upload(self, bucket: _Bucket, request: Request) -> Answer:
        if "uploads" in request.query:
            number = uuid.uuid4().hex
            self._uploads[number] = {}
            place = _element("Bucket", request.bucket) + _element("Key", escape(request.key))
            return _xml(_element("InitiateMultipartUploadResult", place, _element("UploadId", number)))
        if (refused := _refused(bucket, request)) is not None:
            return refused
        parts = self._uploads.pop(request.query.get("uploadId", ""), None)
        if parts is None:
            return _failed(404, "NoSuchUpload")
        stored = bucket.put(request.key, b"".join(parts[number] for number in sorted(parts)), {}, len(parts))
        return _xml(_element("CompleteMultipartUploadResult", _element("ETag", stored.etag)))


def _kept(request: Request) -> dict[str, str]:
    return {n: v for n, v in request.headers.items() if n.startswith(METADATA) or n == "content-type"}


def _refused(bucket: _Bucket, request: Request) -> Answer | None:
    there = bucket.objects.get(request.key)
    wanted = request.headers.get("if-match")
    if request.headers.get("if-none-match") == "*" and there is not None:
        return _failed(412, "PreconditionFailed")
    if wanted is not None and (there is None or there.etag != wanted):
        return _failed(412, "PreconditionFailed")
    return None


def _got(found: _Stored | None, request: Request) -> Answer:
    is_head = request.method == "HEAD"
    if found is None:
        return Answer(404) if is_head else _failed(404, "NoSuchKey")
    body, size, headers = found.body, len(found.body), found.headers
    asked = request.headers.get("range", "")
    status = 200
    if asked.startswith("bytes="):
        first, _, last = asked.removeprefix("bytes=").partition("-")
        start = int(first) if first else max(size - int(last), 0)
        end = min(int(last), size - 1) if first and last else size - 1
        if start > end:
            return _failed(416, "InvalidRange")
        status, body = 206, body[start : end + 1]
        headers["Content-Range"] = f"bytes {start}-{end}/{size}"
    return Answer(status, b"" if is_head else body, headers, len(body))


def _listed(bucket: _Bucket, query: Mapping[str, str]) -> Answer:
    prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
    most = min(int(query.get("max-keys") or MOST_KEYS), MOST_KEYS)
    after = query.get("continuation-token") or query.get("start-after") or query.get("marker") or ""
    encoded = quote if query.get("encoding-type") == "url" else escape
    found: list[str] = []
    last = ""
    for last in _names(bucket, prefix, delimiter, after):
        if len(found) == most:
            break
        found.append(last)
    is_cut = len(found) == most and last != (found[-1] if found else "")
    parts = [
        _element("CommonPrefixes", _element("Prefix", encoded(name)))
        if delimiter and name.endswith(delimiter) and name != prefix and name not in bucket.objects
        else _entry(encoded(name), bucket.objects[name])
        for name in found
    ]
    pages = (
        _element("NextContinuationToken", escape(found[-1])) + _element("NextMarker", encoded(found[-1]))
        if is_cut
        else ""
    )
    head = _element("Prefix", encoded(prefix)) + _element("KeyCount", str(len(found))) + _element("MaxKeys", str(most))
    return _xml(_element("ListBucketResult", head, _element("IsTruncated", str(is_cut).lower()), pages, *parts))


def _names(bucket: _Bucket, prefix: str, delimiter: str, after: str) -> Iterator[str]:
    """Yield keys and common prefixes after `after`, in order."""
    at = bisect_left(bucket.keys, max(prefix, after))
    while at < len(bucket.keys) and (key := bucket.keys[at]).startswith(prefix):
        cut = key.find(delimiter, len(prefix)) if delimiter else -1
        name = key if cut < 0 else key[: cut + len(delimiter)]
        if name > after:
            yield name
        at = at + 1 if cut < 0 else bisect_left(bucket.keys, name + "\U0010ffff")


def _entry(name: str, stored: _Stored) -> str:
    size = _element("Size", str(len(stored.body)))
    return _element("Contents", _element("Key", name), _modified(stored), _element("ETag", stored.etag), size)


def _modified(stored: _Stored) -> str:
    when = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(stored.modified))
    return _element("LastModified", f"{when}.{int(stored.modified % 1 * 1000):03}Z")


def _is(element: ElementTree.Element, name: str) -> bool:
    return element.tag.rpartition("}")[2] == name


def _element(name: str, *parts: str) -> str:
    return f"<{name}>{''.join(parts)}</{name}>"


def _xml(text: str, status: int = 200) -> Answer:
    return Answer(status, f'<?xml version="1.0" encoding="UTF-8"?>{text}'.encode(), {"Content-Type": "application/xml"})


def _failed(status: int, code: str) -> Answer:
    return _xml(_element("Error", _element("Code", code), _element("Message", code)), status)
