"""The class `Procedure`: a name, parameters with SQL types, result columns, and a function.

The module also parses arguments that contain lists or conditions as text.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.options import Options
from morrow.engine.options.declarations import AnyOption

if TYPE_CHECKING:
    from morrow.engine.catalog.protocol import Function, View
    from morrow.engine.plan.filter import FilterLike
    from morrow.engine.plan.metadata import TableMetadata
    from morrow.tables.table import Table
    from morrow.tables.table_operations import CompactedTable

Rows: TypeAlias = list[tuple[Any, ...]]

DONE: Rows = [(True,)]
RESULT = "result BOOLEAN"
"""The result of most procedures: one row with true. Failures raise."""

MAX_SHORT_FORM = 2
"""Most arguments of a short form of a call in Flink, in which no argument is blank."""
MOST_INT, MOST_BIGINT = 2**31 - 1, 2**63 - 1


class Kind(Enum):
    """The type of a parameter: its name in Spark, and the accepted Python values."""

    STRING = "STRING"
    INT = "INT"
    BIGINT = "BIGINT"
    BOOLEAN = "BOOLEAN"
    VERSION = "STRING, or the number of a snapshot"
    FLAG = "'true' or 'false'"
    """A STRING in Paimon; Spark casts a BOOLEAN to it."""
    TABLE = "the name of a table"
    """A STRING; the procedure gets a `NamedTable`."""
    MAP = "MAP<STRING, STRING>"

    def takes(self, value: object) -> bool:
        return _TAKES[self](value)


def _is_whole(most: int) -> Callable[[object], bool]:
    return lambda value: isinstance(value, int) and not isinstance(value, bool) and -most - 1 <= value <= most


def _is_flag(value: object) -> bool:
    return isinstance(value, bool) or (isinstance(value, str) and value.strip().lower() in ("true", "false"))


_TAKES: Mapping[Kind, Callable[[object], bool]] = {
    Kind.STRING: lambda value: isinstance(value, str),
    Kind.INT: _is_whole(MOST_INT),
    Kind.BIGINT: _is_whole(MOST_BIGINT),
    Kind.BOOLEAN: lambda value: isinstance(value, bool),
    Kind.VERSION: lambda value: isinstance(value, str) or _is_whole(MOST_BIGINT)(value),
    Kind.FLAG: _is_flag,
    Kind.TABLE: lambda value: isinstance(value, (str, os.PathLike)),
    Kind.MAP: lambda value: isinstance(value, Mapping),
}


@dataclass(frozen=True)
class Parameter:
    """A parameter besides `table`, which is the first one of most procedures."""

    name: str
    kind: Kind = Kind.STRING
    required: bool = False
    others: tuple[str, ...] = ()
    """The parameter's names in Flink, if they differ from those in Spark."""
    pattern: str | None = None
    """A regular expression of its values, if Spark and Flink have different parameters at its position."""

    @property
    def names(self) -> tuple[str, ...]:
        """All names, in lower case."""
        return tuple(name.lower() for name in (self.name, *self.others))

    def fits(self, value: object) -> bool:
        """Return whether a positional value may be meant for this parameter."""
        if is_blank(value):
            return True
        if self.pattern is not None:
            return isinstance(value, str) and re.fullmatch(self.pattern, value.strip(), re.IGNORECASE) is not None
        return self.kind.takes(value)

    @property
    def python(self) -> str:
        """The parameter's name in Python: ``ignoreIfExists`` is ``ignore_if_exists``."""
        return re.sub("(?<=[a-z])(?=[A-Z])", "_", self.name).lower()

    def __str__(self) -> str:
        return f"{self.name} ({self.kind.value}{'' if self.required else ', optional'})"


class NamedTable(Protocol):
    """A table named by an argument: in a catalog, or a folder without a catalog."""

    @property
    def name(self) -> str: ...

    @property
    def branch(self) -> str | None: ...

    @property
    def catalog(self) -> Catalog | None: ...

    @property
    def table(self) -> Table:
        """The table, opened. Raises `TableNotFound` and the like."""


class Catalog(Protocol):
    """The methods of a catalog that procedures call."""

    def view(self, name: str) -> View: ...
    def replace_view(self, name: str, view: View, *, new_name: str | None = None) -> View: ...
    def create_function(self, name: str, function: Function) -> None: ...
    def alter_function(self, name: str, *changes: Mapping[str, Any]) -> None: ...
    def drop_function(self, name: str) -> None: ...
    def copy_table(self, source: str | Table, name: str, *, where: FilterLike | None = None) -> object: ...

    def clone_parquet(
        self, folder: str | os.PathLike[str], name: str, *, options: Mapping[str, object] | None = None
    ) -> object: ...

    def compact(
        self,
        *,
        databases: str | None = None,
        including: str | None = None,
        excluding: str | None = None,
        full: bool = False,
    ) -> Sequence[CompactedTable]: ...


class Call(Protocol):
    """A call of a procedure: the table that it names, and its catalog."""

    @property
    def metadata(self) -> TableMetadata:
        """The metadata of the table. Raises `TableNotFound` and the like."""

    @property
    def catalog(self) -> Catalog:
        """The catalog of the table. Raises `InvalidArgument` if the table was opened by its folder."""

    @property
    def table(self) -> Table:
        """The table as a `Table`. Raises as `metadata`."""

    @property
    def tables(self) -> Sequence[Table]:
        """The tables of the call: one table, or all tables of a database."""


@dataclass(frozen=True)
class Procedure:
    """A procedure of Paimon.

    Args:
        parameters: in Paimon's order, without the first one, `table`.
        columns: the columns of the result, as DDL.
        run: the function. It gets the `Call` and the arguments by Python names, None for missing ones.
        jobs: whether the procedure may run Spark jobs, and so accepts `distributed`.
        of_table: whether the first parameter is `table`. Other procedures list all their parameters in `parameters`.
    """

    name: str
    parameters: tuple[Parameter, ...]
    columns: str
    run: Callable[..., Rows]
    jobs: bool = False
    of_table: bool = True
    added: int = 0
    """The number of trailing columns that Paimon's procedure lacks. Its rows in Spark are Paimon's."""
    flink: tuple[tuple[str, ...], ...] = ()
    """The orders of positional arguments in Flink that differ from Spark's, without `table`.

    Names without a parameter are arguments that Morrow does not support.
    """

    def place(self, values: Sequence[object]) -> list[str]:
        """Return the names of positional arguments, without `table`: in Spark's order, or in one of Flink's.

        Raises `InvalidArgument`: there are too many arguments, or the orders give them different meanings.
        """
        spark = tuple(parameter.name for parameter in self.parameters)
        flink = (order for order in self.flink if len(order) > MAX_SHORT_FORM or not any(map(is_blank, values)))
        orders = [order[: len(values)] for order in (spark, *flink) if len(order) >= len(values)]
        if not orders:
            raise InvalidArgument(f"CALL {self.name}: there are {len(values)} arguments too many; it has {self}")
        known = {parameter.name: parameter for parameter in self.parameters}
        fitting = dict.fromkeys(
            order
            for order in orders
            if all(name not in known or known[name].fits(value) for name, value in zip(order, values))
        )
        used = {tuple(name for name, value in zip(order, values) if not is_blank(value)) for order in fitting}
        if len(used) > 1:
            raise InvalidArgument(
                f"CALL {self.name}: Spark and Flink order these arguments differently; name them ({self})"
            )
        return list(next(iter(fitting), orders[0]))

    def bound(self, given: Mapping[str, object]) -> dict[str, Any]:
        """Return the arguments by Python names. Names ignore case, as in Spark; blank text is None.

        Raises `InvalidArgument`: an unknown or missing argument, or one of a wrong type.
        """
        known = {name: parameter for parameter in self.parameters for name in parameter.names}
        arguments: dict[str, Any] = dict.fromkeys(parameter.python for parameter in self.parameters)
        for name, value in given.items():
            if name.lower() not in known and any(name.lower() in order for order in self.flink):
                if is_blank(value):
                    continue
                raise Unsupported(f"{self.name} with the argument {name!r}, which Flink has,", hint="leave it out")
            if name.lower() not in known:
                close = suggest_name(name, [*self._table, *(parameter.name for parameter in self.parameters)])
                raise InvalidArgument(f"{self.name} has no argument {name!r}{close}; it has {self}")
            parameter = known[name.lower()]
            if value is not None and not parameter.kind.takes(value):
                raise InvalidArgument(f"{self.name}: {parameter.name} is {parameter.kind.value}, not {value!r}")
            if arguments[parameter.python] is not None:
                raise InvalidArgument(f"{self.name}: the argument {parameter.name!r} is given twice")
            arguments[parameter.python] = None if is_blank(value) else value
        missing = [p.name for p in self.parameters if p.required and arguments[p.python] is None]
        if missing:
            raise InvalidArgument(f"{self.name} needs the argument {missing[0]!r}; it has {self}")
        return arguments

    @property
    def _table(self) -> list[str]:
        return ["table"] if self.of_table else []

    def __str__(self) -> str:
        return ", ".join([*self._table, *map(str, self.parameters)])


def is_blank(value: object) -> bool:
    """Return whether an argument is left out: null, or blank text, as Flink requires for positions."""
    return value is None or (isinstance(value, str) and not value.strip())


def make_required(name: str, kind: Kind = Kind.STRING, others: tuple[str, ...] = ()) -> Parameter:
    """Return a required parameter."""
    return Parameter(name, kind, required=True, others=others)


def suggest_name(name: str, known: Iterable[str]) -> str:
    """Return ``, did you mean 'x'?``, or empty text."""
    by_lower = {one.lower(): one for one in known}
    close = get_close_matches(name.lower(), by_lower, n=1)
    return f", did you mean {by_lower[close[0]]!r}?" if close else ""


def translate_condition(text: str | None) -> str | None:
    """Translate a condition in Spark SQL, with its quotes and functions, to the SQL of filters.

    Raises `InvalidArgument` if the text is not a condition.
    """
    if text is None:
        return None
    import sqlglot
    from sqlglot.errors import SqlglotError

    try:
        found = sqlglot.transpile(text, read="spark", write="duckdb")
    except (SqlglotError, RecursionError) as error:
        raise InvalidArgument(f"where is a condition of Spark's SQL, not {text!r}") from error
    if len(found) != 1:
        raise InvalidArgument(f"where is one condition, not {text!r}")
    return found[0]


def parse_pairs(text: str | None, argument: str) -> dict[str, str]:
    """Parse ``a=1,b=2`` as a dict. Raises `InvalidArgument`."""
    found: dict[str, str] = {}
    for part in (text or "").split(","):
        if not part.strip():
            continue
        key, equals, value = part.partition("=")
        if not equals or not key.strip():
            raise InvalidArgument(f"{argument}: {part.strip()!r} is not a pair; write key=value,key=value")
        found[key.strip()] = value.strip()
    return found


def parse_options(text: str | None, known: Sequence[AnyOption], procedure: str) -> Options:
    """Parse the dynamic options of a call. The procedure must support all of them.

    Raises:
        InvalidArgument: the text does not consist of pairs. Unsupported: an option that the procedure would ignore.
    """
    found = parse_pairs(text, "options")
    others = [key for key in found if not any(key in option.keys for option in known)]
    if others:
        takes = ", ".join(option.key for option in known)
        raise Unsupported(f"{procedure} with the option {others[0]!r}", hint=f"it takes {takes}")
    return Options(found)


BUCKETS = re.compile(r"([0-9]{1,9})(?:\s*-\s*([0-9]{1,9}))?")


def parse_partitions(text: str | None) -> list[dict[str, object]]:
    """Parse ``dt=1,hh=2;dt=3`` as values of partition columns; quotes around a value are removed.

    Raises `InvalidArgument`.
    """
    parts = [parse_pairs(part, "partitions") for part in (text or "").split(";") if part.strip()]
    return [{key: _unquote(value) for key, value in part.items()} for part in parts]


def parse_buckets(text: str) -> tuple[range, ...]:
    """Parse ``0-3,7`` as ranges of bucket numbers. Raises `InvalidArgument`."""
    found = []
    for part in text.split(","):
        match = BUCKETS.fullmatch(part.strip())
        if match is None or int(match[1]) > int(match[2] or match[1]):
            raise InvalidArgument(f"compact: buckets are numbers such as '0-3,7', not {text!r}")
        found.append(range(int(match[1]), int(match[2] or match[1]) + 1))
    return tuple(found)


def _unquote(value: str) -> str:
    quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
    return value[1:-1] if quoted else value
