"""Fixtures for tests of data files."""

from __future__ import annotations

import pytest

from morrow.writers.files import blocks


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> int:
    """Rows of a block, few enough that small files have several."""
    rows = 7
    monkeypatch.setattr(blocks, "MOST_BLOCK_ROWS", rows)
    monkeypatch.setattr(blocks, "LEAST_BLOCK_ROWS", rows)
    return rows
