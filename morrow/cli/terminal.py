"""The terminal of a command: pager, progress on standard error, and questions before something is deleted.

The pager is ``$PAGER``, or ``less``. Questions are asked on a terminal only; scripts pass ``--yes``.
"""

from __future__ import annotations

import logging
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import TYPE_CHECKING, BinaryIO

import typer

from morrow.engine import progress
from morrow.engine.errors import InvalidArgument
from morrow.engine.redaction import clean_text

if TYPE_CHECKING:
    import pyarrow as pa

NONE = ("", "cat")
"""Values of PAGER that mean no pager."""

_unwanted: ContextVar[bool] = ContextVar("no pager", default=False)

LOG_FORMAT = "%(asctime)s.%(msecs)03dZ %(levelname)s %(name)s: %(message)s"
LOG_TIME = "%Y-%m-%dT%H:%M:%S"

_quiet: ContextVar[bool] = ContextVar("quiet", default=False)


def reset_messages() -> None:
    """Show notes again: commands in one process do not inherit ``--quiet``."""
    _quiet.set(False)


def configure_messages(level: str | None, quiet: bool) -> None:
    """Apply ``--log-level`` and ``--quiet``, given before or after the command.

    `level`: log events of this level and above to standard error, with times in UTC. `quiet`: show results and errors
    only, without progress and notes; warnings are logged only if `level` says so.
    """
    if quiet:
        _quiet.set(True)
        os.environ[progress.SWITCH] = progress.OFF[0]
    log = logging.getLogger("morrow")
    if level is None:
        log.setLevel(logging.ERROR if quiet and not log.handlers else log.level)
        return
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter(LOG_FORMAT, LOG_TIME))
    handler.formatter.converter = time.gmtime  # type: ignore[union-attr]  # it was set above
    log.handlers[:] = [handler]
    log.setLevel(level.upper())


def write_note(text: str) -> None:
    """Write a line about what was done or left out to standard error, unless ``--quiet``."""
    if not _quiet.get():
        typer.echo(clean_text(text), err=True)


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
    """Return whether to do `deed`, such as ``drop db.t with 3 snapshots``. All commands that delete ask here.

    With `dry_run` the deed is printed and not done. With `yes` it is done. Otherwise a terminal asks, and without a
    terminal, such as in cron or a pipe, the command is refused.

    Raises:
        typer.Exit: the user said no; nothing was done. InvalidArgument: there is neither a terminal nor `yes`.
    """
    if dry_run:
        typer.echo(clean_text(f"would {deed}"))
        return False
    if yes:
        return True
    if not sys.stdin.isatty():
        raise InvalidArgument(
            f"this would {deed}, and standard input is not a terminal that could be asked; add --yes to do it, or "
            "--dry-run to see what it would do"
        )
    if not _ask_user(f"{deed}?"):
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
