"""Repeatable actions that leave the same bytes each time, since random names and times are fixed.

Tests that interrupt an action at many moments read each state that they find. Most states differ only in such names
and times. With these fixed, equal states are read once (`tests.support.table_files.fingerprint`).
"""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from morrow.engine.format.snapshot import DURATION
from morrow.writers.commit.messages import Tally
from morrow.writers.files import data_files

NANOS_PER_SECOND = 10**9
LATER = 10 * NANOS_PER_SECOND
"""The time of the action, relative to the creation of the table."""


@contextmanager
def repeatable(path: str) -> Iterator[None]:
    """Fix random names and the clock to the same values for every copy of a table; use it once for each copy."""
    moment = (Path(path) / "schema" / "schema-0").stat().st_mtime_ns + LATER
    chance, measured = random.Random(0), Tally.properties
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(uuid, "uuid4", lambda: uuid.UUID(int=chance.getrandbits(128), version=4))
        patch.setattr(time, "time_ns", lambda: moment)
        patch.setattr(time, "time", lambda: moment / NANOS_PER_SECOND)
        patch.setattr(data_files, "read_local_clock", lambda: moment * 1000 // NANOS_PER_SECOND)
        patch.setattr(Tally, "properties", lambda tally: {**measured(tally), DURATION: "0"})
        yield
