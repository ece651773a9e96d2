"""Commits of tests need not outlive a loss of power."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from morrow.engine.io.durability import fsync_disabled


@pytest.fixture(autouse=True)
def _without_fsync() -> Iterator[None]:
    with fsync_disabled():
        yield
