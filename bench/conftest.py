"""Fixtures of the suite: the tables, written once to bench/.data; `--quick` for small tables, few rounds and no peers.

`--quick --peers` measures peers too, on small tables.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest

from bench import compare, peers, tables
from bench.peers import Peer
from bench.tables import Table
from morrow.engine.io import cache_folder

Tables = Callable[[str], Table]
Peers = Callable[[str], Peer]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help="tables a tenth of the size, few rounds, no peers")
    parser.addoption("--peers", action="store_true", help="peers in a quick run, too")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--quick"):
        marks = ("long",) if config.getoption("--peers") else ("long", "peers")
        left_out = [item for item in items if any(map(item.get_closest_marker, marks))]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


def pytest_configure(config: pytest.Config) -> None:
    os.environ[cache_folder.SWITCH] = "off"  # first reads must be uncached; `test_commits` measures the cache folder
    if config.getoption("--quick"):
        os.environ[compare.QUICK] = "1"
    config.addinivalue_line("markers", "long: left out of quick runs, however small the tables")
    config.addinivalue_line("markers", "peers: needs the environments of `make bench-peers`")


@pytest.fixture(scope="session")
def table(request: pytest.FixtureRequest) -> Tables:
    """`table(name)`: the table of that name in `bench.tables.SPECS`, written if it does not exist."""
    return lambda name: tables.make(name, quick=request.config.getoption("--quick"))


@pytest.fixture(scope="session")
def peer() -> Iterator[Peers]:
    """`peer(name)`: a running process of that reader, kept for the session."""
    running: dict[str, Peer] = {}

    def start(name: str) -> Peer:
        if name not in running:
            peers.install(name)
            running[name] = Peer(name)
        return running[name]

    yield start
    for process in running.values():
        process.close()
