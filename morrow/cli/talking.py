"""``morrow sql`` without a query: statements one after the other, from a terminal or a file."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import typer

import morrow
from morrow.cli.talking_words import leaves, translated
from morrow.engine.errors import InvalidArgument, MorrowError
from morrow.engine.telling import shown

PROMPT, MORE = "morrow> ", "   ...> "
GREETING = "A semicolon ends a statement; .help says more, Ctrl-D leaves."
SETTLING = frozenset(";'\"`$/")
"""Only lines with one of these can end a statement, a string or a comment."""


def talk(run: Callable[[str], None], catalog: morrow.Catalog | None, names: Sequence[str]) -> None:
    """Runs the statements of standard input, each of which ends with a semicolon that no string or comment holds.

    On a terminal an error is told and the next statement read, Ctrl-C drops what was typed, and Ctrl-D leaves without
    running what no semicolon ended. In a file or pipe an error ends the command and says in which line the statement
    begins; the end of the input runs what is there. `morrow.cli.talking_words` has the words that are no SQL.
    """
    talk = _Talk(run, catalog, sys.stdin.isatty())
    if talk.on_terminal:
        from morrow.cli import line_editing

        line_editing.begin(catalog, names, lambda: talk.text)
        typer.echo(GREETING, err=True)
    while talk.goes_on():
        pass


@dataclass
class _Talk:
    """What was read so far and has not run: `text`, which begins in line `first` of the input."""

    run: Callable[[str], None]
    catalog: morrow.Catalog | None
    on_terminal: bool
    text: str = ""
    first: int = 1
    line: int = 0
    unsettled: bool = True
    """Whether `text` ends within a string or comment, or holds comments alone."""

    def goes_on(self) -> bool:
        """Takes one line; returns whether there is another one."""
        try:
            line = self._next_line()
        except KeyboardInterrupt:
            typer.echo(err=True)
            self.text = ""
            return True
        except EOFError:
            if self.on_terminal:
                typer.echo(err=True)
            else:
                self._run_all(_rest(self.text))
            return False
        except UnicodeDecodeError as error:
            raise InvalidArgument(
                f"standard input, after line {self.line}: it is not UTF-8 ({error.reason})"
            ) from error
        self.line += 1
        if not self.text:
            self.first, self.unsettled = self.line, True
            if leaves(line):
                return False
            line = self._without_words(line)
        self.text = f"{self.text}{line}\n" if self.text or line.strip() else ""
        if self.text and (self.unsettled or not SETTLING.isdisjoint(line)):
            self._settle()
        return True

    def _next_line(self) -> str:
        prompt = (MORE if self.text else PROMPT) if self.on_terminal else ""
        if prompt and not sys.stdout.isatty():  # where Python would write it among the results
            typer.echo(prompt, nl=False, err=True)
            prompt = ""
        return input(prompt)

    def _without_words(self, line: str) -> str:
        """Returns the line, or the statement that it stands for if it is a word of `talking_words`."""
        try:
            return translated(line, self.catalog)
        except MorrowError as error:
            self._tell(error)
            return ""

    def _settle(self) -> None:
        """Runs the statements of `text` if it ends with a semicolon; forgets it if there are only comments."""
        from morrow.statements.words import split, tokens_of

        # What is open swallows the mark: a string raises, a comment leaves it out.
        mark = f"{self.text};"
        try:
            tokens = tokens_of(mark)
        except InvalidArgument:
            tokens = []
        if not tokens or tokens[-1].start != len(mark) - 1:
            self.unsettled = True
            return
        self.unsettled = False
        if len(tokens) == 1 or tokens[-2].text == ";":
            text, self.text = self.text, ""
            self._run_all([words.text for words in split(text)])

    def _run_all(self, statements: Sequence[str]) -> None:
        for text in statements:
            try:
                self.run(text)
            except typer.Exit:  # the answer was no
                if not self.on_terminal:
                    raise
                return
            except KeyboardInterrupt:
                typer.echo("interrupted", err=True)
                if not self.on_terminal:
                    raise
                return
            except MorrowError as error:
                self._tell(error)
                return

    def _tell(self, error: MorrowError) -> None:
        """Tells an error on a terminal. Raises `typer.Exit` elsewhere: what comes next may need what has failed."""
        where = "" if self.on_terminal or self.first == self.line == 1 else f"the statement of line {self.first}: "
        typer.echo(shown(f"morrow: {where}{error}"), err=True)
        if not self.on_terminal:
            raise typer.Exit(1) from error


def _rest(text: str) -> Sequence[str]:
    """Returns the statements of the end of the input: comments are none; what cannot be told apart is one."""
    from morrow.statements.words import split

    try:
        return [words.text for words in split(text)]
    except InvalidArgument:
        return [text]
