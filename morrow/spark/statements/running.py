"""`morrow.spark.sql`: statements over ``pm.db.t``, also where there is no JVM to reach, and on Spark 3.5."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.io.resolve import Roots, given_roots
from morrow.queries.incremental import CHANGES_BY
from morrow.spark.catalogs.install import catalog as make_catalog
from morrow.spark.catalogs.place import Place
from morrow.spark.statements import altering, calling, merging, rows, showing, tables
from morrow.spark.statements.current import current, use
from morrow.spark.statements.queries import QUERIES, Session, query
from morrow.spark.statements.text import Statement
from morrow.spark.versions import check_catalogs
from morrow.spark.views import Access, attached_catalogs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from morrow.catalogs.catalog import Catalog

STATEMENTS: Mapping[str, Callable[[Session, Statement], DataFrame | None]] = {
    "INSERT": rows.insert,
    "DELETE": rows.delete_rows,
    "UPDATE": rows.update_rows,
    "MERGE": merging.merge_rows,
    "TRUNCATE": rows.truncate,
    "CREATE": tables.create,
    "REPLACE": tables.replace,
    "DROP": tables.drop,
    "ALTER": altering.change,
    "COMMENT": altering.comment,
    "CALL": calling.called,
    "SHOW": showing.show,
    "DESCRIBE": showing.describe,
    "DESC": showing.describe,
}
"""By the first word."""
OF_SESSIONS = ("SET", "RESET", "ADD", "LIST", "CLEAR", "DECLARE")
"""How statements begin that name no table, whatever is current."""
ELSEWHERE = (("SHOW", "CATALOGS"), ("SHOW", "FUNCTIONS"), ("DROP", "VIEW"), ("DROP", "TEMPORARY"))
"""Statements about what only Spark has."""


def sql(
    spark: SparkSession,
    text: str,
    *,
    warehouse: str | os.PathLike[str] | Catalog | None = None,
    catalog: str = "pm",
    storage_options: Mapping[str, str] | None = None,
    allowed_roots: Roots = (),
) -> DataFrame:
    """Runs a statement that names tables as ``pm.db.orders``, over Spark Connect and on Spark 3.5 too.

        morrow.spark.sql(spark, "SELECT * FROM pm.db.orders VERSION AS OF 3", warehouse="warehouse").show()

    In a session with a JVM and Spark 4 this is ``spark.sql`` with `morrow.spark.catalog`. Elsewhere queries are Spark's
    own over DataFrames of the tables, read at one state each; INSERT INTO and OVERWRITE, DELETE, UPDATE, MERGE INTO,
    CREATE and DROP of tables and databases, ALTER TABLE, CALL, SHOW and DESCRIBE are the calls of this package. Spark
    runs whatever names no table of a warehouse.

    Args:
        spark: the session.
        text: one statement.
        warehouse: the folder or URL of the warehouse that the statement calls `catalog`, or a `morrow.Catalog`. Without
            it, names are those of `morrow.spark.catalog` and `morrow.spark.attach`.
        catalog: its name in the statement.
        storage_options, allowed_roots: as for `morrow.open`, with a `warehouse`.

    Returns: the rows; none and no columns for a statement that has done something.

    Raises:
        Unsupported: a statement that is not there without the catalog in the JVM.
        InvalidArgument: a statement that does not parse. Others as the call that does the work, and Spark's own.
    """
    if not isinstance(text, str) or not text.strip():
        raise InvalidArgument(f"a statement must be text, not {text!r}")
    access = Access(storage_options, given_roots(allowed_roots))
    if _has_catalogs(spark):
        if warehouse is not None:
            make_catalog(
                spark,
                catalog,
                warehouse=warehouse,
                storage_options=storage_options,
                allowed_roots=allowed_roots,
            )
        return spark.sql(text)
    places = {
        name: Place(spark, name, attached.catalog, attached.access)
        for name, attached in attached_catalogs(spark).items()
        if attached.catalog is not None
    }
    if warehouse is not None:
        places[catalog] = Place(spark, catalog, access.catalog(warehouse), access)
    return run(Session(spark, places), text)


def _has_catalogs(spark: SparkSession) -> bool:
    if not hasattr(spark, "_jsparkSession"):
        return False
    try:
        check_catalogs(spark)
    except Unsupported:
        return False
    return True


def run(session: Session, text: str) -> DataFrame:
    """Runs a statement without a catalog in the JVM. Raises as `sql`."""
    words = Statement(text)
    if words.has("USE") or words.has("SET", "CATALOG"):
        return _nothing(session) if use(session, words) else session.spark.sql(text)
    first = words.word()
    if not _names_tables(session, text) and (current(session) is None or _is_of_spark(words)):
        return session.spark.sql(text)
    if first in QUERIES:
        return query(session, text.rstrip().rstrip(";"))
    done = tables.paimons(session, text)
    if done is not None:
        return done
    if first not in STATEMENTS:
        raise Unsupported(f"the statement {first} here", hint=f"there are SELECT, {', '.join(STATEMENTS)}")
    words.has(first)
    found = STATEMENTS[first](session, words)
    return _nothing(session) if found is None else found


def _nothing(session: Session) -> DataFrame:
    return session.spark.range(1).limit(0).select()


def _is_of_spark(words: Statement) -> bool:
    return words.word() in OF_SESSIONS or any(words.comes(*begin) for begin in ELSEWHERE)


def _names_tables(session: Session, text: str) -> bool:
    """Whether a statement names a warehouse anywhere, or a function of changes."""
    return any(path[0] in session.places or path[0].lower() in CHANGES_BY for _, path in Statement(text).paths())
