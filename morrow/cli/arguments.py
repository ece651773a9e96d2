"""What the commands take: each argument and option once, with its help."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from morrow.cli import completing

if TYPE_CHECKING:
    from morrow.engine.plan.time_travel import TravelArguments

    At: TypeAlias = TravelArguments
else:
    At = dict  # commands look at their types when they start, and importing that one takes long

WHAT, WHEN, RESULT = "What to read", "Which state of the table", "Result"


class Format(StrEnum):
    """How a result is written."""

    TABLE = "table"
    VERTICAL = "vertical"
    JSON = "json"
    CSV = "csv"
    ARROW = "arrow"


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
        autocompletion=completing.tables,
        metavar="TABLE",
        help="Folder or URL of the table, or db.table.",
        show_default=False,
    ),
]
Readable = Annotated[
    str,
    typer.Argument(
        autocompletion=completing.tables,
        metavar="TABLE",
        help="Folder or URL of the table, or db.table; TABLE$NAME: a system table.",
        show_default=False,
    ),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")]
SystemName = Annotated[
    str | None,
    typer.Argument(
        autocompletion=completing.system_tables,
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
        autocompletion=completing.columns,
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
        autocompletion=completing.states,
        metavar="V",
        help="Snapshot id, tag name or time.",
        rich_help_panel=WHEN,
    ),
]
Snapshot = Annotated[
    int | None,
    typer.Option(
        "--snapshot", autocompletion=completing.snapshots, metavar="ID", help="Snapshot id.", rich_help_panel=WHEN
    ),
]
Tag = Annotated[
    str | None,
    typer.Option("--tag", autocompletion=completing.tags, metavar="NAME", help="Tag name.", rich_help_panel=WHEN),
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
        autocompletion=completing.branches,
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
"""The options of all commands that read a state of a table: members of `TravelArguments`."""


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

RowsFile = Annotated[
    Path,
    typer.Argument(
        metavar="FILE",
        help="Rows: Parquet, ORC, Arrow IPC, CSV or JSON lines, by the ending of the name.",
        show_default=False,
    ),
]
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
        autocompletion=completing.columns,
        metavar="A,B",
        help="Sort the rows of append tables by these columns.",
    ),
]
Strategy = Annotated[str | None, typer.Option("--strategy", help="How to sort: order, zorder or hilbert.")]

TagName = Annotated[
    str, typer.Argument(autocompletion=completing.tags, metavar="NAME", help="Of the tag.", show_default=False)
]
BranchName = Annotated[
    str, typer.Argument(autocompletion=completing.branches, metavar="NAME", help="Of the branch.", show_default=False)
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
