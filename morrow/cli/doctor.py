"""``morrow doctor``: what is wrong with a table, and the repairs that are safe."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow as pa
import typer

import morrow
from morrow.cli.arguments import Format
from morrow.cli.asking import may
from morrow.cli.opening import open_table
from morrow.cli.output import sink, write_rows
from morrow.cli.paging import emit
from morrow.cli.progress import working
from morrow.doctor.report import Report
from morrow.engine.telling import shown
from morrow.engine.wording import plural

FINDINGS = pa.schema([(name, pa.string()) for name in ("severity", "check", "where", "what", "remedy", "fix")])


def _hints(table: morrow.Table) -> str:
    return f"{plural(len(table.repair()), 'hint')} written anew"


def _orphans(table: morrow.Table) -> str:
    return f"{plural(table.remove_orphan_files(dry_run=False).count, 'orphan file')} removed"


def _compaction(table: morrow.Table) -> str:
    found = table.compact()
    return "nothing was worth a compaction" if found is None else f"compacted in snapshot {found.id}"


FIXES: Mapping[str, tuple[str, Callable[[morrow.Table], str]]] = {
    "hints": ("write the wrong hints anew", _hints),
    "orphans": ("remove the orphan files older than a day", _orphans),
    "compaction": ("compact", _compaction),
}
"""What is done about findings, by `Finding.fix`."""
ON_REQUEST = ("compaction",)


def doctor(
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
    """Write the report; with `fix` after the repairs.

    Raises:
        typer.Exit: with 1 where an error or a warning is left.
    """
    table = open_table(path, branch)
    with working("examining"):
        report = table.doctor(data=data)
    if fix and _fixed(table, report, compact=compact, yes=yes, dry_run=dry_run):
        with working("examining"):
            report = table.doctor(data=data)
    if form is Format.TABLE:
        with sink(output) as out:
            emit(f"{report}\n", out)
    else:
        rows = [{name: getattr(finding, name) for name in FINDINGS.names} for finding in report.findings]
        write_rows(FINDINGS, pa.Table.from_pylist(rows, FINDINGS).to_batches(), form, output)
    if not report.healthy:
        raise typer.Exit(1)


def _fixed(table: morrow.Table, report: Report, *, compact: bool, yes: bool, dry_run: bool) -> bool:
    """Whether anything was done about the findings, which is told on standard error."""
    wanted = dict.fromkeys(finding.fix for finding in report.findings if finding.fix in FIXES)
    chosen = [name for name in wanted if compact or name not in ON_REQUEST]
    if not chosen:
        typer.echo("nothing to fix", err=True)
        return False
    deeds = ", ".join(FIXES[name][0] for name in chosen)
    if not may(f"{deeds} in {table.path}", yes=yes, dry_run=dry_run):
        return False
    for name in chosen:
        typer.echo(shown(FIXES[name][1](table)), err=True)
    return True
