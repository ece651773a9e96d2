"""Fixtures for commit tests, which need not survive a power loss."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from morrow.engine.io.local import disable_fsync
from morrow.writers.commit import commit_lock


@pytest.fixture(autouse=True)
def _without_fsync() -> Iterator[None]:
    with disable_fsync():
        yield


@pytest.fixture
def _without_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let committers run at the same time instead of queueing, so that they conflict."""
    monkeypatch.setattr(commit_lock, "MAX_WAIT_SECONDS", 0.0)
