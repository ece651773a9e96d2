"""Options of reads and writes of named tables, and session settings that choose the state to read.

Options of a call have precedence over session settings. A setting may choose another state of a table; changes of
its rows are then refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from morrow.engine.errors import Unsupported
from morrow.engine.options.declared import connectors as connector
from morrow.engine.plan.time_travel import TravelArguments
from morrow.queries.incremental import has_change_options
from morrow.spark.catalogs import descriptions
from morrow.spark.catalogs.questions import Question, TableOpener
from morrow.spark.source.options import Options, SinkOptions
from morrow.spark.source.settings import (
    ALIASES,
    EVOLVING,
    OF_TABLE_READS,
    PREFIX,
    REPLACE_WHERE,
    Clock,
    check_zone,
    match_settings,
)
from morrow.writers.target import WRITE_OPTION_KEYS, check_write_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from morrow.tables.table import Table

CHANGING = "changing rows"
STREAMING = "a stream"


@dataclass(frozen=True)
class Chosen:
    """The read options that session settings give for a table; `by` are the full names of these settings."""

    options: Mapping[str, str] = field(default_factory=dict)
    by: tuple[str, ...] = ()

    @classmethod
    def of(cls, settings: Mapping[str, str], catalog: str, database: str, table: str) -> Chosen:
        """Find the settings for a table. Raises as `match_settings`."""
        found = {
            option: key
            for option, key in match_settings(settings, catalog, database, table).items()
            if not is_write_option(option)
        }
        options = {option: settings[key] for option, key in found.items()}
        return cls(options, tuple(f"{PREFIX}{key}" for key in found.values()))

    @property
    def are_of_changes(self) -> bool:
        """Whether the settings choose the changes between two states."""
        return has_change_options(self.options)

    @property
    def of_table_reads(self) -> Chosen:
        """The settings that choose no state: options of `OF_TABLE_READS`."""
        kept = [(key, by) for key, by in zip(self.options, self.by) if key in OF_TABLE_READS]
        return Chosen({key: self.options[key] for key, _ in kept}, tuple(by for _, by in kept))

    def travel(self) -> TravelArguments:
        """Return the state that the settings choose. Raises as `parse_travel`."""
        return parse_travel(self.options, f"the setting {PREFIX}{{}}")


def set_read_options(table: Table, given: Mapping[str, str]) -> Table:
    """Return the table with the options of `OF_TABLE_READS`. Raises `InvalidArgument`."""
    given = {key.lower(): value for key, value in given.items() if key.lower() in OF_TABLE_READS}
    return table.with_options(given) if given else table


def make_refusal(what: str, by: Sequence[str], where: str | None = None) -> Unsupported:
    """Return the error for an operation that is impossible while these settings choose the state."""
    names, verb = " and ".join(by), "choose" if len(by) > 1 else "chooses"
    return Unsupported(f"{what} while {names} {verb} what is read", where=where, hint=f"unset {', '.join(by)}")


def check_unset(what: str, state: Any, where: str | None = None) -> None:
    """Raise `Unsupported` if settings have chosen the state of a question."""
    if by := descriptions.set_by(state):
        raise make_refusal(what, by, where)


INSTEAD = {
    connector.WRITE_HIVE_STYLE_DYNAMIC_PARTITION_ENABLED.key: "name the columns: INSERT INTO t (a, b, day) ..., or "
    "INSERT INTO t BY NAME ...; then their order does not matter",
    connector.LEGACY_TIMESTAMP_MAPPING_ENABLED.key: "TIMESTAMP columns are TIMESTAMP_NTZ in Spark: cast them "
    "in the query, CAST(at AS TIMESTAMP)",
}
"""Settings of the Paimon connector that Morrow refuses -> the alternative."""
TRAVELS = ("as-of", "snapshot", "tag", "timestamp", "watermark", "version")


def parse_travel(
    given: Mapping[str, str], what: str = "the option {!r} of a read by name", *, clock: Clock = check_zone
) -> TravelArguments:
    """Return the state that the options name. It ignores the options that `set_read_options` takes.

    Errors call it `what`; `clock` parses Spark's timestamps.

    Raises `Unsupported`: an option that does not choose a state. `InvalidArgument`: an invalid value of an option.
    """
    other = next(
        (key for key in given if ALIASES.get(key.lower(), key.lower()) not in (*TRAVELS, *OF_TABLE_READS)), None
    )
    if other is not None:
        hint = INSTEAD.get(other.lower(), "set options of a table by ALTER TABLE")
        raise Unsupported(what.format(other), hint=hint)
    return Options(given, clock).read().travel


def is_write_option(option: str) -> bool:
    """Return whether an option found in the settings is a write option."""
    return option in WRITE_OPTION_KEYS or option in EVOLVING


def parse_sink(place: TableOpener, question: Question, *, overwrite: bool = True) -> SinkOptions:
    """Return the options of a write.

    Raises:
        InvalidArgument: an invalid value, or an option of overwrites in another write.
        Unsupported: options that writes do not support.
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
    """Return the options that the session sets for writes, except those given in the call."""
    named = {ALIASES.get(key.lower(), key.lower()) for key in given}
    return {key: value for key, value in _select_write_settings(place, question).items() if key not in named}


def find_change_settings(place: TableOpener, question: Question) -> dict[str, str]:
    """Return the options that the session sets for DELETE, UPDATE and MERGE.

    Options of schema evolution are left out: a MERGE has added its columns by then, other statements add none.
    """
    found = _select_write_settings(place, question)
    Options(found).sink()  # Raises for a wrong value.
    return {key: value for key, value in found.items() if key not in EVOLVING}


def _select_write_settings(place: TableOpener, question: Question) -> dict[str, str]:
    return {key: value for key, value in place.set_for(question).items() if is_write_option(key)}


def _answer_write_options(place: TableOpener, question: Question, _rows: DataFrame | None) -> dict[str, object]:
    """Return the options that Spark needs before it compares the columns of the rows with the table's."""
    sink = _parse_sink(place, question, overwrite=True)
    how = sink.evolution
    retypes = how is not None and (how.widens or how.casts)
    return {"evolves": how is not None, "retypes": retypes, REPLACE_WHERE: sink.replace_where}


def _list_table_options(_place: TableOpener, question: Question, _rows: DataFrame | None) -> list[str]:
    """Return the names of the write options that are options of the table that the write creates."""
    own = Options(question["options"]).sink().table
    return [key for key in question["options"] if key.lower() in own]


ANSWERS = {"write options": _answer_write_options, "table options": _list_table_options}
