"""From arguments of the command line to a table and a scan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import morrow
from morrow.engine.plan.metadata import TableMetadata
from morrow.scan import Scan
from morrow.table import Table


@dataclass(frozen=True)
class State:
    """Which state of the table is read; all None is the newest of main."""

    as_of: str | None = None
    snapshot: int | None = None
    tag: str | None = None
    timestamp: str | None = None
    branch: str | None = None


def scan_of(
    path: str, state: State, columns: Sequence[str] | None = None, where: str | None = None, limit: int | None = None
) -> Scan:
    """The scan that the arguments describe; raises as `morrow.open` and `Table.scan` do."""
    return morrow.open(path, branch=state.branch).scan(
        columns,
        where,
        limit,
        as_of=state.as_of,
        snapshot=state.snapshot,
        tag=state.tag,
        timestamp=state.timestamp,
    )


def metadata_of(source: Table | Scan) -> TableMetadata:
    """Tags, branches and the root of the table, which its public face does not tell."""
    return source._metadata
