"""Tables and databases made, changed, dropped and shown, by the answers of the catalog."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from morrow.engine.errors import AlreadyExists, DatabaseNotFound, InvalidArgument, Unsupported
from morrow.procedures.procedure import Kind
from morrow.procedures.registry import procedure_named
from morrow.spark.catalogs import alter, described, statements
from morrow.spark.catalogs import tables as made
from morrow.spark.catalogs.partitions import ANSWERS as PARTITIONS
from morrow.spark.catalogs.place import Place
from morrow.spark.catalogs.rewriting import packed
from morrow.spark.catalogs.syntax import ALL_ANALYZED, CONSTRAINT
from morrow.spark.catalogs.syntax import parsed as parsed_by_paimon
from morrow.spark.procedures.calling import call
from morrow.spark.statements.queries import Session, query
from morrow.spark.statements.rows import insert as insert_rows
from morrow.spark.statements.rows import partition
from morrow.spark.statements.text import Statement, quoted
from morrow.spark.types.to_spark import without_not_null

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

CALLED = "sys"


def paimons(session: Session, text: str) -> DataFrame | None:
    """Does a statement of tags, ANALYZE TABLE or CREATE TABLE LIKE; None where it is none of these."""
    found = parsed_by_paimon(text)
    if found is None or session.place(found.table) is None:
        return None
    if found.verb == CONSTRAINT:
        raise Unsupported("ALTER TABLE with CONSTRAINT here")
    if found.verb == ALL_ANALYZED:
        place, name = _database(session, found.table)
        return statements.run(place, packed(found, [name]))
    place, name = session.named(found.table)
    if "source" in found.parts:
        other, _ = session.named(tuple(found.parts["source"]))
        if other is not place:
            raise Unsupported("CREATE TABLE LIKE a table of another catalog")
        found = type(found)(found.verb, found.table, {**found.parts, "source": list(found.parts["source"][1:])})
    return statements.run(place, packed(found, name.split(".", 1)))


def create(session: Session, words: Statement) -> None:
    """CREATE DATABASE | TABLE."""
    if words.one_of("DATABASE", "SCHEMA", "NAMESPACE"):
        ignores = words.has("IF", "NOT", "EXISTS")
        place, name = _database(session, words.path())
        words.end()
        place.catalog.create_database(name, ignore_if_exists=ignores)
        return
    if not words.has("TABLE"):
        raise Unsupported(f"CREATE {words.word()} here", hint="CREATE DATABASE and CREATE TABLE are there")
    ignores = words.has("IF", "NOT", "EXISTS")
    path = words.path()
    place, _ = session.named(path)
    columns = words.parenthesized() if words.word() == "(" else None
    partitions, properties, chosen = _clauses(words)
    schema = schema_of(session, columns) if columns is not None else None
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
    try:
        made.ANSWERS["create table"](place, question, None)
    except AlreadyExists:
        if ignores:
            return
        raise
    if chosen is not None:
        _fill(session, place, path, chosen)


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
            partitions = [_column(text) for text in words.listed()]
        elif words.has("COMMENT"):
            properties["comment"] = words.string() or ""
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


def schema_of(session: Session, columns: str) -> StructType:
    """Returns the columns that a text defines, parsed by Spark. Raises `InvalidArgument`."""
    from pyspark.errors import PySparkException

    try:
        return session.spark.createDataFrame([], columns).schema
    except PySparkException as error:
        raise InvalidArgument(f"({columns}): {str(error).partition(chr(10))[0]}") from error


def _nullable(rows: DataFrame | None) -> StructType:
    from pyspark.sql.types import StructField, StructType

    assert rows is not None
    return StructType([StructField(field.name, field.dataType) for field in rows.schema.fields])


def drop(session: Session, words: Statement) -> None:
    """DROP DATABASE | TABLE."""
    if words.one_of("DATABASE", "SCHEMA", "NAMESPACE"):
        ignores = words.has("IF", "EXISTS")
        place, name = _database(session, words.path())
        cascade = words.has("CASCADE")
        words.has("RESTRICT")
        words.end()
        place.catalog.drop_database(name, cascade=cascade, ignore_if_not_exists=ignores)
        return
    if not words.has("TABLE"):
        raise Unsupported(f"DROP {words.word()} here", hint="DROP DATABASE and DROP TABLE are there")
    ignores = words.has("IF", "EXISTS")
    place, table = session.named(words.path())
    words.has("PURGE")
    words.end()
    place.catalog.drop_table(table, ignore_if_not_exists=ignores)


def _database(session: Session, path: tuple[str, ...]) -> tuple[Place, str]:
    place = session.place(path)
    if place is None or len(path) != 2:
        raise DatabaseNotFound(f"there is no database {'.'.join(path)}; they are named catalog.database")
    return place, path[1]


def change(session: Session, words: Statement) -> None:
    """ALTER TABLE."""
    if not words.has("TABLE"):
        raise Unsupported(f"ALTER {words.word()} here", hint="ALTER TABLE is there")
    path = words.path()
    place, name = session.named(path)
    if words.has("RENAME", "TO"):
        to = words.path()
        words.end()
        if len(to) == 3 and session.place(to) is not place:
            raise Unsupported("renaming a table into another catalog")
        place.catalog.rename_table(name, ".".join((path[1], to[0]) if len(to) == 1 else to[-2:]))
        return
    if words.has("DROP", "PARTITION"):
        specs = [partition(session, words)]
        while words.takes(","):
            words.has("PARTITION")
            specs.append(partition(session, words))
        words.end()
        place.table(name).drop_partition(*specs)
        return
    changes = _changes(session, words)
    words.end()
    question = {"namespace": list(path[1:2]), "name": path[2], "changes": changes}
    alter.ANSWERS["alter table"](place, question, None)


def _changes(session: Session, words: Statement) -> list[dict[str, Any]]:
    """Takes changes, in the form that `morrow.spark.catalogs.alter` takes."""
    if words.has("SET", "TBLPROPERTIES"):
        return [{"verb": "set option", "key": key, "value": value} for key, value in words.properties().items()]
    if words.has("UNSET", "TBLPROPERTIES"):
        words.has("IF", "EXISTS")
        return [{"verb": "unset option", "key": _text(text)} for text in words.listed()]
    if words.has("ADD") and words.one_of("COLUMNS", "COLUMN"):
        texts = words.listed() if words.word() == "(" else [words.until()]
        return [_added(session, Statement(text)) for text in texts]
    if words.has("RENAME", "COLUMN"):
        path = words.path()
        if not words.has("TO"):
            raise words.unexpected("TO")
        return [{"verb": "rename column", "path": list(path), "to": words.name()}]
    if words.has("DROP") and words.one_of("COLUMNS", "COLUMN"):
        exists = words.has("IF", "EXISTS")
        texts = words.listed() if words.word() == "(" else [words.until()]
        return [{"verb": "drop column", "path": list(Statement(text).path()), "if exists": exists} for text in texts]
    if words.one_of("ALTER", "CHANGE"):
        words.has("COLUMN")
        return [_altered(session, words)]
    raise Unsupported(f"ALTER TABLE with {words.word()} here")


def _added(session: Session, words: Statement) -> dict[str, Any]:
    change: dict[str, Any] = {"verb": "add column", "path": list(words.path()), "comment": None}
    change["type"] = _type(session, words.until("NOT", "COMMENT", "AFTER", "FIRST", "DEFAULT"))
    change["nullable"] = not words.has("NOT", "NULL")
    if words.has("COMMENT"):
        change["comment"] = words.string()
    if words.has("DEFAULT"):
        raise Unsupported("ADD COLUMN with DEFAULT", hint="add the column, then ALTER COLUMN ... SET DEFAULT")
    _place(words, change)
    words.end()
    return change


def _place(words: Statement, change: dict[str, Any]) -> bool:
    if words.has("FIRST"):
        change["first"] = True
    elif words.has("AFTER"):
        change["after"] = words.name()
    else:
        return False
    return True


def _altered(session: Session, words: Statement) -> dict[str, Any]:
    path = list(words.path())
    if words.has("TYPE"):
        return {"verb": "set type", "path": path, "type": _type(session, words.until())}
    if words.has("COMMENT"):
        return {"verb": "set comment", "path": path, "comment": words.string()}
    if words.has("SET", "NOT", "NULL"):
        return {"verb": "set nullable", "path": path, "nullable": False}
    if words.has("DROP", "NOT", "NULL"):
        return {"verb": "set nullable", "path": path, "nullable": True}
    moved: dict[str, Any] = {"verb": "move column", "path": path}
    if not _place(words, moved):
        raise Unsupported(f"ALTER COLUMN with {words.word()} here")
    return moved


def _type(session: Session, text: str) -> str:
    return schema_of(session, f"type {text}").json()


def _text(text: str) -> str:
    words = Statement(text)
    return words.string() or ".".join(words.path())


def called(session: Session, words: Statement) -> DataFrame:
    """CALL pm.sys.procedure(...)."""
    path = words.path()
    place = session.place(path)
    if place is None or len(path) != 3 or path[1].lower() != CALLED:
        raise InvalidArgument(f"there is no procedure {'.'.join(path)}; write CALL catalog.sys.procedure(...)")
    found = procedure_named(path[2])
    own = [parameter.name for parameter in found.parameters]
    names = ["table", *own] if found.of_table else own
    given: dict[str, object] = {}
    for number, text in enumerate(words.listed()):
        part = Statement(text)
        name = names[number] if number < len(names) else ""
        if part.word(1) == "=>" or (part.word(1) == "=" and part.word(2) == ">"):
            name = part.name()
            part.takes("=>") or (part.takes("=") and part.takes(">"))
        if not name or name in given:
            raise InvalidArgument(f"{found.name}: an argument too many; it has {found}")
        given[name] = session.spark.sql(f"SELECT {part.rest()}").collect()[0][0]
    words.end()
    tables = {"table", *(p.name for p in found.parameters if p.kind is Kind.TABLE)}
    arguments = {
        name: str(value).removeprefix(f"{place.name}.") if name.lower() in tables else value
        for name, value in given.items()
        if value is not None
    }
    place.by_path(f"the procedure {found.name}")
    return call(
        session.spark,
        found.name,
        warehouse=place.catalog.warehouse,
        storage_options=place.access.storage_options,
        allowed_roots=place.access.allowed_roots,
        **arguments,  # type: ignore[arg-type]  # of the procedure, which checks them
    )


# What is shown


def show(session: Session, words: Statement) -> DataFrame:
    """SHOW DATABASES, TABLES, PARTITIONS, COLUMNS or TBLPROPERTIES."""
    if words.one_of("DATABASES", "SCHEMAS", "NAMESPACES"):
        place = _shown_place(session, words)
        return _frame(session, [(name,) for name in _like(words, place.catalog.databases())], "namespace STRING")
    if words.has("TABLES"):
        words.one_of("IN", "FROM")
        place, database = _database(session, words.path())
        names = _like(words, place.catalog.tables(database))
        rows = [(database, name, False) for name in names]
        return _frame(session, rows, "namespace STRING, tableName STRING, isTemporary BOOLEAN")
    if words.has("PARTITIONS"):
        place, name = session.named(words.path())
        words.end()
        return _frame(session, _partitions(place, name), "partition STRING")
    if words.has("COLUMNS"):
        words.one_of("IN", "FROM")
        table = session.table(words.path())
        words.end()
        return _frame(session, [(name,) for name in table.schema.names], "col_name STRING")
    if words.has("TBLPROPERTIES"):
        table = session.table(words.path())
        words.end()
        return _frame(session, sorted(described.properties(table).items()), "key STRING, value STRING")
    raise Unsupported(
        f"SHOW {words.word()} here", hint="there are DATABASES, TABLES, PARTITIONS, COLUMNS, TBLPROPERTIES, TAGS"
    )


def _shown_place(session: Session, words: Statement) -> Place:
    if not words.one_of("IN", "FROM"):
        raise words.unexpected("IN and the name of a catalog")
    (name,) = words.path()[:1]
    if name not in session.places:
        raise DatabaseNotFound(f"there is no catalog {name}; there are {', '.join(session.places)}")
    return session.places[name]


def _like(words: Statement, names: Sequence[str]) -> list[str]:
    """Takes ``LIKE 'pattern'``, of ``*`` and ``|``; returns the names that it is true of."""
    import re

    if words.is_at_end():
        return list(names)
    words.has("LIKE")
    pattern = words.string()
    if pattern is None:
        raise words.unexpected("a pattern")
    words.end()
    parts = (re.escape(part.strip()).replace(r"\*", ".*") for part in pattern.split("|"))
    wanted = re.compile("|".join(parts), re.IGNORECASE)
    return [name for name in names if wanted.fullmatch(name)]


def _partitions(place: Place, name: str) -> list[tuple[str]]:
    table = place.table(name)
    if not table.partition_keys:
        raise InvalidArgument(f"{table.path}: it is not partitioned")
    keys = table.partition_keys
    found = PARTITIONS["partitions"](place, {"table": name}, None)
    texts = found.selectExpr(*(f"CAST({quoted(key)} AS STRING)" for key in keys)).collect()  # type: ignore[attr-defined]
    rows = ("/".join(f"{key}={'null' if value is None else value}" for key, value in zip(keys, row)) for row in texts)
    return [(row,) for row in sorted(rows)]


def describe(session: Session, words: Statement) -> DataFrame:
    """DESCRIBE [TABLE] [EXTENDED] t."""
    words.has("TABLE")
    extended = words.has("EXTENDED")
    place, name = session.named(words.path())
    words.end()
    table = place.table(name)
    columns = without_not_null(table.scan().fields) if not table.primary_keys else table.scan().fields
    fields = described.columns(columns).fields
    rows: list[tuple[str, str, str | None]] = [
        (field.name, field.dataType.simpleString(), field.metadata.get("comment")) for field in fields
    ]
    if table.partition_keys:
        rows += [("# Partition Information", "", ""), ("# col_name", "data_type", "comment")]
        rows += [row for row in rows[: len(fields)] if row[0] in table.partition_keys]
    if extended:
        properties: Mapping[str, str] = described.properties(table)
        rows += [("", "", ""), ("# Detailed Table Information", "", ""), ("Name", f"{place.name}.{name}", "")]
        rows += [(key, value, "") for key, value in sorted(properties.items())]
    return _frame(session, rows, "col_name STRING, data_type STRING, comment STRING")


def _frame(session: Session, rows: Sequence[tuple[Any, ...]], columns: str) -> DataFrame:
    return session.spark.createDataFrame(list(rows), columns)
