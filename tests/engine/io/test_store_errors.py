"""Errors of object stores that say what is missing: a bucket, or leave for http."""

from __future__ import annotations

import pytest

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
        ("403 Forbidden", None),
    ],
)
def test_what_is_explained(message: str, expected: str | None) -> None:
    assert explain_store_error(message, "s3://nobkt/warehouse/db.db") == expected
