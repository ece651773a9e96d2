"""Validation of user arguments: a value of the wrong kind raises `InvalidArgument` with a clear message."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeGuard, TypeVar

from morrow.engine.errors import InvalidArgument

V = TypeVar("V")

MAX_ROWS = 2**63 - 1
MAX_BATCH_ROWS = 2**31 - 1

NUL = "\0"
"""The character that ends a name in Arrow's C interface and in file systems."""


@contextmanager
def refuse_depth(what: str) -> Iterator[None]:
    """Raise `InvalidArgument` if the block, or the decorated function, recurses too deeply."""
    try:
        yield
    except RecursionError as error:
        raise InvalidArgument(f"{what} nested deeper than Python can follow; flatten it") from error


def check_text(value: str, what: str) -> str:
    """Return `value` after checking that it is text that can be stored.

    Raises:
        InvalidArgument: `value` is not text, has lone surrogates, which UTF-8 cannot encode, or has NUL, which ends a
        name in other programs.
    """
    if not isinstance(value, str):
        raise InvalidArgument(f"{what} is text, not {value!r}")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise InvalidArgument(f"{what} cannot be {value!r}: it holds half of a character") from error
    if NUL in value:
        raise InvalidArgument(f"{what} cannot be {value!r}: it holds a NUL character; leave it out")
    return value


def is_name(value: object) -> TypeGuard[str]:
    """Return whether a value is text that can name a file, a column or an Arrow field, as `check_text` checks."""
    return isinstance(value, str) and NUL not in value and (value.isascii() or not any(map(is_surrogate, value)))


def is_surrogate(character: str) -> bool:
    """Return whether a character is half of a surrogate pair, which UTF-8 cannot encode."""
    return "\ud800" <= character <= "\udfff"


def check_texts(value: str | Sequence[str] | None, what: str) -> tuple[str, ...]:
    """Return one text or several as a tuple; None gives an empty tuple. Raises `InvalidArgument`."""
    if value is None:
        return ()
    if isinstance(value, str):
        return (check_text(value, what),)
    if isinstance(value, (bytes, Mapping)) or not isinstance(value, Iterable):
        raise InvalidArgument(f"{what} is a name or a list of names, not {value!r}")
    return tuple(check_text(one, f"each of {what}") for one in value)


def check_mapping(value: Mapping[str, V] | None, what: str) -> Mapping[str, V]:
    """Return a mapping whose names the caller checks; None gives an empty one. Raises `InvalidArgument`."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InvalidArgument(f"{what} is a mapping, such as {{'name': ...}}, not {value!r}")
    return value


def check_instance(value: V, kind: type | tuple[type, ...], what: str) -> V:
    """Return `value` after checking that it is of this kind (a bool is not a number). Raises `InvalidArgument`."""
    kinds = kind if isinstance(kind, tuple) else (kind,)
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        named = " or ".join(one.__name__ for one in kinds)
        raise InvalidArgument(f"{what} is {named}, not {value!r}")
    return value
