"""Time travel arguments of reads."""

from __future__ import annotations

import datetime as dt
import inspect
from typing import Any

import pytest

import morrow
from morrow.engine.errors import InvalidArgument
from morrow.engine.plan.time_travel import NOW, Travel, TravelArguments, parse_travel


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, NOW),
        ({"snapshot": None, "branch": None}, NOW),
        ({"as_of": 3}, Travel(snapshot=3)),
        ({"as_of": "v1"}, Travel(version="v1")),
        ({"as_of": dt.date(1970, 1, 2)}, Travel(millis=86_400_000)),
        ({"snapshot": 3, "branch": "dev"}, Travel(snapshot=3, branch="dev")),
        ({"tag": "v1"}, Travel(tag="v1")),
        ({"timestamp": "1970-01-01 00:00:01"}, Travel(millis=1000)),
        ({"watermark": 7}, Travel(watermark=7)),
        ({"version": "snapshot.3"}, Travel(version="snapshot.3")),
        ({"branch": "dev"}, Travel(branch="dev")),
    ],
)
def test_one_value(arguments: dict[str, Any], expected: Travel) -> None:
    assert parse_travel(**arguments) == expected
    assert expected.is_latest is (arguments.keys() <= {"branch", "snapshot"} and arguments.get("snapshot") is None)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"snapshot": 1, "tag": "v1"}, "give only one of snapshot, tag"),
        ({"snapshot": "1"}, "snapshot must be an int"),
        ({"watermark": True}, "watermark must be an int"),
        ({"tag": 1}, "tag must be text"),
        ({"branch": 1}, "branch must be text"),
        ({"timestamp": "then"}, "'then' is not a time"),
    ],
)
def test_wrong_values(arguments: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidArgument, match=problem):
        parse_travel(**arguments)


def test_an_argument_that_there_is_not() -> None:
    with pytest.raises(TypeError, match="a read has no argument 'snapshott'; did you mean 'snapshot'"):
        parse_travel(snapshott=3)


@pytest.mark.parametrize("face", [morrow.Table.scan, morrow.Table.dataset, morrow.Table.system, morrow.Catalog.system])
def test_signatures_show_each_argument(face: Any) -> None:
    assert list(inspect.signature(face).parameters)[-len(TravelArguments.__annotations__) :] == [
        *TravelArguments.__annotations__
    ]
