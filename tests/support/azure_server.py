"""Azure's Blob storage on the loopback, with the S3 server's objects and the container ``lake``.

Reads and whole writes are as in S3; listings, uploads in blocks, copies and batches of deletions have other requests.
Requests are not authenticated.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from urllib.parse import unquote, urlsplit
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from morrow.engine.structs import replace
from tests.support.s3_objects import Answer, Objects, Request
from tests.support.s3_server import running

ACCOUNT = "team"
KEY = b64encode(b"hush-hush of the account").decode()


@contextmanager
def azure_server() -> Iterator[dict[str, str]]:
    """Start a server; yield its storage options."""
    with running() as server:
        blobs = _Blobs(server.objects)
        server.trouble = blobs.answer
        yield {
            "azure_endpoint": f"http://127.0.0.1:{server.port}",
            "fs.azure.account.key": KEY,
            "azure_storage_account_name": ACCOUNT,
        }


@dataclass
class _Blobs:
    objects: Objects
    blocks: dict[tuple[str, str], bytes] = field(default_factory=dict)

    def answer(self, request: Request) -> Answer:
        """Answer a request whose path is ``/container/blob``."""
        kind = request.query.get("comp", "")
        if kind == "list":
            return self._listed(request)
        if kind == "batch":
            return self._batch(request)
        if kind == "block":
            self.blocks[request.key, request.query["blockid"]] = request.body
            return Answer(201)
        if kind == "blocklist":
            numbers = [element.text or "" for element in ElementTree.fromstring(request.body)]
            whole = b"".join(self.blocks.pop((request.key, number)) for number in numbers)
            request = replace(request, query={}, body=whole)
        headers = {name.replace("x-ms-meta-", "x-amz-meta-"): value for name, value in request.headers.items()}
        if "x-ms-range" in headers:
            headers["range"] = headers["x-ms-range"]
        if source := headers.get("x-ms-copy-source"):
            headers["x-amz-copy-source"] = urlsplit(source).path
        answer = self.objects.answer(replace(request, headers=headers))
        if answer.status == 412 and request.headers.get("if-none-match") == "*":
            answer = replace(answer, status=409)
        told = {name.replace("x-amz-meta-", "x-ms-meta-"): value for name, value in answer.headers.items()}
        if source:
            told |= {"x-ms-copy-status": "success"}
        if answer.status == 200 and request.method == "PUT":
            told |= {"Last-Modified": formatdate(usegmt=True)}
            return replace(answer, status=202 if source else 201, headers=told)
        return replace(answer, status=202 if answer.status == 204 else answer.status, headers=told)

    def _listed(self, request: Request) -> Answer:
        given = request.query
        asked = {"list-type": "2", "prefix": given.get("prefix", ""), "max-keys": given.get("maxresults", "1000")}
        asked |= {"delimiter": given["delimiter"]} if "delimiter" in given else {}
        asked |= {"continuation-token": given["marker"]} if given.get("marker") else {}
        answer = self.objects.answer(Request("GET", request.bucket, "", asked))
        found = ElementTree.fromstring(answer.body)
        prefixes = (escape(each.findtext("Prefix") or "") for each in found.iter("CommonPrefixes"))
        names = (f"<BlobPrefix><Name>{name}</Name></BlobPrefix>" for name in prefixes)
        blobs = (self._blob(each, request.bucket) for each in found.iter("Contents"))
        following = escape(found.findtext("NextContinuationToken") or "")
        listed = f"<Blobs>{''.join((*blobs, *names))}</Blobs><NextMarker>{following}</NextMarker>"
        text = f"<EnumerationResults>{listed}</EnumerationResults>"
        return Answer(
            200, f'<?xml version="1.0" encoding="utf-8"?>{text}'.encode(), {"Content-Type": "application/xml"}
        )

    def _blob(self, found: ElementTree.Element, bucket: str) -> str:
        key = found.findtext("Key") or ""
        modified = self.objects.answer(Request("HEAD", bucket, key)).headers.get("Last-Modified", "")
        told = f"<Last-Modified>{modified}</Last-Modified><Content-Length>{found.findtext('Size')}</Content-Length>"
        told += f"<Content-Type>x/y</Content-Type><Etag>{escape(found.findtext('ETag') or '')}</Etag>"
        return f"<Blob><Name>{escape(key)}</Name><Properties>{told}</Properties></Blob>"

    def _batch(self, request: Request) -> Answer:
        """Delete blobs by a multipart body with one request per part; the answer has the same number of parts."""
        paths = re.findall(rb"^DELETE (\S+) HTTP", request.body, re.MULTILINE)
        parts = []
        for number, path in enumerate(paths):
            bucket, _, key = unquote(path.decode()).partition("?")[0].lstrip("/").partition("/")
            there = self.objects.answer(Request("HEAD", bucket, key)).status == 200
            self.objects.answer(Request("DELETE", bucket, key))
            said = "202 Accepted" if there else "404 The specified blob does not exist."
            more = "" if there else "x-ms-error-code: BlobNotFound\r\n"
            parts.append(
                f"--b\r\nContent-Type: application/http\r\nContent-ID: {number}\r\n\r\nHTTP/1.1 {said}\r\n{more}\r\n"
            )
        return Answer(202, "".join((*parts, "--b--\r\n")).encode(), {"Content-Type": "multipart/mixed; boundary=b"})
