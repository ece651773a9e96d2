"""The test profile: `make test`, or `make test-long`, which tries many more cases."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TypeVar

IS_LONG = os.environ.get("HYPOTHESIS_PROFILE") == "long"

T = TypeVar("T")


def every(step: int, cases: Iterable[T], first: int = 0) -> list[T]:
    """Return every n-th case, beginning with `first`; all cases in `make test-long`."""
    return list(cases) if IS_LONG else list(cases)[first::step]
