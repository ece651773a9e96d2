"""Kills within the operations of a file store: between two calls of the system that change what is on disk.

`FaultyStore` kills between operations of the store. A file is created by a link and the removal of its temporary name,
and many files are removed one by one: a process may die in between.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable

CHANGES = frozenset({"os.link", "os.rename", "os.remove", "os.mkdir", "os.rmdir"})
"""Audit events of calls that change folders, told before they are made."""

_watchers: list[Callable[[str, str], None]] = []
_installed: list[bool] = []


def _hear(event: str, arguments: tuple[object, ...]) -> None:
    if _watchers and event in CHANGES:
        _watchers[-1](event, str(arguments[0]))


def _watch(watcher: Callable[[str, str], None]) -> None:
    if not _installed:  # a hook stays for good
        sys.addaudithook(_hear)
        _installed.append(True)
    _watchers.append(watcher)


def counted(folder: str, run: Callable[[], object]) -> int:
    """Count such calls of a function below a folder."""
    calls: list[str] = []
    _watch(lambda event, path: calls.append(event) if path.startswith(folder) else None)
    try:
        run()
    finally:
        _watchers.pop()
    return len(calls)


def killed_at(number: int, folder: str, run: Callable[[], object]) -> None:
    """Run a function in a process that dies before its call `number` below a folder, counted from 0."""
    calls: list[str] = []

    def watcher(event: str, path: str) -> None:
        if not path.startswith(folder):
            return
        if len(calls) == number:
            os.kill(os.getpid(), signal.SIGKILL)
        calls.append(event)

    _watch(watcher)
    run()
