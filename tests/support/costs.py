"""Measurement of test costs (``--costs``): wall and CPU seconds by file and by test, including child processes.

Wall time says little on a busy machine, and a test that waits for a JVM or for other Python processes uses no CPU in
its own process. So a test's CPU is the CPU that this process and all its descendants use in the meantime: finished ones
(``RUSAGE_CHILDREN``) and running ones (``/proc``, on Linux). CPU that a process uses after its test, such as a JVM that
still compiles, counts for the next test.
"""

from __future__ import annotations

import json
import os
import resource
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

import pytest

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
SLOWEST_FILES, SLOWEST_TESTS = 40, 50
COLLECTION = "(collection)"
RECORDED = Path(__file__).parents[1] / "costs.txt"


@cache
def recorded() -> Mapping[str, float]:
    """Read the CPU seconds of the expensive test files in ``tests/costs.txt``."""
    return {file: float(seconds) for seconds, file, *_ in _lines()}


@cache
def steps() -> Mapping[str, int]:
    """Read the third column: n for each file with parametrised tests if `make test` runs every n-th of their cases."""
    return {file: int(step[0]) for _, file, *step in _lines() if step}


def _lines() -> list[list[str]]:
    return [line.split() for line in RECORDED.read_text().splitlines() if not line.startswith("#")]


@dataclass
class Cost:
    """Costs in seconds; `set_up` is CPU and is included in `cpu`."""

    wall: float = 0.0
    cpu: float = 0.0
    set_up: float = 0.0
    tests: int = 0

    def add(self, other: Cost) -> None:
        for each in fields(Cost):
            setattr(self, each.name, getattr(self, each.name) + getattr(other, each.name))


class Costs:
    """The pytest plugin. Workers send their measurements to the process that started them, which adds them up."""

    def __init__(self, target: Path) -> None:
        self._target = target
        self._by_test: dict[str, Cost] = defaultdict(Cost)
        self._seen = (0.0, 0.0)
        """Wall and CPU seconds at the last measurement."""

    def _elapsed(self) -> Cost:
        """Measure the time since the last measurement."""
        wall, cpu = self._seen
        self._seen = (time.monotonic(), cpu_of_tree())
        # The CPU of a killed process's children is lost with it.
        return Cost(self._seen[0] - wall, max(self._seen[1] - cpu, 0.0))

    @pytest.hookimpl(wrapper=True)
    def pytest_collection(self) -> Iterator[Any]:
        self._seen = (time.monotonic(), 0.0)  # earlier imports count for the collection
        found = yield
        self._by_test[COLLECTION].add(self._elapsed())
        return found

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[Any]:
        done = yield
        self._by_test[item.nodeid].add(self._elapsed())
        self._by_test[item.nodeid].tests = 1
        return done

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Iterator[Any]:
        done = yield
        passed = self._elapsed()
        passed.set_up = passed.cpu
        self._by_test[item.nodeid].add(passed)
        return done

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if hasattr(session.config, "workeroutput"):
            measured = {test: vars(cost) for test, cost in self._by_test.items()}
            session.config.workeroutput["costs"] = json.dumps(measured)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        for test, cost in json.loads(getattr(node, "workeroutput", {}).get("costs", "{}")).items():
            self._by_test[test].add(Cost(**cost))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if hasattr(terminalreporter.config, "workerinput"):
            return
        by_file: dict[str, Cost] = defaultdict(Cost)
        for test, cost in self._by_test.items():
            by_file[test.partition("::")[0]].add(cost)
        total = Cost()
        for cost in by_file.values():
            total.add(cost)
        terminalreporter.section("costs: seconds of CPU, of these in set-up, seconds of wall, tests")
        for costs, most in ((by_file, SLOWEST_FILES), (self._by_test, SLOWEST_TESTS)):
            for name, cost in _dearest(costs)[:most]:
                terminalreporter.write_line(_line(name, cost))
            terminalreporter.write_line("")
        terminalreporter.write_line(_line("all", total))
        self._target.write_text(
            "\n".join(_line(name, cost) for costs in (by_file, self._by_test) for name, cost in _dearest(costs)) + "\n"
        )


def _dearest(costs: dict[str, Cost]) -> list[tuple[str, Cost]]:
    return sorted(costs.items(), key=lambda item: -item[1].cpu)


def _line(name: str, cost: Cost) -> str:
    return f"{cost.cpu:8.2f} {cost.set_up:8.2f} {cost.wall:8.2f} {cost.tests:6} {name}"


def cpu_of_tree() -> float:
    """Return the CPU seconds of this process, of its finished children, and of all running descendants."""
    own = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in own) + _running(os.getpid())


def _running(root: int) -> float:
    """Return the CPU seconds of the descendants of a process, including their finished children."""
    ticks: dict[int, int] = {}
    children: dict[int, list[int]] = defaultdict(list)
    for name in os.listdir("/proc") if Path("/proc/self/stat").exists() else ():  # noqa: PTH208  # names, not paths
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as stat:  # noqa: PTH123  # hundreds of files, twice per test
                # Fields from 3 on, after the name, which may contain anything but ends with the last parenthesis.
                values = stat.read().rpartition(b")")[2].split(None, 16)
        except OSError:
            continue  # the process has ended
        children[int(values[1])].append(int(name))
        ticks[int(name)] = sum(map(int, values[11:15]))
    below = children[root]
    total = 0
    while below:
        process = below.pop()
        total += ticks[process]
        below += children[process]
    return total / TICKS_PER_SECOND
