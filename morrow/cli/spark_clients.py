"""Commands that start a Spark session: ``morrow spark-sql`` and ``morrow thrift-server``."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import typer

from morrow.cli.arguments import Format
from morrow.cli.output import write_rows
from morrow.cli.targets import open_catalog
from morrow.engine.errors import InvalidArgument
from morrow.engine.plugins import require_extra
from morrow.engine.redaction import clean_text


def run_sql(
    warehouse: str | None, name: str, query: str | None, file: Path | None, conf: Mapping[str, str], form: Format
) -> None:
    """Run the statements of a text, a file or standard input in Spark, and write their rows."""
    with require_extra("spark-sql", "pyspark", "spark"):
        from pyspark.errors import PySparkException

    from morrow.spark.servers import open_session, run_statements
    from morrow.spark.versions import to_arrow

    text = query if query is not None else file.read_text() if file is not None else sys.stdin.read()
    spark = open_session(open_catalog(warehouse), name, conf)
    try:
        for rows in run_statements(spark, text):
            if rows.columns:
                found = to_arrow(rows)
                write_rows(found.schema, found.to_batches(), form)
    except PySparkException as error:
        raise InvalidArgument(clean_text(str(error))) from error
    finally:
        spark.stop()


def serve(warehouse: str | None, name: str, host: str, port: int, conf: Mapping[str, str]) -> None:
    """Serve JDBC clients until a signal ends the process."""
    with require_extra("thrift-server", "pyspark", "spark"):
        from morrow.spark.servers import open_session, start_thrift_server

    spark = open_session(open_catalog(warehouse), name, conf)
    server = start_thrift_server(spark, host, port)
    typer.echo(f"{server.url} serves the catalog {name}; end it by Ctrl-C")
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    with suppress(KeyboardInterrupt):
        ended.wait()
    server.stop()
    spark.stop()
