"""What to say when there is no table of a name."""

from __future__ import annotations

import difflib
from collections.abc import Sequence


def nearest(name: str, known: Sequence[str]) -> str:
    """All names that there are, and the one that was probably meant."""
    close = difflib.get_close_matches(name.lower(), known, n=1)
    guess = f"did you mean {close[0]!r}? " if close else ""
    return f"{guess}there are {', '.join(known)}"
