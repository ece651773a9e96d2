"""A process that was forked after queries raises an error instead of waiting forever."""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

import morrow
from morrow.engine import polars_threads
from morrow.engine.errors import MorrowError
from morrow.engine.io import cache_folder
from morrow.engine.io.cache_folder import CacheFolder
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


ITERATORS: dict[str, Callable[[morrow.Table], Iterator[object]]] = {
    "a scan": lambda table: table.scan().to_batches(1),
    "a scan by DuckDB": lambda table: table.scan(engine="duckdb").to_batches(1),
    "changes": lambda table: table.changes().to_batches(1),
    "a difference": lambda table: table.changes(1, mode="diff").to_batches(1),
    "a stream": lambda table: table.stream(from_snapshot=1, wait=0),
    "the audit log": lambda table: table.system("audit_log").to_batches(1),
    "the binlog": lambda table: table.system("binlog").to_batches(1),
}


@pytest.mark.parametrize("name", ITERATORS)
def test_open_iterators_go_on_in_their_process_alone(name: str, tmp_path: Path) -> None:
    table = new_table(tmp_path, "id INT NOT NULL", keys=["id"])
    for number in range(3):
        table.upsert({"id": [number, 10 + number]})
    rows = ITERATORS[name](table)
    next(rows)
    assert in_a_fork(lambda: list(rows)).startswith("Unsupported: a query in a process that was forked")
    assert list(rows)


def test_a_fork_does_not_wait_for_what_its_parent_writes_to_the_cache_folder(tmp_path: Path) -> None:
    goes_on = threading.Event()

    def value() -> bytes:
        goes_on.wait()
        return b"value"

    key = cache_folder.compute_digest("key")
    folder = CacheFolder(tmp_path / "cache", 1 << 20)
    cache_folder.store_entry(folder, key, value)
    try:
        assert in_a_fork(cache_folder.wait_for_writes) == "done"
    finally:
        goes_on.set()
    cache_folder.wait_for_writes()
    assert folder.get(key) == b"value"


def test_a_process_that_is_forked_before_the_first_query_may_run_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(polars_threads, "_first", None)
    assert in_a_fork(polars_threads.check_process) == "done"
    assert in_a_fork(polars_threads.check_process) == "done"
    polars_threads.check_process()
    assert in_a_fork(polars_threads.check_process).startswith("Unsupported")
