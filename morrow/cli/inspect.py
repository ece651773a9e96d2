"""``morrow inspect``: pictures of a table on one page."""

from __future__ import annotations

from pathlib import Path

import typer

from morrow.cli.opening import open_table
from morrow.cli.progress import working
from morrow.engine.telling import shown


def inspect(path: str, branch: str | None, where: str | None, output: Path | None) -> None:
    """Write the page to `output`, or what it would tell in a few lines to standard output."""
    table = open_table(path, branch)
    with working("looking"):
        found = table.inspect(where=where)
        if output is None:
            text = str(found)
        else:
            found.save(output)
            text = f"{output}: {output.stat().st_size:,} bytes"
    typer.echo(shown(text))
