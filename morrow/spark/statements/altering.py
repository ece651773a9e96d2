"""ALTER TABLE, by the answers of the catalog."""

from __future__ import annotations

from typing import Any

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.spark.catalogs import alter
from morrow.spark.statements import databases
from morrow.spark.statements.current import full_path
from morrow.spark.statements.queries import Session
from morrow.spark.statements.rows import partition
from morrow.spark.statements.tables import schema_of
from morrow.spark.statements.text import Statement
from morrow.statements.parsing_alterations import COMMENT, text_or_null
from morrow.statements.words import DATABASE


def change(session: Session, words: Statement) -> None:
    """ALTER TABLE | DATABASE."""
    if words.one_of(*DATABASE):
        databases.alter(session, words)
        return
    if not words.has("TABLE"):
        raise Unsupported(f"ALTER {words.word()} here", hint="ALTER TABLE and ALTER DATABASE are there")
    path = full_path(session, words.path())
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
        while words.has(","):
            words.has("PARTITION")
            specs.append(partition(session, words))
        words.end()
        place.table(name).drop_partition(*specs)
        return
    changes = _changes(session, words)
    words.end()
    question = {"namespace": list(path[1:2]), "name": path[2], "changes": changes}
    alter.ANSWERS["alter table"](place, question, None)


def comment(session: Session, words: Statement) -> None:
    """COMMENT ON TABLE | DATABASE name IS text."""
    words.need("ON")
    if words.one_of(*DATABASE):
        databases.comment(session, words)
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
    text = text_or_null(words)
    words.end()
    database, table = name.split(".", 1)
    change: dict[str, Any] = {"verb": "unset option", "key": COMMENT}
    if text:
        change = {"verb": "set option", "key": COMMENT, "value": text}
    if of_column:
        change = {"verb": "set comment", "path": list(column), "comment": text}
    alter.ANSWERS["alter table"](place, {"namespace": [database], "name": table, "changes": [change]}, None)


def _changes(session: Session, words: Statement) -> list[dict[str, Any]]:
    """Takes changes, in the form that `morrow.spark.catalogs.alter` takes."""
    if words.has("SET", "TBLPROPERTIES"):
        return [{"verb": "set option", "key": key, "value": value} for key, value in words.properties().items()]
    if words.has("UNSET", "TBLPROPERTIES"):
        words.has("IF", "EXISTS")
        return [{"verb": "unset option", "key": _text(text)} for text in words.expressions()]
    if words.has("ADD") and words.one_of("COLUMNS", "COLUMN"):
        texts = words.expressions() if words.word() == "(" else [words.until()]
        return [_added(session, Statement(text)) for text in texts]
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
        return [_altered(session, words)]
    raise Unsupported(f"ALTER TABLE with {words.word()} here")


def _added(session: Session, words: Statement) -> dict[str, Any]:
    change: dict[str, Any] = {"verb": "add column", "path": list(words.path()), "comment": None}
    change["type"] = _type(session, words.until("NOT", "COMMENT", "AFTER", "FIRST", "DEFAULT"))
    change["nullable"] = not words.has("NOT", "NULL")
    if words.has("COMMENT"):
        change["comment"] = words.text_if_any()
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
    if not _place(words, moved):
        raise Unsupported(f"ALTER COLUMN with {words.word()} here")
    return moved


def _type(session: Session, text: str) -> str:
    return schema_of(session, f"type {text}").json()


def _text(text: str) -> str:
    words = Statement(text)
    return words.text_if_any() or ".".join(words.path())
