"""Option strings as values: each function reads one option, or gives its default.

What parses is what parses in Paimon: units and their spellings, true and false in any case, words in any case. Blanks
around a value are taken off.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import timedelta

from morrow.engine.errors import InvalidArgument, Unsupported

MOST_LONG = 2**63 - 1
MEMORY = re.compile(r"([0-9]+)\s*([a-z]*)")
MEMORY_UNITS: Mapping[str, int] = {
    **dict.fromkeys(("", "b", "bytes"), 1),
    **dict.fromkeys(("k", "kb", "kibibytes"), 1 << 10),
    **dict.fromkeys(("m", "mb", "mebibytes"), 1 << 20),
    **dict.fromkeys(("g", "gb", "gibibytes"), 1 << 30),
    **dict.fromkeys(("t", "tb", "tebibytes"), 1 << 40),
}
DURATION = re.compile(r"([0-9]+)\s*([a-zµ]*)")
DURATION_UNITS: Mapping[str, int] = {
    **dict.fromkeys(("ns", "nano", "nanos", "nanosecond", "nanoseconds"), 1),
    **dict.fromkeys(("µs", "micro", "micros", "microsecond", "microseconds"), 1_000),
    **dict.fromkeys(("", "ms", "milli", "millis", "millisecond", "milliseconds"), 1_000_000),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1_000_000_000),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60 * 1_000_000_000),
    **dict.fromkeys(("h", "hour", "hours"), 3_600 * 1_000_000_000),
    **dict.fromkeys(("d", "day", "days"), 86_400 * 1_000_000_000),
}
"""Unit -> nanoseconds. Without a unit a number is milliseconds."""
NANOS_PER_MICRO = 1_000

QUOTES = ("'", '"')
"""Paimon lets parts of pairs stand in quotes; no option that has pairs needs it."""


def flag(raw: Mapping[str, str], key: str, default: bool, where: str) -> bool:
    """A boolean option. Raises `InvalidArgument` for anything but true and false."""
    value = raw.get(key, str(default)).strip().lower()
    if value not in ("true", "false"):
        raise refused_value(raw, key, where, "it must be true or false")
    return value == "true"


def choice(raw: Mapping[str, str], key: str, default: str, choices: Sequence[str], where: str) -> str:
    """One of some words, whatever their case. Raises `Unsupported` for any other."""
    value = raw.get(key, default).strip().lower()
    if value not in choices:
        raise Unsupported(f"the option {key!r} = {raw[key]!r}", where=where, hint=f"known values: {', '.join(choices)}")
    return value


def integer(raw: Mapping[str, str], key: str, default: int, where: str) -> int:
    """A whole number. Raises `InvalidArgument`."""
    found = whole(raw.get(key, str(default)).strip())
    if found is None:
        raise refused_value(raw, key, where, "it must be a whole number")
    return found


def whole(text: str) -> int | None:
    """The number that decimal digits with an optional sign stand for, None for any other text."""
    return int(text) if re.fullmatch(r"[+-]?[0-9]+", text) else None


def number(raw: Mapping[str, str], key: str, default: float, where: str) -> float:
    """A number. Raises `InvalidArgument`."""
    try:
        return float(raw.get(key, str(default)).strip())
    except ValueError:
        raise refused_value(raw, key, where, "it must be a number") from None


def memory(raw: Mapping[str, str], key: str, default: int | None, where: str) -> int | None:
    """A size such as ``128 mb``, in bytes. Raises `InvalidArgument`."""
    if key not in raw:
        return default
    match = MEMORY.fullmatch(raw[key].strip().lower())
    size = int(match[1]) * MEMORY_UNITS[match[2]] if match and match[2] in MEMORY_UNITS else None
    if size is None or size > MOST_LONG:
        raise refused_value(raw, key, where, "it must be a size such as 128 mb (units b, kb, mb, gb, tb)")
    return size


def duration(raw: Mapping[str, str], key: str, default: timedelta | None, where: str) -> timedelta | None:
    """A time span such as ``10 s``, in whole microseconds and no longer than Python's longest.

    Raises `InvalidArgument`.
    """
    if key not in raw:
        return default
    match = DURATION.fullmatch(raw[key].strip().lower())
    if match is None or match[2] not in DURATION_UNITS or int(match[1]) > MOST_LONG:
        raise refused_value(raw, key, where, "it must be a time span such as 10 s (units ns, µs, ms, s, min, h, d)")
    nanos = int(match[1]) * DURATION_UNITS[match[2]]
    try:
        return timedelta(microseconds=nanos // NANOS_PER_MICRO)
    except OverflowError:
        return timedelta.max


def names(value: str | None) -> tuple[str, ...]:
    """Names between commas."""
    return tuple(part.strip() for part in value.split(",") if part.strip()) if value else ()


def key_values(raw: Mapping[str, str], key: str, where: str) -> Mapping[str, str]:
    """Pairs such as ``0:avro,1:parquet``. Raises `InvalidArgument`, also for a key that is there twice."""
    pairs: dict[str, str] = {}
    for part in names(raw.get(key)):
        name, colon, value = (piece.strip() for piece in part.partition(":"))
        if not (name and colon and value) or name in pairs or any(mark in part for mark in QUOTES):
            raise refused_value(raw, key, where, "it must be pairs such as 0:avro,1:parquet")
        pairs[name] = value
    return pairs


def refused_value(raw: Mapping[str, str], key: str, where: str, problem: str) -> InvalidArgument:
    """The error for a value that does not parse."""
    return InvalidArgument(f"{where}: the option {key!r} has the value {raw[key]!r}; {problem}")
