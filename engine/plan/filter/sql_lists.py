"""Long lists of literals in SQL text, read without a parser.

sqlglot takes 70 microseconds a literal, and programs write lists of 100,000. So ``IN (1, 2, 3, ...)`` is parsed as
``IN (name)``, with a name in place of the list that no column can have.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal

from morrow.engine.names import OWN_PREFIX, own
from morrow.engine.plan.filter.sql_literals import Constant

SHORT_TEXT = 4096
"""The longest text, in characters, that is parsed without this."""
LONG_LIST = 100
UNCLEAR = ("--", "/*", "$", "\\", OWN_PREFIX)
"""Marks that may begin a comment or another kind of text: if one occurs, maybe in a text, the parser has to decide."""

_NUMBER = r"-?\d{1,19}+(?:\.\d{1,19}+)?+(?![\w.])"
"""At most 38 digits: a longer number is no DECIMAL."""
_TEXT = r"'(?:[^']|'')*+'"
_LIST = "|".join(
    rf"(?P<{kind}>{literal}(?:\s*+,\s*+{literal}){{{LONG_LIST - 1},}}+)"
    for kind, literal in (("numbers", _NUMBER), ("texts", _TEXT))
)
_TOKEN = re.compile(rf"""{_TEXT}|"(?:[^"]|"")*+"|\b[iI][nN]\s*+\(\s*+(?:{_LIST})\s*+\)""")


@dataclass(frozen=True)
class Shelved:
    """SQL text with names in place of long lists, and those lists."""

    text: str
    lists: Mapping[str, str] = field(default_factory=dict)
    """Name -> the literals, as written."""

    def restored(self, text: str) -> str:
        """Returns a part of the text as it was written."""
        for name, written in self.lists.items():
            text = text.replace(name, written)
        return text


def shelved(text: str) -> Shelved:
    """Returns the text with its long lists replaced by names."""
    if len(text) <= SHORT_TEXT or any(mark in text for mark in UNCLEAR):
        return Shelved(text)
    pieces: list[str] = []
    lists: dict[str, str] = {}
    end = 0
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup
        if kind is None:
            continue
        # No name is a prefix of another: they end in a letter.
        name = own("list", f"{len(lists)}x")
        lists[name] = match[kind]
        pieces += [text[end : match.start(kind)], name]
        end = match.end(kind)
    return Shelved("".join(pieces) + text[end:], lists)


def constants(written: str) -> list[Constant]:
    """Returns the literals of a list, see `morrow.engine.plan.filter.sql_literals.constant`."""
    if written.startswith("'"):
        return [Constant(text[1:-1].replace("''", "'"), "text") for text in re.findall(_TEXT, written)]
    if "." not in written:
        return [Constant(number, "number") for number in map(int, written.split(","))]
    return [_number(text) for text in re.findall(_NUMBER, written)]


def _number(text: str) -> Constant:
    return Constant(Decimal(text) if "." in text else int(text), "number")
