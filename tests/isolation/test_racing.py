"""Random operations by users in several processes and threads, on disk and in an object store."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from tests.isolation.history import anomalies
from tests.isolation.kinds import KINDS
from tests.isolation.racing import race
from tests.support.s3_server import BUCKET, s3_server

LONG = os.environ.get("HYPOTHESIS_PROFILE") == "long"
SECONDS = 30.0 if LONG else 1.0
SEED = random.SystemRandom().randrange(10**6) if LONG else 0


@pytest.mark.parametrize("name", KINDS if LONG else ["keyed", "append with vectors"])
def test_on_a_local_disk(name: str, tmp_path: Path) -> None:
    found = anomalies(race(name, str(tmp_path), SEED, seconds=SECONDS))
    assert not found, f"{name}, seed {SEED}:\n" + "\n".join(found)


@pytest.mark.parametrize("name", KINDS if LONG else ["vectors"])
def test_in_an_object_store(name: str) -> None:
    with s3_server() as storage:
        found = anomalies(race(name, f"s3://{BUCKET}/wh", SEED, seconds=SECONDS, storage_options=storage))
    assert not found, f"{name}, seed {SEED}:\n" + "\n".join(found)
