"""CALL: Paimon's procedures without Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from sqlglot.tokenizer_core import TokenType

from morrow.engine.errors import InvalidArgument
from morrow.procedures.procedure import Kind, Parameter, Procedure, Rows
from morrow.procedures.registry import TABLE, procedure_named
from morrow.statements.context import Context, Warehouse
from morrow.statements.sources import full_name
from morrow.statements.statement import Argument, CallProcedure
from morrow.statements.words import split

if TYPE_CHECKING:
    import duckdb

    from morrow.engine.plan.metadata import TableMetadata
    from morrow.tables.table import Table

NAMESPACE = "sys"
ARROW = {"BIGINT": pa.int64(), "INT": pa.int32(), "BOOLEAN": pa.bool_(), "STRING": pa.string()}


@dataclass(frozen=True)
class Named:
    """A table that an argument names, perhaps with its branch; ``db.*`` is all tables of a database."""

    warehouse: Warehouse
    name: str
    branch: str | None = None

    @property
    def catalog(self) -> Warehouse:
        return self.warehouse

    @property
    def table(self) -> Table:
        return self.warehouse.table(self.name, branch=self.branch)


@dataclass(frozen=True)
class Call:
    """A call of a procedure in a catalog."""

    catalog: Warehouse
    where: Named | None

    @property
    def table(self) -> Table:
        assert self.where is not None  # of procedures with a table
        return self.where.table

    @property
    def metadata(self) -> TableMetadata:
        return self.table._metadata

    @property
    def tables(self) -> Sequence[Table]:
        assert self.where is not None
        database, _, name = self.where.name.rpartition(".")
        if name != "*":
            return [self.table]
        return [self.catalog.table(f"{database}.{each}") for each in self.catalog.tables(database)]


def call_procedure(context: Context, statement: CallProcedure) -> duckdb.DuckDBPyRelation:
    """Calls a procedure; its result has Paimon's columns."""
    *namespace, name = statement.procedure
    if namespace and [part.lower() for part in namespace[-1:]] != [NAMESPACE]:
        raise InvalidArgument(f"there is no procedure {'.'.join(statement.procedure)}; they are in {NAMESPACE}")
    found = procedure_named(name)
    given = _given(context, found, statement.arguments)
    table = _table(context, given.pop(TABLE)) if found.of_table else None
    bound = found.bound(given)
    for parameter in found.parameters:
        if parameter.kind is Kind.TABLE and bound[parameter.python] is not None:
            bound[parameter.python] = _table(context, bound[parameter.python])
    rows = found.run(Call(context.catalog, table), **bound)
    return context.relation(_rows(rows, found.columns))


def _given(context: Context, found: Procedure, arguments: Sequence[Argument]) -> dict[str, Any]:
    """Returns the arguments by their names; those without one come first, in Paimon's order."""
    parameters = [*([Parameter(TABLE, Kind.TABLE, required=True)] if found.of_table else []), *found.parameters]
    known = {parameter.name.lower(): parameter for parameter in parameters}
    given: dict[str, Any] = {}
    for number, argument in enumerate(arguments):
        if argument.name is None and any(each.name is not None for each in arguments[:number]):
            raise InvalidArgument(f"CALL {found.name}: arguments without a name come first")
        if argument.name is None and number >= len(parameters):
            raise InvalidArgument(f"CALL {found.name}: there are {len(arguments)} arguments; it has {found}")
        name = argument.name or parameters[number].name
        wanted = known.get(name.lower())
        key = name if wanted is None else wanted.name
        if key in given:
            raise InvalidArgument(f"CALL {found.name}: the argument {key!r} is given twice")
        given[key] = _value(context, argument.value, wanted, f"CALL {found.name}, {key}")
    if found.of_table and given.get(TABLE) is None:
        raise InvalidArgument(f"{found.name} needs the argument {TABLE!r}; it has {found}")
    return given


def _value(context: Context, text: str, parameter: Parameter | None, what: str) -> Any:
    words = split(text)[0]
    token = words.next
    if token is not None and token.token_type is TokenType.IDENTIFIER and len(words.tokens) == 1:
        return token.text  # a text in double quotes, as in Spark
    if parameter is not None and parameter.kind is Kind.MAP and words.has("MAP") and words.comes("("):
        items = words.enclosed(words.string)
        words.end()
        if len(items) % 2:
            raise InvalidArgument(f"{what}: a map has a value for each key")
        return dict(zip(items[::2], items[1::2]))
    value = context.constant(text, what)
    if parameter is not None and parameter.kind is Kind.STRING and isinstance(value, (int, float)):
        return str(value).lower()
    return value


def _table(context: Context, given: object) -> Named:
    if not isinstance(given, str):
        raise InvalidArgument(f"{TABLE} is the name of a table, not {given!r}")
    database, _, last = given.rpartition(".")
    if last == "*":
        return Named(context.catalog, f"{database.strip('`')}.*")
    name, branch = full_name(given, context.database)
    return Named(context.catalog, name, branch)


def _rows(rows: Rows, columns: str) -> pa.Table:
    kinds: Mapping[str, pa.DataType] = {
        parts[0]: ARROW[parts[1]] for parts in (column.split() for column in columns.split(","))
    }
    values = list(map(list, zip(*rows))) if rows else [[] for _ in kinds]
    return pa.table({name: pa.array(part, kind) for (name, kind), part in zip(kinds.items(), values)})
