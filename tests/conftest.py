"""Fixtures and settings for all tests."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadScopeScheduling

from morrow.engine.io.durability import fsync_disabled
from tests.support import golden

PROJECT = Path(__file__).parents[1]

# `make test` tries the same examples every time, so a failure is due to a change; `make test-long` tries new ones.
settings.register_profile(
    "default",
    max_examples=100,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.register_profile("long", settings.get_profile("default"), max_examples=2_000, derandomize=False)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


SHARE_A_SESSION = re.compile("tests/(spark/(?!test_(cluster|failures|pipeline)[.])|interop/test_spark[.])")
"""Tests with the fixture `spark`; those that are left out have drivers of their own."""


class ByFile(LoadScopeScheduling):
    """Gives workers whole files of tests, and one of them all that share a session of Spark."""

    def _split_scope(self, nodeid: str) -> str:
        return "spark" if SHARE_A_SESSION.match(nodeid) else nodeid.partition("::")[0]


def pytest_xdist_auto_num_workers() -> int:
    """One more than there are cores: many tests wait, for Spark's JVM, for processes that they kill, for clocks."""
    return (os.cpu_count() or 1) + 1


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByFile:
    return ByFile(config, log)


@pytest.fixture(autouse=True)
def syncing() -> Iterator[None]:
    """No file is synced: the tables of tests may be lost. Tests about durability have a fixture of their own."""
    with fsync_disabled():
        yield


@pytest.fixture(scope="session")
def golden_root() -> Path:
    """The unpacked golden tables: ``public/<case>/`` and ``versions/<version>/<case>/``. Read-only."""
    return golden.unpack(PROJECT / ".cache")
