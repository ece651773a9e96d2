"""Kills within a file store's operations, between two system calls that change the disk.

`FaultyStore` kills between operations of the store. But a file is created by a link and the removal of its temporary
name, and many files are removed one by one, so a process may die in between.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable

CHANGES = frozenset({"os.link", "os.rename", "os.remove", "os.mkdir", "os.rmdir"})
"""Audit events of calls that change folders, which are raised before the calls."""

_watchers: list[Callable[[str, str], None]] = []
_installed: list[bool] = []


def _hear(event: str, arguments: tuple[object, ...]) -> None:
    if _watchers and event in CHANGES:
        _watchers[-1](event, str(arguments[0]))


def _watch(watcher: Callable[[str, str], None]) -> None:
    if not _installed:  # a hook cannot be removed
        sys.addaudithook(_hear)
        _installed.append(True)
    _watchers.append(watcher)


def counted(folder: str, run: Callable[[], object]) -> int:
    """Count a function's changing calls below a folder."""
    calls: list[str] = []
    _watch(lambda event, path: calls.append(event) if path.startswith(folder) else None)
    try:
        run()
    finally:
        _watchers.pop()
    return len(calls)


def killed_at(number: int, folder: str, run: Callable[[], object]) -> None:
    """Run a function and kill this process before its call `number` below a folder, counted from 0."""
    calls: list[str] = []

    def watcher(event: str, path: str) -> None:
        if not path.startswith(folder):
            return
        if len(calls) == number:
            os.kill(os.getpid(), signal.SIGKILL)
        calls.append(event)

    _watch(watcher)
    run()
