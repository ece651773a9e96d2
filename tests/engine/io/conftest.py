"""Durability is tested here, so files are synced."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def syncing() -> None:
    """Let tests sync files, unless they turn it off."""
