"""The test profile: `make test`, or `make test-long`, which tries many more cases."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
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


def choose_cases(step: int, cases: Sequence[Mapping[str, int]]) -> set[int]:
    """Return the numbers of every n-th case, and of others so that each value that several cases share occurs.

    Cases are numbers of values by names of parameters.
    """
    uses = Counter(value for case in cases for value in case.items())
    chosen = set(range(0, len(cases), step))
    seen = {value for number in chosen for value in cases[number].items()}
    for number, case in enumerate(cases):
        if any(uses[value] > 1 and value not in seen for value in case.items()):
            chosen.add(number)
            seen |= case.items()
    return chosen
