"""Fixtures for all tests of a table's history."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from morrow.engine.io.local import disable_fsync


@pytest.fixture(autouse=True)
def _no_power_loss() -> Iterator[None]:
    """Disable fsync, which would take most of the time; power loss is tested elsewhere."""
    with disable_fsync():
        yield
