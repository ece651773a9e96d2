"""A process that was forked from one which has run queries says so, where it would wait forever."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

import morrow
from morrow.engine import forks
from morrow.engine.errors import MorrowError
from tests.support.written import new_table

FORK = multiprocessing.get_context("fork")
CALLS: dict[str, Callable[[morrow.Table, morrow.Scan], object]] = {
    "a planned scan": lambda _, scan: scan.to_arrow(),
    "count": lambda table, _: table.scan(filter="id > 0").count(),
    "append": lambda table, _: table.append({"id": [2]}),
    "files": lambda table, _: table.system("files").to_arrow(),
}


def told(call: Callable[[], object], end: Connection) -> None:
    try:
        call()
    except MorrowError as error:
        end.send(f"{type(error).__name__}: {error}")
    else:
        end.send("done")


def in_a_fork(call: Callable[[], object]) -> str:
    here, there = FORK.Pipe()
    process = FORK.Process(target=told, args=(call, there))
    process.start()
    said = here.recv() if here.poll(60) else "hangs"
    process.kill()
    process.join()
    return str(said)


@pytest.mark.parametrize("name", CALLS)
def test_queries_are_refused(name: str, tmp_path: Path) -> None:
    table = new_table(tmp_path, "id INT")
    table.append({"id": [1]})
    scan = table.scan()
    assert scan.to_arrow().num_rows == 1
    refused = "Unsupported: a query in a process that was forked from one which has run queries is not supported; start"
    assert in_a_fork(lambda: CALLS[name](table, scan)).startswith(refused)


def test_a_process_that_is_forked_before_the_first_query_may_run_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forks, "_first", None)
    assert in_a_fork(forks.check_process) == "done"
    assert in_a_fork(forks.check_process) == "done"
    forks.check_process()
    assert in_a_fork(forks.check_process).startswith("Unsupported")
