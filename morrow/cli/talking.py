"""``morrow sql`` without a query: statements one after the other, from a terminal or a file."""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import typer

import morrow
from morrow.engine.errors import InvalidArgument, MorrowError
from morrow.engine.telling import shown

PROMPT, MORE = "morrow> ", "   ...> "
LEAVE = ("exit", "quit", "\\q")
HISTORY_LINES = 1_000
WORDS = (
    *("INSERT INTO", "UPDATE", "DELETE FROM", "MERGE INTO", "CREATE TABLE", "ALTER TABLE", "DROP TABLE", "SHOW TABLES"),
    *("SELECT", "FROM", "WHERE", "GROUP BY", "ORDER BY", "LIMIT", "JOIN", "VERSION AS OF", "TIMESTAMP AS OF"),
)


def talk(run: Callable[[str], None], catalog: morrow.Catalog | None, names: Sequence[str]) -> None:
    """Runs the statements of standard input, each of which ends with a semicolon that no string or comment holds.

    On a terminal an error is told and the next statement read; in a file or pipe it ends the command. The end of the
    input runs what is there. ``exit``, ``quit`` or ``\\q`` leave.
    """
    on_terminal = sys.stdin.isatty()
    if on_terminal:
        _prepare(catalog, names)
    text = ""
    while True:
        try:
            line = input((MORE if text else PROMPT) if on_terminal else "")
        except KeyboardInterrupt:
            typer.echo()
            text = ""
            continue
        except EOFError:
            if on_terminal:
                typer.echo()
            _run(run, _rest(text), on_terminal)
            return
        if not text and line.strip().rstrip(";").lower() in LEAVE:
            return
        text = f"{text}{line}\n" if text or line.strip() else ""
        found = _ended(text) if ";" in line else None
        if found is not None:
            _run(run, found, on_terminal)
            text = ""


def _ended(text: str) -> Sequence[str] | None:
    """Returns the statements of text that ends with a semicolon; None while it goes on, as within a string."""
    from morrow.statements.words import split, tokens_of

    try:
        tokens = tokens_of(text)
    except InvalidArgument:
        return None
    return [words.text for words in split(text)] if tokens and tokens[-1].text == ";" else None


def _rest(text: str) -> Sequence[str]:
    """Returns the statements of the end of the input: comments are none; what cannot be told apart is one."""
    from morrow.statements.words import split

    try:
        return [words.text for words in split(text)]
    except InvalidArgument:
        return [text]


def _run(run: Callable[[str], None], statements: Sequence[str], on_terminal: bool) -> None:
    for text in statements:
        _run_one(run, text, on_terminal)


def _run_one(run: Callable[[str], None], text: str, on_terminal: bool) -> None:
    try:
        run(text)
    except typer.Exit:  # the answer was no
        if not on_terminal:
            raise
    except KeyboardInterrupt:
        typer.echo("interrupted", err=True)
    except MorrowError as error:
        if not on_terminal:
            raise
        typer.echo(shown(f"morrow: {error}"), err=True)


def _prepare(catalog: morrow.Catalog | None, names: Sequence[str]) -> None:
    """Sets up line editing with history and completion, where Python has readline."""
    try:
        import readline
    except ImportError:
        return
    state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    history = state / "morrow" / "history"
    with suppress(OSError):
        history.parent.mkdir(parents=True, exist_ok=True)
        readline.read_history_file(history)
    readline.set_history_length(HISTORY_LINES)
    atexit.register(_keep, history)
    found = [*names, *WORDS]
    if catalog is not None:
        found += [f"{database}.{name}" for database in catalog.databases() for name in catalog.tables(database)]

    def complete(text: str, number: int) -> str | None:
        fitting = [name for name in found if name.lower().startswith(text.lower())]
        return fitting[number] if number < len(fitting) else None

    readline.set_completer(complete)
    readline.set_completer_delims(" \t\n,()=;")
    readline.parse_and_bind("tab: complete")


def _keep(history: Path) -> None:
    import readline

    with suppress(OSError):
        readline.write_history_file(history)
