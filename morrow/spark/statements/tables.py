"""Tables made, replaced and dropped, tags and statistics, by the answers of the catalog."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlglot.tokenizer_core import TokenType

from morrow.engine.errors import AlreadyExists, InvalidArgument, TableNotFound, Unsupported
from morrow.spark.catalogs import statements
from morrow.spark.catalogs import tables as made
from morrow.spark.catalogs.defaults import CURRENT
from morrow.spark.catalogs.place import Place
from morrow.spark.catalogs.rewriting import packed
from morrow.spark.catalogs.syntax import ALL_ANALYZED, CONSTRAINT
from morrow.spark.catalogs.syntax import parsed as parsed_by_paimon
from morrow.spark.reading.expressions import quoted
from morrow.spark.statements import databases
from morrow.spark.statements.current import full_database, full_path
from morrow.spark.statements.expressions import DEFAULT
from morrow.spark.statements.queries import Session, query
from morrow.spark.statements.rows import insert as insert_rows
from morrow.spark.statements.text import Statement, replaced
from morrow.statements.words import DATABASE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

INSIDE = (TokenType.L_PAREN, TokenType.LT)
OUTSIDE = (TokenType.R_PAREN, TokenType.GT)
"""Marks around the members of a type."""


def paimons(session: Session, text: str) -> DataFrame | None:
    """Does a statement of tags, ANALYZE TABLE or CREATE TABLE LIKE; None where it is none of these."""
    found = parsed_by_paimon(text)
    if found is None:
        return None
    is_database = found.verb == ALL_ANALYZED
    path = full_database(session, found.table) if is_database else full_path(session, found.table)
    if session.place(path) is None:
        return None
    if found.verb == CONSTRAINT:
        raise Unsupported("ALTER TABLE with CONSTRAINT here")
    if is_database:
        place, name = databases.database(session, path)
        return statements.run(place, packed(found, [name]))
    place, name = session.named(path)
    if "source" in found.parts:
        source = full_path(session, tuple(found.parts["source"]))
        other, _ = session.named(source)
        if other is not place:
            raise Unsupported("CREATE TABLE LIKE a table of another catalog")
        found = type(found)(found.verb, found.table, {**found.parts, "source": list(source[1:])})
    return statements.run(place, packed(found, name.split(".", 1)))


def create(session: Session, words: Statement) -> None:
    """CREATE DATABASE, CREATE [OR REPLACE] TABLE."""
    if words.one_of(*DATABASE):
        databases.create(session, words)
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


def replace(session: Session, words: Statement) -> None:
    """REPLACE TABLE."""
    if not words.has("TABLE"):
        raise Unsupported(f"REPLACE {words.word()} here", hint="REPLACE TABLE is there")
    made = _Made.of(session, words)
    if not made.exists():
        raise TableNotFound(f"there is no table {'.'.join(made.path)} to replace; CREATE OR REPLACE TABLE makes one")
    made.replace(session)


@dataclass(frozen=True)
class _Made:
    """A table to be made: its name, the question that the catalog answers, and the query that fills it."""

    place: Place
    path: tuple[str, ...]
    question: dict[str, Any]
    chosen: str | None

    @classmethod
    def of(cls, session: Session, words: Statement) -> _Made:
        path = full_path(session, words.path())
        place, _ = session.named(path)
        columns = words.parenthesized() if words.word() == "(" else None
        partitions, properties, chosen = _clauses(words)
        schema = _defined(session, columns) if columns is not None else None
        rows = None if chosen is None else query(session, chosen)
        if (schema is None) == (rows is None):
            raise InvalidArgument(f"CREATE TABLE {'.'.join(path)}: give either columns or a query")
        question = {
            "namespace": list(path[1:2]),
            "name": path[2],
            "schema": (schema or _nullable(rows)).json(),
            "partitions": [[name] for name in partitions],
            "properties": properties,
        }
        return cls(place, path, question, chosen)

    def exists(self) -> bool:
        return ".".join(self.path[1:]) in self.place.catalog

    def create(self, session: Session) -> None:
        made.ANSWERS["create table"](self.place, self.question, None)
        if self.chosen is not None:
            _fill(session, self.place, self.path, self.chosen)

    def replace(self, session: Session) -> None:
        """Makes the table beside the one that is there, fills it, and gives it the name."""
        staged: Any = made.ANSWERS["stage table"](self.place, {**self.question, "how": "replace"}, None)
        if self.chosen is not None:
            _fill(session, self.place, (self.place.name, *staged["table"].split(".", 1)), self.chosen)
        made.ANSWERS["publish table"](self.place, {"staged": staged["staged"], "table": staged["table"]}, None)


def _fill(session: Session, place: Place, path: tuple[str, ...], chosen: str) -> None:
    try:
        insert_rows(session, Statement(f"INTO {'.'.join(map(quoted, path))} {chosen}"))
    except BaseException:
        place.catalog.drop_table(".".join(path[1:]), ignore_if_not_exists=True)
        raise


def _clauses(words: Statement) -> tuple[list[str], dict[str, str], str | None]:
    """Takes what follows the columns: the partition columns, the properties, and the query."""
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
            partitions = [_column(text) for text in words.expressions()]
        elif words.has("COMMENT"):
            properties["comment"] = words.text_if_any() or ""
        elif words.has("TBLPROPERTIES"):
            properties |= words.properties()
        elif words.word() in ("LOCATION", "OPTIONS", "CLUSTERED", "CLUSTER"):
            raise Unsupported(f"CREATE TABLE with {words.word()}", hint="write TBLPROPERTIES")
        else:
            raise words.unexpected("a clause of CREATE TABLE, or the end")
    return partitions, properties, None


def _column(text: str) -> str:
    words = Statement(text)
    name = words.name()
    if not words.is_at_end():
        raise Unsupported(f"PARTITIONED BY {text}", hint="partition by columns of the table")
    return name


def _defined(session: Session, columns: str) -> StructType:
    """Returns the columns that CREATE TABLE defines, with their default values where Spark has them. Raises as
    `schema_of`.
    """
    from pyspark.sql.types import StructField, StructType

    plain, defaults = _without_defaults(columns)
    return StructType(
        [
            StructField(f.name, f.dataType, f.nullable, {**f.metadata, CURRENT: defaults[f.name]})
            if f.name in defaults
            else f
            for f in schema_of(session, plain).fields
        ]
    )


def _without_defaults(columns: str) -> tuple[str, dict[str, str]]:
    """Returns definitions of columns without DEFAULT, which Spark's parser of types does not know, and what stood there
    for each column."""
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
    return replaced(columns, cut), defaults


def schema_of(session: Session, columns: str) -> StructType:
    """Returns the columns that a text defines, parsed by Spark. Raises `InvalidArgument`."""
    from pyspark.errors import PySparkException

    try:
        return session.spark.createDataFrame([], columns).schema
    except PySparkException as error:
        raise InvalidArgument(f"({columns}): {str(error).strip().partition(chr(10))[0]}") from error


def _nullable(rows: DataFrame | None) -> StructType:
    from pyspark.sql.types import StructField, StructType

    assert rows is not None
    return StructType([StructField(field.name, field.dataType) for field in rows.schema.fields])


def drop(session: Session, words: Statement) -> None:
    """DROP DATABASE | TABLE."""
    if words.one_of(*DATABASE):
        databases.drop(session, words)
        return
    if not words.has("TABLE"):
        raise Unsupported(f"DROP {words.word()} here", hint="DROP DATABASE and DROP TABLE are there")
    ignores = words.has("IF", "EXISTS")
    place, table = session.named(words.path())
    words.has("PURGE")
    words.end()
    place.catalog.drop_table(table, ignore_if_not_exists=ignores)
