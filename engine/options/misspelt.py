"""Detection of misspelt option keys in stored tables, for options that decide which rows a read returns.

Unknown options belong to other software and change nothing. But one damaged byte of a schema file, or a typing error
at the table's creation, must not turn such an option into an unknown one.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from morrow.engine.errors import InvalidArgument
from morrow.engine.format.slips import is_slip, slip_of
from morrow.engine.options.registry import BY_ANY_KEY, COLUMN_OPTIONS, OPTIONS

FIELDS = "fields"
READ_BY = tuple(key for option in OPTIONS.values() if option.rows for key in option.keys)
"""Options that decide which rows a batch read returns: a key one slip away from one is not taken for unknown."""
LEAST_HEAD = 4
"""The least number of characters at its beginning that identify an option."""
FIELD_OPTIONS = tuple(suffix for suffix, option in COLUMN_OPTIONS.items() if option.rows)


def refuse_slips(raw: Mapping[str, str], where: str) -> None:
    """Checks the keys of a table's options.

    Raises:
        InvalidArgument: a key is a slip away from an option that decides which rows a read returns.
    """
    for key in raw:
        if key not in BY_ANY_KEY and (meant := _meant(key)) is not None:
            raise InvalidArgument(
                f"{where}: the option {key!r} looks like a slip or a damage of {meant!r}, which decides which rows are "
                "read; correct or remove it in the newest schema file, or restore that from a backup"
            )


@lru_cache(maxsize=1 << 12)
def _meant(key: str) -> str | None:
    parts = key.split(".")
    first, between, last = parts[0], parts[1:-1], parts[-1]
    if between and last in COLUMN_OPTIONS:
        return f"{FIELDS}.{'.'.join(between)}.{last}" if last in FIELD_OPTIONS and is_slip(first, FIELDS) else None
    if first == FIELDS and between and (meant := slip_of(last, FIELD_OPTIONS) or _uncut(last)) is not None:
        return f"{FIELDS}.{'.'.join(between)}.{meant}"
    if not between and last in FIELD_OPTIONS and first.startswith(FIELDS):
        return f"{FIELDS}.{first[len(FIELDS) + 1 :]}.{last}"  # the dot before the column is another character
    return slip_of(key, READ_BY)


def _uncut(name: str) -> str | None:
    """Returns the column option of which `name` is the beginning and the end, with more than half of it cut out."""
    for meant in FIELD_OPTIONS:
        head = next((i for i, pair in enumerate(zip(name, meant)) if pair[0] != pair[1]), len(name))
        if LEAST_HEAD <= head < len(name) < len(meant) and meant.endswith(name[head:]):
            return meant
    return None
