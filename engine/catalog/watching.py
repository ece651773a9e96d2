"""Whoever wants to know when a catalog of this process makes, drops or renames a table or database."""

from __future__ import annotations

from collections.abc import Callable
from weakref import WeakMethod

_watchers: list[WeakMethod[Callable[[str], None]]] = []


def watch(method: Callable[[str], None]) -> None:
    """Has a bound method called with the title of each catalog that changes, as long as its object is there."""
    _watchers.append(WeakMethod(method))


def changed(title: str) -> None:
    """Tells that the catalog of this title has other tables now."""
    for reference in list(_watchers):
        method = reference()
        if method is None:
            _watchers.remove(reference)
        else:
            method(title)
