"""``morrow read`` and ``morrow sql``: rows as a stream, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from morrow.cli.arguments import Format
from morrow.cli.opening import knows_names, open_catalog, open_table
from morrow.cli.output import TABLE_ROWS, TABLES, sink, write_rows
from morrow.cli.paging import emit
from morrow.cli.progress import working
from morrow.cli.scans import rows_of
from morrow.engine.errors import InvalidArgument
from morrow.engine.plan.time_travel import TravelArguments
from morrow.engine.telling import shown, shown_lines
from morrow.readers.expressions.library import of_query

if TYPE_CHECKING:
    import duckdb

BATCH_ROWS = 65_536
PLANS = (["part", "plan"], ["explain_key", "explain_value"])
"""The columns of EXPLAIN: of Morrow, of DuckDB."""
COUNTED = {"COPY": "rows_copied", "INSERT": "rows_inserted", "UPDATE": "rows_updated", "DELETE": "rows_deleted"}
CREATED = "created in memory, until the command ends"


def read(
    path: str,
    at: TravelArguments,
    columns: Sequence[str] | None,
    where: str | None,
    limit: int | None,
    form: Format,
    output: Path | None,
) -> None:
    """Write the rows of a table, or of a system table: ``PATH$audit_log``."""
    cap = TABLE_ROWS if form in TABLES and limit is None else None
    # One row more than is shown tells whether there are more, and reading stops there.
    scan = rows_of(path, at, columns, where, limit if cap is None else cap + 1)
    with working("planning"):
        scan.prepare()
    write_rows(scan.schema, scan.to_batches(BATCH_ROWS), form, output, cap)


def count(path: str, at: TravelArguments, where: str | None, form: Format, output: Path | None) -> None:
    """Write how many rows a table has: in the format table the number alone."""
    import pyarrow as pa

    with working("counting"):
        found = rows_of(path, at, where=where).count()
    if form is Format.TABLE:
        with sink(output) as out:
            out.write(f"{found}\n".encode())
        return
    batch = pa.record_batch({"count": pa.array([found], pa.int64())})
    write_rows(batch.schema, [batch], form, output)


def sql(
    query: str | None,
    warehouse: str | None,
    tables: Mapping[str, str],
    limit: int | None,
    form: Format,
    output: Path | None,
    yes: bool = False,
) -> None:
    """Write the result of SQL, in which `tables` are views by name and ``paimon_scan`` is known.

    With a `warehouse`, or one said before the command, its tables are known too, and time travel: see `Catalog.sql`.
    Without a query, statements are read from standard input: see `morrow.cli.talking`. On a terminal a person is asked
    before a statement that deletes, unless `yes`.
    """
    import duckdb

    import morrow

    by_name = warehouse is not None or knows_names()
    # Without replacements a misspelt table is an error, not a variable of this module; a catalog looks for itself.
    replacements = str(by_name).lower()
    with closing(duckdb.connect(config={"python_enable_replacements": replacements})) as connection, _duckdb_errors():
        connection.execute("SET GLOBAL TimeZone = 'UTC'")  # of its cursors as well
        morrow.duckdb.install(connection)
        for name, path in tables.items():
            with working(f"opening {name}"):
                open_table(path).scan().to_duckdb(connection).create_view(name)
        catalog = open_catalog(warehouse) if by_name else None

        def run(text: str) -> None:
            if catalog is not None:
                _ask(text, yes)
            with _duckdb_errors(), working("running the query"):
                result = _deed(connection, text) if catalog is None else catalog.sql(text, connection=connection)
            if result is None:
                raise InvalidArgument("the query returns no rows; write a SELECT")
            with _duckdb_errors():
                if form is Format.TABLE and result.columns in PLANS:
                    _write_plan(result, output)
                    return
                cap = TABLE_ROWS if form in TABLES and limit is None else None
                _write_relation(result if limit is None else result.limit(limit), form, output, cap)

        if query is not None:
            run(query)
            return
        if output is not None:
            raise InvalidArgument("--output is for one query: give its text")
        from morrow.cli.talking import talk

        talk(run, catalog, list(tables))


def _deed(connection: duckdb.DuckDBPyConnection, text: str) -> duckdb.DuckDBPyRelation | None:
    """Runs statements of DuckDB's own; its counts get the names that they have with a warehouse."""
    result = connection.sql(text)
    if result is None or result.columns != ["Count"]:
        return result
    kind = connection.extract_statements(text)[-1].type.name
    if kind == "CREATE":
        return connection.sql(f"SELECT '{CREATED}' AS done")
    return result.project(f'"Count" AS {COUNTED[kind]}') if kind in COUNTED else result


def _ask(text: str, yes: bool) -> None:
    """Asks before statements that delete something. Raises `typer.Exit` where the answer is no."""
    from morrow.cli.asking import may
    from morrow.statements.parsing import parsed

    for statement in parsed(text):
        if statement.loss is not None:
            may(statement.loss, yes=yes, dry_run=False)


def _write_plan(result: duckdb.DuckDBPyRelation, output: Path | None) -> None:
    """Writes the parts of a plan as text: their lines are no values of a table."""
    text = "".join(f"{shown(part)}\n{shown_lines(plan)}\n" for part, plan in result.fetchall())
    with sink(output) as out:
        emit(text, out)


def _write_relation(result: duckdb.DuckDBPyRelation, form: Format, output: Path | None, cap: int | None) -> None:
    shown = result if cap is None else result.limit(cap + 1)
    # DuckDB before 1.5 knows the stream by its older name only.
    stream = getattr(shown, "to_arrow_reader", None) or shown.fetch_arrow_reader
    with closing(stream(BATCH_ROWS)) as reader:
        write_rows(reader.schema, reader, form, output, cap)


@contextmanager
def _duckdb_errors() -> Iterator[None]:
    """Raises DuckDB's errors as ours; an error from within ``paimon_scan`` keeps its own message."""
    import duckdb

    try:
        yield
    except duckdb.Error as error:
        raise of_query(error) from error
