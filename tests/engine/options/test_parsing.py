"""Option strings as values, in the spellings that Paimon knows."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.options import parsing


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
    assert parsing.memory({"x": text}, "x", None, "/t") == size


@pytest.mark.parametrize("text", ["", "mb", "1 byte", "1.5 mb", "-1", "1 mb 2", "1 xb", f"{2**63} b", "٣ mb"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(InvalidArgument, match=r"/t: the option 'x' .* it must be a size such as 128 mb"):
        parsing.memory({"x": text}, "x", None, "/t")


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
    assert parsing.duration({"x": text}, "x", None, "/t") == span


@pytest.mark.parametrize("text", ["", "d", "1 week", "-1 d", "1.5 h", "1 h 2 min", f"{2**63} ms"])
def test_what_is_no_time_span(text: str) -> None:
    with pytest.raises(InvalidArgument, match=r"it must be a time span such as 10 s"):
        parsing.duration({"x": text}, "x", None, "/t")


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
    assert parsing.key_values({"x": text}, "x", "/t") == pairs


@pytest.mark.parametrize("text", ["avro", "0:", ":avro", "0:avro,0:orc", "'0:avro'"])
def test_what_are_no_pairs(text: str) -> None:
    with pytest.raises(InvalidArgument, match=r"it must be pairs such as 0:avro,1:parquet"):
        parsing.key_values({"x": text}, "x", "/t")


@pytest.mark.parametrize(
    ("read", "text", "value"),
    [
        (parsing.flag, "TRUE", True),
        (parsing.flag, " false ", False),
        (parsing.integer, " -7 ", -7),
        (parsing.integer, "+3", 3),
        (parsing.number, "0.2", 0.2),
        (parsing.number, "1e3", 1000.0),
    ],
)
def test_words_and_numbers(read: Callable[..., Any], text: str, value: object) -> None:
    assert read({"x": text}, "x", None, "/t") == value


@pytest.mark.parametrize(
    ("read", "text", "problem"),
    [
        (parsing.flag, "yes", "true or false"),
        (parsing.integer, "1_000", "a whole number"),
        (parsing.integer, "1.0", "a whole number"),
        (parsing.number, "many", "a number"),
    ],
)
def test_what_is_neither(read: Callable[..., Any], text: str, problem: str) -> None:
    with pytest.raises(InvalidArgument, match=f"it must be {problem}"):
        read({"x": text}, "x", 0, "/t")


def test_a_choice_names_what_there_is() -> None:
    assert parsing.choice({"x": "B"}, "x", "a", ("a", "b"), "/t") == "b"
    assert parsing.choice({}, "x", "a", ("a", "b"), "/t") == "a"
    with pytest.raises(Unsupported, match="'x' = 'c' is not supported; known values: a, b"):
        parsing.choice({"x": "c"}, "x", "a", ("a", "b"), "/t")


def test_what_is_not_set_has_its_default() -> None:
    assert parsing.memory({}, "x", 5, "/t") == 5
    assert parsing.duration({}, "x", None, "/t") is None
    assert parsing.names(None) == ()
    assert parsing.names(" a ,, b") == ("a", "b")


@given(st.integers(0, 2**63 - 1), st.sampled_from(sorted(parsing.MEMORY_UNITS)))
def test_a_size_is_its_number_times_its_unit(count: int, unit: str) -> None:
    expected = count * parsing.MEMORY_UNITS[unit]
    if expected <= parsing.MOST_LONG:
        assert parsing.memory({"x": f"{count}{unit}"}, "x", None, "/t") == expected
    else:
        with pytest.raises(InvalidArgument):
            parsing.memory({"x": f"{count}{unit}"}, "x", None, "/t")
