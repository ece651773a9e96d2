"""Kills and store failures in object stores and HDFS; `test_crashes.py` and `test_failures.py` cover local disks."""

from __future__ import annotations

import signal
import uuid
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import morrow
from morrow.engine.errors import MorrowError
from morrow.engine.io.resolve import resolve
from morrow.tables.table import Table
from tests.durability.checks import check_rows, read
from tests.durability.moments import IS_LONG, changes_something, distinct
from tests.durability.operations import NEW_ROWS, OPERATIONS, at
from tests.support.faulty_store import Fault, FaultKind, FaultyStore, counts
from tests.support.processes import PROCESSES

KIND = FaultKind.KILLED_BEFORE
"""Partial objects never become visible, and a partial HDFS file does not yet have its name."""


def _run(name: str, url: str, options: Mapping[str, str] | None, number: int) -> None:
    """Run the operation in the process that is killed."""
    store, root = resolve(url, options)
    OPERATIONS[name].run(at(root, FaultyStore(store, Fault(number, KIND))))


def uploaded(template: Path, warehouse: str, options: Mapping[str, str] | None) -> str:
    """Upload the files of a table to a warehouse, and return the table's URL."""
    url = f"{warehouse}/{uuid.uuid4().hex}/{template.name}"
    store, root = resolve(url, options)
    for file in sorted(template.rglob("*")):
        if file.is_file():
            place = f"{root}/{file.relative_to(template)}"
            store.make_folder(place.rpartition("/")[0])
            store.write(place, file.read_bytes())
    return url


def killed(name: str, template: Path, warehouse: str, options: Mapping[str, str] | None) -> None:
    """Kill a process at its store requests: the table has its old or its new rows, and can still be written.

    `make test` tries the first request of each kind that changes something, `make test-long` all of them.
    """
    operation = OPERATIONS[name]
    url = uploaded(template, warehouse, options)
    inner, root = resolve(url, options)
    store = FaultyStore(inner)
    operation.run(at(root, store))
    asked = [each for act, each in zip(store.acts, store.asked, strict=True) if counts(KIND, act)]
    firsts = [number for number in distinct(asked, first_alone=True) if changes_something(asked[number])]
    found, codes = [], set()
    for number in range(len(asked)) if IS_LONG else firsts:
        url = uploaded(template, warehouse, options)
        past = len(morrow.open(url, storage_options=options).snapshots())
        process = PROCESSES.Process(target=_run, args=(name, url, options, number))
        process.start()
        process.join(120)
        # Concurrent requests arrive in varying order, so the last ones may not be reached.
        codes.add(process.exitcode)
        found.append(check_rows(operation, url, past, options))
    assert -signal.SIGKILL in codes
    assert codes <= {-signal.SIGKILL, 0}
    assert found[0] == operation.before
    assert {operation.before, operation.after} >= set(found)


def failing(name: str, template: Path, warehouse: str, options: Mapping[str, str] | None, kind: FaultKind) -> None:
    """Let store requests fail: the operation succeeds or raises a typed error, and is applied fully or not at all.

    `make test` tries the first request of each kind on each kind of file, `make test-long` all of them.
    """
    operation, failed = OPERATIONS[name], 0
    url = uploaded(template, warehouse, options)
    inner, root = resolve(url, options)
    calm = FaultyStore(inner)
    operation.run(at(root, calm))
    asked = [each for act, each in zip(calm.acts, calm.asked, strict=True) if counts(kind, act)]
    for number in range(len(asked)) if IS_LONG else distinct(asked, first_alone=True):
        url = uploaded(template, warehouse, options)
        past = len(morrow.open(url, storage_options=options).snapshots())
        store = FaultyStore(resolve(url, options)[0], Fault(number, kind))
        error: OSError | MorrowError | None = None
        try:
            operation.run(at(resolve(url, options)[1], store))
        except (MorrowError, OSError) as caught:  # a failing stream raises OSError directly
            error = caught
        found = check_rows(operation, url, past, options)
        assert error is not None or found == operation.after, f"acknowledged and not there: {store.failed}"
        failed += bool(store.failed)
    assert failed


def repeated(template: Path, warehouse: str, options: Mapping[str, str] | None, kind: FaultKind) -> None:
    """Repeat a commit with its identifier after any fault: its rows appear once."""
    number = 0
    while True:
        url = uploaded(template, warehouse, options)
        inner, root = resolve(url, options)
        store = FaultyStore(inner, Fault(number, kind))
        for kept in (store, inner):
            with suppress(MorrowError, OSError), Table(at(root, kept)).writer(commit_user="job") as writer:
                writer.write(NEW_ROWS)
                writer.commit(7)
        assert read(url, options=options) == OPERATIONS["append"].after
        found = morrow.open(url, storage_options=options)
        assert [each.commit_identifier for each in found.snapshots() if each.commit_user == "job"] == [7]
        if not store.failed:
            break
        number += 1 if IS_LONG else 5
    assert number > 3
