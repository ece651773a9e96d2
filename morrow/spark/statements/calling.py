"""CALL of procedures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from morrow.engine.errors import InvalidArgument
from morrow.procedures.procedure import Kind
from morrow.procedures.registry import procedure_named
from morrow.spark.catalogs.place import Place
from morrow.spark.procedures.calling import call
from morrow.spark.statements.current import current, full_path
from morrow.spark.statements.queries import Session
from morrow.spark.statements.text import Statement

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CALLED = "sys"


def called(session: Session, words: Statement) -> DataFrame:
    """CALL pm.sys.procedure(...)."""
    path = full_path(session, words.path())
    place = session.place(path)
    if place is None or len(path) != 3 or path[1].lower() != CALLED:
        raise InvalidArgument(f"there is no procedure {'.'.join(path)}; write CALL catalog.sys.procedure(...)")
    found = procedure_named(path[2])
    own = [parameter.name for parameter in found.parameters]
    names = ["table", *own] if found.of_table else own
    given: dict[str, object] = {}
    for number, text in enumerate(words.expressions()):
        part = Statement(text)
        name = names[number] if number < len(names) else ""
        if part.word(1) == "=>" or (part.word(1) == "=" and part.word(2) == ">"):
            name = part.name()
            part.has("=>") or (part.has("=") and part.has(">"))
        if not name or name in given:
            raise InvalidArgument(f"{found.name}: an argument too many; it has {found}")
        given[name] = session.spark.sql(f"SELECT {part.rest()}").collect()[0][0]
    words.end()
    tables = {"table", *(p.name for p in found.parameters if p.kind is Kind.TABLE)}
    arguments = {
        name: _table(session, place, str(value)) if name.lower() in tables else value
        for name, value in given.items()
        if value is not None
    }
    return call(
        session.spark,
        found.name,
        warehouse=place.catalog,
        storage_options=place.access.storage_options,
        allowed_roots=place.access.allowed_roots,
        **arguments,  # type: ignore[arg-type]  # of the procedure, which checks them
    )


def _table(session: Session, place: Place, name: str) -> str:
    """Returns the name of a table without the catalog, and with the current database where it has none."""
    now = current(session)
    if "." not in name and now is not None and now[0] == place.name:
        return f"{now[1]}.{name}"
    return name.removeprefix(f"{place.name}.")
