"""Fixtures for tests of data files."""

from __future__ import annotations

import pytest

from morrow.writers.files import encoders


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> int:
    """Lower the rows per block so that small files have several blocks."""
    rows = 7
    monkeypatch.setattr(encoders, "MAX_BLOCK_ROWS", rows)
    monkeypatch.setattr(encoders, "MIN_BLOCK_ROWS", rows)
    return rows
