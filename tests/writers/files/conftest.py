"""Fixtures for tests of data files."""

from __future__ import annotations

import pytest

from morrow.writers.files import encoders


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> int:
    """Rows of a block, few enough that small files have several."""
    rows = 7
    monkeypatch.setattr(encoders, "MAX_BLOCK_ROWS", rows)
    monkeypatch.setattr(encoders, "MIN_BLOCK_ROWS", rows)
    return rows
