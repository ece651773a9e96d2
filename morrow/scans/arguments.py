"""Arguments of scans: columns, limits and batch sizes, time travel, and ages."""

from __future__ import annotations

import datetime as dt
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias, TypeVar

from morrow.engine.arguments import MAX_BATCH_ROWS, MAX_ROWS
from morrow.engine.errors import InvalidArgument
from morrow.engine.options.declarations import DURATION, BadValue
from morrow.engine.plan.time_travel import Time, TravelArguments, to_millis


def check_columns(columns: Sequence[str]) -> tuple[str, ...]:
    """Check a caller's list of column names. Raises `InvalidArgument` for anything else, and for duplicates."""
    if isinstance(columns, str):
        raise InvalidArgument(f"columns must be a list of names, not the text {columns!r}; write columns=[{columns!r}]")
    if not isinstance(columns, Iterable) or not all(isinstance(name, str) for name in columns):
        raise InvalidArgument(f"columns must be a list of column names, not {columns!r}")
    if len(set(columns)) != len(columns):
        raise InvalidArgument(f"columns names a column twice: {list(columns)}")
    return tuple(columns)


def check_limit(limit: int | None) -> int | None:
    """Check a caller's limit. Raises `InvalidArgument` unless it is a number of rows."""
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or not 0 <= limit <= MAX_ROWS):
        raise InvalidArgument(f"limit must be a number of rows, 0 or more, not {limit!r}")
    return limit


def check_batch_rows(batch_rows: int | None) -> int | None:
    """Check a caller's batch size. Raises `InvalidArgument` unless it is a positive number."""
    if batch_rows is not None and (
        isinstance(batch_rows, bool) or not isinstance(batch_rows, int) or not 1 <= batch_rows <= MAX_BATCH_ROWS
    ):
        raise InvalidArgument(f"batch_rows must be a number of rows, 1 or more, not {batch_rows!r}")
    return batch_rows


F = TypeVar("F", bound=Callable[..., Any])

Age: TypeAlias = dt.timedelta | Time
"""A moment, or how long ago it was: a timedelta, or text such as ``7 days``."""


def expose_travel_arguments(function: F) -> F:
    """Show each of `TravelArguments` in the signature of a function that takes them as ``**at``.

    Type checkers read ``**at: Unpack[TravelArguments]``; ``help()``, notebooks and documentation tools read the
    signature.
    """
    signature = inspect.signature(function)
    own = [each for each in signature.parameters.values() if each.kind is not inspect.Parameter.VAR_KEYWORD]
    travel = [
        # The annotations of a TypedDict are wrapped, but function annotations are text here.
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=getattr(annotation, "__forward_arg__", annotation),
        )
        for name, annotation in TravelArguments.__annotations__.items()
        if name not in signature.parameters
    ]
    shown = signature.replace(parameters=[*own, *travel])
    function.__signature__ = shown  # type: ignore[attr-defined]  # functions take any attribute
    return function


def to_epoch_millis(age: Age | None) -> int | None:
    """Return the epoch milliseconds of a moment, or of now minus an age; a bare number is a moment.

    Raises `InvalidArgument`: `age` is neither a moment nor an age.
    """
    if age is None or isinstance(age, int):
        return None if age is None else to_millis(age)
    try:
        span = _parse_span(age) if isinstance(age, str) else age
        if isinstance(span, dt.timedelta) and span < dt.timedelta():
            raise InvalidArgument("an age is not negative")
        return to_millis(dt.datetime.now(dt.UTC) - span if isinstance(span, dt.timedelta) else span)
    except (OverflowError, InvalidArgument) as error:
        raise InvalidArgument(
            f"older_than = {age!r} is neither an age, as a timedelta or text such as '7 days', nor a time: {error}"
        ) from error


def _parse_span(text: str) -> dt.timedelta | str:
    """Parse a time span; return the text unchanged if it is not a span. A bare number is a moment."""
    if text.strip().isdigit():
        return text
    try:
        return DURATION.parse(text)
    except BadValue:
        return text


def parse_time(text: str, argument: str) -> dt.datetime:
    """Parse a time such as ``2024-01-01 00:00:00``. A time without a zone is local time, as in Paimon.

    Raises `InvalidArgument`.
    """
    try:
        return dt.datetime.fromisoformat(text.strip()).astimezone()
    except (ValueError, OverflowError) as error:
        raise InvalidArgument(f"{argument} is a time such as '2024-01-01 00:00:00', not {text!r}") from error
