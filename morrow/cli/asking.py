"""Questions before something is deleted: on a terminal a person is asked, a script is not."""

from __future__ import annotations

import signal
import sys

import typer

from morrow.engine.telling import shown


def may(deed: str, *, yes: bool, dry_run: bool) -> bool:
    """Asks on a terminal whether to do what `deed` says, such as ``drop db.t with 3 snapshots``.

    With `dry_run` it is told and nothing is done. On a terminal without `yes` the user is asked; where standard input
    is no terminal nobody can be, and the command line itself is the answer.

    Raises:
        typer.Exit: the user said no; nothing was done.
    """
    if dry_run:
        typer.echo(shown(f"would {deed}"))
        return False
    if not yes and sys.stdin.isatty() and not _confirmed(f"{deed}?"):
        typer.echo("nothing was done", err=True)
        raise typer.Exit(1)
    return True


def _confirmed(question: str) -> bool:
    # Polars, once it has run a query, has the system go on with what Ctrl-C interrupts: the question would stay until
    # a line is typed.
    signal.siginterrupt(signal.SIGINT, True)
    return typer.confirm(shown(question), err=True)
