"""Statements run: ``run(context, statement)``, by the kind of the statement."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from morrow.engine.errors import InvalidArgument
from morrow.queries.querying import Prepared, evaluated, prepared, related
from morrow.statements import altering, calling, changing, merging, rows, showing, tables, views
from morrow.statements import row_statements as rs
from morrow.statements import statement as st
from morrow.statements import table_statements as ts
from morrow.statements.context import Context
from morrow.statements.explaining import explain

if TYPE_CHECKING:
    import duckdb


def run(context: Context, statement: st.Statement) -> duckdb.DuckDBPyRelation:
    """Runs a statement; returns its rows, or what it has done."""
    done: duckdb.DuckDBPyRelation = RUNNERS[type(statement)](context, statement)
    return done


def _query(context: Context, statement: st.Query) -> duckdb.DuckDBPyRelation:
    found = prepared(
        statement.text,
        context.sources,
        database=context.database,
        connection=context.connection,
        parameters=context.parameters,
    )
    return related(found, context.connection)


def _copy(context: Context, statement: st.CopyTo) -> duckdb.DuckDBPyRelation:
    """Writes the rows of a query to a file, in a format that DuckDB knows."""
    import duckdb
    import pyarrow as pa

    found = context.prepared(statement.query)
    copied = Prepared(f"COPY ({found.text}\n) TO {statement.target}", found.variables, {})
    done = evaluated(copied, context.connection.cursor().execute, {})
    assert isinstance(done, duckdb.DuckDBPyConnection)
    first = done.fetchone()
    if first is None:
        raise InvalidArgument("COPY: DuckDB tells no number of rows")
    return context.relation(pa.table({"rows_copied": pa.array([first[0]], pa.int64())}))


RUNNERS: Mapping[type[st.Statement], Callable[[Context, Any], Any]] = {
    st.Query: _query,
    st.Explain: explain,
    st.CopyTo: _copy,
    st.Use: tables.use,
    ts.CreateDatabase: tables.create_database,
    ts.AlterDatabase: tables.alter_database,
    ts.DropDatabase: tables.drop_database,
    ts.CreateTable: tables.create_table,
    ts.CreateTableLike: tables.create_table_like,
    ts.DropTable: tables.drop_table,
    ts.RenameTable: tables.rename_table,
    ts.AlterTable: altering.alter_table,
    ts.DropPartitions: tables.drop_partitions,
    ts.CreateTag: tables.create_tag,
    ts.DeleteTags: tables.delete_tags,
    ts.RenameTag: tables.rename_tag,
    views.CreateView: views.create_view,
    views.DropView: views.drop_view,
    ts.Analyze: tables.analyze,
    ts.AnalyzeTables: tables.analyze_tables,
    rs.Insert: rows.insert,
    rs.Delete: changing.delete,
    rs.Update: changing.update,
    ts.Truncate: changing.truncate,
    rs.MergeInto: merging.merge,
    st.Show: showing.show,
    st.Describe: showing.describe,
    st.DescribeDatabase: showing.describe_database,
    st.CallProcedure: calling.call_procedure,
}
"""What runs each kind of statement."""
