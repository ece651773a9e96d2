"""From arguments of the command line to a table and a scan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import morrow
from morrow.engine.catalog.names import object_name
from morrow.engine.errors import InvalidArgument
from morrow.engine.plan.metadata import TableMetadata
from morrow.scan import Scan
from morrow.system import SystemScan
from morrow.table import Table


@dataclass(frozen=True)
class State:
    """Which state of the table is read; all None is the newest of main."""

    as_of: str | None = None
    snapshot: int | None = None
    tag: str | None = None
    timestamp: str | None = None
    branch: str | None = None

    @property
    def given(self) -> dict[str, Any]:
        """The members that are set, by name."""
        return {name: value for name, value in asdict(self).items() if value is not None}


def table_of(path: str, state: State) -> tuple[morrow.Table, str | None]:
    """The table and branch that a path and `state` name, and the system table that the path ends with.

    Raises as `morrow.open`, and `InvalidArgument` for two branches.
    """
    name = object_name(path)
    if name.branch is not None and state.branch is not None:
        raise InvalidArgument(f"--branch {state.branch}: the path names the branch {name.branch} already")
    return morrow.open(name.table, branch=state.branch or name.branch), name.system


def rows_of(
    path: str, state: State, columns: Sequence[str] | None = None, where: str | None = None, limit: int | None = None
) -> Scan | SystemScan:
    """The scan that the arguments describe, of a table or of the system table that the path ends with."""
    if object_name(path).system is None:
        return scan_of(path, state, columns, where, limit)
    return system_scan_of(path, None, state, columns, where, limit)


def system_scan_of(
    path: str, name: str | None, state: State, columns: Sequence[str] | None, where: str | None, limit: int | None
) -> SystemScan:
    """The scan of a system table, whose name is given or at the end of the path; raises as `Table.system` does."""
    table, found = table_of(path, state)
    if name is not None and found is not None:
        raise InvalidArgument(f"{path} names the system table {found} already: leave {name} out")
    travel = {key: value for key, value in state.given.items() if key != "branch"}
    return table.system(name or found or "", columns, where, limit, **travel)


def scan_of(
    path: str, state: State, columns: Sequence[str] | None = None, where: str | None = None, limit: int | None = None
) -> Scan:
    """The scan that the arguments describe; raises as `morrow.open` and `Table.scan` do."""
    table, system = table_of(path, state)
    if system is not None:
        raise InvalidArgument(f"{path} is a system table: this command is for tables")
    return table.scan(
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
