"""Streams by name: ``readStream.table`` and ``writeStream.toTable``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from morrow.engine.errors import BranchNotFound, DatabaseNotFound, TableNotFound, Unsupported
from morrow.engine.options.declared.spark import READ_CHANGELOG
from morrow.spark.catalogs.chosen import STREAMING, check_unset
from morrow.spark.catalogs.place import Place, Question, full_name, parsed
from morrow.spark.catalogs.write_options import sink_of
from morrow.spark.source.by_catalog import BY_CATALOG, ByCatalog
from morrow.spark.source.option_names import STORAGE_PREFIX
from morrow.spark.source.options import Options, check_stream_sink, options_of_streams
from morrow.spark.source.plain import STREAMS_BY_NAME
from morrow.spark.source.stream import StreamPlanner
from morrow.spark.writing.job import was_committed
from morrow.spark.writing.write import write as write_rows
from morrow.writers.target import WriteTarget

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

AUDIT_LOG = "audit_log"
"""The system table whose stream has the kinds of rows."""
OF_PLACES = ("path", "paths", "branch", BY_CATALOG)


def streams(name: str) -> bool:
    """Returns whether the table of this name can be read as a stream."""
    return parsed(name).system in (None, AUDIT_LOG)


def _stream(place: Place, question: Question, _rows: DataFrame | None) -> dict[str, object]:
    """Returns the data source that follows a table, and the options that say what and from where on."""
    check_unset(STREAMING, question["state"])
    return {"format": STREAMS_BY_NAME, "options": _source(place, question["table"], question["options"])}


def _checked(place: Place, question: Question, _rows: DataFrame | None) -> None:
    """Checks the options of a stream; what is no table that streams is left to Spark."""
    try:
        name = full_name(question["namespace"], question["name"])
        if streams(name):
            _source(place, name, question["options"])
    except (TableNotFound, DatabaseNotFound, BranchNotFound):
        return


def _source(place: Place, called: str, given: Mapping[str, str]) -> dict[str, str]:
    """Returns the options of the data source that follows a table."""
    _check(given)
    name = parsed(called)
    table = place.catalog.table(name.table, branch=name.branch)
    passed = {**options_of_streams(given), "path": table.path}
    if table._metadata.owner.owns:  # its catalog says what is in it, and a stream is planned by another process
        passed |= ByCatalog.of(place.catalog._catalog, name.table).packed()
    else:
        passed |= {f"{STORAGE_PREFIX}{key}": value for key, value in table._metadata.store.storage_options.items()}
    if name.branch is not None:
        passed["branch"] = name.branch
    if name.system == AUDIT_LOG:
        passed[READ_CHANGELOG.key] = "true"
    if place.access.verify is not None:
        passed["verify"] = place.access.verify
    StreamPlanner(Options(passed))  # what is wrong is said here, in one line
    return passed


def _check(given: Mapping[str, str]) -> None:
    """Refuses options that would change which table is read, or its columns."""
    for key in given:
        option = key.lower()
        if option in OF_PLACES or option.startswith(STORAGE_PREFIX):
            raise Unsupported(f"the option {key!r} of a stream by name", hint="it is the catalog that says where")
        if option == "columns":
            raise Unsupported("the option 'columns' of a stream by name", hint="select the columns afterwards")
        if option == READ_CHANGELOG.key and given[key].strip().lower() != "false":
            raise Unsupported(
                f"the option {READ_CHANGELOG.key!r} of a stream by name", hint=f"read `table${AUDIT_LOG}` for row kinds"
            )


def _write_batch(place: Place, question: Question, rows: DataFrame | None) -> bool:
    """Writes a batch; returns whether it had not been written before."""
    assert rows is not None  # every batch has some
    options = question["options"]
    check_stream_sink(options)
    sink = sink_of(place, question)
    table, user, batch = place.table(question["table"]), sink.commit_user or question["query"], question["batch"]
    if was_committed(WriteTarget.of(table._metadata, user), batch):
        return False
    overwrites = question["mode"] == "overwrite"
    write_rows(
        rows,
        table,
        "overwrite" if overwrites else "append",
        dynamic=False if overwrites else None,
        kinds=sink.kinds,
        merge_schema=sink.evolution or False,
        options=sink.table,
        commit_user=user,
        commit_identifier=batch,
    )
    return True


ANSWERS = {"stream": _stream, "check stream": _checked, "write batch": _write_batch}
