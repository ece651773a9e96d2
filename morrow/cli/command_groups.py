"""Declarations of commands that `morrow.cli.app` registers: their arguments, options and help.

The implementation of a command is imported when it runs (`morrow.cli.actions`).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from morrow.cli import actions, arguments
from morrow.cli import arguments as arg
from morrow.cli.arguments import Format, add_travel_options, parse_column_names, parse_pairs

HEAD_ROWS = 10
Few = Annotated[int, typer.Option("--limit", "-n", min=0, metavar="N", help="Rows at most.")]
State = Annotated[
    str,
    typer.Argument(
        autocompletion=arguments.complete_states,
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
    actions.metadata.write_schema(path, branch, form, output)


@add_travel_options
def partitions(
    at: arg.At,
    path: arg.TablePath,
    where: arg.Where = None,
    limit: arg.Limit = None,
    form: arg.ResultFormat = Format.TABLE,
    output: arg.Output = None,
) -> None:
    """List the partitions, with their rows, files and sizes."""
    actions.metadata.write_system_table(path, "partitions", at, None, where, limit, form, output)


@add_travel_options
def head(
    at: arg.At,
    path: arg.Readable,
    columns: arg.Columns = None,
    where: arg.Where = None,
    limit: Few = HEAD_ROWS,
    form: arg.ResultFormat = Format.TABLE,
    output: arg.Output = None,
) -> None:
    """Show any rows of a table: 10 unless --limit says otherwise."""
    actions.queries.read(path, at, parse_column_names(columns), where, limit, form, output)


@add_travel_options
def count(
    at: arg.At,
    path: arg.Readable,
    where: arg.Where = None,
    form: arg.ResultFormat = Format.TABLE,
    output: arg.Output = None,
) -> None:
    """Count the rows of a table, merged; in the format table the number alone."""
    actions.queries.count(path, at, where, form, output)


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
    actions.differences.write_differences(path, old, new, parse_column_names(columns), where, limit, form, output)


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
    actions.differences.write_tail(path, branch, parse_column_names(columns), where, limit, follow, form, raw=raw)


def history(
    path: arg.TablePath,
    limit: arg.Limit = None,
    branch: arg.Branch = None,
    form: arg.ResultFormat = Format.TABLE,
    output: arg.Output = None,
) -> None:
    """List the commits with their times (UTC), rows, files and users, newest first."""
    actions.metadata.write_history(path, branch, limit, form, output)


def du(
    path: arg.TablePath,
    branch: arg.Branch = None,
    form: arg.ResultFormat = Format.TABLE,
    output: arg.Output = None,
) -> None:
    """Show the bytes of a table by what keeps them: the newest snapshot, branches, tags, history, changelogs."""
    actions.metadata.write_storage(path, branch, form, output)


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
    actions.maintenance.write_report(path, branch, data, fix, compact, yes, dry_run, form, output)


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
    actions.maintenance.inspect(path, branch, where, output)


READ_COMMANDS: tuple[Callable[..., None], ...] = (
    schema,
    partitions,
    head,
    count,
    diff,
    tail,
    history,
    du,
    doctor,
    inspect,
)


def tags(
    path: arg.TablePath, branch: arg.Branch = None, form: arg.ResultFormat = Format.TABLE, output: arg.Output = None
) -> None:
    """List the tags, by the ids of their snapshots."""
    actions.maintenance.write_tags(path, branch, form, output)


def tag(
    path: arg.TablePath,
    name: arg.TagName,
    snapshot: arg.Snapshot = None,
    timestamp: arg.Timestamp = None,
    branch: arg.Branch = None,
    time_retained: arg.Retained = None,
    rename: arg.Rename = None,
    delete: arg.Delete = False,
    yes: arg.Yes = False,
    dry_run: arg.DryRun = False,
) -> None:
    """Name a snapshot, the newest if none is given, so that it stays when others expire; or rename or delete a tag."""
    actions.maintenance.change_tag(
        path, name, snapshot, timestamp, branch, time_retained, rename, delete, yes=yes, dry_run=dry_run
    )


def branches(path: arg.TablePath, form: arg.ResultFormat = Format.TABLE, output: arg.Output = None) -> None:
    """List the branches besides main, with the newest snapshot of each."""
    actions.maintenance.write_branches(path, form, output)


def branch(
    path: arg.TablePath,
    name: arg.BranchName,
    snapshot: arg.Snapshot = None,
    tag: arg.Tag = None,
    rename: arg.Rename = None,
    fast_forward: arg.FastForward = False,
    merge: arg.Merge = False,
    delete: arg.Delete = False,
    yes: arg.Yes = False,
    dry_run: arg.DryRun = False,
) -> None:
    """Create a branch of main, empty or from a snapshot or tag; rename, delete or merge it, or fast-forward main."""
    actions.maintenance.change_branch(
        path, name, snapshot, tag, rename, fast_forward, merge, delete, yes=yes, dry_run=dry_run
    )


def rollback(
    path: arg.TablePath,
    snapshot: arg.Snapshot = None,
    tag: arg.Tag = None,
    timestamp: arg.Timestamp = None,
    branch: arg.Branch = None,
    yes: arg.Yes = False,
    dry_run: arg.DryRun = False,
) -> None:
    """Make an earlier state the newest one. Later snapshots and tags are removed, with the files only they need."""
    actions.maintenance.rollback(path, snapshot, tag, timestamp, branch, yes=yes, dry_run=dry_run)


def expire(
    path: arg.TablePath,
    retain_max: arg.RetainMax = None,
    retain_min: arg.RetainMin = None,
    older_than: arg.OlderThan = None,
    max_deletes: arg.MaxDeletes = None,
    branch: arg.Branch = None,
    yes: arg.Yes = False,
    dry_run: arg.DryRun = False,
) -> None:
    """Remove old snapshots, with the files that only they need. Missing limits come from the table's options."""
    actions.maintenance.expire(path, retain_max, retain_min, older_than, max_deletes, branch, yes=yes, dry_run=dry_run)


def orphans(
    path: arg.TablePath,
    older_than: arg.OlderThan = None,
    delete: arg.Remove = False,
    yes: arg.Yes = False,
    dry_run: arg.DryRun = False,
    form: arg.ResultFormat = Format.TABLE,
    output: arg.Output = None,
) -> None:
    """List the files that no snapshot, changelog, tag or branch names, by default those older than a day."""
    actions.maintenance.write_orphans(path, older_than, delete, yes, dry_run, form, output)


def repair(path: arg.TablePath, form: arg.ResultFormat = Format.TABLE, output: arg.Output = None) -> None:
    """Write the hints LATEST and EARLIEST again if they are wrong, in all branches, and show what was changed."""
    actions.maintenance.repair(path, form, output)


def purge(
    path: arg.TablePath, older_than: arg.OlderThan = None, yes: arg.Yes = False, dry_run: arg.DryRun = False
) -> None:
    """Empty a table for good: its rows, branches, tags and snapshots, with their files."""
    actions.maintenance.purge(path, older_than, yes=yes, dry_run=dry_run)


def erase(
    path: arg.TablePath,
    where: Annotated[
        str, typer.Option("--filter", "--where", "-w", metavar="SQL", help="The rows: a condition, as after WHERE.")
    ],
    history: Annotated[
        bool, typer.Option("--history", help="Also tags, older snapshots, changelogs and unreferenced files with them.")
    ] = False,
    older_than: arg.OlderThan = None,
    yes: arg.Yes = False,
    dry_run: arg.DryRun = False,
    form: arg.ResultFormat = Format.TABLE,
    output: arg.Output = None,
) -> None:
    """Erase rows from all files of a table, in every branch; exit code 1: something still holds them."""
    actions.maintenance.erase(path, where, history, older_than, yes=yes, dry_run=dry_run, form=form, output=output)


def cache(
    clear: Annotated[bool, typer.Option("--clear", help="Remove all that it holds.")] = False,
    form: arg.ResultFormat = Format.TABLE,
    output: arg.Output = None,
) -> None:
    """Show the contents of the cache folder for reads on this machine, or empty it."""
    actions.maintenance.show_cache(clear, form, output)


MAINTENANCE_COMMANDS: tuple[Callable[..., None], ...] = (
    *(tags, tag, branches, branch, rollback, expire, orphans, repair, purge, erase),
    cache,
)

Set = Annotated[
    list[str],
    typer.Option(
        "--set", metavar="COLUMN=SQL", help="A new value, over the old row; may be repeated.", show_default=False
    ),
]
Query = Annotated[
    str | None, typer.Option("--query", metavar="SQL", help="The query of a database, whose URI is SOURCE.")
]
Target = Annotated[
    Path | None,
    typer.Argument(
        metavar="FILE",
        help="By its ending: .parquet, .arrow, .csv, .json (lines) or .xlsx; or --output.",
        show_default=False,
    ),
]


@arg.add_file_options
def upsert(
    options: arg.FileOptions, path: arg.TablePath, files: arg.RowFiles, schema_mode: arg.SchemaMode = None
) -> None:
    """Put the rows of files into a table with a primary key; they replace rows with the same key, or are added."""
    actions.writing.upsert(path, files, options, schema_mode)


def update(path: arg.TablePath, set_: Set, where: arg.Where = None, dry_run: arg.DryRun = False) -> None:
    """Change columns of the rows for which a condition is true (all without one), in one commit."""
    actions.writing.update(path, parse_pairs("--set", set_), where, dry_run)


@add_travel_options
def export(
    at: arg.At,
    path: arg.Readable,
    file: Target = None,
    columns: arg.Columns = None,
    where: arg.Where = None,
    limit: arg.Limit = None,
    output: arg.Output = None,
) -> None:
    """Write the rows of a table to a file."""
    if (file is None) == (output is None):
        raise typer.BadParameter("name one file, after the table or by --output")
    actions.writing.export(path, file or output or Path(), at, parse_column_names(columns), where, limit)


Texts = list[str] | None
Place = Annotated[
    str, typer.Argument(metavar="NAME", help="db.table, or the path WAREHOUSE/db.db/table.", show_default=False)
]
Database = Annotated[
    str, typer.Argument(metavar="NAME", help="db.table, a path, or a database by its name.", show_default=False)
]
Which = Annotated[
    str | None,
    typer.Argument(metavar="[DATABASE|WAREHOUSE]", help="Default: all of --warehouse.", show_default=False),
]
Long = Annotated[bool, typer.Option("--long", "-l", help="With what is known of each table.")]
Columns = Annotated[
    str | None,
    typer.Argument(
        metavar="[COLUMNS]", help="As in SQL: 'id BIGINT, name STRING'. None: a database.", show_default=False
    ),
]
Keys = Annotated[str | None, typer.Option("--primary-key", "-k", metavar="A,B", help="Columns of the primary key.")]
PartitionBy = Annotated[str | None, typer.Option("--partition-by", metavar="A,B", help="Columns of the partitions.")]
Options = Annotated[Texts, typer.Option("--set", metavar="KEY=VALUE", help="An option of the table; may be repeated.")]
Comment = Annotated[str | None, typer.Option("--comment", metavar="TEXT", help="Of the table.")]
IfNot = Annotated[bool, typer.Option("--if-not-exists", help="Leave one that exists as it is.")]
If = Annotated[bool, typer.Option("--if-exists", help="Do nothing where there is none.")]
Cascade = Annotated[bool, typer.Option("--cascade", help="A database with its tables.")]
Add = Annotated[Texts, typer.Option("--add", metavar="NAME=TYPE", help="Add a column; all of these may be repeated.")]
Remove = Annotated[Texts, typer.Option("--drop", metavar="NAME", help="Drop a column.")]
Renames = Annotated[Texts, typer.Option("--rename", metavar="OLD=NEW", help="Rename a column.")]
Types = Annotated[Texts, typer.Option("--type", metavar="NAME=TYPE", help="Change the type of a column.")]
Lossy = Annotated[bool, typer.Option("--lossy", help="Change types also where values are lost.")]
Unset = Annotated[Texts, typer.Option("--unset", metavar="KEY", help="Reset an option of the table.")]


@arg.add_file_options
def import_(
    files: arg.FileOptions,
    path: arg.TablePath,
    sources: arg.Sources,
    query: Query = None,
    primary_key: Keys = None,
    partition_by: PartitionBy = None,
    options: Options = None,
    comment: Comment = None,
    schema_mode: arg.SchemaMode = None,
    dry_run: arg.DryRun = False,
) -> None:
    """Import files, or a table of another format or database, each file once; a missing table is created with its
    columns.

    After an interruption, the same command imports the remaining files.
    """
    actions.writing.import_(
        path,
        sources,
        files,
        query=query,
        primary_key=parse_column_names(primary_key) or [],
        partition_by=parse_column_names(partition_by),
        table_options=parse_pairs("--set", options),
        comment=comment,
        schema_mode=schema_mode,
        dry_run=dry_run,
    )


import_.__name__ = "import"
WRITE_COMMANDS: tuple[Callable[..., None], ...] = (upsert, update, import_, export)


def ls(
    what: Which = None, long: Long = False, form: arg.ResultFormat = Format.TABLE, output: arg.Output = None
) -> None:
    """List the tables of a warehouse, or of one database."""
    actions.warehouse.write_listing(what, long, form, output)


def create(
    name: Database,
    columns: Columns = None,
    primary_key: Keys = None,
    partition_by: PartitionBy = None,
    options: Options = None,
    comment: Comment = None,
    if_not_exists: IfNot = False,
) -> None:
    """Create a table, or a database if only its name is given."""
    keys, partitions = parse_column_names(primary_key) or [], parse_column_names(partition_by) or []
    actions.warehouse.create(name, columns, keys, partitions, parse_pairs("--set", options), comment, if_not_exists)


def alter(
    path: arg.TablePath,
    add: Add = None,
    drop: Remove = None,
    rename: Renames = None,
    types: Types = None,
    lossy: Lossy = False,
    options: Options = None,
    unset: Unset = None,
    comment: Comment = None,
    branch: arg.Branch = None,
    yes: arg.Yes = False,
    dry_run: arg.DryRun = False,
) -> None:
    """Change columns and options of a table, all in one new schema; or the properties of a database."""
    actions.warehouse.alter(
        path,
        branch,
        add=parse_pairs("--add", add, last=True),
        drop=drop or [],
        rename=parse_pairs("--rename", rename),
        types=parse_pairs("--type", types, last=True),
        lossy=lossy,
        options=parse_pairs("--set", options),
        unset=unset or [],
        comment=comment,
        yes=yes,
        dry_run=dry_run,
    )


def drop(
    name: Database,
    if_exists: If = False,
    cascade: Cascade = False,
    yes: arg.Yes = False,
    dry_run: arg.DryRun = False,
) -> None:
    """Drop a table, or a database, with all its files."""
    actions.warehouse.drop(name, if_exists, cascade, yes=yes, dry_run=dry_run)


def rename(name: Database, new: Annotated[str, typer.Argument(metavar="NEW", show_default=False)]) -> None:
    """Rename a table (db.new, also into another database), or a database."""
    actions.warehouse.rename(name, new)


def demo(
    folder: Annotated[
        Path, typer.Argument(metavar="[DIR]", help="A folder that is empty or not there.", show_default=True)
    ] = Path("demo"),
) -> None:
    """Create a small warehouse to try Morrow on, and print commands to try."""
    actions.warehouse.create_demo(folder)


WAREHOUSE_COMMANDS: tuple[Callable[..., None], ...] = (ls, create, alter, drop, rename, demo)

Lake = Annotated[
    str | None,
    typer.Argument(metavar="[WAREHOUSE]", help="Folder or URL of a warehouse; without one, the catalog of names."),
]
CatalogName = Annotated[str, typer.Option("--name", metavar="NAME", help="The catalog's name in statements.")]
Conf = Annotated[
    list[str] | None, typer.Option("--conf", "-c", metavar="NAME=VALUE", help="A setting of Spark; several times.")
]
Text = Annotated[
    str | None, typer.Option("--execute", "-e", metavar="SQL", help="Statements, separated by semicolons.")
]
TextFile = Annotated[
    Path | None, typer.Option("--file", metavar="FILE", exists=True, dir_okay=False, help="A file of statements.")
]
Host = Annotated[str, typer.Option("--host", metavar="HOST", help="The address to listen at.")]
Port = Annotated[int, typer.Option("--port", "-p", min=1, max=65535, metavar="PORT", help="The port to listen at.")]


def spark_sql(
    folder: Lake = None,
    query: Text = None,
    file: TextFile = None,
    name: CatalogName = "pm",
    conf: Conf = None,
    form: arg.ResultFormat = Format.TABLE,
) -> None:
    """Run statements in Spark, from an option, a file or standard input, with a warehouse as catalog."""
    actions.warehouse.run_sql(folder, name, query, file, parse_pairs("--conf", conf), form)


def thrift_server(
    folder: Lake = None,
    host: Host = "127.0.0.1",
    port: Port = 10_000,
    name: CatalogName = "pm",
    conf: Conf = None,
) -> None:
    """Start Spark's Thrift server with a warehouse as catalog: for beeline, BI tools and dbt, without a password."""
    actions.warehouse.serve(folder, name, host, port, parse_pairs("--conf", conf))


SPARK_COMMANDS: tuple[Callable[..., None], ...] = (spark_sql, thrift_server)
