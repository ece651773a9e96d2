"""Text that is longer than the screen goes through a pager: ``$PAGER``, or ``less``."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from contextvars import ContextVar
from typing import BinaryIO

NONE = ("", "cat")
"""Values of PAGER that mean no pager."""

_unwanted: ContextVar[bool] = ContextVar("no pager", default=False)


def forbid(unwanted: bool) -> None:
    """Turns the pager off for this command (``--no-pager``)."""
    _unwanted.set(unwanted)


def emit(text: str, out: BinaryIO) -> None:
    """Write text for eyes; to a terminal with fewer lines than the text, by the pager.

    Not paged: with ``--no-pager``, with NO_PAGER set to anything, with a PAGER of `NONE`, on a dumb terminal, when
    standard input is no terminal (nobody could turn the pages), or when the pager cannot be started.
    """
    if out is sys.stdout.buffer and _is_long(text) and _paged(text):
        return
    out.write(text.encode())


def _is_long(text: str) -> bool:
    if not (sys.stdout.isatty() and sys.stdin.isatty()):
        return False
    return text.count("\n") >= shutil.get_terminal_size().lines


def _paged(text: str) -> bool:
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
