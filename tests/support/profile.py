"""The test profile: `make test`, or `make test-long`, which tries many more cases."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TypeVar

IS_LONG = os.environ.get("HYPOTHESIS_PROFILE") == "long"

T = TypeVar("T")


def every(step: int, cases: Iterable[T], first: int = 0) -> list[T]:
    """Return every n-th case, beginning with `first`; all cases in `make test-long`.

    Cases that combine parameters are sampled so that each value of each parameter occurs; else `ValueError` is raised.
    """
    known = list(cases)
    chosen = known if IS_LONG else known[first::step]
    if known and all(isinstance(case, tuple) for case in known):
        for number, (before, left) in enumerate(zip(zip(*known), zip(*chosen))):
            if set(map(repr, before)) != set(map(repr, left)):
                raise ValueError(f"parameter {number}: every {step} cases leave values out: choose another step")
    return chosen
