"""CALL: Paimon's procedures, as `morrow.spark.call` has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from morrow.engine.errors import InvalidArgument
from morrow.procedures.procedure import Kind
from morrow.procedures.registry import PROCEDURES, procedure_named
from morrow.spark.catalogs import rewriting, statements
from morrow.spark.catalogs.place import Place, Question
from morrow.spark.catalogs.rewriting import placed
from morrow.spark.procedures.calling import call
from morrow.spark.reading.expressions import quoted
from morrow.spark.types.told import value_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NAMESPACE = "sys"
DEFAULT = "default"
"""The database of a catalog that is not the session's."""
TABLE = "table"
STATEMENT = "statement"
TYPES = dict.fromkeys(Kind, "STRING") | {kind: kind.value for kind in (Kind.INT, Kind.BIGINT, Kind.BOOLEAN, Kind.MAP)}
"""The type that Spark casts an argument to."""


def _names(_place: Place, _question: Question, _rows: DataFrame | None) -> list[str]:
    return sorted(PROCEDURES)


def _parameters(_place: Place, question: Question, _rows: DataFrame | None) -> list[dict[str, object]]:
    """Describes the parameters of a procedure, in Paimon's order."""
    if question["namespace"] != [NAMESPACE]:
        name = ".".join([*question["namespace"], question["name"]])
        raise InvalidArgument(f"there is no procedure {name}; they are in the database {NAMESPACE}")
    if question["name"] == rewriting.PROCEDURE:
        return [{"name": STATEMENT, "type": "STRING", "required": True}]
    found = procedure_named(question["name"])
    own = [{"name": p.name, "type": TYPES[p.kind], "required": p.required} for p in found.parameters]
    return [{"name": TABLE, "type": "STRING", "required": True}, *own] if found.of_table else own


def _call(place: Place, question: Question, _rows: DataFrame | None) -> DataFrame:
    given = {name: value_of(told) for name, told in question["arguments"].items()}
    if question["name"] == rewriting.PROCEDURE:
        return statements.run(place, given[STATEMENT])
    found = procedure_named(question["name"])
    tables = [parameter.name for parameter in found.parameters if parameter.kind is Kind.TABLE]
    for name in (*tables, *((TABLE,) if found.of_table else ())):
        if given.get(name) is not None:
            given[name] = _named(place, given[name])
    result = call(
        place.spark,
        found.name,
        warehouse=place.catalog,
        storage_options=place.access.storage_options,
        allowed_roots=place.access.allowed_roots,
        **{name: value for name, value in given.items() if value is not None},
    )
    if found.of_table:
        _refresh(place, given[TABLE])
    return result


def _refresh(place: Place, name: str) -> None:
    """Has the cached rows of a table read anew, as after a write: a rollback or a branch may have changed them."""
    session = cast("Any", place.spark)._jsparkSession
    if session.sharedState().cacheManager().isEmpty() or any(mark in name for mark in "*/"):
        return
    place.spark.catalog.refreshTable(".".join(map(quoted, (place.name, *name.split(".", 1)))))


def _named(place: Place, text: str) -> str:
    """Returns ``database.table`` of a table's name, found in the database of now where it names none."""
    name = text.removeprefix(f"{place.name}.")
    if not name.strip() or any(mark in name for mark in "./"):  # or a folder, of procedures that take one
        return name
    catalog, parts = placed(place.spark, (name,))
    return ".".join(parts if catalog == place.name else (DEFAULT, name))


ANSWERS = {"procedures": _names, "procedure": _parameters, "call": _call}
