"""Users whose file operations are interleaved in an order drawn from a seed.

A failure names its seed; repeat it with
`python -m tests.campaigns.isolation --kind KIND --seed SEED --schedules 1`.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from tests.isolation.history import anomalies
from tests.isolation.kinds import KINDS
from tests.isolation.schedules import play

LONG = os.environ.get("HYPOTHESIS_PROFILE") == "long"
SCHEDULES = 300 if LONG else 1
FIRST_SEED = random.SystemRandom().randrange(10**6) if LONG else 0


@pytest.mark.parametrize("name", KINDS)
def test_schedules(name: str, tmp_path: Path) -> None:
    KINDS[name].create(str(tmp_path / "template"), FIRST_SEED)
    for seed in range(FIRST_SEED, FIRST_SEED + SCHEDULES):
        found = anomalies(play(name, seed, tmp_path / "template", tmp_path / str(seed)))
        assert not found, f"{name}, seed {seed}:\n" + "\n".join(found)
