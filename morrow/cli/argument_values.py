"""Values of arguments that are more than one word: lists of names, pairs, a warehouse and a query."""

from __future__ import annotations

import csv
from pathlib import Path

from morrow.engine.errors import InvalidArgument


def column_names(text: str | None) -> list[str] | None:
    """Parses a comma-separated list of names, which may be quoted as in CSV; None for None.

    Raises:
        InvalidArgument: no such list.
    """
    if text is None:
        return None
    try:
        names = next(csv.reader([text], skipinitialspace=True), [])
    except csv.Error as error:
        raise InvalidArgument(f'{text!r} is no list of names: {error}; write a,"b,c"') from error
    if not names:
        raise InvalidArgument('an empty list of names; write a,"b,c", or leave the option out')
    return names


def warehouse_and_query(words: list[str]) -> tuple[str | None, str | None]:
    """Splits ``QUERY``, ``WAREHOUSE QUERY``, ``WAREHOUSE`` or nothing. Raises `InvalidArgument` for more.

    One word alone is a warehouse if it is a folder or URL.
    """
    if len(words) > 2:
        raise InvalidArgument(f"{len(words)} arguments where a warehouse and a query were expected: quote the query")
    if len(words) == 2:
        return words[0], words[1]
    if not words:
        return None, None
    (word,) = words
    return (word, None) if _is_place(word) else (None, word)


def _is_place(word: str) -> bool:
    if any(letter.isspace() for letter in word):
        return False
    return "://" in word or Path(word).is_dir()


def named_paths(texts: list[str] | None) -> dict[str, str]:
    """Returns ``NAME=PATH`` options by name.

    Raises:
        InvalidArgument: an option of another form, or a name given twice.
    """
    paths: dict[str, str] = {}
    for text in texts or []:
        name, equals, path = text.partition("=")
        if not (name and equals and path):
            raise InvalidArgument(f"--table {text}: write NAME=PATH")
        if name in paths:
            raise InvalidArgument(f"--table {text}: the name {name} is given twice")
        paths[name] = path
    return paths


def pairs(option: str, texts: list[str] | None, *, last: bool = False) -> dict[str, str]:
    """Returns ``NAME=VALUE`` options by name, split at the last ``=`` if `last`, else at the first.

    Raises:
        InvalidArgument: an option of another form, or a name given twice.
    """
    found: dict[str, str] = {}
    for text in texts or []:
        name, equals, value = text.rpartition("=") if last else text.partition("=")
        if not (name and equals):
            raise InvalidArgument(f"{option} {text}: write NAME=VALUE")
        if name in found:
            raise InvalidArgument(f"{option} {text}: {name} is given twice")
        found[name] = value
    return found
