"""Commands on terminals of their own, in processes that are forked from one with all imports."""

from __future__ import annotations

import atexit
import fcntl
import os
import pty
import select
import struct
import sys
import tempfile
import termios
from collections.abc import Mapping
from dataclasses import dataclass

from morrow.cli import main
from tests.support.processes import PROCESSES

OF_TERMINALS = ("COLUMNS", "LINES", "NO_PAGER", "PAGER", "TERM")
"""Variables that describe the terminal in which the tests run."""


@dataclass(frozen=True)
class Done:
    """A finished command: its output on the terminal, and on standard error, which is a file."""

    code: int | None
    shown: str
    err: str


def on_terminal(
    *args: object, columns: int = 80, lines: int = 24, typed: bytes = b"", asked: bytes = b"", **environment: str
) -> Done:
    """Run `morrow` with a terminal of this size as standard input and output, and add `environment` to this process's.

    `asked` is typed once standard error contains a question.
    """
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    os.write(ours, typed)
    with tempfile.NamedTemporaryFile(mode="r") as errors:
        streams = (os.ttyname(theirs), errors.name)
        here = {name: value for name, value in os.environ.items() if name not in OF_TERMINALS}
        process = PROCESSES.Process(target=_run, args=([*map(str, args)], streams, {**here, **environment}))
        process.start()
        shown = b""
        while process.is_alive() or _waiting(ours):
            if asked and errors.seek(0, os.SEEK_END):
                os.write(ours, asked)
                asked = b""
            if _waiting(ours, 0.02):
                shown += os.read(ours, 1 << 16)
        process.join(60)
        os.close(theirs)
        os.close(ours)
        errors.seek(0)
        return Done(process.exitcode, shown.decode(), errors.read())


def _waiting(terminal: int, seconds: float = 0) -> bool:
    return bool(select.select([terminal], [], [], seconds)[0])


def _run(args: list[str], streams: tuple[str, str], environment: Mapping[str, str]) -> None:
    """Run the command in the forked process."""
    os.setsid()
    terminal, errors = (os.open(path, os.O_RDWR) for path in streams)
    for target, source in enumerate((terminal, terminal, errors)):
        os.dup2(source, target)
    sys.stdin = sys.__stdin__ = os.fdopen(0, closefd=False)
    sys.stdout = sys.__stdout__ = os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.__stderr__ = os.fdopen(2, "w", closefd=False)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["morrow", *args]
    try:
        main()
    finally:
        atexit._run_exitfuncs()  # forked processes do not run these by themselves
