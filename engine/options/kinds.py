"""The kinds of option values, and whether a text is one of a kind as Paimon reads it: blanks around it count."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from morrow.engine.errors import InvalidArgument
from morrow.engine.options.parsing import duration, key_values, memory, whole

JAVA_REAL = re.compile(r"\s*[+-]?(NaN|Infinity|([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[fFdD]?)\s*")


@dataclass(frozen=True)
class Kind:
    """What values an option takes: `expected` says it, `accepts` decides it."""

    expected: str
    accepts: Callable[[str], bool]


def _of_bits(bits: int) -> Callable[[str], bool]:
    most = 1 << (bits - 1)

    def accepts(value: str) -> bool:
        found = whole(value)
        return found is not None and -most <= found < most

    return accepts


def _parses(parse: Callable[[Mapping[str, str]], object]) -> Callable[[str], bool]:
    def accepts(value: str) -> bool:
        try:
            parse({"": value})
        except InvalidArgument:
            return False
        return True

    return accepts


KINDS: Mapping[str, Kind] = {
    "bool": Kind("true or false", lambda value: value.lower() in ("true", "false")),
    "int": Kind("a whole number of 32 bits", _of_bits(32)),
    "long": Kind("a whole number of 64 bits", _of_bits(64)),
    "real": Kind("a number", lambda value: JAVA_REAL.fullmatch(value) is not None),
    "text": Kind("text", lambda _: True),
    "memory": Kind("a size such as 128 mb (units b, kb, mb, gb, tb)", _parses(lambda raw: memory(raw, "", None, ""))),
    "duration": Kind(
        "a time span such as 10 s (units ns, µs, ms, s, min, h, d)", _parses(lambda raw: duration(raw, "", None, ""))
    ),
    "pairs": Kind("pairs such as 0:avro,1:parquet", _parses(lambda raw: key_values(raw, "", ""))),
}


def words(choices: str) -> Kind:
    """One of the words between bars, in any case."""
    allowed = choices.split("|")
    return Kind(f"one of {', '.join(allowed)}", lambda value: value.lower() in allowed)
