"""Classes and patterns that are made when they are first used are what the standard library makes at once."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import subprocess
import sys
from collections.abc import Callable, Hashable
from dataclasses import field
from functools import cached_property
from threading import Barrier, Thread
from typing import ClassVar, Generic, TypeVar

import pytest

from morrow.engine.later import dataclass, pattern

T = TypeVar("T")


@dataclass(frozen=True)
class Point:
    """A point."""

    x: int
    names: list[str] = field(default_factory=list, compare=False)
    kind: str = field(default="p", repr=False)
    count: ClassVar[int] = 7

    def __post_init__(self) -> None:
        if self.x < 0:
            raise ValueError("left of nothing")

    @cached_property
    def double(self) -> int:
        return 2 * self.x


@dataclass(frozen=True)
class Placed(Point, Generic[T]):
    at: T | None = None


@dataclass(frozen=True, eq=False)
class Alone:
    x: int


@dataclass(frozen=True, repr=False)
class Shown:
    x: int

    def __repr__(self) -> str:
        return "shown"


@dataclass(frozen=True)
class Compared:
    x: int

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]


@dataclasses.dataclass(frozen=True)
class Standard(Point):
    last: int = 0


class Plain(Point):
    def __init__(self) -> None:
        super().__init__(3)


def test_values() -> None:
    point = Point(1, kind="q")

    assert (point.x, point.names, point.kind, point.double, Point.count, Point.kind) == (1, [], "q", 2, 7, "p")
    assert repr(point) == "Point(x=1, names=[])"
    assert point == Point(1, ["a"], "q") != Point(1)
    assert hash(point) == hash(Point(1, ["a"], "q"))
    assert Placed(1, at="b") == Placed(1, at="b") != Placed(1)
    assert Placed(1) != Point(1)
    assert Plain().x == 3
    assert Standard(1, last=2) == dataclasses.replace(Standard(5, last=2), x=1)
    assert (Alone(1) == Alone(1), repr(Shown(1)), Compared(1) == Compared(2)) == (False, "shown", True)
    assert [isinstance(each, Hashable) for each in (point, Alone(1), Compared(1))] == [True, True, True]
    assert not hasattr(Point, "names")
    match point:
        case Point(x, _, kind):
            assert (x, kind) == (1, "q")


@pytest.mark.parametrize("change", [lambda it: setattr(it, "x", 2), lambda it: delattr(it, "x")])
@pytest.mark.parametrize("value", [Point(1), Placed(1), Plain(), Standard(1)])
def test_fields_do_not_change(value: Point, change) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(dataclasses.FrozenInstanceError, match="field 'x'"):
        change(value)


def test_wrong_arguments_are_told_as_ever() -> None:
    with pytest.raises(TypeError, match=r"Point.__init__\(\) missing 1 required positional argument: 'x'"):
        Point()  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="left of nothing"):
        Placed(-1)


def fresh() -> type:
    @dataclass(frozen=True)
    class New:
        x: int = 1
        names: list[str] = field(default_factory=list, compare=False)

    return New


FIRST: dict[str, Callable[[type], object]] = {
    "fields": lambda cls: [each.name for each in dataclasses.fields(cls)] == ["x", "names"],
    "signature": lambda cls: list(inspect.signature(cls).parameters) == ["x", "names"],
    "state without __init__": lambda cls: not cls.__new__(cls).__dict__ and cls.__new__(cls) != 1,
    "hash": lambda cls: cls.__hash__ is not object.__hash__,
    "a standard subclass": lambda cls: dataclasses.make_dataclass("M", ["y"], bases=(cls,), frozen=True, kw_only=True)(
        y=2
    ),
    "asked": lambda cls: dataclasses.is_dataclass(cls) and cls.__dataclass_params__.frozen,
    "a class without own fields": lambda cls: type("Sub", (cls,), {})(x=3).x == 3,
}


@pytest.mark.parametrize("what", FIRST)
def test_what_comes_first_does_not_matter(what: str) -> None:
    cls = fresh()

    assert FIRST[what](cls)
    assert (repr(cls(2)), cls(2) == cls(2, ["a"])) == ("fresh.<locals>.New(x=2, names=[])", True)


def test_copies() -> None:
    for value in (Point(1, ["a"]), Placed(1, at=2), Standard(1)):
        assert pickle.loads(pickle.dumps(value)) == copy.deepcopy(value) == dataclasses.replace(value) == value


def test_threads_that_come_first_together() -> None:
    for _ in range(20):
        new, barrier, made = fresh(), Barrier(8), list[object]()

        def make(cls: type, barrier: Barrier, made: list[object]) -> None:
            barrier.wait()
            made.append(cls(1))

        threads = [Thread(target=make, args=(new, barrier, made)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert made == [new(1)] * 8


def test_a_pattern_is_compiled_when_it_is_used() -> None:
    used = pattern("(?i)a(?P<n>b*)")

    assert [used.sub("-", "xABy"), used.pattern, used.search("ABB")["n"]] == ["x-y", "(?i)a(?P<n>b*)", "BB"]  # type: ignore[index]
    with pytest.raises(Exception, match="unterminated"):
        pattern("(").search("")


def test_classes_that_are_not_used_cost_nothing() -> None:
    code = "from morrow.engine.format.snapshot import Snapshot; print(vars(Snapshot)['__init__'])"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "Later" in told.stdout
