"""What is shown on standard error while a command works; see `morrow.engine.progress`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from morrow.engine import progress

if TYPE_CHECKING:
    import pyarrow as pa


def working(what: str) -> AbstractContextManager[bool]:
    """Shows work of unknown length (opening, planning) once it takes longer than a moment."""
    return progress.working(what)


def counted(batches: Iterable[pa.RecordBatch], *, rows: int = 0, shown: bool = True) -> Iterator[pa.RecordBatch]:
    """Yields the batches, showing their rows and bytes as they pass, of `rows` in all where that is known.

    `shown` is False where the rows themselves go to the terminal.
    """
    if not shown:
        yield from batches
        return
    with progress.working("reading", rows=rows):
        for batch in batches:
            progress.advance(rows=len(batch), bytes=batch.nbytes)
            yield batch
