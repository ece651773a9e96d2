"""Options of writes by name: those of the call, and before them the settings of the session."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from morrow.engine.errors import Unsupported
from morrow.spark.catalogs.place import Opens, Question
from morrow.spark.source.option_names import ALIASES, EVOLVING, REPLACE_WHERE
from morrow.spark.source.option_values import SinkOptions
from morrow.spark.source.options import Options
from morrow.writers.operations.overriding import OF_A_WRITE, check_heeded

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def concerns_writes(option: str) -> bool:
    """Returns whether an option that the settings have says how rows are written."""
    return option in OF_A_WRITE or option in EVOLVING


def sink_of(place: Opens, question: Question, *, overwrite: bool = True) -> SinkOptions:
    """Returns the options of a write.

    Raises:
        InvalidArgument: a value that an option cannot have, or an option of an overwrite without one.
        Unsupported: options that a write does not heed.
    """
    sink = _sink(place, question, overwrite=overwrite)
    check_heeded(sink.table)
    if sink.replace_where is not None:
        raise Unsupported(
            "replaceWhere of this write",
            hint="use writeTo(...).overwrite(condition), and partitionOverwriteMode = static",
        )
    if sink.dynamic_overwrite is not None:
        raise Unsupported("partitionOverwriteMode as an option", hint="SET spark.sql.sources.partitionOverwriteMode")
    return sink


def _sink(place: Opens, question: Question, *, overwrite: bool) -> SinkOptions:
    given = question.get("options", {})
    return Options({**settings_beside(place, question, given), **given}).sink(overwrite=overwrite)


def settings_beside(place: Opens, question: Question, given: Mapping[str, str]) -> dict[str, str]:
    """Returns the options that the session sets for writes, without those that a call has given itself."""
    named = {ALIASES.get(key.lower(), key.lower()) for key in given}
    return {key: value for key, value in _settings(place, question).items() if key not in named}


def settings_of_changes(place: Opens, question: Question) -> dict[str, str]:
    """Return the options that the session sets for DELETE, UPDATE and MERGE.

    New columns of a MERGE are there by then, and the other statements have none.
    """
    found = _settings(place, question)
    Options(found).sink()  # Raises for a wrong value.
    return {key: value for key, value in found.items() if key not in EVOLVING}


def _settings(place: Opens, question: Question) -> dict[str, str]:
    return {key: value for key, value in place.set_for(question).items() if concerns_writes(key)}


def _asked(place: Opens, question: Question, _rows: DataFrame | None) -> dict[str, object]:
    """Returns what Spark has to know of the options before it compares the columns of rows with the table's."""
    sink = _sink(place, question, overwrite=True)
    return {"evolves": sink.evolution is not None, REPLACE_WHERE: sink.replace_where}


def _of_tables(_place: Opens, question: Question, _rows: DataFrame | None) -> list[str]:
    """Returns those options of a write that are the table's which the write makes."""
    own = Options(question["options"]).sink().table
    return [key for key in question["options"] if key.lower() in own]


ANSWERS = {"write options": _asked, "table options": _of_tables}
