"""Views of a catalog in Spark: loaded as Spark's own views, created, changed, listed and described.

Spark parses the text of a view and resolves its names in the view's own database. A view keeps its text for Spark as
the dialect ``spark``, as Java's does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from morrow.engine.catalog.protocol import View, has_views, require_views
from morrow.engine.errors import AlreadyExists, DatabaseNotFound, InvalidArgument, MorrowError, TableNotFound
from morrow.engine.format.types import DataField
from morrow.engine.structs import replace
from morrow.spark.catalogs.questions import Place, Question
from morrow.spark.catalogs.syntax import SPARK_SYNTAX
from morrow.spark.expressions import quote_name
from morrow.spark.types import to_paimon_fields, to_spark_schema
from morrow.statements.copy_parser import check_reading
from morrow.statements.ddl import change_options, name_columns
from morrow.statements.execution import match_names
from morrow.statements.statement import AlterView, CreateView, DropView, Show, format_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DIALECT, HIVE = "spark", "hive"


def load_view(place: Place, name: str) -> dict[str, object] | None:
    """Describe a view for Spark; None if there is none of this name."""
    if not has_views(place.catalog._catalog):
        return None
    try:
        view = place.catalog.view(name)
    except (TableNotFound, DatabaseNotFound, InvalidArgument):
        return None
    text, names = _fit_columns(place, name, _get_text(view), [field.name for field in view.fields])
    return {"view": text, "columns": names, "schema": to_spark_schema(view.fields).json(), "name": name}


def _get_text(view: View) -> str:
    return view.dialects.get(DIALECT) or view.dialects.get(HIVE) or view.query


def _fit_columns(place: Place, name: str, text: str, fields: Sequence[str]) -> tuple[str, list[str]]:
    """Return a query and the names of its columns that are the view's columns, in their order.

    A query of ``*`` may have got more columns since the view was created, so that columns are found by name if the
    tables have all of them. Columns of other queries are found by position.
    """
    try:
        tree = sqlglot.parse_one(text, dialect="spark")
    except SqlglotError:
        return name_columns(text, fields, quote_name), list(fields)
    if isinstance(tree, exp.Query) and tree.is_star and {*fields} <= _list_columns(place, name, tree):
        return text, list(fields)
    return name_columns(text, fields, quote_name), list(fields)


def _list_columns(place: Place, name: str, tree: exp.Expr) -> set[str]:
    """Return the columns of the tables that a query names."""
    found: set[str] = set()
    for table in tree.find_all(exp.Table):
        try:
            schema = place.table(f"{table.db or name.partition('.')[0]}.{table.name}")._newest
        except MorrowError:
            continue
        found |= {*schema.by_name}
    return found


def create_view(place: Place, name: str, statement: CreateView) -> None:
    """Create a view of the columns that its query has in Spark now.

    Raises:
        AlreadyExists: a table or view has this name. InvalidArgument: no query, or another number of columns.
        Unsupported: a catalog without views.
    """
    catalog = require_views(place.catalog._catalog)
    database, _, short = name.partition(".")
    there = short in catalog.views(database)
    if there and statement.if_not_exists:
        return
    if there and not statement.replace:
        raise AlreadyExists(f"there is a view {name} already; write CREATE OR REPLACE VIEW")
    view = _make_view(place, database, statement)
    if there:
        place.catalog.replace_view(name, view)
    else:
        catalog.create_view(name, view)


def _make_view(place: Place, database: str, statement: CreateView) -> View:
    fields = _find_fields(place, database, statement.query)
    if statement.columns:
        if len(statement.columns) != len(fields):
            raise InvalidArgument(f"CREATE VIEW: {len(statement.columns)} names for {len(fields)} columns")
        fields = [
            replace(field, name=name, description=comment)
            for field, (name, comment) in zip(fields, statement.columns, strict=True)
        ]
    options = dict(statement.options)
    return View(statement.query, tuple(fields), {DIALECT: statement.query}, statement.comment, options)


def _find_fields(place: Place, database: str, query: str) -> list[DataField]:
    """Return the columns of a query whose names are those of a database. Raises `InvalidArgument` for no query."""
    check_reading(query, SPARK_SYNTAX)
    with using_database(place, database):
        return [*to_paimon_fields(place.spark.sql(query).schema)]


@contextmanager
def using_database(place: Place, database: str) -> Iterator[None]:
    """Make a database of the catalog the current one."""
    names = place.spark.catalog
    catalog, current = names.currentCatalog(), names.currentDatabase()
    names.setCurrentCatalog(place.name)
    names.setCurrentDatabase(database)
    try:
        yield
    finally:
        names.setCurrentCatalog(catalog)
        names.setCurrentDatabase(current)


def alter_view(place: Place, name: str, statement: AlterView) -> None:
    """Change the query, name or options of a view."""
    view, database = place.catalog.view(name), name.partition(".")[0]
    if statement.query is not None:
        fields = _find_fields(place, database, statement.query)
        changed = replace(view, query=statement.query, fields=tuple(fields), dialects={DIALECT: statement.query})
        place.catalog.replace_view(name, changed)
        return
    to = statement.to[1:] if statement.to[:1] == (place.name,) and len(statement.to) > 1 else statement.to
    new_name = format_name(to if len(to) != 1 else (database, *to)) if to else None
    place.catalog.replace_view(name, change_options(view, statement), new_name=new_name)


def drop_view(place: Place, name: str, statement: DropView) -> None:
    """Drop a view."""
    place.catalog.drop_view(name, ignore_if_not_exists=statement.if_exists)


def show_views(place: Place, database: str, statement: Show) -> DataFrame:
    """List the views of a database; none in a catalog without views, as in Paimon."""
    catalog = place.catalog._catalog
    names = require_views(catalog).views(database) if has_views(catalog) else []
    rows = [(database, view, False) for view in match_names(names, statement.like)]
    columns = "namespace STRING NOT NULL, viewName STRING NOT NULL, isTemporary BOOLEAN NOT NULL"
    return place.spark.createDataFrame(rows, columns)


def _describe(place: Place, question: Question, _rows: DataFrame | None) -> list[list[str | None]]:
    """Return the rows of DESCRIBE: the columns and, if extended, the view."""
    name = question["view"]
    view = place.catalog.view(name)
    rows: list[list[str | None]] = [[field.name, field.type.text(), field.description] for field in view.fields]
    if not question["extended"]:
        return rows
    names = ", ".join(field.name for field in view.fields)
    options = ", ".join(f"{key}={value}" for key, value in sorted(view.options.items()))
    about = {
        "": "",
        "# Detailed View Information": "",
        "Name": name,
        "Comment": view.comment or "",
        "View Text": _get_text(view),
        "View Query Output Columns": f"[{names}]",
        "View Properties": f"[{options}]",
    }
    return rows + [[key, value, ""] for key, value in about.items()]


def _show_create(place: Place, question: Question, _rows: DataFrame | None) -> str:
    """Return the statement that creates a view."""
    name = question["view"]
    view = place.catalog.view(name)
    columns = [
        _quote_if_needed(field.name) + (f" COMMENT '{_escape(field.description)}'" if field.description else "")
        for field in view.fields
    ]
    parts = [f"CREATE VIEW {'.'.join(map(_quote_if_needed, name.split('.', 1)))} (\n  " + ",\n  ".join(columns) + ")\n"]
    if view.comment is not None:
        parts.append(f"COMMENT '{_escape(view.comment)}'\n")
    if view.options:
        pairs = (f"'{_escape(key)}' = '{_escape(value)}'" for key, value in sorted(view.options.items()))
        parts.append("TBLPROPERTIES (\n  " + ",\n  ".join(pairs) + ")\n")
    return "".join([*parts, f"AS\n{_get_text(view)}\n"])


def _quote_if_needed(name: str) -> str:
    return name if name.isidentifier() and name.isascii() else quote_name(name)


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'")


ANSWERS: Mapping[str, Any] = {"describe view": _describe, "show create view": _show_create}
