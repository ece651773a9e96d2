"""Decides which worker runs which tests, and in which order: whole files, the dearest first.

What a file costs stands in ``tests/costs.txt``, in seconds of CPU: files that are not in it cost little. Only its order
has to be right; `make test ARGS="--costs FILE"` measures anew. A worker that took a dear file last would keep all
others waiting at the end.

Tests with the fixture `spark` share a JVM, which takes as long to start as dozens of tests to run: they are dealt out
to `SESSIONS` groups, each of which is run by one worker. Those that ask the real Java Paimon share a JVM of its own.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, cached_property
from typing import Any

from xdist.scheduler import LoadScopeScheduling

from tests.support.costs import recorded

SMALL = 1.0
"""Seconds of a file that is not listed."""
SESSIONS = 2
SHARE_A_JVM = re.compile(r"tests/(interop/(?!test_spark\.)|spark/test_pipeline\.)")
"""Tests with the fixture `java`, and no session of Spark."""
SHARE_A_SESSION = re.compile(r"tests/(spark/(?!test_pipeline\.)|interop/test_spark\.)")
"""Tests with the fixture `spark`; the one that is left out has a driver of its own alone."""


@cache
def group_of(file: str) -> str:
    """Name what one worker runs together: a file, or the files that share a JVM."""
    if SHARE_A_SESSION.match(file):
        return f"spark {_dealt().get(file, 0)}"
    return "java" if SHARE_A_JVM.match(file) else file


@cache
def _dealt() -> Mapping[str, int]:
    """Deals listed files to sessions: the dearest goes to the session with the least to do."""
    load = [0.0] * SESSIONS
    dealt = {}
    for file, seconds in sorted(recorded().items(), key=lambda item: -item[1]):
        if SHARE_A_SESSION.match(file):
            dealt[file] = load.index(min(load))
            load[dealt[file]] += seconds
    return dealt


class _DearestFirst(OrderedDict[str, dict[str, bool]]):
    """Units of work: tests by their group. What is taken next is the dearest one, wherever it stands."""

    def __init__(self) -> None:
        super().__init__()
        self._costs: dict[str, float] = {}

    def popitem(self, last: bool = True) -> tuple[str, dict[str, bool]]:  # noqa: ARG002 - OrderedDict's
        for scope in self.keys() - self._costs.keys():
            self._costs[scope] = _cost(self[scope])
        scope = max(self, key=self._costs.__getitem__)
        return scope, self.pop(scope)


class _Places(list[str]):
    """Tests in their order."""

    @cached_property
    def _at(self) -> dict[str, int]:
        return {test: place for place, test in enumerate(self)}

    def index(self, test: str, *_: Any) -> int:  # type: ignore[override]  # nobody asks for a part of it
        return self._at[test]


def _cost(tests: Iterable[str]) -> float:
    """Return the seconds of CPU of the files that these tests are in."""
    return sum(recorded().get(file, SMALL) for file in {test.partition("::")[0] for test in tests})


class ByCost(LoadScopeScheduling):
    """Gives workers whole groups of tests, the dearest first."""

    def __init__(self, config: Any, log: Any = None) -> None:
        super().__init__(config, log)
        self.workqueue = _DearestFirst()

    def add_node_collection(self, node: Any, collection: Sequence[str]) -> None:
        """Take in what a worker collected, as a list that knows the place of each test: xdist asks for all of them."""
        super().add_node_collection(node, collection)
        if node in self.registered_collections:  # not that of a worker which collected something else
            self.registered_collections[node] = _Places(collection)

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid.partition("::")[0])

    def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
        """Forget a group that is done: after each test, xdist counts what is left of all that a worker was given."""
        super().mark_test_complete(node, item_index, duration)
        groups, test = self.assigned_work[node], self.registered_collections[node][item_index]
        if all(groups[self._split_scope(test)].values()):
            del groups[self._split_scope(test)]
