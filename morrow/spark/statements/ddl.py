"""DDL statements, run by the answers of the catalog: CREATE, REPLACE, DROP, ALTER, USE, COMMENT ON, tags, ANALYZE."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlglot.tokenizer_core import TokenType

from morrow.engine.catalog.databases import COMMENT as DATABASE_COMMENT
from morrow.engine.catalog.databases import LOCATION, OWNER
from morrow.engine.errors import AlreadyExists, DatabaseNotFound, InvalidArgument, TableNotFound, Unsupported
from morrow.spark.catalogs import ddl, statements
from morrow.spark.catalogs.ddl import CURRENT, DATABASE_ANSWERS, TABLE_ANSWERS
from morrow.spark.catalogs.questions import Place
from morrow.spark.catalogs.syntax import ALL_ANALYZED, CONSTRAINT, pack_statement, parse_statement
from morrow.spark.expressions import quote_name
from morrow.spark.statements.dml import DEFAULT, parse_partition
from morrow.spark.statements.dml import insert as insert_rows
from morrow.spark.statements.queries import Session, complete_database, complete_path, get_current, query
from morrow.spark.statements.tokens import Statement, replace_parts
from morrow.statements.ddl_parser import (
    COMMENT_OPTION,
    parse_database_changes,
    parse_database_properties,
    take_text_or_null,
)
from morrow.statements.tokens import DATABASE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

INSIDE = (TokenType.L_PAREN, TokenType.LT)
OUTSIDE = (TokenType.R_PAREN, TokenType.GT)
"""Tokens that enclose the members of a type."""


def run_paimon_statement(session: Session, text: str) -> DataFrame | None:
    """Execute a statement on tags, ANALYZE TABLE or CREATE TABLE LIKE; return None for other statements."""
    found = parse_statement(text)
    if found is None:
        return None
    is_database = found.verb == ALL_ANALYZED
    path = complete_database(session, found.table) if is_database else complete_path(session, found.table)
    if session.place(path) is None:
        return None
    if found.verb == CONSTRAINT:
        raise Unsupported("ALTER TABLE with CONSTRAINT here")
    if is_database:
        place, name = find_database(session, path)
        return statements.run(place, pack_statement(found, [name]))
    place, name = session.named(path)
    if "source" in found.parts:
        source = complete_path(session, tuple(found.parts["source"]))
        other, _ = session.named(source)
        if other is not place:
            raise Unsupported("CREATE TABLE LIKE a table of another catalog")
        found = type(found)(found.verb, found.table, {**found.parts, "source": list(source[1:])})
    return statements.run(place, pack_statement(found, name.split(".", 1)))


def create_table(session: Session, words: Statement) -> None:
    """Execute CREATE DATABASE or CREATE [OR REPLACE] TABLE."""
    if words.one_of(*DATABASE):
        create_database(session, words)
        return
    replaces = words.has("OR", "REPLACE")
    if not words.has("TABLE"):
        raise Unsupported(f"CREATE {words.word()} here", hint="CREATE DATABASE and CREATE TABLE are there")
    ignores = not replaces and words.has("IF", "NOT", "EXISTS")
    made = _Made.of(session, words)
    if replaces and made.exists():
        made.replace(session)
        return
    try:
        made.create(session)
    except AlreadyExists:
        if not ignores:
            raise


def replace_table(session: Session, words: Statement) -> None:
    """Execute REPLACE TABLE."""
    if not words.has("TABLE"):
        raise Unsupported(f"REPLACE {words.word()} here", hint="REPLACE TABLE is there")
    made = _Made.of(session, words)
    if not made.exists():
        raise TableNotFound(f"there is no table {'.'.join(made.path)} to replace; CREATE OR REPLACE TABLE makes one")
    made.replace(session)


@dataclass(frozen=True)
class _Made:
    """A table to create: its name, the question for the catalog, and the query that fills the table."""

    place: Place
    path: tuple[str, ...]
    question: dict[str, Any]
    chosen: str | None

    @classmethod
    def of(cls, session: Session, words: Statement) -> _Made:
        path = complete_path(session, words.path())
        place, _ = session.named(path)
        columns = words.parenthesized() if words.word() == "(" else None
        partitions, properties, chosen = _parse_clauses(words)
        schema = _parse_columns(session, columns) if columns is not None else None
        rows = None if chosen is None else query(session, chosen)
        if (schema is None) == (rows is None):
            raise InvalidArgument(f"CREATE TABLE {'.'.join(path)}: give either columns or a query")
        question = {
            "namespace": list(path[1:2]),
            "name": path[2],
            "schema": (schema or _to_nullable(rows)).json(),
            "partitions": [[name] for name in partitions],
            "properties": properties,
        }
        return cls(place, path, question, chosen)

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
        insert_rows(session, Statement(f"INTO {'.'.join(map(quote_name, path))} {chosen}"))
    except BaseException:
        place.catalog.drop_table(".".join(path[1:]), ignore_if_not_exists=True)
        raise


def _parse_clauses(words: Statement) -> tuple[list[str], dict[str, str], str | None]:
    """Parse the clauses after the columns: the partition columns, the properties, and the query."""
    partitions: list[str] = []
    properties: dict[str, str] = {}
    while not words.is_at_end():
        if words.has("AS"):
            return partitions, properties, words.rest()
        if words.word() in ("SELECT", "WITH", "VALUES", "FROM"):
            return partitions, properties, words.rest()
        if words.has("USING"):
            properties["provider"] = words.name()
        elif words.has("PARTITIONED", "BY"):
            partitions = [_parse_column(text) for text in words.expressions()]
        elif words.has("COMMENT"):
            properties["comment"] = words.text_if_any() or ""
        elif words.has("TBLPROPERTIES"):
            properties |= words.properties()
        elif words.word() in ("LOCATION", "OPTIONS", "CLUSTERED", "CLUSTER"):
            raise Unsupported(f"CREATE TABLE with {words.word()}", hint="write TBLPROPERTIES")
        else:
            raise words.unexpected("a clause of CREATE TABLE, or the end")
    return partitions, properties, None


def _parse_column(text: str) -> str:
    words = Statement(text)
    name = words.name()
    if not words.is_at_end():
        raise Unsupported(f"PARTITIONED BY {text}", hint="partition by columns of the table")
    return name


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
    words, cut, defaults = Statement(columns), {}, dict[str, str]()
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


def drop_table(session: Session, words: Statement) -> None:
    """Execute DROP DATABASE | TABLE."""
    if words.one_of(*DATABASE):
        drop_database(session, words)
        return
    if not words.has("TABLE"):
        raise Unsupported(f"DROP {words.word()} here", hint="DROP DATABASE and DROP TABLE are there")
    ignores = words.has("IF", "EXISTS")
    place, table = session.named(words.path())
    words.has("PURGE")
    words.end()
    place.catalog.drop_table(table, ignore_if_not_exists=ignores)


def alter_table(session: Session, words: Statement) -> None:
    """Execute ALTER TABLE | DATABASE."""
    if words.one_of(*DATABASE):
        alter_database(session, words)
        return
    if not words.has("TABLE"):
        raise Unsupported(f"ALTER {words.word()} here", hint="ALTER TABLE and ALTER DATABASE are there")
    path = complete_path(session, words.path())
    place, name = session.named(path)
    if words.has("RENAME", "TO"):
        to = words.path()
        words.end()
        if len(to) == 3 and session.place(to) is not place:
            raise Unsupported("renaming a table into another catalog")
        place.catalog.rename_table(name, ".".join((path[1], to[0]) if len(to) == 1 else to[-2:]))
        return
    if words.has("DROP", "PARTITION"):
        specs = [parse_partition(session, words)]
        while words.has(","):
            words.has("PARTITION")
            specs.append(parse_partition(session, words))
        words.end()
        place.table(name).drop_partition(*specs)
        return
    changes = _parse_changes(session, words)
    words.end()
    question = {"namespace": list(path[1:2]), "name": path[2], "changes": changes}
    ddl.ALTER_ANSWERS["alter table"](place, question, None)


def set_comment(session: Session, words: Statement) -> None:
    """Execute COMMENT ON TABLE | DATABASE name IS text."""
    words.need("ON")
    if words.one_of(*DATABASE):
        set_database_comment(session, words)
        return
    of_column = words.has("COLUMN")
    if not of_column and not words.has("TABLE"):
        raise Unsupported(f"COMMENT ON {words.word()} here", hint="there is COMMENT ON TABLE, COLUMN and DATABASE")
    path, column = words.path(), tuple[str, ...]()
    if of_column:
        count = 3 if path[0] in session.places else len(path) - 1
        path, column = path[:count], path[count:]
        if not column:
            raise InvalidArgument(f"COMMENT ON COLUMN {'.'.join(path)}: the name of a column is missing")
    place, name = session.named(path)
    words.need("IS")
    text = take_text_or_null(words)
    words.end()
    database, table = name.split(".", 1)
    change: dict[str, Any] = {"verb": "unset option", "key": COMMENT_OPTION}
    if text:
        change = {"verb": "set option", "key": COMMENT_OPTION, "value": text}
    if of_column:
        change = {"verb": "set comment", "path": list(column), "comment": text}
    ddl.ALTER_ANSWERS["alter table"](place, {"namespace": [database], "name": table, "changes": [change]}, None)


def _parse_changes(session: Session, words: Statement) -> list[dict[str, Any]]:
    """Parse changes to the form that `morrow.spark.catalogs.ddl` accepts."""
    if words.has("SET", "TBLPROPERTIES"):
        return [{"verb": "set option", "key": key, "value": value} for key, value in words.properties().items()]
    if words.has("UNSET", "TBLPROPERTIES"):
        words.has("IF", "EXISTS")
        return [{"verb": "unset option", "key": _parse_text(text)} for text in words.expressions()]
    if words.has("ADD") and words.one_of("COLUMNS", "COLUMN"):
        texts = words.expressions() if words.word() == "(" else [words.until()]
        return [_parse_added(session, Statement(text)) for text in texts]
    if words.has("RENAME", "COLUMN"):
        path = words.path()
        if not words.has("TO"):
            raise words.unexpected("TO")
        return [{"verb": "rename column", "path": list(path), "to": words.name()}]
    if words.has("DROP") and words.one_of("COLUMNS", "COLUMN"):
        exists = words.has("IF", "EXISTS")
        texts = words.expressions() if words.word() == "(" else [words.until()]
        return [{"verb": "drop column", "path": list(Statement(text).path()), "if exists": exists} for text in texts]
    if words.one_of("ALTER", "CHANGE"):
        words.has("COLUMN")
        return [_parse_altered(session, words)]
    raise Unsupported(f"ALTER TABLE with {words.word()} here")


def _parse_added(session: Session, words: Statement) -> dict[str, Any]:
    change: dict[str, Any] = {"verb": "add column", "path": list(words.path()), "comment": None}
    change["type"] = _parse_type(session, words.until("NOT", "COMMENT", "AFTER", "FIRST", "DEFAULT"))
    change["nullable"] = not words.has("NOT", "NULL")
    if words.has("COMMENT"):
        change["comment"] = words.text_if_any()
    if words.has("DEFAULT"):
        raise Unsupported("ADD COLUMN with DEFAULT", hint="add the column, then ALTER COLUMN ... SET DEFAULT")
    _parse_position(words, change)
    words.end()
    return change


def _parse_position(words: Statement, change: dict[str, Any]) -> bool:
    if words.has("FIRST"):
        change["first"] = True
    elif words.has("AFTER"):
        change["after"] = words.name()
    else:
        return False
    return True


def _parse_altered(session: Session, words: Statement) -> dict[str, Any]:
    path = list(words.path())
    if words.has("TYPE"):
        return {"verb": "set type", "path": path, "type": _parse_type(session, words.until())}
    if words.has("COMMENT"):
        return {"verb": "set comment", "path": path, "comment": words.text_if_any()}
    if words.has("SET", "NOT", "NULL"):
        return {"verb": "set nullable", "path": path, "nullable": False}
    if words.has("DROP", "NOT", "NULL"):
        return {"verb": "set nullable", "path": path, "nullable": True}
    if words.has("SET", "DEFAULT"):
        return {"verb": "set default", "path": path, "default": words.until()}
    if words.has("DROP", "DEFAULT"):
        return {"verb": "set default", "path": path, "default": None}
    moved: dict[str, Any] = {"verb": "move column", "path": path}
    if not _parse_position(words, moved):
        raise Unsupported(f"ALTER COLUMN with {words.word()} here")
    return moved


def _parse_type(session: Session, text: str) -> str:
    return parse_schema(session, f"type {text}").json()


def _parse_text(text: str) -> str:
    words = Statement(text)
    return words.text_if_any() or ".".join(words.path())


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


def create_database(session: Session, words: Statement) -> None:
    ignores = words.has("IF", "NOT", "EXISTS")
    place, name = find_database(session, words.path())
    properties = parse_database_properties(words)
    place.catalog.create_database(name, properties=properties, ignore_if_exists=ignores)


def alter_database(session: Session, words: Statement) -> None:
    place, name = find_database(session, words.path())
    properties, removed = parse_database_changes(words)
    words.end()
    changes = [*properties.items(), *((key, None) for key in removed)]
    DATABASE_ANSWERS["alter database"](place, {"database": name, "changes": changes}, None)


def set_database_comment(session: Session, words: Statement) -> None:
    place, name = find_database(session, words.path())
    words.need("IS")
    text = take_text_or_null(words) or ""
    words.end()
    DATABASE_ANSWERS["alter database"](place, {"database": name, "changes": [(DATABASE_COMMENT, text)]}, None)


def drop_database(session: Session, words: Statement) -> None:
    ignores = words.has("IF", "EXISTS")
    place, name = find_database(session, words.path())
    cascade = words.has("CASCADE")
    words.has("RESTRICT")
    words.end()
    place.catalog.drop_database(name, cascade=cascade, ignore_if_not_exists=ignores)


def describe_database(session: Session, words: Statement) -> DataFrame:
    extended = words.has("EXTENDED")
    place, name = find_database(session, words.path())
    words.end()
    told: Any = DATABASE_ANSWERS["database"](place, {"database": name}, None)
    if not isinstance(told, Mapping):
        raise DatabaseNotFound(f"there is no database {place.name}.{name}")
    rows = [("Catalog Name", place.name), ("Namespace Name", name)]
    rows += [(word, told[key]) for key, word in SHOWN.items() if told.get(key)]
    if extended:
        others = ", ".join(f"({key},{value})" for key, value in sorted(told.items()) if key not in SHOWN)
        rows.append(("Properties", f"({others})" if others else ""))
    return session.spark.createDataFrame(rows, "info_name STRING, info_value STRING")
