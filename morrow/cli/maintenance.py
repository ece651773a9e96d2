"""``morrow rollback``, ``expire``, ``orphans`` and ``repair``: what removes states and files."""

from __future__ import annotations

import datetime as dt
from dataclasses import asdict
from pathlib import Path

import pyarrow as pa
import typer

from morrow.cli.arguments import Format
from morrow.cli.asking import may
from morrow.cli.opening import open_table
from morrow.cli.output import write_rows
from morrow.cli.progress import working
from morrow.cli.writing import tell
from morrow.engine.errors import InvalidArgument
from morrow.engine.options.tagging import time_span
from morrow.engine.plan.time_travel import to_millis
from morrow.engine.telling import shown
from morrow.engine.wording import plural

ORPHAN = pa.schema([("path", pa.string())])
HINT = pa.schema(
    [
        ("branch", pa.string()),
        ("folder", pa.string()),
        ("name", pa.string()),
        ("before", pa.string()),
        ("after", pa.int64()),
    ]
)
"""A hint that was changed: the text that stood in it, and the id that does now; null: there is no file."""


def rollback(
    path: str,
    snapshot: int | None,
    tag: str | None,
    timestamp: str | None,
    branch: str | None,
    *,
    yes: bool,
    dry_run: bool,
) -> None:
    """Make an earlier state the newest one."""
    table = open_table(path, branch)
    goals = {"snapshot": snapshot, "tag": tag, "the state at": timestamp}
    given = [f"{what} {goal}" for what, goal in goals.items() if goal is not None]
    if may(f"roll {table.name} back to {', '.join(given)}, and remove what came later", yes=yes, dry_run=dry_run):
        tell(table.rollback(snapshot=snapshot, tag=tag, timestamp=timestamp))


def purge(path: str, older_than: str | None, *, yes: bool, dry_run: bool) -> None:
    """Empty a table for good."""
    table, age = open_table(path), _age(older_than)
    told = f"{plural(len(table.snapshots()), 'snapshot')}, {plural(len(table.tags), 'tag')}, branches: "
    told += ", ".join(table.branches) or "none"
    if may(f"empty {table.name} for good, with {told}", yes=yes, dry_run=dry_run):
        done = table.purge(age)
        states = f"{plural(done.snapshots, 'snapshot')} and {plural(len(done.tags), 'tag')}"
        typer.echo(shown(f"removed with all rows: {states}"))


def expire(
    path: str,
    retain_max: int | None,
    retain_min: int | None,
    older_than: str | None,
    max_deletes: int | None,
    branch: str | None,
    *,
    yes: bool,
    dry_run: bool,
) -> None:
    """Remove old snapshots."""
    limits, table = (retain_max, retain_min, _age(older_than), max_deletes), open_table(path, branch)
    result = table.expire_snapshots(*limits, dry_run=True) if dry_run or not yes else None
    due = plural(result or 0, "snapshot")
    if may(f"remove {due}, with the files that only they need", yes=yes, dry_run=dry_run):
        with working("expiring"):
            result = table.expire_snapshots(*limits)
        typer.echo(f"{plural(result, 'snapshot')} removed" if result else "nothing to do")
    if result is not None and result.left:
        typer.echo(shown(f"{plural(result.left, 'snapshot')} left: {result.kept_by}"), err=True)


def orphans(
    path: str, older_than: str | None, delete: bool, yes: bool, dry_run: bool, form: Format, output: Path | None
) -> None:
    """Write the paths of orphan files, and how large they are together to standard error; remove them on demand."""
    age = _age(older_than)
    if delete and not dry_run:  # without it they are listed only
        may("remove the files that nothing names", yes=yes, dry_run=False)
    delete = delete and not dry_run
    with working("looking for orphan files"):
        found = open_table(path).remove_orphan_files(age, dry_run=not delete)
    write_rows(ORPHAN, pa.table({"path": found.paths}, ORPHAN).to_batches(), form, output)
    for folder in found.not_looked_at:
        typer.echo(
            shown(f"not looked at: {folder}; give its folder, morrow --allowed-root FOLDER orphans PATH"), err=True
        )
    if found.count:
        done = "removed" if found.removed else "not removed: give --delete"
        typer.echo(shown(f"{found.bytes:,} bytes, {done}"), err=True)


def repair(path: str, form: Format, output: Path | None) -> None:
    """Write the hints that were wrong."""
    with working("looking at hints"):
        changed = open_table(path).repair()
    write_rows(HINT, pa.Table.from_pylist([asdict(hint) for hint in changed], HINT).to_batches(), form, output)


def _age(text: str | None) -> dt.timedelta | int | None:
    """Parses an age, or epoch milliseconds.

    A bare number is a moment, as with --timestamp: an age of so few milliseconds would make nearly everything older.
    """
    if text is None:
        return None
    for read in (to_millis, time_span):
        try:
            return read(text)
        except InvalidArgument:
            continue
    raise InvalidArgument(
        f"--older-than {text!r} is neither an age such as '7 d' (units ms, s, min, h, d) "
        "nor a time such as '2024-05-14 12:00:00'"
    )
