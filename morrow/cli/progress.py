"""What is shown on standard error while work goes on: only on a terminal, only for work that takes a moment."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

PATIENCE_SECONDS = 0.5
"""What is done sooner is not announced."""


def working(what: str) -> AbstractContextManager[object]:
    """Shows a spinner around work of unknown length (opening, planning)."""
    if not sys.stderr.isatty():
        return nullcontext()
    from rich.console import Console

    return Console(stderr=True).status(what)


def counted(batches: Iterable[pa.RecordBatch], *, shown: bool = True) -> Iterator[pa.RecordBatch]:
    """Yields the batches, showing rows and rows per second on standard error as they pass.

    `shown` is False where the rows themselves go to the terminal.
    """
    if not (shown and sys.stderr.isatty()):
        yield from batches
        return
    from rich.console import Console
    from rich.status import Status

    rows, began = 0, time.monotonic()
    status = Status("", console=Console(stderr=True))
    try:
        for batch in batches:
            rows += len(batch)
            seconds = time.monotonic() - began
            if seconds > PATIENCE_SECONDS:
                status.update(f"{rows:,} rows, {rows / seconds:,.0f} rows/s")
                status.start()
            yield batch
    finally:
        status.stop()
