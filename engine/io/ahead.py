"""Requests that are under way while others are: a store far away answers each late, and many at a time."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from morrow.engine.io.store import FileStore

T = TypeVar("T")


def ahead(store: FileStore, ask: Callable[[], T]) -> Callable[[], T]:
    """Begins to ask a store that is far away; returns what waits for the answer, and raises what `ask` raised.

    A local disk answers before a thread has started: it is asked now, and an error is raised now.
    """
    if store.is_local:
        answer = ask()
        return lambda: answer
    with_thread = ThreadPoolExecutor(1)
    asked = with_thread.submit(ask)
    with_thread.shutdown(wait=False)
    return asked.result
