"""The kinds of work of a read's tasks. This module imports little, as `tasks`."""

from __future__ import annotations

from enum import StrEnum


class Work(StrEnum):
    """The output that tasks make of sections."""

    ROWS = "rows"
    """All their rows."""
    MERGED = "merged"
    """The rows of keys whose versions are combined."""
    MASKS = "masks"
    """For each file, the live rows as they are stored."""
