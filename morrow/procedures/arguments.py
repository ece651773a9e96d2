"""Arguments of procedures that are lists in one text."""

from __future__ import annotations

import re

from morrow.engine.errors import InvalidArgument
from morrow.procedures.procedure import pairs

BUCKETS = re.compile(r"([0-9]{1,9})(?:\s*-\s*([0-9]{1,9}))?")


def partitions_of(text: str | None) -> list[dict[str, object]]:
    """Parses ``dt=1,hh=2;dt=3`` as values of partition columns; quotes around a value are removed.

    Raises `InvalidArgument`.
    """
    parts = [pairs(part, "partitions") for part in (text or "").split(";") if part.strip()]
    return [{key: _unquoted(value) for key, value in part.items()} for part in parts]


def buckets_of(text: str) -> tuple[range, ...]:
    """Parses ``0-3,7`` as ranges of bucket numbers. Raises `InvalidArgument`."""
    found = []
    for part in text.split(","):
        match = BUCKETS.fullmatch(part.strip())
        if match is None or int(match[1]) > int(match[2] or match[1]):
            raise InvalidArgument(f"compact: buckets are numbers such as '0-3,7', not {text!r}")
        found.append(range(int(match[1]), int(match[2] or match[1]) + 1))
    return tuple(found)


def _unquoted(value: str) -> str:
    quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
    return value[1:-1] if quoted else value
