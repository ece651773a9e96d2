"""Options of reads and writes by name, and settings of the session that choose what is read.

Options of a call count before settings of the session. A setting may choose another state of a table; changes of
its rows are then refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from morrow.engine.errors import Unsupported
from morrow.engine.plan.time_travel import TravelArguments
from morrow.queries.incremental import has_change_options
from morrow.spark.catalogs import descriptions
from morrow.spark.catalogs.questions import Question, TableOpener
from morrow.spark.source.options import Options, SinkOptions
from morrow.spark.source.settings import ALIASES, EVOLVING, PREFIX, REPLACE_WHERE, Clock, check_zone, match_settings
from morrow.writers.target import WRITE_OPTION_KEYS, check_write_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CHANGING = "changing rows"
STREAMING = "a stream"


@dataclass(frozen=True)
class Chosen:
    """The options of reads that settings have for a table; `by` are the settings, by their full names."""

    options: Mapping[str, str] = field(default_factory=dict)
    by: tuple[str, ...] = ()

    @classmethod
    def of(cls, settings: Mapping[str, str], catalog: str, database: str, table: str) -> Chosen:
        """Find them. Raises as `match_settings`."""
        found = {
            option: key
            for option, key in match_settings(settings, catalog, database, table).items()
            if not is_write_option(option)
        }
        options = {option: settings[key] for option, key in found.items()}
        return cls(options, tuple(f"{PREFIX}{key}" for key in found.values()))

    @property
    def are_of_changes(self) -> bool:
        """Whether it is the changes between two states that they choose."""
        return has_change_options(self.options)

    def travel(self) -> TravelArguments:
        """Return the state that they choose. Raises as `parse_travel`."""
        return parse_travel(self.options, f"the setting {PREFIX}{{}}")


def make_refusal(what: str, by: Sequence[str], where: str | None = None) -> Unsupported:
    """Return the error of what cannot be done while these settings choose the state."""
    names, verb = " and ".join(by), "choose" if len(by) > 1 else "chooses"
    return Unsupported(f"{what} while {names} {verb} what is read", where=where, hint=f"unset {', '.join(by)}")


def check_unset(what: str, state: Any, where: str | None = None) -> None:
    """Raise `Unsupported` where settings have chosen the state of a question."""
    if by := descriptions.set_by(state):
        raise make_refusal(what, by, where)


TRAVELS = ("as-of", "snapshot", "tag", "timestamp", "watermark", "version")


def parse_travel(
    given: Mapping[str, str], what: str = "the option {!r} of a read by name", *, clock: Clock = check_zone
) -> TravelArguments:
    """Return the state that the options name, of which errors speak as `what`; `clock` reads Spark's own moments.

    Raises:
        Unsupported: an option that names none. InvalidArgument: a value that is none of the option's.
    """
    other = next((key for key in given if ALIASES.get(key.lower(), key.lower()) not in TRAVELS), None)
    if other is not None:
        raise Unsupported(what.format(other), hint="set options of a table by ALTER TABLE")
    return Options(given, clock).read().travel


def is_write_option(option: str) -> bool:
    """Return whether an option that the settings have says how rows are written."""
    return option in WRITE_OPTION_KEYS or option in EVOLVING


def parse_sink(place: TableOpener, question: Question, *, overwrite: bool = True) -> SinkOptions:
    """Return the options of a write.

    Raises:
        InvalidArgument: a value that an option cannot have, or an option of an overwrite without one.
        Unsupported: options that a write does not heed.
    """
    sink = _parse_sink(place, question, overwrite=overwrite)
    check_write_options(sink.table)
    if sink.replace_where is not None:
        raise Unsupported(
            "replaceWhere of this write",
            hint="use writeTo(...).overwrite(condition), and partitionOverwriteMode = static",
        )
    if sink.dynamic_overwrite is not None:
        raise Unsupported("partitionOverwriteMode as an option", hint="SET spark.sql.sources.partitionOverwriteMode")
    return sink


def _parse_sink(place: TableOpener, question: Question, *, overwrite: bool) -> SinkOptions:
    given = question.get("options", {})
    return Options({**find_settings(place, question, given), **given}).sink(overwrite=overwrite)


def find_settings(place: TableOpener, question: Question, given: Mapping[str, str]) -> dict[str, str]:
    """Return the options that the session sets for writes, without those that a call has given itself."""
    named = {ALIASES.get(key.lower(), key.lower()) for key in given}
    return {key: value for key, value in _select_write_settings(place, question).items() if key not in named}


def find_change_settings(place: TableOpener, question: Question) -> dict[str, str]:
    """Return the options that the session sets for DELETE, UPDATE and MERGE.

    New columns of a MERGE are there by then, and the other statements have none.
    """
    found = _select_write_settings(place, question)
    Options(found).sink()  # Raises for a wrong value.
    return {key: value for key, value in found.items() if key not in EVOLVING}


def _select_write_settings(place: TableOpener, question: Question) -> dict[str, str]:
    return {key: value for key, value in place.set_for(question).items() if is_write_option(key)}


def _answer_write_options(place: TableOpener, question: Question, _rows: DataFrame | None) -> dict[str, object]:
    """Return what Spark has to know of the options before it compares the columns of rows with the table's."""
    sink = _parse_sink(place, question, overwrite=True)
    return {"evolves": sink.evolution is not None, REPLACE_WHERE: sink.replace_where}


def _list_table_options(_place: TableOpener, question: Question, _rows: DataFrame | None) -> list[str]:
    """Return those options of a write that are the table's which the write makes."""
    own = Options(question["options"]).sink().table
    return [key for key in question["options"] if key.lower() in own]


ANSWERS = {"write options": _answer_write_options, "table options": _list_table_options}
