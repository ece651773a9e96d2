"""Suggestions for table names that do not exist."""

from __future__ import annotations

import difflib
from collections.abc import Sequence


def nearest(name: str, known: Sequence[str]) -> str:
    """Returns a hint that lists all existing names and suggests the most similar one."""
    close = difflib.get_close_matches(name.lower(), known, n=1)
    guess = f"did you mean {close[0]!r}? " if close else ""
    return f"{guess}there are {', '.join(known)}"
