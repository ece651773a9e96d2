"""Commands that maintain tables: tags and branches, rollback, expiry, orphan files, doctor, inspect and cache."""

from __future__ import annotations

import datetime as dt
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import typer

import morrow
from morrow.cli.arguments import Format
from morrow.cli.output import open_output, write_rows
from morrow.cli.targets import get_metadata, open_table
from morrow.cli.terminal import confirm, emit, show_progress, write_note
from morrow.cli.writing import print_snapshot
from morrow.doctor.report import Report
from morrow.engine.errors import InvalidArgument
from morrow.engine.format.snapshot import Snapshot, Tag
from morrow.engine.io.cache_folder import SWITCH, find_cache_folder
from morrow.engine.options.retention import parse_time_span
from morrow.engine.plan.time_travel import to_millis
from morrow.engine.redaction import clean_text
from morrow.engine.units import format_count
from morrow.readers.system.registry import format_duration

if TYPE_CHECKING:
    from morrow.writers.operations.erasure import Erasure

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
"""A changed hint: its old text and its new id. Null means that the file does not exist."""


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
    """Roll back to an earlier snapshot."""
    table = open_table(path, branch)
    goals = {"snapshot": snapshot, "tag": tag, "the state at": timestamp}
    given = [f"{what} {goal}" for what, goal in goals.items() if goal is not None]
    if confirm(f"roll {table.name} back to {', '.join(given)}, and remove what came later", yes=yes, dry_run=dry_run):
        print_snapshot(table.rollback(snapshot=snapshot, tag=tag, timestamp=timestamp))


def purge(path: str, older_than: str | None, *, yes: bool, dry_run: bool) -> None:
    """Empty a table permanently."""
    table, age = open_table(path), _parse_age(older_than)
    told = f"{format_count(len(table.snapshots()), 'snapshot')}, {format_count(len(table.tags), 'tag')}, branches: "
    told += ", ".join(table.branches) or "none"
    if confirm(f"empty {table.name} for good, with {told}", yes=yes, dry_run=dry_run):
        done = table.purge(age)
        states = f"{format_count(done.snapshots, 'snapshot')} and {format_count(len(done.tags), 'tag')}"
        typer.echo(clean_text(f"removed with all rows: {states}"))


ERASURE = pa.schema(
    [
        *((name, pa.string()) for name in ("state", "holder", "branch", "name")),
        *((name, pa.int64()) for name in ("files", "stored_rows", "bounds")),
        ("reason", pa.string()),
    ]
)


def erase(
    path: str,
    where: str,
    history: bool,
    older_than: str | None,
    *,
    yes: bool,
    dry_run: bool,
    form: Format,
    output: Path | None,
) -> None:
    """Write what holds the rows, ask, erase them, and write the receipt.

    Raises:
        InvalidArgument: without a terminal to ask on, `yes` is not set.
        typer.Exit: with code 1 if something still holds such rows.
    """
    table, age = open_table(path), _parse_age(older_than)
    if not (yes or dry_run or sys.stdin.isatty()):
        raise InvalidArgument("erase: there is no terminal to ask on; give --yes or --dry-run; nothing was erased")
    if dry_run or not yes:
        with show_progress("searching"):
            found = table.erase(where, history=history, dry_run=True)
        if dry_run:
            _write_erasure(found, form, output)
            return
        typer.echo(str(found), err=True)
        confirm(f"erase these rows of {table.name}" + (" and their history" if history else ""), yes=yes, dry_run=False)
    with show_progress("erasing"):
        done = table.erase(where, history=history, older_than=age)
    _write_erasure(done, form, output)
    if not done.complete:
        raise typer.Exit(1)


def _write_erasure(receipt: Erasure, form: Format, output: Path | None) -> None:
    if form is Format.TABLE:
        with open_output(output) as out:
            emit(f"{receipt}\n", out)
    else:
        write_rows(ERASURE, receipt.to_polars().to_arrow().cast(ERASURE).to_batches(), form, output)


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
    limits, table = (retain_max, retain_min, _parse_age(older_than), max_deletes), open_table(path, branch)
    result = table.expire_snapshots(*limits, dry_run=True) if dry_run or not yes else None
    due = format_count(result or 0, "snapshot")
    is_idle = result is not None and not result and not dry_run
    if is_idle or confirm(f"remove {due}, with the files that only they need", yes=yes, dry_run=dry_run):
        with show_progress("expiring"):
            result = table.expire_snapshots(*limits)
        typer.echo(f"{format_count(result, 'snapshot')} removed" if result else "nothing to do")
    if result is not None and result.left:
        write_note(f"{format_count(result.left, 'snapshot')} left: {result.kept_by}")


def write_orphans(
    path: str, older_than: str | None, delete: bool, yes: bool, dry_run: bool, form: Format, output: Path | None
) -> None:
    """Write the paths of orphan files, and their total size to standard error. Remove them if `delete` is set."""
    age = _parse_age(older_than)
    if delete and not dry_run:  # otherwise they are only listed
        confirm("remove the files that nothing names", yes=yes, dry_run=False)
    delete = delete and not dry_run
    with show_progress("looking for orphan files"):
        found = open_table(path).remove_orphan_files(age, dry_run=not delete)
    write_rows(ORPHAN, pa.table({"path": found.paths}, ORPHAN).to_batches(), form, output)
    for folder in found.not_looked_at:
        write_note(f"not looked at: {folder}; give its folder, morrow --allowed-root FOLDER orphans PATH")
    if found.count:
        done = "removed" if found.removed else "not removed: give --delete"
        write_note(f"{found.bytes:,} bytes, {done}")


def repair(path: str, form: Format, output: Path | None) -> None:
    """Write the hints that were wrong."""
    with show_progress("looking at hints"):
        changed = open_table(path).repair()
    write_rows(HINT, pa.Table.from_pylist([asdict(hint) for hint in changed], HINT).to_batches(), form, output)


def _parse_age(text: str | None) -> dt.timedelta | int | None:
    """Parse an age, or epoch milliseconds.

    A bare number is a moment, as with --timestamp. As an age in milliseconds it would match nearly everything.
    """
    if text is None:
        return None
    for read in (to_millis, parse_time_span):
        try:
            return read(text)
        except InvalidArgument:
            continue
    raise InvalidArgument(
        f"--older-than {text!r} is neither an age such as '7 d' (units ms, s, min, h, d) "
        "nor a time such as '2024-05-14 12:00:00'"
    )


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
"""`create_time` is the creator's local time; `time_retained` is an ISO duration."""

BRANCH = pa.schema(
    [
        ("name", pa.string()),
        ("snapshot", pa.int64()),
        ("time", pa.timestamp("ms", "UTC")),
        ("total_records", pa.int64()),
    ]
)


def write_tags(path: str, branch: str | None, form: Format, output: Path | None) -> None:
    """Write the tags, by the ids of their snapshots."""
    with show_progress("reading tags"):
        found = [_build_tag_record(tag) for tag in open_table(path, branch).tags]
    write_rows(TAG, pa.Table.from_pylist(found, TAG).to_batches(), form, output)


def change_tag(
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
    """Create, rename or delete a tag."""
    made_of = {"--snapshot": snapshot, "--timestamp": timestamp, "--time-retained": time_retained}
    _check_single(made_of, {"--rename": rename, "--delete": delete})
    tags = open_table(path, branch).tags
    deed = f"rename the tag {name} to {rename}" if rename is not None else f"make the tag {name}"
    if delete:
        tags.get(name)
        deed = f"delete the tag {name}"
    if (delete or dry_run) and not confirm(deed, yes=yes, dry_run=dry_run):
        return
    if delete:
        tags.delete(name)
        typer.echo(clean_text(f"tag {name} deleted"))
    elif rename is not None:
        tags.rename(name, rename)
        typer.echo(clean_text(f"tag {name} renamed to {rename}"))
    else:
        made = tags.create(name, snapshot, time_retained, timestamp=timestamp)
        typer.echo(clean_text(f"tag {name}: snapshot {made.snapshot.id}"))


def write_branches(path: str, form: Format, output: Path | None) -> None:
    """Write the branches besides main, with the newest snapshot of each."""
    with show_progress("reading branches"):
        table = open_table(path)
        newest = {name: get_metadata(table.on_branch(name)).latest_snapshot() for name in table.branches}
    found = [{"name": name, **_build_snapshot_columns(snapshot)} for name, snapshot in newest.items()]
    write_rows(BRANCH, pa.Table.from_pylist(found, BRANCH).to_batches(), form, output)


def change_branch(
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
    """Create, rename, merge or delete a branch, or fast-forward main to it."""
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
    if (delete or fast_forward or dry_run) and not confirm(deed, yes=yes, dry_run=dry_run):
        return
    if delete:
        branches.delete(name)
        typer.echo(clean_text(f"branch {name} deleted"))
    elif rename is not None:
        branches.rename(name, rename)
        typer.echo(clean_text(f"branch {name} renamed to {rename}"))
    elif merge:
        branches.merge(name)
        typer.echo(clean_text(f"main has the rows of the branch {name}"))
    elif fast_forward:
        branches.fast_forward(name)
        typer.echo(clean_text(f"main is what the branch {name} is"))
    else:
        branches.create(name, tag=tag, snapshot=snapshot)
        typer.echo(clean_text(f"branch {name} made"))


def _check_single(made_of: Mapping[str, object], changes: Mapping[str, object]) -> None:
    """Check that one change is requested, without options of a creation. Raises `InvalidArgument`."""
    wanted = [option for option, value in changes.items() if value not in (None, False)]
    given = [option for option, value in made_of.items() if value is not None]
    if len(wanted) > 1 or (wanted and given):
        raise InvalidArgument(f"{', '.join(wanted + given)}: one thing at a time; nothing was changed")


def _build_tag_record(tag: Tag) -> dict[str, Any]:
    retained = None if tag.time_retained is None else format_duration(tag.time_retained)
    return {
        "name": tag.name,
        **_build_snapshot_columns(tag.snapshot),
        "create_time": tag.create_time,
        "time_retained": retained,
    }


def _build_snapshot_columns(snapshot: Snapshot | None) -> dict[str, Any]:
    """Return the newest snapshot of a branch as columns, empty (so nulls) for a branch without snapshots."""
    if snapshot is None:
        return {}
    return {"snapshot": snapshot.id, "time": snapshot.time, "total_records": snapshot.total_record_count}


FINDINGS = pa.schema([(name, pa.string()) for name in ("severity", "check", "where", "what", "remedy", "fix")])


def _repair_hints(table: morrow.Table) -> str:
    return f"{format_count(len(table.repair()), 'hint')} rewritten"


def _remove_orphans(table: morrow.Table) -> str:
    return f"{format_count(table.remove_orphan_files(dry_run=False).count, 'orphan file')} removed"


def _compact_table(table: morrow.Table) -> str:
    found = table.compact()
    return "nothing was worth a compaction" if found is None else f"compacted in snapshot {found.id}"


FIXES: Mapping[str, tuple[str, Callable[[morrow.Table], str]]] = {
    "hints": ("rewrite the wrong hints", _repair_hints),
    "orphans": ("remove the orphan files older than a day", _remove_orphans),
    "compaction": ("compact", _compact_table),
}
"""`Finding.fix` -> the description and the function of the repair."""
ON_REQUEST = ("compaction",)


def write_report(
    path: str,
    branch: str | None,
    data: bool,
    fix: bool,
    compact: bool,
    yes: bool,
    dry_run: bool,
    form: Format,
    output: Path | None,
) -> None:
    """Write the report, with `fix` after repairing the findings.

    Raises:
        typer.Exit: with code 1 if an error or a warning remains.
    """
    table = open_table(path, branch)
    with show_progress("examining"):
        report = table.doctor(data=data)
    if fix and _repair_findings(table, report, compact=compact, yes=yes, dry_run=dry_run):
        with show_progress("examining"):
            report = table.doctor(data=data)
    if form is Format.TABLE:
        with open_output(output) as out:
            emit(f"{report}\n", out)
    else:
        rows = [{name: getattr(finding, name) for name in FINDINGS.names} for finding in report.findings]
        write_rows(FINDINGS, pa.Table.from_pylist(rows, FINDINGS).to_batches(), form, output)
    if not report.healthy:
        raise typer.Exit(1)


def _repair_findings(table: morrow.Table, report: Report, *, compact: bool, yes: bool, dry_run: bool) -> bool:
    """Repair the findings, and report the repairs on standard error; return whether anything was repaired."""
    wanted = dict.fromkeys(finding.fix for finding in report.findings if finding.fix in FIXES)
    chosen = [name for name in wanted if compact or name not in ON_REQUEST]
    if not chosen:
        write_note("nothing to fix")
        return False
    deeds = ", ".join(FIXES[name][0] for name in chosen)
    if not confirm(f"{deeds} in {table.path}", yes=yes, dry_run=dry_run):
        return False
    for name in chosen:
        write_note(FIXES[name][1](table))
    return True


def inspect(path: str, branch: str | None, where: str | None, output: Path | None) -> None:
    """Write the page to `output`, or a summary of a few lines to standard output."""
    table = open_table(path, branch)
    with show_progress("looking"):
        found = table.inspect(where=where)
        if output is None:
            text = str(found)
        else:
            found.save(output)
            text = f"{output}: {output.stat().st_size:,} bytes"
    typer.echo(clean_text(text))


CACHE = pa.schema(
    [
        pa.field("path", pa.string()),
        pa.field("bytes", pa.int64(), nullable=False),
        pa.field("capacity", pa.int64(), nullable=False),
        pa.field("entries", pa.int64(), nullable=False),
        pa.field("hits", pa.int64(), nullable=False),
        pa.field("state", pa.string(), nullable=False),
    ]
)


def show_cache(clear: bool, form: Format, output: Path | None) -> None:
    """Write the contents of the cache folder, emptied first if `clear`; a row without a path if it is disabled."""
    folder = find_cache_folder()
    if folder is None:
        row = {"path": None, "bytes": 0, "capacity": 0, "entries": 0, "hits": 0, "state": f"off ({SWITCH})"}
    else:
        if clear:
            folder.clear()
        held = folder.contents()
        state = "in use" if folder.is_usable() else "not usable: it is not yours alone, or cannot be written"
        sizes = {"bytes": held.size, "capacity": folder.capacity, "entries": held.entries, "hits": held.hits}
        row = {"path": str(folder.path), **sizes, "state": state}
    write_rows(CACHE, pa.Table.from_pylist([row], CACHE).to_batches(), form, output)
