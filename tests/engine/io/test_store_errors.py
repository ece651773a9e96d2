"""Errors of object stores that say what is missing: a bucket, or leave for http."""

from __future__ import annotations

import pytest

import morrow
from morrow.engine.errors import InvalidArgument
from morrow.engine.io.object_store import explain_store_error


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (
            "404 Not Found: <?xml ...><Code>NoSuchBucket</Code>",
            "there is no bucket 'nobkt'; create it, or check its name and the endpoint",
        ),
        (
            "404: <Code>ContainerNotFound</Code>",
            "there is no bucket 'nobkt'; create it, or check its name and the endpoint",
        ),
        (
            "HTTP error: builder error",
            "the client refuses the address: an http:// endpoint needs allow_http (storage_options="
            "{'allow_http': 'true'} or AWS_ALLOW_HTTP=true)",
        ),
        (
            "Error performing PUT http://169.254.169.254/latest/api/token: 403 Forbidden",
            "no credentials were given, and this machine's metadata service has none; "
            "give storage_options, or set the environment variables of the store",
        ),
        ("403 Forbidden", None),
    ],
)
def test_what_is_explained(message: str, expected: str | None) -> None:
    assert explain_store_error(message, "s3://nobkt/warehouse/db.db") == expected


def test_an_endpoint_is_a_url() -> None:
    with pytest.raises(InvalidArgument, match="aws_endpoint_url = 'localhost:9000' is not a URL; write http://"):
        morrow.open("s3://lake/db.db/t", storage_options={"aws_endpoint_url": "localhost:9000"})
