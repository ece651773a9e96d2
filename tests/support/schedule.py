"""The schedule of tests: which worker runs which files, and in which order; the most expensive files are first.

``tests/costs.txt`` has the costs of files in CPU seconds, and files that are not listed cost little. Only the order has
to be right; `make test ARGS="--costs FILE"` measures again. A worker that started an expensive file last would keep
all others waiting at the end.

Tests with the fixture `spark` share a JVM, which takes as long to start as dozens of tests. Two workers run them, since
one alone would end last: one runs those of catalogs, the other the rest. Tests that call the real Java Paimon share a
JVM of their own.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

from xdist.scheduler import LoadScopeScheduling

from tests.support.costs import recorded

SMALL = 1.0
"""Assumed seconds of a file that is not listed."""
SHARE_A_JVM = re.compile(r"tests/(interop/(?!test_spark\.)|spark/test_pipeline\.)")
"""Tests with the fixture `java` and without a Spark session."""
SHARE_A_SESSION = re.compile(r"tests/(spark/(?!test_pipeline\.)|interop/test_spark\.)")
"""Tests with the fixture `spark`; the excluded file only has its own driver."""
CATALOGS = "tests/spark/catalogs/"
"""About half of these tests."""


def group_of(file: str) -> str:
    """Name the group that one worker runs: a file, or the files that share a JVM."""
    if SHARE_A_SESSION.match(file):
        return "spark catalogs" if file.startswith(CATALOGS) else "spark"
    return "java" if SHARE_A_JVM.match(file) else file


class _DearestFirst(OrderedDict[str, dict[str, bool]]):
    """Groups of tests, from which the most expensive is taken next."""

    def __init__(self) -> None:
        super().__init__()
        self._costs: dict[str, float] = {}

    def popitem(self, last: bool = True) -> tuple[str, dict[str, bool]]:  # noqa: ARG002 - OrderedDict's
        for scope in self.keys() - self._costs.keys():
            self._costs[scope] = _cost(self[scope])
        scope = max(self, key=self._costs.__getitem__)
        return scope, self.pop(scope)


class _Places(list[str]):
    """Tests in order, with a fast `index`."""

    @cached_property
    def _at(self) -> dict[str, int]:
        return {test: place for place, test in enumerate(self)}

    def index(self, test: str, *_: Any) -> int:  # type: ignore[override]  # start and end are never given
        return self._at[test]


def _cost(tests: Iterable[str]) -> float:
    """Return the CPU seconds of the files that contain these tests."""
    return sum(recorded().get(file, SMALL) for file in {test.partition("::")[0] for test in tests})


class ByCost(LoadScopeScheduling):
    """A scheduler that gives whole groups of tests to workers, the most expensive first."""

    def __init__(self, config: Any, log: Any = None) -> None:
        super().__init__(config, log)
        self.workqueue = _DearestFirst()

    def add_node_collection(self, node: Any, collection: Sequence[str]) -> None:
        """Store a worker's tests as a list with a fast `index`, since xdist looks up each test."""
        super().add_node_collection(node, collection)
        if node in self.registered_collections:  # otherwise the worker collected other tests
            self.registered_collections[node] = _Places(collection)

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid.partition("::")[0])

    def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
        """Forget a finished group, since xdist counts the remaining tests of all groups after each test."""
        super().mark_test_complete(node, item_index, duration)
        groups, test = self.assigned_work[node], self.registered_collections[node][item_index]
        if all(groups[self._split_scope(test)].values()):
            del groups[self._split_scope(test)]
