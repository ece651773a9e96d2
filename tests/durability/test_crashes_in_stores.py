"""Kills and failures at the requests to an object store (for HDFS see `tests/interop/test_hdfs.py`)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.durability.moments import IS_LONG
from tests.durability.operations import OPERATIONS
from tests.durability.stores import failing, killed, repeated
from tests.support.faulty_store import ERRORS, FaultKind
from tests.support.s3_server import BUCKET, s3_server

TRIED = [*OPERATIONS] if IS_LONG else ["upsert with deletion vectors"]


@pytest.fixture(scope="module")
def storage() -> Iterator[dict[str, str]]:
    with s3_server() as options:
        yield options


@pytest.mark.parametrize("name", TRIED)
def test_killed_in_an_object_store(name: str, templates: Path, storage: dict[str, str]) -> None:
    killed(name, templates / name, f"s3://{BUCKET}/wh", storage)


@pytest.mark.parametrize("kind", ERRORS if IS_LONG else [FaultKind.DONE], ids=lambda kind: kind.name)
@pytest.mark.parametrize("name", TRIED)
def test_an_object_store_that_fails(name: str, kind: FaultKind, templates: Path, storage: dict[str, str]) -> None:
    failing(name, templates / name, f"s3://{BUCKET}/wh", storage, kind)


@pytest.mark.parametrize("kind", ERRORS if IS_LONG else [FaultKind.DONE], ids=lambda kind: kind.name)
def test_a_commit_that_is_repeated(kind: FaultKind, templates: Path, storage: dict[str, str]) -> None:
    repeated(templates / "append", f"s3://{BUCKET}/wh", storage, kind)
