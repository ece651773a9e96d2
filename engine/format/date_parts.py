"""The parts of a time in text, each of which reads its piece: numbers, fractions, words, literals, what may be absent.

They read as the parts of Java's ``DateTimeFormatter`` do in strict mode; `date_patterns` makes them of a pattern.
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
    """Which signs a number may have."""

    NEVER = "never"
    NORMAL = "minus only"
    EXCEEDS_PAD = "minus, and a plus in front of more digits than the least"


@dataclass(frozen=True)
class Number:
    """`behind`: digits of the fixed numbers that follow at once, and that this one leaves to them."""

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
        if self.behind:  # what is left to them counts only when all of it was seen
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
    """Digits of the second after the point, which is not among them."""

    digits: int

    def read(self, text: str, start: int, fields: Fields) -> int | None:
        if _digits(text, start, self.digits) < self.digits:
            return None
        end = start + self.digits
        return _put(fields, "S", int(text[start:end].ljust(9, "0")), end)


@dataclass(frozen=True)
class Words:
    """One of some words, which stand for numbers from `first` on."""

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
    """Java reads no text that gives one field two values."""
    return end if fields.setdefault(field, value) == value else None


_RUN = re.compile("[0-9]*")


def _digits(text: str, start: int, most: int) -> int:
    run = _RUN.match(text, start)
    return min(most, len(run[0])) if run else 0
