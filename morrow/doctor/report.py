"""The findings of an examination, as values, text and HTML."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from morrow.engine.telling import one_line, shown
from morrow.engine.wording import plural

MOST_TOLD = 50
"""Findings of one check that are printed; the others are counted."""


class Severity(StrEnum):
    """How bad a finding is."""

    ERROR = "error"
    """Rows are lost or wrong, or reads of some state fail."""
    WARNING = "warning"
    """All rows are there, and something is not as it has to be."""
    ADVICE = "advice"
    """All is as it has to be; reads or writes cost more than they need to."""


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong: `check` found it, `where` is a path, bucket, hint or option, `remedy` what to do.

    `fix` names what ``morrow doctor --fix`` does about it; empty where that is no safe thing to do unasked.
    """

    severity: Severity
    check: str
    where: str
    what: str
    remedy: str
    fix: str = ""

    def __str__(self) -> str:
        return shown(f"{self.severity}: {one_line(self.where)}: {one_line(self.what)}; {one_line(self.remedy)}")


@dataclass(frozen=True)
class Report:
    """What an examination found: `findings` by severity, `checks` what was looked at, with numbers."""

    table: str
    snapshot: int | None
    findings: tuple[Finding, ...]
    checks: tuple[tuple[str, str], ...]

    @property
    def healthy(self) -> bool:
        """Whether there is neither an error nor a warning."""
        return all(each.severity is Severity.ADVICE for each in self.findings)

    @property
    def errors(self) -> tuple[Finding, ...]:
        """The findings of lost or wrong rows, and of states that cannot be read."""
        return tuple(each for each in self.findings if each.severity is Severity.ERROR)

    def __bool__(self) -> bool:
        return self.healthy

    def __str__(self) -> str:
        return "\n".join(_lines(self))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from morrow.html.elements import element, text
        from morrow.html.tables import table

        rows = [(f.severity, f.where, f.what, f.remedy) for f in self.findings]
        found = table(("severity", "where", "what", "what to do"), rows) if rows else ""
        return element("p", element("b", text(self.table)), " ", text(verdict(self))) + found


def verdict(report: Report) -> str:
    """Returns ``healthy``, or ``2 errors, 1 warning``."""
    counts = Counter(each.severity for each in report.findings)
    told = [f"{counts[kind]} {kind}" if kind is Severity.ADVICE else plural(counts[kind], kind) for kind in counts]
    return ", ".join(told) or "healthy: nothing was found"


def _lines(report: Report) -> Iterator[str]:
    state = "no snapshot" if report.snapshot is None else f"snapshot {report.snapshot}"
    yield shown(f"{one_line(report.table)}, {state}: {verdict(report)}")
    for name, told in report.checks:
        yield f"  {name:12} {told}"
    counts: Counter[str] = Counter()
    for finding in report.findings:
        counts[finding.check] += 1
        if counts[finding.check] > MOST_TOLD:
            continue
        yield ""
        yield shown(f"{finding.severity.value}: {one_line(finding.where)}")
        yield shown(f"  {one_line(finding.what)}")
        yield shown(f"  {one_line(finding.remedy)}")
    left = {check: count - MOST_TOLD for check, count in counts.items() if count > MOST_TOLD}
    yield from (f"... and {plural(count, 'more finding')} about {check}" for check, count in left.items())
