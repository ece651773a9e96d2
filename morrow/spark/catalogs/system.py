"""System tables as states: of which snapshot, or between which two, options and settings have them tell."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from morrow.engine.catalog.names import SYSTEM_DATABASE
from morrow.engine.errors import ColumnNotFound, InvalidArgument, TableNotFound, Unsupported
from morrow.queries.incremental import are_of_changes, changes
from morrow.readers.system.registry import system_table
from morrow.readers.system.row_tables import RowTable
from morrow.spark.catalogs import described
from morrow.spark.catalogs.chosen import Chosen, refused
from morrow.spark.catalogs.place import Place, parsed
from morrow.spark.catalogs.read_options import travel
from morrow.spark.catalogs.streams import streams
from morrow.spark.source.instants import clock_of

if TYPE_CHECKING:
    from morrow.scans.system_scan import SystemScan
    from morrow.tables.table import Table

AT = "at"
"""In the state of a system table: the arguments of `Table.system` that choose a snapshot, or two."""


def is_system(name: str) -> bool:
    """Returns whether a full name is that of a system table."""
    return parsed(name).system is not None or name.startswith(f"{SYSTEM_DATABASE}.")


def load(place: Place, name: str, at: Mapping[str, object], settings: Mapping[str, str]) -> dict[str, object]:
    """Describes a system table; `at` counts before the settings."""
    state: dict[str, object] = {AT: dict(at)}
    system = parsed(name).system
    if not at and system is not None and tells_of_one_state(system):
        state = state_of(Chosen.of(settings, place.name, *name.split(".", 1)), name, lambda: _table(place, name))
    return described.of_rows(name, scan(place, name, state).fields, state, streams=not at and streams(name))


def tells_of_one_state(system: str) -> bool:
    """Returns whether time travel changes the rows of a system table; of no others, as in Paimon, settings matter."""
    try:
        return system_table(system).travels
    except TableNotFound:
        return False  # which is said when it is read


def state_of(chosen: Chosen, name: str, opened: Callable[[], Table]) -> dict[str, object]:
    """Returns the state of a system table that settings choose.

    Raises `Unsupported` where they choose changes, which only tables of the kinds of rows tell of.
    """
    if not chosen.are_of_changes:
        return {AT: dict(chosen.travel())} | ({described.SET: list(chosen.by)} if chosen.by else {})
    system = system_table(str(parsed(name).system))
    if not isinstance(system, RowTable) or not system.tells_kinds:
        raise refused(f"{name}, which tells of one snapshot,", chosen.by)
    return {AT: changes_of(opened(), name, chosen.options), described.SET: list(chosen.by)}


def chosen_by_options(place: Place, name: str, options: Mapping[str, str]) -> dict[str, object]:
    """Returns the state of a system table that the options of a read choose."""
    if are_of_changes(options):
        return {AT: changes_of(_table(place, name), name, options)}
    return {AT: dict(travel(options, clock=clock_of(place.spark)))}


def changes_of(table: Table, name: str, options: Mapping[str, str]) -> dict[str, object]:
    """Returns the two snapshots between which a system table tells of changes. Raises `Unsupported` for times."""
    found = changes(table, options)
    if found is None or "from_snapshot" not in found:
        raise Unsupported(f"changes of {name} between times, or where there are none,", hint="name two snapshots")
    return found


def scan(place: Place, name: str, state: Mapping[str, object]) -> SystemScan:
    """Returns the scan of a system table in a state."""
    at = state[AT]
    try:
        return place.catalog.system(name, **at)  # type: ignore[arg-type]  # it came through JSON
    except InvalidArgument as error:
        if at or isinstance(error, ColumnNotFound):
            raise
        raise TableNotFound(str(error)) from error  # no system table has this name


def _table(place: Place, name: str) -> Table:
    parts = parsed(name)
    return place.catalog.table(parts.table, branch=parts.branch)
