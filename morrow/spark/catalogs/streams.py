"""Streams by name: ``readStream.table`` and ``writeStream.toTable``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from morrow.engine.errors import BranchNotFound, DatabaseNotFound, TableNotFound, Unsupported
from morrow.engine.options.declared.connectors import READ_CHANGELOG
from morrow.spark.catalogs.options import STREAMING, check_unset, parse_sink
from morrow.spark.catalogs.questions import Place, Question, build_full_name, parse_name
from morrow.spark.source.messages import STREAMS_BY_NAME
from morrow.spark.source.options import BY_CATALOG, ByCatalog, Options, check_stream_sink, select_stream_options
from morrow.spark.source.planning import StreamPlanner
from morrow.spark.source.settings import STORAGE_PREFIX
from morrow.spark.writing.job import is_committed
from morrow.spark.writing.write import write as write_rows
from morrow.writers.target import WriteTarget

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

AUDIT_LOG = "audit_log"
"""The system table whose stream has row kinds."""
OF_PLACES = ("path", "paths", "branch", BY_CATALOG)


def is_streamable(name: str) -> bool:
    """Return whether the table with this name can be read as a stream."""
    return parse_name(name).system in (None, AUDIT_LOG)


def _stream(place: Place, question: Question, _rows: DataFrame | None) -> dict[str, object]:
    """Return the data source that follows a table, and the options that say what to read and where to start."""
    check_unset(STREAMING, question["state"])
    return {"format": STREAMS_BY_NAME, "options": _build_source_options(place, question["table"], question["options"])}


def _check_stream(place: Place, question: Question, _rows: DataFrame | None) -> None:
    """Check the options of a stream. Tables that do not support streams are left to Spark."""
    try:
        name = build_full_name(question["namespace"], question["name"])
        if is_streamable(name):
            _build_source_options(place, name, question["options"])
    except (TableNotFound, DatabaseNotFound, BranchNotFound):
        return


def _build_source_options(place: Place, called: str, given: Mapping[str, str]) -> dict[str, str]:
    """Return the options of the data source that follows a table."""
    _check(given)
    name = parse_name(called)
    table = place.catalog.table(name.table, branch=name.branch)
    passed = {**select_stream_options(given), "path": table.path}
    if table._metadata.owner.owns:  # the catalog decides its contents, and another process plans the stream
        passed |= ByCatalog.of(place.catalog._catalog, name.table).packed()
    else:
        passed |= {f"{STORAGE_PREFIX}{key}": value for key, value in table._metadata.store.storage_options.items()}
    if name.branch is not None:
        passed["branch"] = name.branch
    if name.system == AUDIT_LOG:
        passed[READ_CHANGELOG.key] = "true"
    if place.access.verify is not None:
        passed["verify"] = place.access.verify
    StreamPlanner(Options(passed))  # reports wrong options here, in a one-line error
    return passed


def _check(given: Mapping[str, str]) -> None:
    """Refuse options that would change the table or columns to read."""
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
    """Write a batch. Return False if it had been written before."""
    assert rows is not None  # every batch comes with rows
    options = question["options"]
    check_stream_sink(options)
    sink = parse_sink(place, question)
    table, user, batch = place.table(question["table"]), sink.commit_user or question["query"], question["batch"]
    if is_committed(WriteTarget.of(table._metadata, user), batch):
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


ANSWERS = {"stream": _stream, "check stream": _check_stream, "write batch": _write_batch}
