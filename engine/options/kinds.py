"""The kinds of option values: texts that Paimon accepts, the Python values they mean, and enumerated words.

Units and their spellings are Paimon's; words are case-insensitive. A value that is being set must be valid exactly as
given; blanks around a stored value are stripped first.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from enum import StrEnum
from importlib.metadata import entry_points
from types import MappingProxyType
from typing import Generic, TypeVar

import msgspec

from morrow.engine.units import NANOS_PER_MICRO

T_co = TypeVar("T_co", covariant=True)
W = TypeVar("W", bound=StrEnum)

MAX_LONG = 2**63 - 1
# Patterns as text: `re` compiles each when it is first used.
MEMORY_TEXT = r"([0-9]+)\s*([a-z]*)"
MEMORY_UNITS: Mapping[str, int] = {
    **dict.fromkeys(("", "b", "bytes"), 1),
    **dict.fromkeys(("k", "kb", "kibibytes"), 1 << 10),
    **dict.fromkeys(("m", "mb", "mebibytes"), 1 << 20),
    **dict.fromkeys(("g", "gb", "gibibytes"), 1 << 30),
    **dict.fromkeys(("t", "tb", "tebibytes"), 1 << 40),
}
DURATION_TEXT = r"([0-9]+)\s*([a-zµ]*)"
DURATION_UNITS: Mapping[str, int] = {
    **dict.fromkeys(("ns", "nano", "nanos", "nanosecond", "nanoseconds"), 1),
    **dict.fromkeys(("µs", "micro", "micros", "microsecond", "microseconds"), 1_000),
    **dict.fromkeys(("", "ms", "milli", "millis", "millisecond", "milliseconds"), 1_000_000),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1_000_000_000),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60 * 1_000_000_000),
    **dict.fromkeys(("h", "hour", "hours"), 3_600 * 1_000_000_000),
    **dict.fromkeys(("d", "day", "days"), 86_400 * 1_000_000_000),
}
"""Unit -> nanoseconds. A number without a unit is in milliseconds."""
REAL_TEXT = r"[+-]?(NaN|Infinity|([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[fFdD]?)"
QUOTES = ("'", '"')
"""Paimon allows parts of pairs to be quoted; no option that has pairs needs it."""
FIRST_ROW = "first-row"
"""The merge engine that does not support changelogs by full compaction."""
MERGE_ENGINES = ("deduplicate", "partial-update", "aggregation", FIRST_ROW)
MERGE_ENGINE_PLUGINS = "morrow.merge_engines"
"""The entry points by which other packages add merge engines."""
AGGREGATE_FUNCTION_PLUGINS = "morrow.aggregate_functions"
"""The entry points by which other packages add aggregate functions."""


class BadValue(Exception):
    """A text that is not a value of a kind; its message describes valid values. It never leaves this package."""


class UnknownWord(BadValue):
    """A word that an option does not know; the message lists the known words."""


class Kind(msgspec.Struct, Generic[T_co], frozen=True):
    """The values that an option accepts: `name` and `expected` describe them, `parse` raises `BadValue` for others.

    `strict`: blanks around a value are refused when it is set, as in Paimon. `is_open`: other software may know more
    values than Morrow does.
    """

    name: str
    expected: str
    parse: Callable[[str], T_co]
    strict: bool = True
    is_open: bool = False

    def accepts(self, text: str) -> bool:
        """Return whether this value may be set."""
        try:
            self.parse(text)
        except BadValue:
            return self.is_open
        return not self.strict or text == text.strip()


def _make_kind(name: str, expected: str, parse: Callable[[str], T_co | None], strict: bool = True) -> Kind[T_co]:
    def parsed(text: str) -> T_co:
        found = parse(text)
        if found is None:
            raise BadValue(f"it must be {expected}")
        return found

    return Kind(name, expected, parsed, strict)


def parse_whole(text: str) -> int | None:
    """Parse decimal digits with an optional sign; return None for any other text."""
    return int(text) if re.fullmatch(r"[+-]?[0-9]+", text) else None


def parse_names(text: str | None) -> tuple[str, ...]:
    """Return names separated by commas, without surrounding blanks; empty names are left out."""
    return tuple(part.strip() for part in text.split(",") if part.strip()) if text else ()


def _make_integer_parser(bits: int) -> Callable[[str], int | None]:
    most = 1 << (bits - 1)

    def parse(text: str) -> int | None:
        found = parse_whole(text.strip())
        return found if found is not None and -most <= found < most else None

    return parse


def _parse_bool(text: str) -> bool | None:
    return {"true": True, "false": False}.get(text.strip().lower())


def _parse_real(text: str) -> float | None:
    text = text.strip()
    return float(text.rstrip("fFdD")) if re.fullmatch(REAL_TEXT, text) else None


def _parse_memory(text: str) -> int | None:
    match = re.fullmatch(MEMORY_TEXT, text.strip().lower())
    size = int(match[1]) * MEMORY_UNITS[match[2]] if match and match[2] in MEMORY_UNITS else None
    return None if size is None or size > MAX_LONG else size


def _parse_duration(text: str) -> timedelta | None:
    match = re.fullmatch(DURATION_TEXT, text.strip().lower())
    if match is None or match[2] not in DURATION_UNITS or int(match[1]) > MAX_LONG:
        return None
    try:
        return timedelta(microseconds=int(match[1]) * DURATION_UNITS[match[2]] // NANOS_PER_MICRO)
    except OverflowError:
        return timedelta.max


def _parse_pairs(text: str) -> Mapping[str, str] | None:
    """Parse pairs separated by commas; return None also for a duplicate key."""
    pairs: dict[str, str] = {}
    for part in parse_names(text):
        name, colon, value = (piece.strip() for piece in part.partition(":"))
        if not (name and colon and value) or name in pairs or any(mark in part for mark in QUOTES):
            return None
        pairs[name] = value
    return pairs


def _parse_levels(text: str) -> Mapping[int, str]:
    levels: dict[int, str] = {}
    for level, value in PAIRS.parse(text).items():
        if not (level.isascii() and level.isdigit()):
            raise BadValue(f"it names the level {level!r}; write 0:avro,1:parquet")
        levels[int(level)] = value.lower()
    return levels


BOOL: Kind[bool] = _make_kind("bool", "true or false", _parse_bool)
INT: Kind[int] = _make_kind("int", "a whole number of 32 bits", _make_integer_parser(32))
LONG: Kind[int] = _make_kind("long", "a whole number of 64 bits", _make_integer_parser(64))
REAL: Kind[float] = _make_kind("number", "a number", _parse_real, strict=False)
TEXT: Kind[str] = Kind("text", "text", lambda text: text, strict=False)
PREFIX: Kind[str] = _make_kind(
    "prefix", "a text without / and \\", lambda text: None if {"/", "\\", "\0"} & set(text) else text, strict=False
)
"""The beginning of a file name."""
WORD: Kind[str] = Kind("word", "a word", lambda text: text.strip().lower(), strict=False)
"""A word of an open set: formats and codecs."""
NAMES: Kind[tuple[str, ...]] = Kind("names", "names between commas", parse_names, strict=False)
MEMORY: Kind[int] = _make_kind("size", "a size such as 128 mb (units b, kb, mb, gb, tb)", _parse_memory, strict=False)
DURATION: Kind[timedelta] = _make_kind(
    "time span", "a time span such as 10 s (units ns, µs, ms, s, min, h, d)", _parse_duration, strict=False
)
PAIRS: Kind[Mapping[str, str]] = _make_kind("pairs", "pairs such as 0:avro,1:parquet", _parse_pairs, strict=False)
LEVELS: Kind[Mapping[int, str]] = Kind("words by level", PAIRS.expected, _parse_levels, strict=False)
NO_LEVELS: Mapping[int, str] = MappingProxyType({})


def make_choice(*choices: str) -> Kind[str]:
    """Return the kind of an option with these words as values."""

    def parse(text: str) -> str:
        return _match_word(text, choices)

    return Kind(" \\| ".join(choices), f"one of {', '.join(choices)}", parse)


def make_enum_choice(choices: type[W], *, is_open: bool = False) -> Kind[W]:
    """Return the kind of an option with the words of an enumeration as values."""

    def parse(text: str) -> W:
        return choices(_match_word(text, tuple(choices)))

    return Kind(" \\| ".join(choices), f"one of {', '.join(choices)}", parse, is_open=is_open)


def _match_word(text: str, choices: Sequence[str]) -> str:
    word = text.strip().lower()
    if word not in choices:
        raise UnknownWord(", ".join(choices))
    return word


def _parse_merge_engine(text: str) -> str:
    """Parse a built-in engine, or one that an installed package registers."""
    word = text.strip().lower()
    registered = () if word in MERGE_ENGINES else tuple(entry_points(group=MERGE_ENGINE_PLUGINS).names)
    return _match_word(word, (*MERGE_ENGINES, *registered))


MERGE_ENGINE_NAME: Kind[str] = Kind(
    " \\| ".join(MERGE_ENGINES), f"one of {', '.join(MERGE_ENGINES)}", _parse_merge_engine, is_open=True
)


class ChangelogProducer(StrEnum):
    """The source of changelog files."""

    NONE = "none"
    INPUT = "input"
    FULL_COMPACTION = "full-compaction"
    LOOKUP = "lookup"


class LookupCompact(StrEnum):
    """The urgency of compacting level 0 for lookups: at each write, or within an interval of writes."""

    RADICAL = "radical"
    GENTLE = "gentle"


class ExpireStrategy(StrEnum):
    """The age of a partition: according to the time in its values, or to its newest file."""

    VALUES_TIME = "values-time"
    UPDATE_TIME = "update-time"


class TagCreation(StrEnum):
    """The occasions for automatic tag creation."""

    NONE = "none"
    PROCESS_TIME = "process-time"
    WATERMARK = "watermark"
    BATCH = "batch"


class Period(StrEnum):
    """The named periods."""

    DAILY = "daily"
    HOURLY = "hourly"
    TWO_HOURS = "two-hours"


class PeriodFormatter(StrEnum):
    """The format of a period's time in the name of its tag."""

    WITH_DASHES = "with_dashes"
    WITHOUT_DASHES = "without_dashes"
    WITHOUT_DASHES_AND_SPACES = "without_dashes_and_spaces"
