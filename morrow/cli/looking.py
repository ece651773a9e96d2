"""The commands that look: ``schema``, ``partitions``, ``head``, ``count``, ``diff``, ``tail``. `app` takes them in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from morrow.cli import arguments as arg
from morrow.cli import completing
from morrow.cli.argument_values import column_names
from morrow.cli.arguments import Format
from morrow.cli.shared_options import travels

HEAD_ROWS = 10
Few = Annotated[int, typer.Option("--limit", "-n", min=0, metavar="N", help="Rows at most.")]
State = Annotated[
    str,
    typer.Argument(
        autocompletion=completing.states,
        metavar="STATE",
        help="A snapshot id, tag or branch (main, too).",
        show_default=False,
    ),
]
Follow = Annotated[bool, typer.Option("--follow", "-f", help="Wait for later changes, until Ctrl-C.")]
Raw = Annotated[bool, typer.Option("--raw", help="Show rows as written, though they are no whole rows.")]
TailFormat = Annotated[
    Format, typer.Option("--format", help="As of read; arrow cannot follow.", rich_help_panel="Result")
]


def schema(
    path: arg.TablePath, branch: arg.Branch = None, form: arg.ResultFormat = Format.TABLE, output: arg.Output = None
) -> None:
    """List the columns: ids, names, types, keys, defaults, comments."""
    from morrow.cli import metadata

    metadata.schema(path, branch, form, output)


@travels
def partitions(
    at: arg.At,
    path: arg.TablePath,
    where: arg.Where = None,
    limit: arg.Limit = None,
    form: arg.ResultFormat = Format.TABLE,
    output: arg.Output = None,
) -> None:
    """List the partitions, with their rows, files and sizes."""
    from morrow.cli import system

    system.system(path, "partitions", at, None, where, limit, form, output)


@travels
def head(
    at: arg.At,
    path: arg.Readable,
    columns: arg.Columns = None,
    where: arg.Where = None,
    limit: Few = HEAD_ROWS,
    form: arg.ResultFormat = Format.TABLE,
    output: arg.Output = None,
) -> None:
    """Show some rows of a table: 10 unless --limit says otherwise; which, is not told."""
    from morrow.cli import rows

    rows.read(path, at, column_names(columns), where, limit, form, output)


@travels
def count(
    at: arg.At,
    path: arg.Readable,
    where: arg.Where = None,
    form: arg.ResultFormat = Format.TABLE,
    output: arg.Output = None,
) -> None:
    """Count the rows of a table, merged; in the format table the number alone."""
    from morrow.cli import rows

    rows.count(path, at, where, form, output)


def diff(
    path: arg.TablePath,
    old: State,
    new: State,
    columns: arg.Columns = None,
    where: arg.Where = None,
    limit: arg.Limit = None,
    form: arg.ResultFormat = Format.TABLE,
    output: arg.Output = None,
) -> None:
    """Compare two states of a table: rows with their kinds, and on standard error how many changed, by column."""
    from morrow.cli import differences

    differences.diff(path, old, new, column_names(columns), where, limit, form, output)


def tail(
    path: arg.TablePath,
    follow: Follow = False,
    columns: arg.Columns = None,
    where: arg.Where = None,
    limit: Few = HEAD_ROWS,
    branch: arg.Branch = None,
    raw: Raw = False,
    form: TailFormat = Format.TABLE,
) -> None:
    """Show the changes of the newest snapshots, the last 10 rows unless --limit says otherwise, and follow them."""
    from morrow.cli import differences

    differences.tail(path, branch, column_names(columns), where, limit, follow, form, raw=raw)


def history(
    path: arg.TablePath,
    limit: arg.Limit = None,
    branch: arg.Branch = None,
    form: arg.ResultFormat = Format.TABLE,
    output: arg.Output = None,
) -> None:
    """Tell what was done: each commit with its time (UTC), rows, files and user, newest first."""
    from morrow.cli import metadata

    metadata.history(path, branch, limit, form, output)


def doctor(
    path: arg.TablePath,
    data: Annotated[bool, typer.Option("--data", help="Read every data file, too.")] = False,
    fix: Annotated[bool, typer.Option("--fix", help="Do what is safe: hints, orphan files older than a day.")] = False,
    compact: Annotated[bool, typer.Option("--compact", help="With --fix: compact where that helps.")] = False,
    branch: arg.Branch = None,
    yes: arg.Yes = False,
    dry_run: arg.DryRun = False,
    form: arg.ResultFormat = Format.TABLE,
    output: arg.Output = None,
) -> None:
    """Examine a table: files, sizes, keys, vectors, hints, orphans, costs. Exit code 1: an error or a warning."""
    from morrow.cli import doctor as work

    work.doctor(path, branch, data, fix, compact, yes, dry_run, form, output)


def inspect(
    path: arg.TablePath,
    where: arg.Where = None,
    branch: arg.Branch = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="The page, such as report.html.", rich_help_panel="Result"),
    ] = None,
) -> None:
    """Draw a table on one HTML page: history, merge trees, partitions, costs, what a filter prunes, findings."""
    from morrow.cli import inspect as work

    work.inspect(path, branch, where, output)


COMMANDS: tuple[Callable[..., None], ...] = (schema, partitions, head, count, diff, tail, history, doctor, inspect)
