"""Tables for eyes, drawn by rich: as wide as the terminal, or as wide as they need to be in a file or pipe."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from io import StringIO

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from morrow.engine.telling import one_line

ENDLESS = 1_000_000
NULL = "null"


def render(
    headers: Sequence[str], rows: Iterable[Sequence[str | None]], *, numeric: Sequence[bool] = (), terminal: bool = True
) -> str:
    """The table as text, with colours when standard output is a terminal and `terminal` is true.

    `numeric` says of each column whether it is aligned at the right. None is drawn as a dim ``null``.
    """
    on_terminal = terminal and sys.stdout.isatty()
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    right = [*numeric, *[False] * (len(headers) - len(numeric))]
    for header, is_number in zip(headers, right, strict=True):
        table.add_column(
            Text(one_line(header)), justify="right" if is_number else "left", no_wrap=True, overflow="ellipsis"
        )
    for row in rows:
        table.add_row(*(Text(NULL, "dim") if cell is None else Text(one_line(cell)) for cell in row))
    file = StringIO()
    console = Console(file=file, width=None if on_terminal else ENDLESS, force_terminal=on_terminal)
    console.print(table)
    return "".join(f"{line.rstrip()}\n" for line in file.getvalue().splitlines())
