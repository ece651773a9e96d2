"""States that settings of the session choose, and what they then refuse."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from morrow.engine.errors import Unsupported
from morrow.engine.plan.time_travel import TravelArguments
from morrow.queries.incremental import are_of_changes
from morrow.spark.catalogs import described
from morrow.spark.catalogs.read_options import travel
from morrow.spark.catalogs.write_options import concerns_writes
from morrow.spark.source.settings import PREFIX, settings_for

CHANGING = "changing rows"
STREAMING = "a stream"


@dataclass(frozen=True)
class Chosen:
    """The options of reads that settings have for a table; `by` are the settings, by their full names."""

    options: Mapping[str, str] = field(default_factory=dict)
    by: tuple[str, ...] = ()

    @classmethod
    def of(cls, settings: Mapping[str, str], catalog: str, database: str, table: str) -> Chosen:
        """Finds them. Raises as `settings.settings_for`."""
        found = {
            option: key
            for option, key in settings_for(settings, catalog, database, table).items()
            if not concerns_writes(option)
        }
        options = {option: settings[key] for option, key in found.items()}
        return cls(options, tuple(f"{PREFIX}{key}" for key in found.values()))

    @property
    def are_of_changes(self) -> bool:
        """Whether it is the changes between two states that they choose."""
        return are_of_changes(self.options)

    def travel(self) -> TravelArguments:
        """Returns the state that they choose. Raises as `read_options.travel`."""
        return travel(self.options, f"the setting {PREFIX}{{}}")


def refused(what: str, by: Sequence[str], where: str | None = None) -> Unsupported:
    """Returns the error of what cannot be done while these settings choose the state."""
    names, verb = " and ".join(by), "choose" if len(by) > 1 else "chooses"
    return Unsupported(f"{what} while {names} {verb} what is read", where=where, hint=f"unset {', '.join(by)}")


def check_unset(what: str, state: Any, where: str | None = None) -> None:
    """Raises `Unsupported` where settings have chosen the state of a question."""
    if by := described.set_by(state):
        raise refused(what, by, where)
