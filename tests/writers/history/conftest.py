"""What holds for all tests of tags."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from morrow.engine.io.local import disable_fsync


@pytest.fixture(autouse=True)
def _no_power_loss() -> Iterator[None]:
    """What power loss does is tested elsewhere; a sync takes longer than all else here."""
    with disable_fsync():
        yield
