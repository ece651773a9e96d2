"""Selection of the file operations at which a fault is injected.

`make test-long` tries every file operation. `make test` tries the first and the last operation of each kind on each
kind of file: the cleanup differs between a manifest and a snapshot, but hardly between the second manifest and the
third. For the operation that writes by far the most files of a kind, and for faults that are like `AT_BOTH_ENDS`, it
tries only the first. A disk that fails for
good does so at the first operation of each kind, once something has changed: earlier failures are like single failures,
with nothing to undo.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence

from morrow.engine.io.local import LocalStore, disable_fsync
from tests.durability.operations import OPERATIONS, at
from tests.support.faulty_store import ERRORS, KILLS, READS, FaultKind, FaultyStore, counts

IS_LONG = os.environ.get("HYPOTHESIS_PROFILE") == "long"
MANY_ALIKE = "upsert into dynamic buckets"
AT_BOTH_ENDS = (KILLS[0], ERRORS[0])
"""The faults that are tried at the last operation of a kind, too: one that ends the process, and one that does not."""
NUMBERS = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}|[0-9]+")
"""The parts of a path that differ between files of the same kind."""

_asked: dict[str, list[tuple[str, str]]] = {}
"""The store requests of each operation."""


def moments(name: str, kind: FaultKind, copy: Callable[[str], str], *, lasting: bool = False) -> list[int]:
    """List the numbers of the file operations to fail, followed by their total count, at which nothing fails."""
    if name not in _asked:
        store = FaultyStore(LocalStore())
        with disable_fsync():
            OPERATIONS[name].run(at(copy(name), store))
        _asked[name] = list(zip(store.acts, store.asked, strict=True))
    asked = [each for act, each in _asked[name] if counts(kind, act)]
    first = next(number for number, each in enumerate(asked) if changes_something(each)) if lasting else 0
    if IS_LONG:
        return [*range(len(asked)), len(asked)]
    tried = distinct(asked, first_alone=lasting or name == MANY_ALIKE or kind not in AT_BOTH_ENDS)
    return [*(number for number in tried if number >= first), len(asked)]


def changes_something(asked: str) -> bool:
    return asked.startswith("open output") or asked.partition(" ")[0] not in READS


def distinct(asked: Sequence[str], *, first_alone: bool = False) -> list[int]:
    """Return the first and the last of the requests that differ only in the numbers of their file names."""
    numbered = [(NUMBERS.sub("", each), number) for number, each in enumerate(asked)]
    last = {} if first_alone else dict(numbered)
    return sorted({*dict(reversed(numbered)).values(), *last.values()})
