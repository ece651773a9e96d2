"""The dialect of queries: DuckDB's SQL, names in backticks, time travel, table options, and parameters.

Time travel is written as in Spark, Flink and Trino (``VERSION AS OF``, ``TIMESTAMP AS OF``), options in Flink's
form: ``FROM db.orders /*+ OPTIONS('scan.snapshot-id' = '3') */``. DuckDB and its parser treat a hint as a comment. A
hint that selects rows must not be lost: it is applied, or the query is refused. Parameter values become literal nodes
of sqlglot's tree, never pasted text.
"""

from __future__ import annotations

import datetime as dt
import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, TypeAlias

import sqlglot
from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import TokenType

from morrow.engine.catalog.names import parse_object_name
from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.options.table_options import TRAVEL_KEYS, find_present_key
from morrow.engine.plan.filter import sql_parsing as brackets
from morrow.engine.plan.filter.sql_parsing import describe_problem, run_with_stack
from morrow.engine.plan.time_travel import NOW, Travel, parse_travel_options, to_millis
from morrow.engine.units import MILLIS_PER_SECOND
from morrow.writers.target import READ_OPTION_KEYS

READING = (exp.Query, exp.Values, exp.Summarize, exp.Describe, exp.Pivot)
"""Statements that return rows and change nothing."""


class Dialect(DuckDB):
    """DuckDB's SQL with the backticks and time travel of Spark, Flink and Trino."""

    class Tokenizer(DuckDB.Tokenizer):
        IDENTIFIERS = ['"', "`"]  # noqa: RUF012 - the form sqlglot's tokenizer reads

    class Parser(brackets.Parser):
        VERSION_PHRASES = {  # noqa: RUF012 - the form sqlglot's parser reads
            **DuckDB.Parser.VERSION_PHRASES,
            ("FOR", "SYSTEM_VERSION"): "VERSION",
        }


def _rewrite_options(query: str) -> str:
    """Return the query with hints for the options that Spark writes as ``FROM t WITH ('key' = 'value')``."""
    tokens = list(Dialect().tokenize(query))
    kinds = [token.token_type for token in tokens]
    parts, end = [], 0
    for at, kind in enumerate(kinds):
        if kind is TokenType.WITH and kinds[at + 1 : at + 4] == [TokenType.L_PAREN, TokenType.STRING, TokenType.EQ]:
            close = kinds.index(TokenType.R_PAREN, at) if TokenType.R_PAREN in kinds[at:] else len(kinds) - 1
            parts += [query[end : tokens[at].start], "/*+ OPTIONS"]
            parts += [query[tokens[at + 1].start : tokens[close].end + 1], " */"]
            end = tokens[close].end + 1
    return "".join([*parts, query[end:]])


def parse_query(query: str) -> Node:
    """Parse one query.

    Raises `InvalidArgument`: not exactly one query, a query that changes rows, or a hint that does not follow a table.
    """
    if not isinstance(query, str):
        raise InvalidArgument(f"a query must be text, not {query!r}")
    try:
        text = _rewrite_options(query)
        trees = run_with_stack(lambda: sqlglot.parse(text, dialect=Dialect), text, "the query")
        statements = [statement for statement in trees if statement is not None]
    except SqlglotError as error:
        raise InvalidArgument(f"the query does not parse{describe_problem(error)}") from error
    if len(statements) != 1:
        raise InvalidArgument(f"{len(statements)} statements where one query was expected")
    if not isinstance(statements[0], READING):
        raise InvalidArgument("the statement is not a query: write a SELECT")
    for change in statements[0].find_all(exp.DML):
        if isinstance(change, (exp.Insert, exp.Update, exp.Delete, exp.Merge)):
            raise InvalidArgument("the query changes rows inside of it: write the change as a statement of its own")
    _check_hints(text, statements[0])
    return statements[0]


def _check_hints(query: str, tree: Node) -> None:
    """Check that every hint follows a table, since the parser drops comments elsewhere."""
    if "/*+" not in query:
        return
    written = sum(len(find_hints(token.comments)) for token in Dialect().tokenize(query))
    known = sum(len(find_hints(list_comments(table))) for table in tree.find_all(exp.Table))
    if written != known:
        raise InvalidArgument("the query: a hint /*+ OPTIONS(...) */ belongs behind the name of its table")


def list_comments(table: Node) -> list[str]:
    """Return the comments after a table's name, its alias or its AS OF clause."""
    parts = (table.args.get("alias"), table.args.get("version"))
    nodes = [table, table.this, *(node for part in parts if part is not None for node in part.walk())]
    return [comment for node in nodes for comment in node.comments or ()]


def find_travel(table: Node, name: str, options: Mapping[str, str]) -> Travel:
    """Return the time travel that a clause, or a hint with these options, requests after a table's name.

    Raises `InvalidArgument` for an invalid value.
    """
    asked = parse_travel_clause(table.args.get("version"))
    hinted = parse_travel_options(dict(options))
    if NOW not in (asked, hinted):
        raise InvalidArgument(f"{name}: both a hint and AS OF say which snapshot is read")
    return hinted if asked == NOW else asked


_HINT = re.compile(r"\+\s*OPTIONS\b(.*)", re.IGNORECASE | re.DOTALL)
_TEXT = r"'(?:[^']|'')*'"
_PAIR = rf"\s*({_TEXT})\s*=\s*({_TEXT})\s*"
_PAIRS = re.compile(rf"\s*\(({_PAIR}(?:,{_PAIR})*)\)\s*")


def find_hints(comments: Iterable[str] | None) -> list[str]:
    """Return the text after OPTIONS of all comments that are hints."""
    found = (_HINT.fullmatch(comment) for comment in comments or ())
    return [match[1] for match in found if match]


def parse_hints(hints: Sequence[str], table: str) -> dict[str, str]:
    """Return the options of the hints after a table's name. Raises `InvalidArgument` for a malformed one."""
    options: dict[str, str] = {}
    for hint in hints:
        match = _PAIRS.fullmatch(hint)
        if match is None:
            raise InvalidArgument(f"{table}: the hint OPTIONS{hint} is not of the form OPTIONS('key' = 'value', ...)")
        options |= {
            find_present_key(_unquote_text(key)): _unquote_text(value) for key, value in re.findall(_PAIR, match[1])
        }
    return options


def split_options(options: Mapping[str, str], table: str) -> tuple[dict[str, str], dict[str, str]]:
    """Return the options of hints that are about time travel, and those about how a table is read.

    Raises `Unsupported` for other options, and for options of reads behind the name of a system table.
    """
    travel = {key: value for key, value in options.items() if key in TRAVEL_KEYS}
    reads = {key: value for key, value in options.items() if key not in TRAVEL_KEYS}
    known = TRAVEL_KEYS if parse_object_name(table).system is not None else (*TRAVEL_KEYS, *sorted(READ_OPTION_KEYS))
    for key in reads:
        if key not in known:
            raise Unsupported(f"the option {key!r} in a hint", where=table, hint=f"a query takes {', '.join(known)}")
    return travel, reads


def _unquote_text(text: str) -> str:
    return text[1:-1].replace("''", "'")


NOT_CONSTANT = (exp.Column, exp.Query, exp.Star, exp.Placeholder, exp.Parameter)


def parse_travel_clause(version: Node | None) -> Travel:
    """Return the time travel that a clause ``VERSION | TIMESTAMP AS OF`` requests.

    Raises `InvalidArgument`: a form of time travel that is not ``AS OF``, or an invalid value.
    """
    if version is None:
        return NOW
    if version.args["kind"] != "AS OF":
        raise InvalidArgument(f"time travel by {version.args['kind']}: write AS OF (changes are read by Table.changes)")
    value = version.expression
    return {"VERSION": _parse_version, "TIMESTAMP": _parse_timestamp}[version.name](value)


def _parse_version(value: Node) -> Travel:
    """Parse the name of a tag, an id, ``snapshot.<id>`` or ``watermark-<millis>`` as text, or an id as a number."""
    if not isinstance(value, exp.Literal) or not (value.is_string or value.is_int):
        raise InvalidArgument(f"VERSION AS OF takes a text or the id of a snapshot, not {value.sql(dialect=DuckDB)}")
    return Travel(version=value.name)


def _parse_timestamp(value: Node) -> Travel:
    """Parse ISO text, seconds since 1970 as a number, or an expression of constants; times without a zone are UTC."""
    if isinstance(value, exp.Literal) and not value.is_string:
        return Travel(millis=int(Decimal(value.name) * MILLIS_PER_SECOND // 1))
    if isinstance(value, exp.Literal):
        if value.name.strip().isdecimal():
            raise InvalidArgument(f"TIMESTAMP AS OF {value.name!r}: write seconds since 1970 as a number, unquoted")
        return Travel(millis=to_millis(value.name))
    return Travel(millis=_evaluate_constant(value))


def _evaluate_constant(value: Node) -> int:
    """Evaluate an expression to epoch milliseconds, in a DuckDB without tables and file access."""
    import duckdb

    text = value.sql(dialect=DuckDB)
    if value.find(*NOT_CONSTANT) is not None:
        raise InvalidArgument(f"TIMESTAMP AS OF {text}: the time must not depend on rows")
    with duckdb.connect(config={"python_enable_replacements": "false", "enable_external_access": "false"}) as apart:
        apart.execute("SET TimeZone = 'UTC'")
        instant = exp.cast(value.copy(), "timestamptz", dialect=DuckDB)
        try:
            found = apart.execute(exp.select(exp.func("epoch_ms", instant)).sql(dialect=DuckDB)).fetchone()
        except duckdb.Error as error:
            raise InvalidArgument(f"TIMESTAMP AS OF {text}: {error}") from error
    if found is None or found[0] is None:
        raise InvalidArgument(f"TIMESTAMP AS OF {text}: that is NULL")
    return int(found[0])


Node: TypeAlias = Any
"""A node of sqlglot's tree; its base class changed between versions."""


def find_parameter(placeholder: Node, parameters: Mapping[str, object]) -> object:
    """Return the value of a parameter. Raises `InvalidArgument` if it is missing."""
    name = str(placeholder.this)
    if name not in parameters:
        raise InvalidArgument(f"the query: the parameter ${name} has no value")
    return parameters[name]


def make_literal(value: object) -> Node:
    """Return a value as a typed literal in DuckDB SQL. Raises `InvalidArgument` for types without literals."""
    for kind, made in _LITERALS:
        if isinstance(value, kind):
            return made(value)
    raise InvalidArgument(f"the query: a {type(value).__name__} cannot stand here; give a number, a text or a time")


def _cast_text(kind: str, text: object) -> Node:
    return exp.cast(exp.Literal.string(str(text)), kind, dialect=DuckDB)


def _make_timestamp(value: dt.datetime) -> Node:
    return _cast_text("timestamp" if value.tzinfo is None else "timestamptz", value.isoformat(" "))


def _make_decimal(value: Decimal) -> Node:
    if not value.is_finite():
        return _cast_text("double", value)
    digits, exponent = len(value.as_tuple().digits), int(value.as_tuple().exponent)
    scale = max(-exponent, 0)
    return _cast_text(f"decimal({max(digits + max(exponent, 0), scale, 1)}, {scale})", format(value, "f"))


def _make_bytes(value: bytes) -> Node:
    return exp.Anonymous(this="unhex", expressions=[exp.Literal.string(value.hex())])


def _make_list(value: Sequence[object]) -> Node:
    return exp.Array(expressions=[make_literal(item) for item in value])


_LITERALS: Sequence[tuple[type | tuple[type, ...], Any]] = (
    (type(None), lambda _: exp.null()),
    (bool, lambda value: exp.Boolean(this=value)),
    (int, lambda value: exp.Literal.number(value) if value >= 0 else exp.Neg(this=exp.Literal.number(-value))),
    (float, lambda value: _cast_text("double", repr(value))),
    (Decimal, _make_decimal),
    (str, exp.Literal.string),
    (dt.datetime, _make_timestamp),
    (dt.date, lambda value: _cast_text("date", value.isoformat())),
    (dt.time, lambda value: _cast_text("time", value.isoformat())),
    (bytes, _make_bytes),
    (uuid.UUID, lambda value: exp.Literal.string(str(value))),
    ((list, tuple), _make_list),
)


def bind(node: Node, parameters: Mapping[str, object]) -> None:
    """Replace parameters with literals in a node that DuckDB does not see."""
    for placeholder in list(node.find_all(exp.Placeholder)):
        placeholder.replace(make_literal(find_parameter(placeholder, parameters)))


def select_parameters(tree: Node, parameters: Mapping[str, object]) -> dict[str, object]:
    """Return the values of the parameters that DuckDB sees, by names that do not clash with its numbered ones."""
    used: dict[str, object] = {}
    for placeholder in tree.find_all(exp.Placeholder):
        value = find_parameter(placeholder, parameters)
        name = f"morrow_{placeholder.this}"
        placeholder.set("this", name)
        used[name] = value
    return used
