"""Table options in a query, in Flink's form: ``FROM db.orders /*+ OPTIONS('scan.snapshot-id' = '3') */``.

To DuckDB and its parser a hint is a comment. A hint that selects the rows must not be lost: it is honoured, or the
query is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.options.reading import TRAVEL_KEYS
from morrow.engine.options.registry import present_key
from morrow.engine.plan.time_travel import Travel, travel_of_options

_HINT = re.compile(r"\+\s*OPTIONS\b(.*)", re.IGNORECASE | re.DOTALL)
_TEXT = r"'(?:[^']|'')*'"
_PAIR = rf"\s*({_TEXT})\s*=\s*({_TEXT})\s*"
_PAIRS = re.compile(rf"\s*\(({_PAIR}(?:,{_PAIR})*)\)\s*")


def hints_in(comments: Iterable[str] | None) -> list[str]:
    """Returns the text after OPTIONS of the comments that are such hints."""
    found = (_HINT.fullmatch(comment) for comment in comments or ())
    return [match[1] for match in found if match]


def options_of_hints(hints: Sequence[str], table: str) -> dict[str, str]:
    """Returns the options of the hints after a table's name. Raises `InvalidArgument` for a malformed one."""
    options: dict[str, str] = {}
    for hint in hints:
        match = _PAIRS.fullmatch(hint)
        if match is None:
            raise InvalidArgument(f"{table}: the hint OPTIONS{hint} is not of the form OPTIONS('key' = 'value', ...)")
        options |= {present_key(_unquoted(key)): _unquoted(value) for key, value in re.findall(_PAIR, match[1])}
    return options


def travel_of_hints(options: Mapping[str, str], table: str) -> Travel:
    """Returns the state of a table that the options of hints ask for.

    Raises:
        InvalidArgument: an invalid value. Unsupported: an option other than those of time travel.
    """
    for key in options:
        if key not in TRAVEL_KEYS:
            known = ", ".join(TRAVEL_KEYS)
            raise Unsupported(f"the option {key!r} in a hint", where=table, hint=f"a query takes {known}")
    return travel_of_options(dict(options))


def _unquoted(text: str) -> str:
    return text[1:-1].replace("''", "'")
