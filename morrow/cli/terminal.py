"""The terminal of a command: pager, progress on standard error, and questions before something is deleted.

The pager is ``$PAGER``, or ``less``. On a terminal a person is asked; a script is not.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import TYPE_CHECKING, BinaryIO

import typer

from morrow.engine import progress
from morrow.engine.redaction import clean_text

if TYPE_CHECKING:
    import pyarrow as pa

NONE = ("", "cat")
"""Values of PAGER that mean no pager."""

_unwanted: ContextVar[bool] = ContextVar("no pager", default=False)


def suppress_pager(unwanted: bool) -> None:
    """Turns the pager off for this command (``--no-pager``)."""
    _unwanted.set(unwanted)


def emit(text: str, out: BinaryIO) -> None:
    """Write text for eyes; to a terminal with fewer lines than the text, by the pager.

    Not paged: with ``--no-pager``, with NO_PAGER set to anything, with a PAGER of `NONE`, on a dumb terminal, when
    standard input is no terminal (nobody could turn the pages), or when the pager cannot be started.
    """
    if out is sys.stdout.buffer and _is_long(text) and _page_text(text):
        return
    out.write(text.encode())


def _is_long(text: str) -> bool:
    if not (sys.stdout.isatty() and sys.stdin.isatty()):
        return False
    return text.count("\n") >= shutil.get_terminal_size().lines


def _page_text(text: str) -> bool:
    pager = os.environ.get("PAGER", "less").strip()
    if _unwanted.get() or os.environ.get("NO_PAGER") or pager in NONE or os.environ.get("TERM") == "dumb":
        return False
    sys.stdout.flush()
    # As git does: stay out of the way of short texts, show colours, leave the text on the screen.
    environment = {"LESS": "FRX", **os.environ}
    try:
        subprocess.run(shlex.split(pager), input=text.encode(), env=environment, check=False)
    except (OSError, ValueError):
        return False
    return True


def confirm(deed: str, *, yes: bool, dry_run: bool) -> bool:
    """Asks on a terminal whether to do what `deed` says, such as ``drop db.t with 3 snapshots``.

    With `dry_run` it is told and nothing is done. On a terminal without `yes` the user is asked; where standard input
    is no terminal nobody can be, and the command line itself is the answer.

    Raises:
        typer.Exit: the user said no; nothing was done.
    """
    if dry_run:
        typer.echo(clean_text(f"would {deed}"))
        return False
    if not yes and sys.stdin.isatty() and not _ask_user(f"{deed}?"):
        typer.echo("nothing was done", err=True)
        raise typer.Exit(1)
    return True


def _ask_user(question: str) -> bool:
    # Polars, once it has run a query, has the system go on with what Ctrl-C interrupts: the question would stay until
    # a line is typed.
    signal.siginterrupt(signal.SIGINT, True)
    return typer.confirm(clean_text(question), err=True)


def show_progress(what: str) -> AbstractContextManager[bool]:
    """Shows work of unknown length (opening, planning) once it takes longer than a moment."""
    return progress.show_progress(what)


def count_batches(batches: Iterable[pa.RecordBatch], *, rows: int = 0, shown: bool = True) -> Iterator[pa.RecordBatch]:
    """Yields the batches, showing their rows and bytes as they pass, of `rows` in all where that is known.

    `shown` is False where the rows themselves go to the terminal.
    """
    if not shown:
        yield from batches
        return
    with progress.show_progress("reading", rows=rows):
        for batch in batches:
            progress.advance(rows=len(batch), bytes=batch.nbytes)
            yield batch
