"""Progress of long work, on standard error of a terminal or in a notebook; otherwise nothing is shown.

Long-running functions report their work (`show_progress`) and their progress (`advance`). Only the outermost work of
the process is shown, after its first second. ``MORROW_PROGRESS=off`` disables it.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import wraps
from importlib.util import find_spec
from typing import Any, TypeVar

import msgspec

from morrow.engine.units import format_count, format_size, format_span

SWITCH = "MORROW_PROGRESS"
OFF = ("off", "0", "no", "false", "never")
MIN_SHOWN_SECONDS = 1.0
"""The duration below which work is not shown."""
REFRESH_SECONDS = 0.2
BAR = 24

F = TypeVar("F", bound=Callable[..., Any])


class Work(msgspec.Struct):
    """A piece of work: its description, total (0: unknown) and completed amount; `files` are found or removed."""

    what: str
    all_rows: int = 0
    all_bytes: int = 0
    rows: int = 0
    bytes: int = 0
    files: int = 0
    began: float = msgspec.field(default_factory=time.monotonic)

    @property
    def share(self) -> float | None:
        """The completed fraction; None if the total is unknown or nothing was counted."""
        for done, whole in ((self.rows, self.all_rows), (self.bytes, self.all_bytes)):
            if done and whole:
                return min(done / whole, 1.0)
        return None

    def __str__(self) -> str:
        told = [self.what]
        share, seconds = self.share, time.monotonic() - self.began
        if share is not None:
            told.append(f"{'━' * round(share * BAR):{BAR}} {share:4.0%}")
        told += (
            [_format_share(self.rows, self.all_rows, lambda n: f"{n:,}", "rows")] if self.rows or self.all_rows else []
        )
        told += [_format_share(self.bytes, self.all_bytes, format_size, "")] if self.bytes or self.all_bytes else []
        told += [format_count(self.files, "file")] if self.files else []
        told.append(format_span(seconds))
        if share:
            told.append(f"{format_span(seconds / share - seconds)} left")
        return "  ".join(told)


def _format_share(done: int, whole: int, text: Callable[[int], str], unit: str) -> str:
    told = f"{text(done)} of {text(whole)}" if done and whole else text(done or whole)
    return f"{told} {unit}".strip()


_lock = threading.Lock()
_running: Work | None = None


def advance(*, rows: int = 0, bytes: int = 0, files: int = 0) -> None:
    """Add to the completed amount of the displayed work; without displayed work, do nothing."""
    work = _running
    if work is not None:
        with _lock:
            work.rows += rows
            work.bytes += bytes
            work.files += files


def expect(*, rows: int = 0) -> None:
    """Add to the total number of rows, if it becomes known during the work."""
    work = _running
    if work is not None:
        with _lock:
            work.all_rows += rows


@contextmanager
def show_progress(what: str, *, rows: int = 0, bytes: int = 0) -> Iterator[bool]:
    """Show work while it runs; `rows` and `bytes` are its totals, if known.

    Yields whether this work is shown: not if another work contains it or nothing is shown.
    """
    global _running
    if not is_shown():
        yield False
        return
    with _lock:
        is_inner = _running is not None
        if not is_inner:
            _running = Work(what, rows, bytes)
    if is_inner:
        yield False
        return
    ended = threading.Event()
    shower = threading.Thread(target=_show, args=(_running, ended), name="morrow-progress", daemon=True)
    shower.start()
    try:
        yield True
    finally:
        ended.set()
        _running = None
        shower.join()


def track_calls(what: str) -> Callable[[F], F]:
    """Show calls of a function as work; the total is the number of rows of its first argument, if it has one."""

    def decorate(function: F) -> F:
        @wraps(function)
        def call(*args: Any, **named: Any) -> Any:
            given = next(iter(args[1:]), None)
            count = getattr(given, "num_rows", getattr(given, "height", 0))
            with show_progress(what, rows=count if isinstance(count, int) else 0):
                return function(*args, **named)

        return call  # type: ignore[return-value]  # `wraps` keeps the signature

    return decorate


def is_shown() -> bool:
    """Return whether there is a viewer (a terminal or a notebook), and progress is not switched off."""
    if os.environ.get(SWITCH, "").strip().lower() in OFF:
        return False
    if _is_notebook():
        return find_spec("ipywidgets") is not None  # otherwise rich warns in each cell, and shows nothing
    try:
        return sys.stderr.isatty()
    except (AttributeError, ValueError):  # closed, or replaced by an object that is not a file
        return False


def _is_notebook() -> bool:
    known = sys.modules.get("IPython")
    shell = known.get_ipython() if known is not None and hasattr(known, "get_ipython") else None
    return type(shell).__name__ == "ZMQInteractiveShell"


def _show(work: Work, ended: threading.Event) -> None:
    """Show the work until it has ended; an error here ends only the display."""
    if ended.wait(MIN_SHOWN_SECONDS):
        return
    from rich.console import Console
    from rich.errors import LiveError
    from rich.live import Live
    from rich.text import Text

    console = Console() if _is_notebook() else Console(stderr=True)
    shown = Live(Text(str(work)), console=console, transient=True, auto_refresh=False)
    with suppress(LiveError, OSError, ValueError), shown:  # another display is active, or the output is closed
        while not ended.wait(REFRESH_SECONDS):
            shown.update(Text(str(work), overflow="ellipsis", no_wrap=True), refresh=True)
