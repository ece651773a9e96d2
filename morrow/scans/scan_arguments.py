"""The arguments that all scans take, checked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from morrow.engine.arguments import MOST_BATCH_ROWS, MOST_ROWS
from morrow.engine.errors import InvalidArgument


def checked_columns(columns: Sequence[str]) -> tuple[str, ...]:
    """Checks a caller's list of column names. Raises `InvalidArgument` for anything else, and for duplicates."""
    if isinstance(columns, str):
        raise InvalidArgument(f"columns must be a list of names, not the text {columns!r}; write columns=[{columns!r}]")
    if not isinstance(columns, Iterable) or not all(isinstance(name, str) for name in columns):
        raise InvalidArgument(f"columns must be a list of column names, not {columns!r}")
    if len(set(columns)) != len(columns):
        raise InvalidArgument(f"columns names a column twice: {list(columns)}")
    return tuple(columns)


def checked_limit(limit: int | None) -> int | None:
    """Checks a caller's limit. Raises `InvalidArgument` unless it is a number of rows."""
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or not 0 <= limit <= MOST_ROWS):
        raise InvalidArgument(f"limit must be a number of rows, 0 or more, not {limit!r}")
    return limit


def checked_rows(batch_rows: int | None) -> int | None:
    """Checks a caller's batch size. Raises `InvalidArgument` unless it is a positive number."""
    if batch_rows is not None and (
        isinstance(batch_rows, bool) or not isinstance(batch_rows, int) or not 1 <= batch_rows <= MOST_BATCH_ROWS
    ):
        raise InvalidArgument(f"batch_rows must be a number of rows, 1 or more, not {batch_rows!r}")
    return batch_rows
