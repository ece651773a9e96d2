"""Statements that define databases, tables and tags, run by the answers of the catalog in the JVM."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlglot.tokenizer_core import TokenType

from morrow.engine.catalog.databases import COMMENT as DATABASE_COMMENT
from morrow.engine.catalog.databases import LOCATION, OWNER
from morrow.engine.errors import AlreadyExists, DatabaseNotFound, InvalidArgument, TableNotFound, Unsupported
from morrow.engine.structs import replace
from morrow.spark.catalogs import ddl
from morrow.spark.catalogs.ddl import CURRENT, DATABASE_ANSWERS, TABLE_ANSWERS
from morrow.spark.catalogs.questions import Place
from morrow.spark.catalogs.statements import run_statement
from morrow.spark.statements.dml import DEFAULT, evaluate_partition
from morrow.spark.statements.dml import insert as insert_rows
from morrow.spark.statements.queries import Session, complete_database, complete_path, get_current, query
from morrow.spark.statements.tokens import SparkWords, replace_parts
from morrow.statements import statement as st
from morrow.statements.ddl_parser import COMMENT_OPTION
from morrow.writers.operations.partition_filters import check_new_partitions
from morrow.writers.target import WriteTarget

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

INSIDE = (TokenType.L_PAREN, TokenType.LT)
OUTSIDE = (TokenType.R_PAREN, TokenType.GT)
"""Tokens that enclose the members of a type."""


def run_on_table(session: Session, statement: st.CreateTag | st.DeleteTags | st.RenameTag | st.Analyze) -> DataFrame:
    """Execute a statement that the catalog in the JVM knows, too."""
    place, name = session.named(statement.table)
    return run_statement(place, statement, name)


def analyze_tables(session: Session, statement: st.AnalyzeTables) -> DataFrame:
    place, name = find_database(session, statement.database)
    return run_statement(place, statement, name)


def create_table_like(session: Session, statement: st.CreateTableLike) -> DataFrame:
    place, name = session.named(statement.table)
    source = complete_path(session, statement.source)
    if session.named(source)[0] is not place:
        raise Unsupported("CREATE TABLE LIKE a table of another catalog")
    return run_statement(place, replace(statement, source=source[1:]), name)


def create_table(session: Session, statement: st.CreateTable) -> None:
    """Execute CREATE TABLE, CREATE OR REPLACE TABLE or REPLACE TABLE."""
    made = _Made.of(session, statement)
    exists = statement.replace and made.exists()
    if statement.must_exist and not exists:
        raise TableNotFound(f"there is no table {'.'.join(made.path)} to replace; CREATE OR REPLACE TABLE makes one")
    if exists:
        made.replace(session)
        return
    try:
        made.create(session)
    except AlreadyExists:
        if not statement.if_not_exists:
            raise


@dataclass(frozen=True)
class _Made:
    """A table to create: its name, the question for the catalog, and the query that fills the table."""

    place: Place
    path: tuple[str, ...]
    question: dict[str, Any]
    chosen: str | None

    @classmethod
    def of(cls, session: Session, statement: st.CreateTable) -> _Made:
        path = complete_path(session, statement.table)
        place, _ = session.named(path)
        schema = _parse_columns(session, statement.columns) if statement.columns is not None else None
        rows = None if statement.query is None else query(session, statement.query)
        own = {"provider": statement.provider, "comment": statement.comment}
        question = {
            "namespace": list(path[1:2]),
            "name": path[2],
            "schema": (schema or _to_nullable(rows)).json(),
            "partitions": [[name] for name in statement.partition_keys],
            "properties": {**statement.options, **{key: value for key, value in own.items() if value is not None}},
        }
        return cls(place, path, question, statement.query)

    def exists(self) -> bool:
        return ".".join(self.path[1:]) in self.place.catalog

    def create(self, session: Session) -> None:
        TABLE_ANSWERS["create table"](self.place, self.question, None)
        if self.chosen is not None:
            _fill(session, self.place, self.path, self.chosen)

    def replace(self, session: Session) -> None:
        """Create the table under a temporary name, fill it, and give it the name of the existing table."""
        staged: Any = TABLE_ANSWERS["stage table"](self.place, {**self.question, "how": "replace"}, None)
        if self.chosen is not None:
            _fill(session, self.place, (self.place.name, *staged["table"].split(".", 1)), self.chosen)
        TABLE_ANSWERS["publish table"](self.place, {"staged": staged["staged"], "table": staged["table"]}, None)


def _fill(session: Session, place: Place, path: tuple[str, ...], chosen: str) -> None:
    try:
        insert_rows(session, st.Insert(path, chosen))
    except BaseException:
        place.catalog.drop_table(".".join(path[1:]), ignore_if_not_exists=True)
        raise


def _parse_columns(session: Session, columns: str) -> StructType:
    """Return the columns that CREATE TABLE defines, with default values in Spark's metadata. Raises as
    `parse_schema`.
    """
    from pyspark.sql.types import StructField, StructType

    plain, defaults = _extract_defaults(columns)
    return StructType(
        [
            StructField(f.name, f.dataType, f.nullable, {**f.metadata, CURRENT: defaults[f.name]})
            if f.name in defaults
            else f
            for f in parse_schema(session, plain).fields
        ]
    )


def _extract_defaults(columns: str) -> tuple[str, dict[str, str]]:
    """Return column definitions without DEFAULT, and the removed defaults by column.

    Spark's type parser does not support DEFAULT.
    """
    words, cut, defaults = SparkWords(columns), {}, dict[str, str]()
    if not any(token.text.upper() == DEFAULT for token in words.tokens):
        return columns, defaults
    while not words.is_at_end():
        name, depth = words.name(), 0
        while (token := words.next) is not None and (depth or token.token_type is not TokenType.COMMA):
            if depth == 0 and words.has(DEFAULT):
                start = words.start(words.at - 1)
                defaults[name] = words.until(",", "NOT", "COMMENT")
                cut[start, words.taken] = ""
                continue
            depth += (token.token_type in INSIDE) - (token.token_type in OUTSIDE)
            words.at += 1
        words.takes(TokenType.COMMA)
    return replace_parts(columns, cut), defaults


def parse_schema(session: Session, columns: str) -> StructType:
    """Parse column definitions by Spark. Raises `InvalidArgument`."""
    from pyspark.errors import PySparkException

    try:
        return session.spark.createDataFrame([], columns).schema
    except PySparkException as error:
        raise InvalidArgument(f"({columns}): {str(error).strip().partition(chr(10))[0]}") from error


def _to_nullable(rows: DataFrame | None) -> StructType:
    from pyspark.sql.types import StructField, StructType

    assert rows is not None
    return StructType([StructField(field.name, field.dataType) for field in rows.schema.fields])


def drop_table(session: Session, statement: st.DropTable) -> None:
    place, table = session.named(statement.table)
    place.catalog.drop_table(table, ignore_if_not_exists=statement.if_exists)


def rename_table(session: Session, statement: st.RenameTable) -> None:
    path = complete_path(session, statement.table)
    place, name = session.named(path)
    to = statement.to
    if len(to) == 3 and session.place(to) is not place:
        raise Unsupported("renaming a table into another catalog")
    place.catalog.rename_table(name, ".".join((path[1], to[0]) if len(to) == 1 else to[-2:]))


def drop_partitions(session: Session, statement: st.DropPartitions) -> None:
    place, name = session.named(statement.table)
    place.table(name).drop_partition(*(evaluate_partition(session, each) for each in statement.partitions))


def add_partitions(session: Session, statement: st.AddPartitions) -> None:
    place, name = session.named(statement.table)
    target = WriteTarget.of(place.table(name)._metadata)
    check_new_partitions(target, [evaluate_partition(session, each) for each in statement.partitions])


def alter_table(session: Session, statement: st.AlterTable) -> None:
    _alter(session, statement.table, [_describe_change(session, change) for change in statement.changes])


def set_column_comment(session: Session, statement: st.CommentColumn) -> None:
    """Execute COMMENT ON COLUMN; a column may be a member of another."""
    path = statement.path
    count = 3 if path[0] in session.places else len(path) - 1
    if len(path) <= count:
        raise InvalidArgument(f"COMMENT ON COLUMN {'.'.join(path)}: the name of a column is missing")
    change = {"verb": "set comment", "path": list(path[count:]), "comment": statement.comment}
    _alter(session, path[:count], [change])


def _alter(session: Session, table: st.Name, changes: list[dict[str, Any]]) -> None:
    place, name = session.named(table)
    database, table_name = name.split(".", 1)
    question = {"namespace": [database], "name": table_name, "changes": changes}
    ddl.ALTER_ANSWERS["alter table"](place, question, None)


def _describe_change(session: Session, change: st.AlterChange) -> dict[str, Any]:
    """Return a change in the form that `morrow.spark.catalogs.ddl` accepts."""
    path, value = list(change.path), change.value
    if change.verb in ("set table comment", "set option", "unset option"):
        key = COMMENT_OPTION if change.verb == "set table comment" else path[0]
        return (
            {"verb": "unset option", "key": key}
            if value is None
            else {"verb": "set option", "key": key, "value": value}
        )
    told: dict[str, Any] = {"verb": change.verb, "path": path}
    if change.new is not None:
        if any(token.text.upper() == DEFAULT for token in SparkWords(change.new.definition).tokens):
            raise Unsupported("ADD COLUMN with DEFAULT", hint="add the column, then ALTER COLUMN ... SET DEFAULT")
        schema = _parse_type(session, change.new.definition)
        about = {"nullable": schema[0].nullable, "comment": schema[0].metadata.get("comment")}
        return {**told, "type": schema.json(), **about, **_describe_position(change.new.after)}
    match change.verb:
        case "drop column":
            return {**told, "if exists": change.if_exists}
        case "rename column":
            return {**told, "to": value}
        case "set type":
            return {**told, "type": _parse_type(session, value or "").json()}
        case "set comment":
            return {**told, "comment": value}
        case "set default":
            return {**told, "default": value}
        case "move column":
            return {**told, **_describe_position(value)}
        case _:
            return {"verb": "set nullable", "path": path, "nullable": change.verb == "drop not null"}


def _describe_position(after: str | None) -> dict[str, object]:
    """Return the position of a column: none, the first, or after another."""
    return {} if after is None else {"after": after} if after else {"first": True}


def _parse_type(session: Session, text: str) -> StructType:
    return parse_schema(session, f"type {text}")


SHOWN = {DATABASE_COMMENT: "Comment", LOCATION: "Location", OWNER: "Owner"}
"""Spark's labels for properties, in Spark's order."""


def find_database(session: Session, path: tuple[str, ...]) -> tuple[Place, str]:
    """Return the warehouse and the database of a name. Raises `DatabaseNotFound`."""
    path = complete_database(session, path)
    place = session.place(path)
    if place is None or len(path) != 2:
        raise DatabaseNotFound(f"there is no database {'.'.join(path)}; they are named catalog.database")
    return place, path[1]


def require_current(session: Session) -> tuple[str, str]:
    """Return the current catalog and database. Raises `InvalidArgument` if the current catalog is Spark's."""
    found = get_current(session)
    if found is None:
        raise InvalidArgument(f"of which catalog? Name one, or USE one of {', '.join(session.places)}")
    return found


def create_database(session: Session, statement: st.CreateDatabase) -> None:
    place, name = find_database(session, statement.database)
    place.catalog.create_database(name, properties=statement.properties, ignore_if_exists=statement.if_not_exists)


def alter_database(session: Session, statement: st.AlterDatabase) -> None:
    place, name = find_database(session, statement.database)
    changes = [*statement.properties.items(), *((key, None) for key in statement.removed)]
    DATABASE_ANSWERS["alter database"](place, {"database": name, "changes": changes}, None)


def drop_database(session: Session, statement: st.DropDatabase) -> None:
    place, name = find_database(session, statement.database)
    place.catalog.drop_database(name, cascade=statement.cascade, ignore_if_not_exists=statement.if_exists)


def describe_database(session: Session, statement: st.DescribeDatabase) -> DataFrame:
    place, name = find_database(session, statement.database)
    told: Any = DATABASE_ANSWERS["database"](place, {"database": name}, None)
    if not isinstance(told, Mapping):
        raise DatabaseNotFound(f"there is no database {place.name}.{name}")
    rows = [("Catalog Name", place.name), ("Namespace Name", name)]
    rows += [(word, told[key]) for key, word in SHOWN.items() if told.get(key)]
    if statement.extended:
        others = ", ".join(f"({key},{value})" for key, value in sorted(told.items()) if key not in SHOWN)
        rows.append(("Properties", f"({others})" if others else ""))
    return session.spark.createDataFrame(rows, "info_name STRING, info_value STRING")
