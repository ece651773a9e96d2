"""What lasts is tested here."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def syncing() -> None:
    """Files are synced, unless a test says otherwise."""
