"""The examination of a table: all checks, one after the other, whatever those before have found."""

from __future__ import annotations

from collections.abc import Mapping

from morrow.doctor import costs, order, storage
from morrow.doctor.report import Finding, Report, Severity
from morrow.doctor.subject import Check, Subject
from morrow.engine.errors import MorrowError, StorageError, Unsupported
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.metadata_files import METADATA_CACHE
from morrow.engine.telling import one_line, shown

CHECKS: Mapping[str, Check] = {
    "options": order.options,
    "schemas": storage.schemas,
    "hints": storage.hints,
    "files": storage.files,
    "levels": order.levels,
    "vectors": order.vectors,
    "data": order.data,
    "types": order.types,
    "orphans": storage.orphans,
    "runs": costs.runs,
    "small files": costs.small_files,
    "dead rows": costs.dead_rows,
    "history": costs.history,
}
"""The checks by name, in the order in which they run."""


def examine(metadata: TableMetadata, *, data: bool = False) -> Report:
    """Runs all checks of a table; see `Table.doctor`.

    Raises:
        StorageError: the store does not answer, which is no fault of the table.
    """
    METADATA_CACHE.clear()  # what is remembered would hide what has happened to the files
    subject = Subject(metadata, data)
    findings: list[Finding] = []
    told: list[tuple[str, str]] = []
    for name, check in CHECKS.items():
        told.append((name, _told_by(check, subject, name, findings)))
    order_of = list(Severity)
    findings.sort(key=lambda finding: order_of.index(finding.severity))
    try:
        snapshot = subject.snapshot
    except MorrowError:
        snapshot = None
    return Report(metadata.where, None if snapshot is None else snapshot.id, tuple(findings), tuple(told))


def _told_by(check: Check, subject: Subject, name: str, findings: list[Finding]) -> str:
    """Adds the findings of a check; returns what it says it looked at.

    An error is a finding, unless the file that it names has been found before.
    """
    running = check(subject)
    known = {(each.where, each.what) for each in findings}
    while True:
        try:
            found = next(running)
        except StopIteration as ended:
            return str(ended.value)
        except StorageError:
            raise
        except Unsupported as error:
            return f"not looked at: {shown(one_line(str(error).removeprefix(f'{subject.metadata.where}: ')))}"
        except MorrowError as error:
            if not any(_names(finding, subject, error) for finding in findings):
                findings.append(_finding_of(subject, name, error))
            return "not looked at: what it needs cannot be read"
        if (found.where, found.what) not in known:
            known.add((found.where, found.what))
            findings.append(found)


def _names(finding: Finding, subject: Subject, error: MorrowError) -> bool:
    path = getattr(error, "path", None)
    known = "" if path is None else subject.relative(path)
    return str(error) == finding.what or (path is not None and known in (finding.where, finding.what))


def _finding_of(subject: Subject, name: str, error: MorrowError) -> Finding:
    path = getattr(error, "path", None)
    where = "table" if path is None else subject.relative(path)
    remedy = "restore it from a backup, or go back: `morrow rollback`"
    return Finding(Severity.ERROR, name, where, one_line(str(error)), remedy)
