"""A parser of times with ``DateTimeFormatter`` patterns as in Java (``partition.timestamp-formatter``).

    y u         year (of the era, proleptic): yy is 2000 to 2099, yyyy four digits, or more after a plus
    M L d D     month, day of the month, day of the year: one letter is any width, several are that many digits;
                MMM is Jan to Dec
    H k h K a   hour: 0-23, 1-24, 1-12, 0-11; AM or PM
    m s S       minute, second, fraction of the second in as many digits as letters
    'text' ''   the text itself, a quote
    [ ]         optional part

Every other letter, and ``{ } #``, is refused. Adjacent numbers without a separator are split as in Java: the first
number takes the digits that the following fixed-width numbers leave. Values are resolved as by Java's SMART resolver:
the 31st of a shorter month is its last day, and 24:00 is the next day.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import TypeAlias

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.structs import replace
from morrow.engine.units import NANOS_PER_DAY, NANOS_PER_SECOND

MAX_YEAR = 999_999_999
SHORT_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")

DAYS_PER_ERA = 146_097
"""Days of 400 years of the Gregorian calendar."""
DAYS_TO_EPOCH = 719_468
"""Days from 0000-03-01 to 1970-01-01."""

_TOKEN = re.compile(r"(?P<quoted>'(?:[^']|'')*')|(?P<letters>([A-Za-z])\3*)|(?P<other>.)", re.DOTALL)
_BY_WIDTH = {"d": "d", "H": "H", "h": "h", "k": "k", "K": "K", "m": "m", "s": "s", "M": "M", "L": "M"}
RESERVED = "{}#'"


@lru_cache(maxsize=64)
def parse_date_pattern(pattern: str) -> DatePattern:
    """Return the parsed pattern.

    Raises `InvalidArgument`: an invalid pattern, as in Java. `Unsupported`: a letter that Morrow does not support.
    """
    parts: list[list[Part]] = [[]]
    for token in _TOKEN.finditer(pattern):
        if token["letters"]:
            _append(parts[-1], _make_part(token["letters"], pattern))
        elif token["quoted"]:
            parts[-1].append(Literal(token["quoted"][1:-1].replace("''", "'") or "'"))
        elif token["other"] == "[":
            parts.append([])
        elif token["other"] == "]":
            if len(parts) == 1:
                raise InvalidArgument(f"the time pattern {pattern!r} closes a bracket that was not opened")
            _close(parts)
        elif token["other"] in RESERVED:
            raise InvalidArgument(f"the time pattern {pattern!r} has a {token['other']} where Java allows none")
        else:
            parts[-1].append(Literal(token["other"]))
    while len(parts) > 1:  # Java closes open brackets at the end
        _close(parts)
    return DatePattern(pattern, tuple(parts[0]))


def _close(parts: list[list[Part]]) -> None:
    inner = parts.pop()
    if inner:
        parts[-1].append(Optional(tuple(inner)))


def _make_part(letters: str, pattern: str) -> Part:
    letter, count = letters[0], len(letters)
    if letter in "yu":
        if count == 2:
            return Number(letter, 2, 2, Sign.NEVER, reduced=True)
        return Number(letter, count, MAX_DIGITS, Sign.NORMAL if count < 4 else Sign.EXCEEDS_PAD)
    if letters == "MMM":
        return Words("M", SHORT_MONTHS, 1)
    if letters == "a":
        return Words("a", ("AM", "PM"), 0)
    if letter == "S" and count <= 9:
        return Fraction(count)
    if letter == "D" and count <= 3:
        return Number("D", count, 3, Sign.NEVER) if count > 1 else Number("D", 1, MAX_DIGITS, Sign.NORMAL)
    if letter in _BY_WIDTH and count <= 2:
        field = _BY_WIDTH[letter]
        return Number(field, 2, 2, Sign.NEVER) if count == 2 else Number(field, 1, MAX_DIGITS, Sign.NORMAL)
    raise Unsupported(
        f"{letters!r} in the time pattern {pattern!r}",
        hint="write it with y, u, M, d, D, H, k, h, K, a, m, s, S, quoted text and [ ]",
    )


def _append(parts: list[Part], part: Part) -> None:
    """Append a part; a fixed-width number reserves its digits from the first number of its run of adjacent numbers."""
    width = part.most if isinstance(part, Number) and part.is_fixed else 0
    width = part.digits if isinstance(part, Fraction) else width
    if width:
        run = list(itertools.takewhile(_is_fixed, reversed(parts)))
        first = len(parts) - len(run) - 1
        head = parts[first] if first >= 0 else None
        if isinstance(head, Number):
            parts[first] = replace(head, behind=head.behind + width)
    parts.append(part)


def _is_fixed(part: Part) -> bool:
    return isinstance(part, Fraction) or (isinstance(part, Number) and part.is_fixed)


@dataclass(frozen=True)
class DatePattern:
    """A pattern that parses times without zone."""

    text: str
    parts: tuple[Part, ...]

    def read(self, text: str) -> int | None:
        """Return nanoseconds since 1970-01-01 without a time zone; midnight if the text lacks an hour.

        None if the pattern does not match the text, or the text lacks a date.
        """
        fields: Fields = {}
        if read_all(self.parts, text, 0, fields) != len(text) or not _is_valid(fields):
            return None
        day = _resolve_day(fields)
        return None if day is None else day * NANOS_PER_DAY + _resolve_time(fields)


_RANGES: Mapping[str, tuple[int, int]] = {
    "y": (1, MAX_YEAR),
    "u": (-MAX_YEAR, MAX_YEAR),
    "M": (1, 12),
    "d": (1, 31),
    "D": (1, 366),
    "H": (0, 24),
    "k": (0, 24),
    "K": (0, 11),
    "h": (0, 12),
    "m": (0, 59),
    "s": (0, 59),
}
"""The valid values of each field. Hour 24 and clock hour 0 are checked again when the time is resolved."""


def _is_valid(fields: Fields) -> bool:
    checked = (name for name in _RANGES if name not in "Hms" or not _has_gap(fields))
    in_range = all(_RANGES[name][0] <= fields.get(name, _RANGES[name][0]) <= _RANGES[name][1] for name in checked)
    if not in_range or fields.get("y", fields.get("u")) != fields.get("u", fields.get("y")):
        return False
    if _has_gap(fields):
        return True
    hours = {hour for of in _HOURS.values() if (hour := of(fields)) is not None}
    past_midnight = any(fields.get(name) for name in "msS")
    return (
        len(hours) <= 1 and not (24 in hours and past_midnight) and all(_is_consistent(hour, fields) for hour in hours)
    )


def _has_gap(fields: Fields) -> bool:
    """Return whether hour and seconds lack minutes, or a fraction lacks seconds, so that Java ignores all of them."""
    units = [name in fields for name in "msS"]
    return any(of(fields) is not None for of in _HOURS.values()) and units != sorted(units, reverse=True)


def _is_consistent(hour: int, fields: Fields) -> bool:
    """Return whether AM/PM and the half-day hour, if given, agree with the hour."""
    half, of_half = divmod(hour % 24, 12)
    return fields.get("a", half) == half and fields.get("K", of_half) == of_half == fields.get("h", of_half) % 12


_HOURS: Mapping[str, Callable[[Fields], int | None]] = {
    "H": lambda fields: fields.get("H"),
    "k": lambda fields: fields["k"] % 24 if "k" in fields else None,
    "K": lambda fields: fields["a"] * 12 + fields["K"] if {"a", "K"} <= fields.keys() else None,
    "h": lambda fields: fields["a"] * 12 + fields["h"] % 12 if {"a", "h"} <= fields.keys() else None,
}
"""Functions from the fields to the hour of the day, by the letter that gives it."""


def _resolve_time(fields: Fields) -> int:
    hour = next((hour for of in _HOURS.values() if (hour := of(fields)) is not None), None)
    if hour is None or _has_gap(fields):
        return 0  # without a time of day, the result is midnight
    seconds = (hour * 60 + fields.get("m", 0)) * 60 + fields.get("s", 0)
    return seconds * NANOS_PER_SECOND + fields.get("S", 0)


def _resolve_day(fields: Fields) -> int | None:
    year = fields.get("y", fields.get("u"))
    if year is None:
        return None
    if {"M", "d"} <= fields.keys():
        day = to_epoch_day(year, fields["M"], min(fields["d"], _count_month_days(year, fields["M"])))
    elif "D" in fields:
        day = to_epoch_day(year, 1, 1) + fields["D"] - 1
    else:
        return None
    agrees = to_epoch_day(year, 1, 1) + fields.get("D", 0) - 1 in (day, to_epoch_day(year, 1, 1) - 1)
    return day if agrees and day < to_epoch_day(year + 1, 1, 1) else None


def _count_month_days(year: int, month: int) -> int:
    return to_epoch_day(year + month // 12, month % 12 + 1, 1) - to_epoch_day(year, month, 1)


def to_epoch_day(year: int, month: int, day: int) -> int:
    """Return the days since 1970-01-01 of a date in the proleptic Gregorian calendar.

    `year` and `day` may be any number.
    """
    shifted = year - (month <= 2)  # years begin in March, so that the leap day is the last day
    era, of_era = divmod(shifted, 400)
    of_year = (153 * ((month - 3) % 12) + 2) // 5 + day - 1
    return era * DAYS_PER_ERA + of_era * 365 + of_era // 4 - of_era // 100 + of_year - DAYS_TO_EPOCH


MAX_DIGITS = 19
REDUCED_BASE = 2000

Fields: TypeAlias = dict[str, int]
"""Letter of the pattern (L counts as M) -> parsed number."""


class Sign(Enum):
    """The signs that a number may have."""

    NEVER = "never"
    NORMAL = "minus only"
    EXCEEDS_PAD = "minus, and a plus in front of more digits than the least"


@dataclass(frozen=True)
class Number:
    """A number; `behind` counts the digits that it leaves for the fixed-width numbers directly after it."""

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
        digits = _count_digits(text, first, self.most + self.behind)
        if self.behind:  # digits are left for these numbers only if all of them are present
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
    """The digits of a fraction of a second, without the decimal point."""

    digits: int

    def read(self, text: str, start: int, fields: Fields) -> int | None:
        if _count_digits(text, start, self.digits) < self.digits:
            return None
        end = start + self.digits
        return _put(fields, "S", int(text[start:end].ljust(9, "0")), end)


@dataclass(frozen=True)
class Words:
    """One of several words, which mean consecutive numbers from `first` on."""

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
    """Set a field; return None if it already has another value, since Java rejects text with conflicting values."""
    return end if fields.setdefault(field, value) == value else None


_RUN = re.compile("[0-9]*")


def _count_digits(text: str, start: int, most: int) -> int:
    run = _RUN.match(text, start)
    return min(most, len(run[0])) if run else 0
