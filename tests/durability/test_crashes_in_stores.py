"""A process killed at what it asks of an object store (of HDFS: `tests/interop/test_hdfs.py`)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.durability.moments import IS_LONG
from tests.durability.operations import OPERATIONS
from tests.durability.stores import killed
from tests.support.s3_server import BUCKET, s3_server

TRIED = [*OPERATIONS] if IS_LONG else ["upsert with deletion vectors"]


@pytest.fixture(scope="module")
def storage() -> Iterator[dict[str, str]]:
    with s3_server() as options:
        yield options


@pytest.mark.parametrize("name", TRIED)
def test_killed_in_an_object_store(name: str, templates: Path, storage: dict[str, str]) -> None:
    killed(name, templates / name, f"s3://{BUCKET}/wh", storage)
