"""``morrow tags``, ``tag``, ``branches`` and ``branch``: names of states, and lines of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import typer

from morrow.cli.arguments import Format
from morrow.cli.asking import may
from morrow.cli.opening import open_table
from morrow.cli.output import write_rows
from morrow.cli.progress import working
from morrow.cli.scans import metadata_of
from morrow.engine.errors import InvalidArgument
from morrow.engine.format.snapshot import Snapshot, Tag
from morrow.engine.telling import shown
from morrow.readers.system.references import duration_text

TAG = pa.schema(
    [
        ("name", pa.string()),
        ("snapshot", pa.int64()),
        ("time", pa.timestamp("ms", "UTC")),
        ("total_records", pa.int64()),
        ("create_time", pa.timestamp("us")),
        ("time_retained", pa.string()),
    ]
)
"""`create_time` is of the clock on the wall where the tag was made; `time_retained` is an ISO duration."""

BRANCH = pa.schema(
    [
        ("name", pa.string()),
        ("snapshot", pa.int64()),
        ("time", pa.timestamp("ms", "UTC")),
        ("total_records", pa.int64()),
    ]
)


def tags(path: str, branch: str | None, form: Format, output: Path | None) -> None:
    """Write the tags, by the ids of their snapshots."""
    with working("reading tags"):
        found = [_tag(tag) for tag in open_table(path, branch).tags]
    write_rows(TAG, pa.Table.from_pylist(found, TAG).to_batches(), form, output)


def tag(
    path: str,
    name: str,
    snapshot: int | None,
    timestamp: str | None,
    branch: str | None,
    time_retained: str | None,
    rename: str | None,
    delete: bool,
    *,
    yes: bool,
    dry_run: bool,
) -> None:
    """Make a tag, or rename or delete it."""
    made_of = {"--snapshot": snapshot, "--timestamp": timestamp, "--time-retained": time_retained}
    _check_single(made_of, {"--rename": rename, "--delete": delete})
    tags = open_table(path, branch).tags
    deed = f"rename the tag {name} to {rename}" if rename is not None else f"make the tag {name}"
    if delete:
        tags.get(name)
        deed = f"delete the tag {name}"
    if (delete or dry_run) and not may(deed, yes=yes, dry_run=dry_run):
        return
    if delete:
        tags.delete(name)
        typer.echo(shown(f"tag {name} deleted"))
    elif rename is not None:
        tags.rename(name, rename)
        typer.echo(shown(f"tag {name} renamed to {rename}"))
    else:
        made = tags.create(name, snapshot, time_retained, timestamp=timestamp)
        typer.echo(shown(f"tag {name}: snapshot {made.snapshot.id}"))


def branches(path: str, form: Format, output: Path | None) -> None:
    """Write the branches besides main, with the newest snapshot of each."""
    with working("reading branches"):
        table = open_table(path)
        newest = {name: metadata_of(table.on_branch(name)).latest_snapshot() for name in table.branches}
    found = [{"name": name, **_state(snapshot)} for name, snapshot in newest.items()]
    write_rows(BRANCH, pa.Table.from_pylist(found, BRANCH).to_batches(), form, output)


def branch(
    path: str,
    name: str,
    snapshot: int | None,
    tag: str | None,
    rename: str | None,
    fast_forward: bool,
    merge: bool,
    delete: bool,
    *,
    yes: bool,
    dry_run: bool,
) -> None:
    """Make a branch of main, or rename, merge or delete one, or fast-forward main to it."""
    made_of = {"--snapshot": snapshot, "--tag": tag}
    _check_single(made_of, {"--rename": rename, "--fast-forward": fast_forward, "--merge": merge, "--delete": delete})
    branches = open_table(path).branches
    deeds = {
        f"delete the branch {name}": delete,
        f"make main what the branch {name} is, without what was committed to main since": fast_forward,
        f"append the rows of the branch {name} to main": merge,
        f"rename the branch {name} to {rename}": rename is not None,
        f"make the branch {name}": True,
    }
    deed = next(deed for deed, is_asked in deeds.items() if is_asked)
    if (delete or fast_forward or dry_run) and not may(deed, yes=yes, dry_run=dry_run):
        return
    if delete:
        branches.delete(name)
        typer.echo(shown(f"branch {name} deleted"))
    elif rename is not None:
        branches.rename(name, rename)
        typer.echo(shown(f"branch {name} renamed to {rename}"))
    elif merge:
        branches.merge(name)
        typer.echo(shown(f"main has the rows of the branch {name}"))
    elif fast_forward:
        branches.fast_forward(name)
        typer.echo(shown(f"main is what the branch {name} is"))
    else:
        branches.create(name, tag=tag, snapshot=snapshot)
        typer.echo(shown(f"branch {name} made"))


def _check_single(made_of: Mapping[str, object], changes: Mapping[str, object]) -> None:
    """Checks that one change was asked for, without the options of a creation. Raises `InvalidArgument`."""
    wanted = [option for option, value in changes.items() if value not in (None, False)]
    given = [option for option, value in made_of.items() if value is not None]
    if len(wanted) > 1 or (wanted and given):
        raise InvalidArgument(f"{', '.join(wanted + given)}: one thing at a time; nothing was changed")


def _tag(tag: Tag) -> dict[str, Any]:
    retained = None if tag.time_retained is None else duration_text(tag.time_retained)
    return {"name": tag.name, **_state(tag.snapshot), "create_time": tag.create_time, "time_retained": retained}


def _state(snapshot: Snapshot | None) -> dict[str, Any]:
    """Returns the newest snapshot of a branch as columns; none, and so nulls, for a branch without snapshots."""
    if snapshot is None:
        return {}
    return {"snapshot": snapshot.id, "time": snapshot.time, "total_records": snapshot.total_record_count}
