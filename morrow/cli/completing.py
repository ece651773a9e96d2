"""What the shell completes: tables, columns, tags, branches and system tables of what is on the line so far.

Whatever goes wrong, nothing is offered and nothing is printed: the user is in the middle of a line.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import morrow

Complete: TypeAlias = Callable[[Any, str], list[str]]
"""Takes typer's context and the word so far; typer knows the two by their names."""

MOST_NAMES = 500


def _quiet(find: Callable[[Any, str], Iterable[str]]) -> Complete:
    def complete(ctx: Any, incomplete: str) -> list[str]:
        from morrow.engine.errors import MorrowError

        try:
            return [each for each in find(ctx, incomplete) if each.startswith(incomplete)][:MOST_NAMES]
        except (MorrowError, OSError):
            return []

    return complete


def _begin(ctx: Any) -> None:
    """Takes in what stands before the command: it does not run while a line is completed."""
    from morrow.cli import opening

    said, words = ctx.find_root().params, _words()
    opening.begin(said.get("allowed_roots") or (), said.get("warehouse"), said.get("profile"))
    after = next((word for option, word in pairwise(words) if option == "--warehouse"), None)
    if after is not None:
        opening.use_warehouse(after)


def _table(ctx: Any) -> morrow.Table:
    from morrow.cli.opening import open_table

    _begin(ctx)
    return open_table(str(ctx.params.get("path") or _first_argument(ctx)))


def _words() -> list[str]:
    """Returns the line so far, as the shells hand it over; a quote that is still open ends it."""
    line = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS") or ""
    try:
        return shlex.split(line)
    except ValueError:
        return line.split()


def _first_argument(ctx: Any) -> str:
    """Returns the first word after the command: options that still lack their value keep typer from parsing it."""
    words = _words()
    after = words[words.index(ctx.info_name) + 1 :] if ctx.info_name in words else []
    return next((word for word in after if not word.startswith("-")), "")


def _tables(ctx: Any, incomplete: str) -> Iterable[str]:
    from morrow.cli.opening import knows_names, open_catalog

    _begin(ctx)
    if "/" not in incomplete and not incomplete.startswith(".") and knows_names():
        catalog = open_catalog()
        for database in catalog.databases():
            if f"{database}.".startswith(incomplete) or incomplete.startswith(f"{database}."):
                yield from (f"{database}.{name}" for name in catalog.tables(database))
    yield from _folders(incomplete)


def _folders(incomplete: str) -> Iterable[str]:
    """Yields the folders that a path may go on with: what a shell does where nobody completes for it."""
    head, _, _ = incomplete.rpartition("/")
    place = Path(f"{head}/" if "/" in incomplete else ".")
    for each in sorted(os.scandir(place), key=lambda entry: entry.name) if place.is_dir() else ():
        if each.is_dir():
            yield f"{head}/{each.name}" if "/" in incomplete else each.name


def _columns(ctx: Any, incomplete: str) -> Iterable[str]:
    done, comma, _ = incomplete.rpartition(",")
    return [f"{done}{comma}{name}" for name in _table(ctx).schema.names]


def _system_names(_: Any, __: str) -> Iterable[str]:
    from morrow.readers.system.registry import SYSTEM_TABLES

    return sorted(SYSTEM_TABLES)


tables = _quiet(_tables)
columns = _quiet(_columns)
tags = _quiet(lambda ctx, _: _table(ctx).tags.names)
branches = _quiet(lambda ctx, _: _table(ctx).branches.list())
states = _quiet(lambda ctx, _: [*_table(ctx).tags.names, *_table(ctx).branches.list(), *_ids(ctx)])
snapshots = _quiet(lambda ctx, _: _ids(ctx))
system_tables = _quiet(_system_names)


def _ids(ctx: Any) -> list[str]:
    return [str(snapshot.id) for snapshot in reversed(_table(ctx).snapshots())]
