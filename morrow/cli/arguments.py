"""Arguments and options of commands, each defined once with its help, parser and shell completion.

Errors during completion print nothing and offer nothing, since the user is still typing.
"""

from __future__ import annotations

import csv
import inspect
import os
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, get_type_hints

import typer

from morrow.engine.errors import InvalidArgument

if TYPE_CHECKING:
    import morrow


def parse_column_names(text: str | None) -> list[str] | None:
    """Parse a comma-separated list of names, which may be quoted as in CSV; None for None.

    Raises `InvalidArgument`: not a list of names.
    """
    if text is None:
        return None
    try:
        names = next(csv.reader([text], skipinitialspace=True), [])
    except csv.Error as error:
        raise InvalidArgument(f'{text!r} is not a list of names: {error}; write a,"b,c"') from error
    if not names:
        raise InvalidArgument('an empty list of names; write a,"b,c", or leave the option out')
    return names


def split_warehouse_and_query(words: list[str]) -> tuple[str | None, str | None]:
    """Split ``QUERY``, ``WAREHOUSE QUERY``, ``WAREHOUSE`` or nothing. Raises `InvalidArgument` for more.

    One word alone is a warehouse if it is a folder or URL.
    """
    if len(words) > 2:
        raise InvalidArgument(f"{len(words)} arguments where a warehouse and a query were expected: quote the query")
    if len(words) == 2:
        return words[0], words[1]
    if not words:
        return None, None
    (word,) = words
    return (word, None) if _is_place(word) else (None, word)


def _is_place(word: str) -> bool:
    if any(letter.isspace() for letter in word):
        return False
    return "://" in word or Path(word).is_dir()


def parse_named_paths(texts: list[str] | None) -> dict[str, str]:
    """Return ``NAME=PATH`` options by name.

    Raises `InvalidArgument`: an option of another form, or a name given twice.
    """
    paths: dict[str, str] = {}
    for text in texts or []:
        name, equals, path = text.partition("=")
        if not (name and equals and path):
            raise InvalidArgument(f"--table {text}: write NAME=PATH")
        if name in paths:
            raise InvalidArgument(f"--table {text}: the name {name} is given twice")
        paths[name] = path
    return paths


def parse_pairs(option: str, texts: list[str] | None, *, last: bool = False) -> dict[str, str]:
    """Return ``NAME=VALUE`` options by name, split at the last ``=`` if `last`, else at the first.

    Raises `InvalidArgument`: an option of another form, or a name given twice.
    """
    found: dict[str, str] = {}
    for text in texts or []:
        name, equals, value = text.rpartition("=") if last else text.partition("=")
        if not (name and equals):
            raise InvalidArgument(f"{option} {text}: write NAME=VALUE")
        if name in found:
            raise InvalidArgument(f"{option} {text}: {name} is given twice")
        found[name] = value
    return found


OF_RESULTS = ("form", "output")
"""Parameters for the form and the destination of a result."""
CONFIRMATIONS = ("yes", "dry_run")
"""Parameters that decide whether a change is made."""


def add_shared_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the shared options to a command: ``--warehouse``, ``--log-level``, ``--quiet``, and if it has a result (a
    parameter ``form``) ``--vertical`` and ``--no-pager``.
    """
    parameters = list(inspect.signature(command, eval_str=True).parameters.values())
    has_result = any(each.name == "form" for each in parameters)
    more: list[tuple[str, object, object]] = [
        *(("warehouse", Warehouse, None), ("log_level", LogLevel, None), ("quiet", Quiet, False)),
    ]
    if has_result:
        more += [("vertical", Vertical, False), ("no_pager", NoPager, False)]

    def run(
        warehouse: str | None,
        log_level: Level | None = None,
        quiet: bool = False,
        vertical: bool = False,
        no_pager: bool = False,
        **given: Any,
    ) -> None:
        from morrow.cli import targets, terminal

        terminal.configure_messages(log_level, quiet)
        terminal.suppress_pager(no_pager)
        if warehouse is not None:
            targets.use_warehouse(warehouse)
        if vertical:
            if given["form"] not in (Format.TABLE, Format.VERTICAL):
                raise typer.BadParameter(f"--vertical and --format {given['form'].value}: give one of them")
            given["form"] = Format.VERTICAL
        command(**given)

    parameters += [
        inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default, annotation=annotation)
        for name, annotation, default in more
    ]
    return _set_signature(run, command, parameters)


def _set_signature(
    run: Callable[..., None], command: Callable[..., None], parameters: list[inspect.Parameter]
) -> Callable[..., None]:
    """Return `run` with the name and help of `command` and these parameters, for typer to read."""
    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # functions take any attribute
    return run


def add_travel_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of `TRAVEL` to a command. The command gets the given ones as its first argument."""
    return _add_options(command, TRAVEL, OF_RESULTS)


def add_file_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of `FILE_OPTIONS` to a command. The command gets the given ones as its first argument."""
    return _add_options(command, FILE_OPTIONS, CONFIRMATIONS)


def _add_options(
    command: Callable[..., None], group: Mapping[str, object], followers: Sequence[str]
) -> Callable[..., None]:
    """Add a group of options before the parameters that follow it, or at the end."""

    def run(**given: Any) -> None:
        values = {name: given.pop(name) for name in group}
        command({name: value for name, value in values.items() if value is not None}, **given)

    _, *own = inspect.signature(command).parameters.values()
    hints = get_type_hints(command, include_extras=True)
    shown = [each.replace(annotation=hints[each.name]) for each in own]
    added = [
        inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None, annotation=annotation)
        for name, annotation in group.items()
    ]
    place = next((i for i, each in enumerate(shown) if each.name in followers), len(shown))
    return _set_signature(run, command, [*shown[:place], *added, *shown[place:]])


Complete: TypeAlias = Callable[[Any, str], list[str]]
"""A completion function of typer's context and the incomplete word; typer passes both by name."""

MAX_NAMES = 500


def _make_completer(find: Callable[[Any, str], Iterable[str]]) -> Complete:
    def complete(ctx: Any, incomplete: str) -> list[str]:
        from morrow.engine.errors import MorrowError

        try:
            return [each for each in find(ctx, incomplete) if each.startswith(incomplete)][:MAX_NAMES]
        except (MorrowError, OSError):
            return []

    return complete


def _configure_session(ctx: Any) -> None:
    """Apply the options before the command, whose callback does not run during completion."""
    from morrow.cli import targets

    said, words = ctx.find_root().params, _split_line()
    targets.begin(said.get("allowed_roots") or (), said.get("warehouse"), said.get("profile"))
    after = next((word for option, word in pairwise(words) if option == "--warehouse"), None)
    if after is not None:
        targets.use_warehouse(after)


def _open_table(ctx: Any) -> morrow.Table:
    from morrow.cli.targets import open_table

    _configure_session(ctx)
    return open_table(str(ctx.params.get("path") or _find_first_argument(ctx)))


def _split_line() -> list[str]:
    """Return the words of the line so far, as passed by the shell. An open quote ends the line."""
    line = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS") or ""
    try:
        return shlex.split(line)
    except ValueError:
        return line.split()


def _find_first_argument(ctx: Any) -> str:
    """Return the first word after the command. typer cannot parse it if an option lacks its value."""
    words = _split_line()
    after = words[words.index(ctx.info_name) + 1 :] if ctx.info_name in words else []
    return next((word for word in after if not word.startswith("-")), "")


def _find_tables(ctx: Any, incomplete: str) -> Iterable[str]:
    from morrow.cli.targets import has_catalog, open_catalog

    _configure_session(ctx)
    if "/" not in incomplete and not incomplete.startswith(".") and has_catalog():
        catalog = open_catalog()
        for database in catalog.databases():
            if f"{database}.".startswith(incomplete) or incomplete.startswith(f"{database}."):
                yield from (f"{database}.{name}" for name in catalog.tables(database))
    yield from _find_folders(incomplete)


def _find_folders(incomplete: str) -> Iterable[str]:
    """Yield the folders that complete a path, as shells do by default."""
    head, _, _ = incomplete.rpartition("/")
    place = Path(f"{head}/" if "/" in incomplete else ".")
    for each in sorted(os.scandir(place), key=lambda entry: entry.name) if place.is_dir() else ():
        if each.is_dir():
            yield f"{head}/{each.name}" if "/" in incomplete else each.name


def _find_columns(ctx: Any, incomplete: str) -> Iterable[str]:
    done, comma, _ = incomplete.rpartition(",")
    return [f"{done}{comma}{name}" for name in _open_table(ctx).schema.names]


def _list_system_tables(_: Any, __: str) -> Iterable[str]:
    from morrow.readers.system.registry import SYSTEM_TABLES

    return sorted(SYSTEM_TABLES)


complete_tables = _make_completer(_find_tables)
complete_columns = _make_completer(_find_columns)
complete_tags = _make_completer(lambda ctx, _: _open_table(ctx).tags.names)
complete_branches = _make_completer(lambda ctx, _: _open_table(ctx).branches.list())
complete_states = _make_completer(
    lambda ctx, _: [*_open_table(ctx).tags.names, *_open_table(ctx).branches.list(), *_list_snapshot_ids(ctx)]
)
complete_snapshots = _make_completer(lambda ctx, _: _list_snapshot_ids(ctx))
complete_system_tables = _make_completer(_list_system_tables)


def _list_snapshot_ids(ctx: Any) -> list[str]:
    return [str(snapshot.id) for snapshot in reversed(_open_table(ctx).snapshots())]


if TYPE_CHECKING:
    from morrow.engine.plan.time_travel import TravelArguments

    At: TypeAlias = TravelArguments
else:
    At = dict  # commands evaluate annotations at start, and the real import is slow

WHAT, WHEN, RESULT = "What to read", "Which state of the table", "Result"


class Format(StrEnum):
    """The format of a result."""

    TABLE = "table"
    VERTICAL = "vertical"
    JSON = "json"
    CSV = "csv"
    ARROW = "arrow"


class Level(StrEnum):
    """The least severe events that are logged."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


LogLevel = Annotated[
    Level | None,
    typer.Option(
        "--log-level",
        help="Log to standard error with times (UTC): info is what commits, compacts, expires and reads.",
        show_default=False,
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Results and errors only: no progress, notes, warnings.")]
AllowedRoots = Annotated[
    list[str] | None,
    typer.Option(
        "--allowed-root",
        metavar="FOLDER",
        help="Trust the data files in this folder or URL outside of a table: read them, and remove what nobody needs. "
        "May be repeated.",
    ),
]
Warehouse = Annotated[
    str | None,
    typer.Option("--warehouse", metavar="FOLDER", help="Folder or URL of the warehouse of names such as db.table."),
]
RootWarehouse = Annotated[
    str | None,
    typer.Option(
        "--warehouse",
        metavar="FOLDER",
        envvar="MORROW_WAREHOUSE",
        help="Folder or URL of the warehouse: tables may be given as db.table then. Also after the command.",
    ),
]
CatalogOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--catalog",
        metavar="KEY=VALUE",
        help="An option of the catalog in which names are looked up, such as metastore=jdbc; as often as there are "
        "options. Secrets belong in a profile or in the environment: MORROW_CATALOG_TOKEN.",
        show_default=False,
    ),
]
Profile = Annotated[
    str | None,
    typer.Option(
        "--profile",
        metavar="NAME",
        envvar="MORROW_PROFILE",
        help="Of ~/.config/morrow/profiles.toml (MORROW_PROFILES: another file): options of a catalog, allowed_roots.",
    ),
]
TablePath = Annotated[
    str,
    typer.Argument(
        autocompletion=complete_tables,
        metavar="TABLE",
        help="Folder or URL of the table, or db.table.",
        show_default=False,
    ),
]
Readable = Annotated[
    str,
    typer.Argument(
        autocompletion=complete_tables,
        metavar="TABLE",
        help="Folder or URL of the table, or db.table; TABLE$NAME: a system table.",
        show_default=False,
    ),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask; needed where no terminal can be asked.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")]
SystemName = Annotated[
    str | None,
    typer.Argument(
        autocompletion=complete_system_tables,
        metavar="[NAME]",
        help="Of the system table; without it, all are named.",
        show_default=False,
    ),
]
Query = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[WAREHOUSE] [QUERY]",
        help="SQL in DuckDB's dialect; after a WAREHOUSE (a folder or URL), over its tables.",
        show_default=False,
    ),
]
Columns = Annotated[
    str | None,
    typer.Option(
        "--columns",
        "-c",
        autocompletion=complete_columns,
        metavar="A,B",
        help='Columns, in this order; "a,b",c where a name has a comma.',
        rich_help_panel=WHAT,
    ),
]
Where = Annotated[
    str | None,
    typer.Option("--filter", "--where", "-w", metavar="SQL", help="A condition, as after WHERE.", rich_help_panel=WHAT),
]
Limit = Annotated[
    int | None, typer.Option("--limit", "-n", min=0, metavar="N", help="Rows at most.", rich_help_panel=WHAT)
]
AsOf = Annotated[
    str | None,
    typer.Option(
        "--as-of",
        autocompletion=complete_states,
        metavar="V",
        help="Snapshot id, tag name or time.",
        rich_help_panel=WHEN,
    ),
]
Snapshot = Annotated[
    int | None,
    typer.Option(
        "--snapshot", autocompletion=complete_snapshots, metavar="ID", help="Snapshot id.", rich_help_panel=WHEN
    ),
]
Tag = Annotated[
    str | None,
    typer.Option("--tag", autocompletion=complete_tags, metavar="NAME", help="Tag name.", rich_help_panel=WHEN),
]
Timestamp = Annotated[
    str | None,
    typer.Option(
        "--timestamp",
        metavar="TIME",
        help="Newest snapshot at or before: ISO text (UTC) or epoch milliseconds.",
        rich_help_panel=WHEN,
    ),
]
Branch = Annotated[
    str | None,
    typer.Option(
        "--branch",
        autocompletion=complete_branches,
        metavar="NAME",
        help="Another branch than main.",
        rich_help_panel=WHEN,
    ),
]
Watermark = Annotated[
    int | None,
    typer.Option(
        "--watermark",
        metavar="MS",
        help="Oldest snapshot that has come so far in event time: epoch milliseconds.",
        rich_help_panel=WHEN,
    ),
]
TRAVEL = {
    "as_of": AsOf,
    "snapshot": Snapshot,
    "tag": Tag,
    "timestamp": Timestamp,
    "watermark": Watermark,
    "branch": Branch,
}
"""The time travel options of commands that read a table: members of `TravelArguments`."""

Vertical = Annotated[
    bool,
    typer.Option("--vertical", help="A line for each column: --format vertical.", rich_help_panel="Result"),
]
NoPager = Annotated[
    bool,
    typer.Option(
        "--no-pager",
        help="Write long tables to the terminal at once; so does NO_PAGER. PAGER names another pager than less.",
        rich_help_panel="Result",
    ),
]

ResultFormat = Annotated[
    Format,
    typer.Option(
        "--format",
        "-f",
        help="vertical is a line for each column; json is one object a line; arrow is an IPC stream.",
        rich_help_panel=RESULT,
    ),
]
Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="Write here; the file appears when it is complete.",
        rich_help_panel=RESULT,
    ),
]
Tables = Annotated[
    list[str] | None,
    typer.Option(
        "--table", "-t", metavar="NAME=PATH", help="Name a table for the query; may be repeated.", rich_help_panel=WHAT
    ),
]

RowFiles = Annotated[
    list[str],
    typer.Argument(
        metavar="FILE...",
        help="Rows: files, folders or quoted patterns ('old/*.csv') of Parquet, ORC, Arrow IPC, CSV or JSON lines; "
        "- is standard input.",
        show_default=False,
    ),
]
Sources = Annotated[
    list[str],
    typer.Argument(
        metavar="SOURCE...",
        help="Files, folders or quoted patterns ('old/*.csv') of Parquet, ORC, Arrow IPC, CSV or JSON lines; - is "
        "standard input. Or the folder of a table of Delta Lake or Iceberg, or the URI of a database.",
        show_default=False,
    ),
]
ExpectedKey = Annotated[
    str | None,
    typer.Option("--primary-key", "-k", metavar="A,B", help="Refuse a table with another primary key."),
]
ExpectedPartitions = Annotated[
    str | None, typer.Option("--partition-by", metavar="A,B", help="Refuse a table with other partition columns.")
]
SchemaMode = Annotated[
    str | None,
    typer.Option("--schema-mode", metavar="MODE", help="merge: take columns that the table, or some files, lack."),
]
FILES = "Files"
FILE_OPTIONS = {
    "format": Annotated[
        str | None,
        typer.Option(
            "--format", "-f", metavar="FORMAT", help="csv, json, ..., if names do not tell it.", rich_help_panel=FILES
        ),
    ],
    "delimiter": Annotated[
        str | None,
        typer.Option(
            "--delimiter", metavar="CHAR", help="Between cells of CSV, such as ';' or '\\t'.", rich_help_panel=FILES
        ),
    ],
    "header": Annotated[
        bool | None,
        typer.Option("--header/--no-header", help="Whether CSV begins with names.", rich_help_panel=FILES),
    ],
    "null_values": Annotated[
        list[str] | None,
        typer.Option(
            "--null", metavar="TEXT", help="A cell of CSV that is null; may be repeated.", rich_help_panel=FILES
        ),
    ],
    "quote": Annotated[
        str | None,
        typer.Option("--quote", metavar="CHAR", help="Around cells of CSV; '' is none.", rich_help_panel=FILES),
    ],
    "encoding": Annotated[
        str | None,
        typer.Option("--encoding", metavar="NAME", help="Of CSV, such as latin-1.", rich_help_panel=FILES),
    ],
}
"""The options of commands that read files."""
if TYPE_CHECKING:
    FileOptions: TypeAlias = Mapping[str, Any]
else:
    FileOptions = dict
Kinds = Annotated[
    str | None,
    typer.Option("--kinds", metavar="KIND", help="+I, -U, +U or -D for all rows, or the column of the file with them."),
]
Whole = Annotated[bool, typer.Option("--whole", help="Replace the whole table, not only partitions with new rows.")]
Doomed = Annotated[
    str,
    typer.Option("--filter", "--where", "-w", metavar="SQL", help="A condition, as after WHERE.", show_default=False),
]
Full = Annotated[bool, typer.Option("--full", help="Everything, whatever the options of the table say.")]
Partitions = Annotated[
    str | None, typer.Option("--filter", "--where", "-w", metavar="SQL", help="Only partitions for which this is true.")
]
OrderBy = Annotated[
    str | None,
    typer.Option(
        "--order-by",
        autocompletion=complete_columns,
        metavar="A,B",
        help="Sort the rows of append tables by these columns.",
    ),
]
Strategy = Annotated[str | None, typer.Option("--strategy", help="How to sort: order, zorder or hilbert.")]

TagName = Annotated[
    str, typer.Argument(autocompletion=complete_tags, metavar="NAME", help="Of the tag.", show_default=False)
]
BranchName = Annotated[
    str, typer.Argument(autocompletion=complete_branches, metavar="NAME", help="Of the branch.", show_default=False)
]
Retained = Annotated[
    str | None, typer.Option("--time-retained", metavar="AGE", help="How long the tag stays: '7 d', '12 h'.")
]
Rename = Annotated[str | None, typer.Option("--rename", metavar="NEW", help="Give it another name.")]
Delete = Annotated[bool, typer.Option("--delete", help="Delete it, with the files that nothing else needs.")]
Merge = Annotated[bool, typer.Option("--merge", help="Append the rows to main that only the branch has.")]
FastForward = Annotated[bool, typer.Option("--fast-forward", help="Make main what the branch is.")]
RetainMax = Annotated[int | None, typer.Option("--retain-max", metavar="N", help="Snapshots to keep at most.")]
RetainMin = Annotated[
    int | None, typer.Option("--retain-min", metavar="N", help="Snapshots to keep at least, whatever their age.")
]
OlderThan = Annotated[
    str | None,
    typer.Option(
        "--older-than",
        metavar="AGE",
        help="Of this age: '7 d'; or before a time: ISO text (UTC) or epoch milliseconds.",
    ),
]
MaxDeletes = Annotated[int | None, typer.Option("--max-deletes", metavar="N", help="Snapshots to remove at most.")]
Remove = Annotated[bool, typer.Option("--delete", help="Remove them; without it they are only listed.")]
