"""The commands, their errors and exit codes. Implementations are in other modules, imported when a command runs."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command_name

from morrow.cli import actions, command_groups
from morrow.cli import arguments as arg
from morrow.cli.arguments import (
    Format,
    add_file_options,
    add_shared_options,
    add_travel_options,
    parse_column_names,
    parse_named_paths,
    parse_pairs,
    split_warehouse_and_query,
)
from morrow.engine.errors import MorrowError
from morrow.engine.plugins import expect_new_libraries
from morrow.engine.redaction import clean_text

OK = 0
FAILED = 1
"""A `MorrowError`, or an error of the operating system; one line on standard error describes it."""
USAGE = 2
"""The command line was not understood; typer's own code."""
PIPE_CLOSED = 141
"""The reader of the output has stopped (``| head``): 128 and SIGPIPE, as from any Unix filter."""

HELP_OPTIONS = ["-h", "--help"]
MIN_PANEL_COLUMNS = 80
"""Columns of a terminal below which the panels of the help would cut names: plain help breaks lines instead."""
PLAIN_HELP = "_TYPER_FORCE_DISABLE_TERMINAL"
"""The environment variable by which typer leaves out bold and dim, too; without colours alone it keeps them."""
COMPLETION = "_MORROW_COMPLETE"
"""The environment variable by which a shell asks for completions."""

HELP = f"""Read and write Apache Paimon tables.

Exit codes: {OK} done; {FAILED} failed, the error is on standard error; {USAGE} the command line is wrong.
Credentials of object stores come from the environment (AWS_ACCESS_KEY_ID and so on), never from the command line.
"""


class Commands(TyperGroup):
    """The group of commands, which turns errors of Morrow into a message and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        try:
            with expect_new_libraries():
                return super().invoke(ctx)
        except BrokenPipeError:
            # Python flushes standard output again at exit, and would report the closed pipe.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(PIPE_CLOSED) from None
        except (MorrowError, OSError) as error:
            said = [str(error), *getattr(error, "__notes__", ())]
            typer.echo(f"morrow: {clean_text('; '.join(said))}", err=True)
            raise typer.Exit(FAILED) from error


app = typer.Typer(
    cls=Commands,
    help=HELP,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": HELP_OPTIONS},
)


def register_command(panel: str | None = None) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Register a function as a command, with the shared options of its kind."""

    def register(function: Callable[..., None]) -> Callable[..., None]:
        app.command(rich_help_panel=panel)(add_shared_options(function))
        return function

    return register


def _print_version(wanted: bool) -> None:
    if wanted:
        from morrow import __version__

        typer.echo(f"morrow {__version__}")
        raise typer.Exit


@app.callback()
def _configure_session(
    allowed_roots: arg.AllowedRoots = None,
    warehouse: arg.RootWarehouse = None,
    profile: arg.Profile = None,
    catalog: arg.CatalogOptions = None,
    log_level: arg.LogLevel = None,
    quiet: arg.Quiet = False,
    version: Annotated[  # noqa: ARG001  # its callback does it
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    from morrow.cli import terminal
    from morrow.cli.targets import begin

    terminal.reset_messages()
    terminal.configure_messages(log_level, quiet)
    begin(allowed_roots or (), warehouse, profile, parse_pairs("--catalog", catalog))


@register_command()
@add_travel_options
def read(
    at: arg.At,
    path: arg.Readable,
    columns: arg.Columns = None,
    where: arg.Where = None,
    limit: arg.Limit = None,
    form: arg.ResultFormat = Format.TABLE,
    output: arg.Output = None,
) -> None:
    """Show the rows of a table, merged; in the format table the first 20, unless --limit says otherwise."""
    actions.queries.read(path, at, parse_column_names(columns), where, limit, form, output)


@register_command()
def describe(
    path: arg.TablePath, branch: arg.Branch = None, form: arg.ResultFormat = Format.TABLE, output: arg.Output = None
) -> None:
    """Show columns, keys, options, the newest snapshot, and how many tags and branches there are."""
    actions.metadata.describe(path, branch, form, output)


@register_command()
def snapshots(
    path: arg.TablePath,
    limit: arg.Limit = None,
    branch: arg.Branch = None,
    form: arg.ResultFormat = Format.TABLE,
    output: arg.Output = None,
) -> None:
    """List the living snapshots, newest first."""
    actions.metadata.write_snapshots(path, branch, limit, form, output)


@register_command()
@add_travel_options
def system(
    at: arg.At,
    path: arg.TablePath,
    name: arg.SystemName = None,
    columns: arg.Columns = None,
    where: arg.Where = None,
    limit: arg.Limit = None,
    form: arg.ResultFormat = Format.TABLE,
    output: arg.Output = None,
) -> None:
    """Show a system table: snapshots, schemas, tags, files, audit_log, ...; of a warehouse: all_tables and others."""
    actions.metadata.write_system_table(path, name, at, parse_column_names(columns), where, limit, form, output)


@register_command()
@add_travel_options
def files(
    at: arg.At,
    path: arg.TablePath,
    where: arg.Where = None,
    limit: arg.Limit = None,
    form: arg.ResultFormat = Format.TABLE,
    output: arg.Output = None,
) -> None:
    """List the data files that a read would open; --limit counts files."""
    actions.metadata.write_files(path, at, where, limit, form, output)


@register_command()
@add_travel_options
def explain(
    at: arg.At,
    path: arg.TablePath,
    columns: arg.Columns = None,
    where: arg.Where = None,
    limit: arg.Limit = None,
    form: arg.ResultFormat = Format.TABLE,
    output: arg.Output = None,
) -> None:
    """Explain what a read would open and why: pruning, sections, masks, bytes, pushed conditions."""
    actions.metadata.explain(path, at, parse_column_names(columns), where, limit, form, output)


@register_command()
def sql(
    query: arg.Query = None,
    tables: arg.Tables = None,
    limit: arg.Limit = None,
    form: arg.ResultFormat = Format.TABLE,
    output: arg.Output = None,
    yes: arg.Yes = False,
) -> None:
    """Run SQL on the tables of a warehouse, those named by --table, or paimon_scan('PATH') in a query.

    A warehouse accepts all statements: CREATE, ALTER, INSERT, UPDATE, DELETE, MERGE, CALL, SHOW, COPY and so on.

    Without a query, statements are read from standard input; a terminal has history and completion. Names in a
    warehouse: db.orders VERSION AS OF 'v1', db.orders TIMESTAMP AS OF '2024-05-14', db."orders$snapshots".
    """
    warehouse, text = split_warehouse_and_query(query or [])
    actions.queries.run_sql(text, warehouse, parse_named_paths(tables), limit, form, output, yes)


@register_command()
@add_file_options
def append(
    options: arg.FileOptions,
    path: arg.TablePath,
    files: arg.RowFiles,
    kinds: arg.Kinds = None,
    schema_mode: arg.SchemaMode = None,
    primary_key: arg.ExpectedKey = None,
    partition_by: arg.ExpectedPartitions = None,
) -> None:
    """Add the rows of files, in one commit; with a primary key, they replace rows with the same key."""
    keys, partitions = parse_column_names(primary_key) or [], parse_column_names(partition_by) or []
    actions.writing.append(path, files, options, kinds, schema_mode, keys, partitions)


@register_command()
@add_file_options
def overwrite(
    options: arg.FileOptions,
    path: arg.TablePath,
    files: arg.RowFiles,
    whole: arg.Whole = False,
    yes: arg.Yes = False,
    dry_run: arg.DryRun = False,
) -> None:
    """Replace the partitions that the files have rows for; without partitions, replace the whole table."""
    actions.writing.overwrite(path, files, options, whole, yes=yes, dry_run=dry_run)


@register_command()
def delete(path: arg.TablePath, where: arg.Doomed, yes: arg.Yes = False, dry_run: arg.DryRun = False) -> None:
    """Delete the rows for which a condition is true, in one commit."""
    actions.writing.delete(path, where, yes=yes, dry_run=dry_run)


@register_command()
def compact(
    path: arg.TablePath,
    full: arg.Full = False,
    where: arg.Partitions = None,
    order_by: arg.OrderBy = None,
    strategy: arg.Strategy = None,
) -> None:
    """Merge many files into few, in one commit; the rows do not change."""
    actions.writing.compact(path, full, where, parse_column_names(order_by), strategy)


PANELS = {
    "Tables of a warehouse": command_groups.WAREHOUSE_COMMANDS,
    "More looks": command_groups.READ_COMMANDS,
    "Rows in and out": command_groups.WRITE_COMMANDS,
    "Tags, branches and maintenance": command_groups.MAINTENANCE_COMMANDS,
    "Spark": command_groups.SPARK_COMMANDS,
}
for panel, commands in PANELS.items():
    for each in commands:
        register_command(panel)(each)


def run(arguments: Sequence[str]) -> None:
    """Run the command that the arguments name; always raises `SystemExit`.

    The other commands are not built, since that takes longer than most commands run. Help and completion need all.
    """
    names = {get_command_name(each.callback.__name__): each for each in app.registered_commands if each.callback}
    first = next((each for each in arguments if each in names or each in HELP_OPTIONS), None)
    if first in names and COMPLETION not in os.environ:
        # An option's value may equal a command's name.
        app.registered_commands = [names[each] for each in dict.fromkeys(arguments) if each in names]
    if os.environ.get("NO_COLOR"):
        os.environ[PLAIN_HELP] = "1"
    if shutil.get_terminal_size().columns < MIN_PANEL_COLUMNS:
        app.rich_markup_mode = None
    app(arguments, prog_name="morrow")
