"""Merge engines and aggregate functions that other packages register."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import EntryPoint, EntryPoints
from types import SimpleNamespace
from typing import Any

import pytest

from morrow.engine import plugins
from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.format.schema import TableSchema
from morrow.engine.format.types import DoubleType
from morrow.engine.merge.functions import FunctionSpec
from morrow.engine.merge.spec import AggregateCall, MergeSpec, Rule
from morrow.engine.options import TableOptions
from tests.engine.merge.described import described

MEAN = SimpleNamespace(spec=FunctionSpec("mean", lambda kind: isinstance(kind, DoubleType), "DOUBLE"))
OTHER = SimpleNamespace(spec=FunctionSpec("median", lambda _: True, "every type"))
NO_FUNCTION = SimpleNamespace()


def oldest(schema: TableSchema, options: TableOptions, where: str) -> MergeSpec:
    """Define a merge engine that keeps the version with the lowest value of ``oldest.field``."""
    if "oldest.field" not in options.raw:
        raise InvalidArgument(f"{where}: merge-engine oldest needs the option 'oldest.field'")
    return MergeSpec(
        "oldest", Rule.NEWEST, schema.trimmed_primary_keys, (options.raw["oldest.field"],), descending=True
    )


Register = Callable[[str, str, str], None]


@pytest.fixture
def register(monkeypatch: pytest.MonkeyPatch) -> Register:
    """Register an object (``module:name``) under a group and a name."""
    installed: list[EntryPoint] = []

    def entry_points(**wanted: Any) -> EntryPoints:
        return EntryPoints(installed).select(**wanted)

    monkeypatch.setattr("morrow.engine.plugins.entry_points", entry_points)
    monkeypatch.setattr("morrow.engine.options.declarations.entry_points", entry_points)
    return lambda group, name, value: installed.append(EntryPoint(name, value, group))


def call(function: str, kind: str = "DOUBLE", **options: str) -> AggregateCall | None:
    raw = {f"fields.v.{name}": value for name, value in options.items()}
    return described("aggregation", {"v": kind}, {"fields.v.aggregate-function": function, **raw}).columns[0].call


def test_a_function_of_another_package(register: Register) -> None:
    register("morrow.aggregate_functions", "mean", f"{__name__}:MEAN")

    made = call("mean", weight="2")

    assert made == AggregateCall("mean", options=(("aggregate-function", "mean"), ("weight", "2")))
    with pytest.raises(InvalidArgument, match="the aggregate function mean folds DOUBLE, and column 'v' is INT"):
        call("mean", "INT")


def test_built_in_functions_cannot_be_replaced(register: Register) -> None:
    register("morrow.aggregate_functions", "sum", f"{__name__}:MEAN")

    assert call("sum") == AggregateCall("sum")


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (f"{__name__}:NO_FUNCTION", "its entry point morrow.aggregate_functions has no FunctionSpec of this name"),
        (f"{__name__}:OTHER", "has no FunctionSpec of this name"),
        (f"{__name__}:NOTHING", "it does not load: module .* has no attribute 'NOTHING'"),
        ("no_such_package:mean", "it does not load: No module named 'no_such_package'"),
    ],
)
def test_a_function_that_does_not_load(register: Register, value: str, problem: str) -> None:
    register("morrow.aggregate_functions", "mean", value)

    with pytest.raises(Unsupported, match=problem):
        call("mean")


def test_a_name_that_two_packages_claim(register: Register) -> None:
    register("morrow.aggregate_functions", "mean", "one:mean")
    register("morrow.aggregate_functions", "mean", "two:mean")

    with pytest.raises(Unsupported, match=r"'mean', which several packages register as .* \(one:mean, two:mean\)"):
        call("mean")


def test_a_merge_engine_of_another_package(register: Register) -> None:
    register("morrow.merge_engines", "oldest", f"{__name__}:oldest")

    spec = described("oldest", {"at": "INT"}, {"oldest.field": "at"})

    assert str(spec) == "oldest by (k) ordered by at DESC, _SEQUENCE_NUMBER"
    with pytest.raises(InvalidArgument, match=r"^/t: merge-engine oldest needs the option"):
        described("oldest", {"at": "INT"}, {})


def test_nothing_is_registered_under_a_name() -> None:
    assert plugins.load_plugin("morrow.merge_engines", "no such engine") is None
