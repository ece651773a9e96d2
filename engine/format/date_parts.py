"""Parsers of the parts of a time in text: numbers, fractions, words, literals and optional parts.

They parse as the parts of Java's ``DateTimeFormatter`` do in strict mode; `date_patterns` makes them from a pattern.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

MOST_DIGITS = 19
REDUCED_BASE = 2000

Fields: TypeAlias = dict[str, int]
"""Letter of the pattern (L counts as M) -> number."""


class Sign(Enum):
    """The signs that a number may have."""

    NEVER = "never"
    NORMAL = "minus only"
    EXCEEDS_PAD = "minus, and a plus in front of more digits than the least"


@dataclass(frozen=True)
class Number:
    """A number; `behind` counts the digits that it leaves to the fixed numbers immediately after it."""

    field: str
    least: int
    most: int
    sign: Sign
    behind: int = 0
    reduced: bool = False

    @property
    def is_fixed(self) -> bool:
        return self.least == self.most and self.sign is Sign.NEVER

    def read(self, text: str, start: int, fields: Fields) -> int | None:
        minus, plus = text.startswith("-", start), text.startswith("+", start)
        if (minus and self.sign is Sign.NEVER) or (plus and self.sign is not Sign.EXCEEDS_PAD):
            return None
        first = start + (minus or plus)
        digits = _digits(text, first, self.most + self.behind)
        if self.behind:  # digits are left to those numbers only when all of them are present
            digits = min(digits, max(self.least, digits - self.behind))
        digits = min(digits, self.most)
        if digits < self.least or (self.sign is Sign.EXCEEDS_PAD and not minus and (digits > self.least) != plus):
            return None
        number = int(text[first : first + digits])
        if minus and not number:
            return None
        value = -number if minus else number + (REDUCED_BASE if self.reduced else 0)
        return _put(fields, self.field, value, first + digits)


@dataclass(frozen=True)
class Fraction:
    """The digits of a fraction of a second, without the point."""

    digits: int

    def read(self, text: str, start: int, fields: Fields) -> int | None:
        if _digits(text, start, self.digits) < self.digits:
            return None
        end = start + self.digits
        return _put(fields, "S", int(text[start:end].ljust(9, "0")), end)


@dataclass(frozen=True)
class Words:
    """One of several words, which stand for numbers from `first` on."""

    field: str
    words: tuple[str, ...]
    first: int

    def read(self, text: str, start: int, fields: Fields) -> int | None:
        for number, word in enumerate(self.words, self.first):
            if text.startswith(word, start):
                return _put(fields, self.field, number, start + len(word))
        return None


@dataclass(frozen=True)
class Literal:
    text: str

    def read(self, text: str, start: int, _: Fields) -> int | None:
        return start + len(self.text) if text.startswith(self.text, start) else None


@dataclass(frozen=True)
class Optional:
    parts: tuple[Part, ...]

    def read(self, text: str, start: int, fields: Fields) -> int | None:
        tried = dict(fields)
        end = read_all(self.parts, text, start, tried)
        if end is None:
            return start
        fields.update(tried)
        return end


Part: TypeAlias = Number | Fraction | Words | Literal | Optional


def read_all(parts: Sequence[Part], text: str, start: int, fields: Fields) -> int | None:
    place: int | None = start
    for part in parts:
        if place is None:
            return None
        place = part.read(text, place, fields)
    return place


def _put(fields: Fields, field: str, value: int, end: int) -> int | None:
    """Sets a field; returns None if it has another value already: Java rejects text that gives a field two values."""
    return end if fields.setdefault(field, value) == value else None


_RUN = re.compile("[0-9]*")


def _digits(text: str, start: int, most: int) -> int:
    run = _RUN.match(text, start)
    return min(most, len(run[0])) if run else 0
