"""Option strings are parsed in every spelling that Paimon knows."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.options import Options, declarations
from morrow.engine.options.declarations import Kind, LookupCompact, declare_honoured


def value(kind: Kind[Any], text: str) -> Any:
    return Options({"x": text}, "/t").get(declare_honoured("x", kind, None, "An option"))


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("500 b", 500),
        ("64bytes", 64),
        ("1k", 1024),
        ("2 KB", 2048),
        ("3 kibibytes", 3072),
        (" 128 mb ", 128 << 20),
        ("1 mebibytes", 1 << 20),
        ("5G", 5 << 30),
        ("1 tb", 1 << 40),
        (f"{2**63 - 1} bytes", 2**63 - 1),
    ],
)
def test_sizes(text: str, size: int) -> None:
    assert value(declarations.MEMORY, text) == size


@pytest.mark.parametrize("text", ["", "mb", "1 byte", "1.5 mb", "-1", "1 mb 2", "1 xb", f"{2**63} b", "٣ mb"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(InvalidArgument, match=r"/t: the option 'x' .* it must be a size such as 128 mb"):
        value(declarations.MEMORY, text)


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("250", timedelta(milliseconds=250)),
        ("1 d", timedelta(days=1)),
        ("2days", timedelta(days=2)),
        ("3 H", timedelta(hours=3)),
        ("4 min", timedelta(minutes=4)),
        ("5m", timedelta(minutes=5)),
        ("6 secs", timedelta(seconds=6)),
        ("7 ms", timedelta(milliseconds=7)),
        ("8 µs", timedelta(microseconds=8)),
        ("9000 ns", timedelta(microseconds=9)),
        (f"{2**62} days", timedelta.max),
    ],
)
def test_time_spans(text: str, span: timedelta) -> None:
    assert value(declarations.DURATION, text) == span


@pytest.mark.parametrize("text", ["", "d", "1 week", "-1 d", "1.5 h", "1 h 2 min", f"{2**63} ms"])
def test_what_is_no_time_span(text: str) -> None:
    with pytest.raises(InvalidArgument, match=r"it must be a time span such as 10 s"):
        value(declarations.DURATION, text)


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("", {}),
        ("0:avro", {"0": "avro"}),
        (" 0 : avro , 5:parquet,", {"0": "avro", "5": "parquet"}),
        ("0:truncate(3)", {"0": "truncate(3)"}),
    ],
)
def test_pairs(text: str, pairs: dict[str, str]) -> None:
    assert value(declarations.PAIRS, text) == pairs


@pytest.mark.parametrize("text", ["avro", "0:", ":avro", "0:avro,0:orc", "'0:avro'"])
def test_what_are_no_pairs(text: str) -> None:
    with pytest.raises(InvalidArgument, match=r"it must be pairs such as 0:avro,1:parquet"):
        value(declarations.PAIRS, text)


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        (declarations.BOOL, "TRUE", True),
        (declarations.BOOL, " false ", False),
        (declarations.INT, " -7 ", -7),
        (declarations.INT, "+3", 3),
        (declarations.REAL, "0.2", 0.2),
        (declarations.REAL, "1e3", 1000.0),
        (declarations.REAL, " 0.5f", 0.5),
        (declarations.WORD, " ORC ", "orc"),
        (declarations.NAMES, " a ,, b", ("a", "b")),
        (declarations.LEVELS, "0:AVRO,5:orc", {0: "avro", 5: "orc"}),
        (declarations.TEXT, " as it is ", " as it is "),
    ],
)
def test_words_and_numbers(kind: Kind[Any], text: str, expected: object) -> None:
    assert value(kind, text) == expected


@pytest.mark.parametrize(
    ("kind", "text", "problem"),
    [
        (declarations.BOOL, "yes", "it must be true or false"),
        (declarations.INT, "1_000", "it must be a whole number of 32 bits"),
        (declarations.INT, "1.0", "it must be a whole number"),
        (declarations.INT, str(2**31), "it must be a whole number of 32 bits"),
        (declarations.LONG, str(2**63), "it must be a whole number of 64 bits"),
        (declarations.REAL, "many", "it must be a number"),
        (declarations.REAL, "1_0.5", "it must be a number"),
        (declarations.LEVELS, "top:avro", "it names the level 'top'"),
        (declarations.PREFIX, "../../data-", "it must be a text without / and"),
        (declarations.PREFIX, "data\\", "it must be a text without / and"),
    ],
)
def test_what_is_neither(kind: Kind[Any], text: str, problem: str) -> None:
    with pytest.raises(InvalidArgument, match=problem):
        value(kind, text)


def test_one_of_some_words_names_what_there_is() -> None:
    assert value(declarations.make_choice("a", "b"), "B") == "b"
    assert value(declarations.make_enum_choice(LookupCompact), "Gentle") is LookupCompact.GENTLE
    with pytest.raises(Unsupported, match="'x' = 'c' is not supported; known values: a, b"):
        value(declarations.make_choice("a", "b"), "c")


def test_what_is_set_has_no_blanks_around_numbers_and_words() -> None:
    assert declarations.INT.accepts("3") and not declarations.INT.accepts(" 3")
    assert not declarations.BOOL.accepts("true ")
    assert declarations.MEMORY.accepts(" 3 mb ")


@given(st.integers(0, 2**63 - 1), st.sampled_from(sorted(declarations.MEMORY_UNITS)))
def test_a_size_is_its_number_times_its_unit(count: int, unit: str) -> None:
    expected = count * declarations.MEMORY_UNITS[unit]
    if expected <= declarations.MAX_LONG:
        assert value(declarations.MEMORY, f"{count}{unit}") == expected
    else:
        with pytest.raises(InvalidArgument):
            value(declarations.MEMORY, f"{count}{unit}")
