"""Layout of tables for people, drawn by rich. A terminal shows as many whole columns as fit and the names of the
others, or each row as a record of lines. In files and pipes, tables have their full width.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from io import StringIO

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from morrow.engine.redaction import escape_to_line

UNLIMITED_WIDTH = 1_000_000
NULL = "null"
GAP = 3
"""Characters between two columns: a space of padding on each side, and the line of the box."""
MIN_CUT_CHARACTERS = 32
"""Minimum width to which a column is cut to show another column. Longer cells end in an ellipsis."""
MIN_COLUMNS = 3
"""Minimum columns that must fit; otherwise rows are drawn as records."""

Row = Sequence[str | None]


def render(
    headers: Sequence[str],
    rows: Sequence[Row],
    *,
    numeric: Sequence[bool] = (),
    terminal: bool = True,
    vertical: bool = False,
) -> str:
    """Render the rows as text, in colour if standard output is a terminal and `terminal` is true.

    A terminal shows the columns that fit and names the others in a line below. Rows become records, with a line for
    each column, if `vertical` is true. They also do on a terminal if fewer than `MIN_COLUMNS` columns fit, or a single
    row does not fit.

    `numeric` contains for each column whether it is right-aligned. None is drawn as a dim ``null``.
    """
    on_terminal = terminal and sys.stdout.isatty()
    width = shutil.get_terminal_size().columns if on_terminal else UNLIMITED_WIDTH
    names = [escape_to_line(header) for header in headers]
    cells = [[None if cell is None else escape_to_line(cell) for cell in row] for row in rows]
    widths = _fit_widths(_measure_widths(names, cells), width)
    hidden = len(names) - len(widths)
    if cells and (vertical or (hidden and (len(cells) == 1 or len(widths) < MIN_COLUMNS))):
        return _render_records(names, cells, on_terminal)
    right = [*numeric, *[False] * (len(names) - len(numeric))]
    text = _render_table(names, cells, widths, right, width, on_terminal)
    return text + "".join(f"{line}\n" for line in _list_hidden_columns(names[len(widths) :], width))


def _measure_widths(names: Sequence[str], cells: Sequence[Row]) -> list[int]:
    """Return the width of each column: the maximum of its name and its cells."""
    return [
        max(cell_len(name), *(cell_len(NULL if row[i] is None else row[i] or "") for row in cells))
        if cells
        else cell_len(name)
        for i, name in enumerate(names)
    ]


def _fit_widths(natural: Sequence[int], width: int) -> list[int]:
    """Return the widths of the first columns that fit, at least one."""
    found: list[int] = []
    left = width + GAP
    for wide in natural:
        least = min(wide, MIN_CUT_CHARACTERS) + GAP
        if found and least > left:
            break
        found.append(min(wide, MIN_CUT_CHARACTERS, max(width, 1)))
        left -= least
    for i, wide in enumerate(natural[: len(found)]):  # the remaining width goes to columns that were cut
        more = max(min(wide - found[i], left), 0)
        found[i] += more
        left -= more
    return found


def _render_table(
    names: Sequence[str], cells: Sequence[Row], widths: Sequence[int], right: Sequence[bool], width: int, colours: bool
) -> str:
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    for name, wide, is_number in zip(names, widths, right, strict=False):
        table.add_column(
            Text(name), justify="right" if is_number else "left", no_wrap=True, overflow="ellipsis", width=wide
        )
    for row in cells:
        table.add_row(*(_render_cell(cell) for cell in row[: len(widths)]))
    return _print_to_text(table, width, colours)


def _list_hidden_columns(names: Sequence[str], width: int) -> Iterator[str]:
    """Yield ``+2 columns: watermark, commit_user``, and how to show them, in lines of up to `width` characters."""
    if not names:
        return
    line = f"+{len(names)} column{'s' if len(names) > 1 else ''}:"
    for i, name in enumerate(names):
        word = f" {name}{',' if i < len(names) - 1 else ''}"
        if cell_len(line) + cell_len(word) > width:
            yield line
            line = " "
        line += word
    yield line
    yield "--vertical shows all of them"


def fold_text(head: str, text: str, *, terminal: bool = True) -> Iterator[str]:
    """Yield `head` and a text in lines, on a terminal wrapped at blanks with indented continuation lines."""
    width = shutil.get_terminal_size().columns if terminal and sys.stdout.isatty() else UNLIMITED_WIDTH
    line = head
    for i, word in enumerate(text.split(" ")):
        longer = f"{line}{' ' if i else ''}{word}"
        if i and cell_len(longer) > width:
            yield line
            longer = f"{' ' * cell_len(head)}{word}"
        line = longer
    yield line


def _render_records(names: Sequence[str], cells: Sequence[Row], colours: bool) -> str:
    """Render ``row 1`` and one line per column, without cutting values."""
    wide = max(map(cell_len, names), default=0)
    text = Text()
    for number, row in enumerate(cells, 1):
        text.append(f"row {number}\n", "bold")
        for name, cell in zip(names, row, strict=True):
            text.append(f"  {name}{' ' * (wide - cell_len(name))}  ")
            text.append_text(_render_cell(cell))
            text.append("\n")
    return _print_to_text(text, UNLIMITED_WIDTH, colours).rstrip("\n") + "\n"


def _render_cell(cell: str | None) -> Text:
    return Text(NULL, "dim") if cell is None else Text(cell)


def _print_to_text(what: Table | Text, width: int, colours: bool) -> str:
    file = StringIO()
    plain = bool(os.environ.get("NO_COLOR"))  # rich would keep bold and dim
    # On a dumb terminal, rich uses the given width only together with a height.
    console = Console(file=file, width=width, height=1, force_terminal=colours and not plain)
    console.print(what, soft_wrap=isinstance(what, Text))
    return "".join(f"{line.rstrip()}\n" for line in file.getvalue().splitlines())
