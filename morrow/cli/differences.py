"""``morrow diff`` and ``tail``: changed rows, with their kinds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

import morrow
from morrow.cli.arguments import Format
from morrow.cli.output import TABLE_ROWS, TABLES, write_rows
from morrow.cli.targets import get_metadata, open_table
from morrow.cli.terminal import show_progress, suppress_pager, write_note
from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.format.paths import MAIN_BRANCH
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.library_versions import import_array
from morrow.engine.plan.incremental import Difference, drop_shared
from morrow.engine.redaction import suggest_name
from morrow.engine.units import format_count
from morrow.scans.changes import Changes, make_request

KIND = "rowkind"
BEFORE, AFTER = "-U", "+U"


def write_differences(
    path: str,
    old: str,
    new: str,
    columns: Sequence[str] | None,
    where: str | None,
    limit: int | None,
    form: Format,
    output: Path | None,
) -> None:
    """Write the rows that differ between two versions of a table, and their counts to standard error.

    A version is a snapshot id, else a tag, else a branch.

    Raises:
        InvalidArgument: nothing has this name. Unsupported: branches with different columns. Others as `Table.changes`.
    """
    table = open_table(path)
    with show_progress("comparing"):
        before, after = _resolve_state(table, old), _resolve_state(table, new)
        if isinstance(before, morrow.Table) or isinstance(after, morrow.Table):
            found = _compare_branches(table, _scan_state(table, before), _scan_state(table, after), columns, where)
        else:
            found = table.changes(before, after, mode="diff", columns=columns, filter=where)
        rows = found.to_arrow()
    cap = TABLE_ROWS if form in TABLES and limit is None else None
    write_rows(rows.schema, (rows if limit is None else rows.slice(0, limit)).to_batches(), form, output, cap)
    for line in _summarize_changes(rows, table.primary_keys):
        write_note(line)


def _resolve_state(table: morrow.Table, name: str) -> int | str | morrow.Table:
    """Resolve a snapshot id, the name of a tag, or the name of a branch."""
    if name.isascii() and name.isdecimal():
        return int(name)
    if name in table.tags:
        return name
    if name in table.branches or name == MAIN_BRANCH:
        return table.on_branch(name)
    known = [*table.tags.names, MAIN_BRANCH, *table.branches.list()]
    raise InvalidArgument(
        f"{table.path}: {name!r} is neither a snapshot id nor a tag or branch; {suggest_name(name, known)}"
        f"the tags and branches are {', '.join(known)}"
    )


def _scan_state(table: morrow.Table, state: int | str | morrow.Table) -> morrow.Scan:
    """Return a scan of all rows and columns of a version."""
    if isinstance(state, morrow.Table):
        return state.scan()
    return table.scan(snapshot=state) if isinstance(state, int) else table.scan(tag=state)


def _compare_branches(
    table: morrow.Table, before: morrow.Scan, after: morrow.Scan, columns: Sequence[str] | None, where: str | None
) -> Changes:
    if not before.schema.equals(table.schema) or not after.schema.equals(table.schema):
        raise Unsupported(f"{table.path}: a difference of states with other columns or types than the table has now")
    metadata = get_metadata(table)
    request = make_request(metadata, columns, where)
    old, new = before.plan, after.plan
    if old.schema.fields == new.schema.fields and old.merge == new.merge and not (old.fallback or new.fallback):
        old, new = drop_shared(old, new)
    part = Difference(old, new, old.schema.row_keys, request.filter)
    return Changes(metadata, request, (part,), None)


def _summarize_changes(rows: pa.Table, keys: Sequence[str]) -> Iterator[str]:
    """Yield ``1 row +I, 2 rows -D``, and for changed rows ``3 rows changed: amount 3, name 1``."""
    kinds = Counter(rows[KIND].to_pylist())
    told = [f"{format_count(kinds[kind], 'row')} {kind}" for kind in ("+I", "-D") if kinds[kind]]
    if told:
        yield ", ".join(told)
    if kinds[AFTER]:
        old, new = (rows.filter(pc.equal(rows[KIND], kind)) for kind in (BEFORE, AFTER))
        if len(old) != len(new):  # a filter removed one of the two rows
            yield f"{format_count(len(old), 'row')} {BEFORE}, {format_count(len(new), 'row')} {AFTER}"
            return
        changed = {
            name: _count_differing(old[name], new[name]) for name in rows.column_names if name not in (KIND, *keys)
        }
        columns = ", ".join(f"{name} {count:,}" for name, count in changed.items() if count)
        yield f"{format_count(len(new), 'row')} changed: {columns or 'only columns that are not shown'}"
    if not kinds:
        yield "no difference"


def _count_differing(old: pa.ChunkedArray, new: pa.ChunkedArray) -> int:
    pair = pl.DataFrame({"old": import_array(old), "new": import_array(new)})
    return int(pair.select(pl.col("old").ne_missing(pl.col("new")).sum()).item())


def write_tail(
    path: str,
    branch: str | None,
    columns: Sequence[str] | None,
    where: str | None,
    limit: int,
    follow: bool,
    form: Format,
    *,
    raw: bool,
) -> None:
    """Write the last changed rows. With `follow`, also write the changes of later snapshots until Ctrl-C.

    Raises `InvalidArgument`: an endless stream of Arrow. Others as `Table.stream`.
    """
    if follow and form is Format.ARROW:
        raise InvalidArgument("tail --follow --format arrow: such a stream has one end; take json")
    table = open_table(path, branch)
    newest = get_metadata(table).latest_snapshot()
    # Resolved before rows are read, so that commits in between are not lost.
    first = 1 if newest is None else newest.id + 1
    rows = _read_last_changes(table, newest, columns, where, limit, raw=raw)
    suppress_pager(follow)  # a pager would block later output
    if rows is not None:
        write_rows(rows.schema, rows.to_batches(), form, None)
    if not follow:
        return
    names = None if rows is None else rows.column_names
    try:
        for found in _follow_changes(table, first, columns, where, raw=raw):
            if len(found):
                write_rows(found.schema, found.to_batches(), form, None, header=found.column_names != names)
                names = found.column_names
    except KeyboardInterrupt:
        return


def _follow_changes(
    table: morrow.Table, first: int, columns: Sequence[str] | None, where: str | None, *, raw: bool
) -> Iterator[pa.Table]:
    """Yield the changed rows of each snapshot from `first` on, with the columns of the table at that time."""
    metadata = get_metadata(table)
    while True:
        began = metadata.latest_schema().id
        try:
            stream = table.stream(from_snapshot=first, columns=columns, filter=where, mode="raw" if raw else "auto")
            for changes in stream:
                if metadata.latest_schema().id != began:
                    break
                yield changes.to_arrow()
                first = stream.next_snapshot
            else:
                return
        except Unsupported:  # a column has another type
            if metadata.latest_schema().id == began:
                raise


def _read_last_changes(
    table: morrow.Table,
    newest: Snapshot | None,
    columns: Sequence[str] | None,
    where: str | None,
    limit: int,
    *,
    raw: bool,
) -> pa.Table | None:
    """Return the last `limit` changed rows, oldest first; None for a table without snapshots."""
    if newest is None:
        return None
    mode: Literal["auto", "raw"] = "raw" if raw else "auto"
    found: list[pa.Table] = []
    oldest = get_metadata(table).earliest_snapshot_id() or newest.id
    for snapshot in range(newest.id, oldest - 1, -1):
        found.append(table.changes(snapshot - 1, snapshot, mode=mode, columns=columns, filter=where).to_arrow())
        if sum(map(len, found)) >= max(limit, 1):
            break
    rows = pa.concat_tables(found[::-1])
    return rows.slice(max(len(rows) - limit, 0))
