"""The terminal of a command: pager, progress on standard error, and questions before something is deleted.

The pager is ``$PAGER``, or ``less``. Questions are asked on a terminal only, not in scripts.
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
    """Turn the pager off for this command (``--no-pager``)."""
    _unwanted.set(unwanted)


def emit(text: str, out: BinaryIO) -> None:
    """Write text for people, through the pager if it has more lines than the terminal.

    The pager is not used with ``--no-pager``, if NO_PAGER is set, if PAGER is one of `NONE`, on a dumb terminal, if
    standard input is not a terminal (so that pages cannot be turned), or if the pager cannot be started.
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
    # As in git: do not page short texts, show colours, leave the text on the screen.
    environment = {"LESS": "FRX", **os.environ}
    try:
        subprocess.run(shlex.split(pager), input=text.encode(), env=environment, check=False)
    except (OSError, ValueError):
        return False
    return True


def confirm(deed: str, *, yes: bool, dry_run: bool) -> bool:
    """Ask on a terminal whether to do `deed`, such as ``drop db.t with 3 snapshots``; return whether to do it.

    With `dry_run` the deed is printed and not done. With `yes`, or if standard input is not a terminal, the answer is
    yes without asking.

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
    # After its first query, Polars lets the system restart calls that Ctrl-C interrupts: the question would stay
    # until a line is typed.
    if hasattr(signal, "siginterrupt"):  # not on Windows
        signal.siginterrupt(signal.SIGINT, True)
    return typer.confirm(clean_text(question), err=True)


def show_progress(what: str) -> AbstractContextManager[bool]:
    """Show progress of work of unknown length (opening, planning) if it takes longer than a moment."""
    return progress.show_progress(what)


def count_batches(batches: Iterable[pa.RecordBatch], *, rows: int = 0, shown: bool = True) -> Iterator[pa.RecordBatch]:
    """Yield the batches, and show the progress in rows and bytes, with the total `rows` if it is known.

    `shown` is False if the rows themselves go to the terminal.
    """
    if not shown:
        yield from batches
        return
    with progress.show_progress("reading", rows=rows):
        for batch in batches:
            progress.advance(rows=len(batch), bytes=batch.nbytes)
            yield batch
