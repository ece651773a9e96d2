"""Google Cloud Storage on the loopback, by its XML interface and with the S3 server's objects.

Conditions, copies and metadata have other names than in S3, and objects have generations.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from morrow.engine.structs import replace
from tests.support.s3_objects import Answer, Objects, Request
from tests.support.s3_server import running

CONDITION = "x-goog-if-generation-match"


@contextmanager
def google_server(folder: Path) -> Iterator[dict[str, str]]:
    """Start a server with the bucket ``lake``; yield its storage options, with a key file in `folder`."""
    with running() as server:
        server.trouble = lambda request: _answer(server.objects, request)
        key = {"gcs_base_url": f"http://127.0.0.1:{server.port}", "disable_oauth": True}
        key |= dict.fromkeys(("client_email", "private_key", "private_key_id"), "")
        path = folder / "key.json"
        path.write_text(json.dumps(key))
        yield {"fs.gs.auth.service.account.json.keyfile": str(path), "allow_http": "true"}


def _answer(objects: Objects, request: Request) -> Answer:
    headers = {name.replace("x-goog-", "x-amz-"): value for name, value in request.headers.items()}
    if request.headers.get(CONDITION) == "0":
        headers["if-none-match"] = "*"
    answer = objects.answer(replace(request, headers=headers))
    told = {name.replace("x-amz-", "x-goog-"): value for name, value in answer.headers.items()}
    return replace(answer, headers={**told, "x-goog-generation": "1"} if request.key else told)
