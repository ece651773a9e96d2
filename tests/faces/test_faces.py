"""Random tables and conditions through every face: plain DuckDB, Polars and pyarrow return the same rows.

A failure names its seed; `python -m tests.campaigns.faces --seed SEED --tables 1` checks that table again.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from tests.faces.looking import look

LONG = os.environ.get("HYPOTHESIS_PROFILE") == "long"
TABLES = 500 if LONG else 1
FIRST_SEED = random.SystemRandom().randrange(10**6) if LONG else 0


@pytest.mark.parametrize("part", range(3 if LONG else 2))
def test_faces(part: int, tmp_path: Path) -> None:
    for seed in range(FIRST_SEED + part * TABLES, FIRST_SEED + (part + 1) * TABLES):
        looked = look(seed, tmp_path / str(seed))
        assert not looked.wrong, f"seed {seed}:\n" + "\n".join(map(str, looked.wrong))
