"""Parsing of SQL by sqlglot: deep nesting, columns named ``array`` or ``list``, syntax errors, and constants.

sqlglot recurses some forty calls per parenthesis, so thirty of them exhaust a thousand calls. Text that exceeds the
stack is parsed again on a thread with a larger stack. Text that nests deeper than DuckDB supports is refused before
parsing, since a compiled parser would crash the process.

sqlglot interprets ``"array"[1]`` as the array of 1, `Parser` as an element of the column.

DuckDB types a constant by its spelling (``1`` INTEGER, ``0.1`` DECIMAL, ``1e0`` DOUBLE), and an untyped string adopts
the type of the column it is compared with. If DuckDB would round in between, the constant is not converted here and the
condition stays SQL.
"""

from __future__ import annotations

import datetime as dt
import re
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TypeVar

import numpy as np
from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import ParseError, SqlglotError
from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]  # re-exported, in every version

from morrow.engine.errors import InvalidArgument
from morrow.engine.format import types as t
from morrow.engine.plan.filter.literals import BINARY_TYPES, INTEGER_BITS, STRING_TYPES, snap_literal
from morrow.engine.plan.predicate import Op, Value

MAX_NESTING = 512
"""The maximum nesting depth of brackets, CASEs and prefixes."""
MAX_CALLS = 200
"""The maximum nesting depth of functions, lists, CASEs etc.: DuckDB crashes at some hundreds of nested lists."""
MAX_RECURSION = 60_000
"""The recursion limit for that depth."""
STACK_BYTES = 512 << 20
"""Bytes of address space; memory is allocated as it is used."""
MAX_DECIMAL_DIGITS = 38

OPENING = frozenset({TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE, TokenType.CASE})
CLOSING = frozenset({TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE, TokenType.END})
PREFIXES = frozenset({TokenType.NOT, TokenType.DASH, TokenType.PLUS, TokenType.TILDE})
MARKS = ("(", "[", "{", "case", "not", "-", "+", "~")
"""The tokens that open a level, in lower case."""

COMPARISONS: dict[type, Op] = {
    exp.EQ: Op.EQ,
    exp.NEQ: Op.NE,
    exp.LT: Op.LT,
    exp.LTE: Op.LE,
    exp.GT: Op.GT,
    exp.GTE: Op.GE,
}
"""Nodes of comparisons -> their operators."""

JOINING = (exp.Paren, exp.Binary, exp.Not, exp.If, exp.Cast)

T = TypeVar("T")
Node = Any
"""A node of sqlglot's tree, whose base class differs between versions."""

_turn = threading.Lock()


def run_with_stack(work: Callable[[], T], text: str, what: str) -> T:
    """Return the result of `work` on the SQL `text`, run on a stack that is large enough.

    Raises `InvalidArgument`: the text is nested too deeply; the message begins with `what`.
    """
    refusal = InvalidArgument(
        f"{what}: the SQL is nested too deeply, up to {MAX_NESTING} levels are read; "
        "split it with AND, or use IN for long lists"
    )
    if _is_too_deep(text):
        raise refusal
    try:
        return work()
    except RecursionError:
        pass
    try:
        return _run_on_large_stack(work)
    except RecursionError:
        raise refusal from None


def _is_too_deep(text: str) -> bool:
    if len(text) <= MAX_NESTING:
        return False
    folded = text.lower()
    if sum(folded.count(mark) for mark in MARKS) <= MAX_NESTING:
        return False
    try:
        return measure_nesting(DuckDB().tokenize(text)) > MAX_NESTING
    except SqlglotError:  # not tokenized, so not parsed: the parser reports the error
        return False


def measure_nesting(tokens: list[Token]) -> int:
    """Return the maximum number of brackets, CASEs and prefixes that are open at once."""
    depth = prefixes = most = 0
    open_prefixes: list[int] = []
    for token in tokens:
        kind = token.token_type
        if kind in OPENING:
            open_prefixes.append(prefixes)
            depth += 1
        elif kind in CLOSING:
            prefixes = open_prefixes.pop() if open_prefixes else 0
            depth -= 1
        elif kind in PREFIXES:
            prefixes += 1
        elif not open_prefixes or prefixes > open_prefixes[-1]:
            prefixes = open_prefixes[-1] if open_prefixes else 0
        most = max(most, depth + prefixes)
    return most


def check_calls(tree: Node, what: str) -> None:
    """Raise for calls nested too deeply for DuckDB, not counting operators: DuckDB supports a thousand of them.

    Raises `InvalidArgument`: the message begins with `what`.
    """
    level = [(tree, 0)]
    while level:
        below = [
            (child, depth + (not isinstance(child, JOINING)))
            for node, depth in level
            for child in node.iter_expressions()
        ]
        if any(depth > MAX_CALLS for _, depth in below):
            raise InvalidArgument(
                f"{what}: the SQL is nested too deeply, up to {MAX_CALLS} functions, lists or CASEs in each other "
                "are run"
            )
        level = below


def _run_on_large_stack(work: Callable[[], T]) -> T:
    """Run `work` on a separate thread, whose calls may nest `MAX_RECURSION` deep. Raises as `work`."""
    done: list[T] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            done.append(work())
        except BaseException as error:  # noqa: BLE001 - raised below, in the calling thread
            failed.append(error)

    with _turn:  # both settings affect the whole process
        calls, size = sys.getrecursionlimit(), threading.stack_size(STACK_BYTES)
        thread = threading.Thread(target=run, name="morrow-deep-sql")
        try:
            sys.setrecursionlimit(max(calls, MAX_RECURSION))
            try:
                thread.start()
            except RuntimeError as error:  # not enough memory for the stack
                raise RecursionError from error
            finally:
                threading.stack_size(size)
            thread.join()
        finally:
            sys.setrecursionlimit(calls)
    if failed:
        raise failed[0]
    return done[0]


CONSTRUCTORS = ("ARRAY", "LIST")
"""Words that sqlglot interprets as constructors before a bracket; DuckDB only does so for an unquoted ARRAY."""
PLAIN = "c"
"""A column name that is not a constructor."""


class Parser(DuckDB.Parser):  # type: ignore[misc, valid-type]  # sqlglot names its parser by a variable
    """DuckDB's parser, for columns with any name."""

    def _parse_bracket(self, this: Any = None) -> Any:
        name = _find_column_name(this)
        if name is None:
            return super()._parse_bracket(this)
        known = name.this
        name.set("this", PLAIN)
        try:
            return super()._parse_bracket(this)
        finally:
            name.set("this", known)


def _find_column_name(node: Any) -> exp.Identifier | None:
    """Return the identifier of a column with the name of a constructor; None for all other nodes."""
    if not isinstance(node, (exp.Column, exp.Identifier, exp.Dot)) or node.name.upper() not in CONSTRUCTORS:
        return None
    name = node if isinstance(node, exp.Identifier) else node.expression if isinstance(node, exp.Dot) else node.this
    if not isinstance(name, exp.Identifier):
        return None
    is_part = isinstance(node, exp.Dot) or node.args.get("table") is not None
    is_column = is_part or name.args.get("quoted") or name.name.upper() != CONSTRUCTORS[0]
    return name if is_column else None


CLASS = re.compile(r"<class '[\w.]*\.(\w+)'>|<(\w+)[^>]*>")
"""The parser's classes and tokens in its messages."""
MISSING = "Required keyword"


def describe_problem(error: SqlglotError) -> str:
    """Return the text after "does not parse": the place and the unexpected text, without names of sqlglot's classes."""
    first = error.errors[0] if isinstance(error, ParseError) and error.errors else {}
    told = str(first.get("description") or error).splitlines()[0]
    if CLASS.search(told) or told.startswith(MISSING):
        told = "something is missing, or stands where it cannot"
    where = f" at line {first['line']}, column {first['col']}" if first.get("line") else ""
    near = f", near {first['highlight']!r}" if first.get("highlight") else ""
    return f"{where}{near}: {told}"


DOUBLE_DIGITS, FLOAT_DIGITS = 2**53, 2**24
"""The integers up to which DOUBLE and FLOAT represent all integers."""
DOUBLE_TENS, FLOAT_TENS = 22, 10
"""The powers of ten that DOUBLE and FLOAT represent exactly, so that a single division rounds correctly."""

_INTEGER = re.compile(r"[+-]?\d+")
_DECIMAL = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)")
_REAL = re.compile(r"[+-]?((\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?|inf|infinity|nan)", re.IGNORECASE)
_DATE = re.compile(r"(\d{4})-(\d{2})-(\d{2})")
_TIME = re.compile(r"(\d{2}):(\d{2}):(\d{2})(?:\.(\d{1,6}))?")
_STAMP = re.compile(
    r"(?P<date>\d{4}-\d{2}-\d{2})(?:[ T](?P<time>\d{2}:\d{2}:\d{2}(?:\.\d{1,6})?)(?P<zone>Z|[+-]\d{2}(?::\d{2})?)?)?"
)
_BYTE = re.compile(r"\\x([0-9A-Fa-f]{2})")
_MAYBE_TEMPORAL = re.compile(
    r"\s*([+-]?\d[\d\s:./\\+\-TtZz]*([A-Za-z/_]+|\([bB][cC]\))?|epoch|-?infinity|inf|-inf)\s*", re.IGNORECASE
)
_MAYBE_NUMBER = re.compile(r"\s*[+-]?(\d|\.\d|inf|nan)[\w.+-]*\s*", re.IGNORECASE)


def from_text(text: str, column: t.DataField) -> Value | None:
    """Return an untyped string as a value of the column; None if DuckDB may interpret it otherwise.

    Raises `InvalidArgument`: the string is not a value of the column's type.
    """
    read = next((read for kinds, read in _READERS if isinstance(column.type, kinds)), None)
    if read is None:
        return None
    try:
        return read(text, column.type)
    except ValueError:
        raise InvalidArgument(
            f"filter: {text!r} is not a valid {column.type.text()}, the type of column {column.name!r}"
        ) from None


def _read_boolean(text: str, _kind: t.DataType) -> Value | None:
    word = text.lower()
    if word in ("true", "t", "false", "f"):
        return word[0] == "t"
    return _reject_form(word not in ("1", "0", "yes", "no", "y", "n"))


def _read_integer(text: str, kind: t.DataType) -> Value | None:
    if not _INTEGER.fullmatch(text):
        return _reject_form(not _MAYBE_NUMBER.fullmatch(text))
    snap = snap_literal(kind, int(text))
    return snap.below if snap and snap.exact else _reject_form(True)


def _read_decimal(text: str, kind: t.DataType) -> Value | None:
    if not _DECIMAL.fullmatch(text):
        return _reject_form(not _MAYBE_NUMBER.fullmatch(text))
    snap = snap_literal(kind, Decimal(text))
    return snap.below if snap and snap.exact else None


def _read_float(text: str, kind: t.DataType) -> Value | None:
    if not _REAL.fullmatch(text):
        return _reject_form(not _MAYBE_NUMBER.fullmatch(text))
    value = float(text)
    if not np.isfinite(value):
        return value if text.lstrip("+-")[0].isalpha() else None
    if isinstance(kind, t.DoubleType):
        return value
    snap = snap_literal(kind, value)
    if snap and snap.exact:
        return snap.below
    return convert_number(Decimal(text), t.DataField(0, "", kind)) if _DECIMAL.fullmatch(text) else None


def _read_date(text: str, _kind: t.DataType) -> Value | None:
    if not _DATE.fullmatch(text):
        return _reject_form(not _MAYBE_TEMPORAL.fullmatch(text))
    return None if text.startswith("0000") else dt.date.fromisoformat(text)


def _read_time(text: str, _kind: t.DataType) -> Value | None:
    match = _TIME.fullmatch(text)
    if match is None or match[1] == "24":
        return _reject_form(not _MAYBE_TEMPORAL.fullmatch(text))
    return dt.time(int(match[1]), int(match[2]), int(match[3]), int((match[4] or "").ljust(6, "0")))


def _read_timestamp(text: str, kind: t.DataType) -> Value | None:
    match = _STAMP.fullmatch(text)
    if match is None or match["date"].startswith("0000") or (match["time"] or "").startswith("24"):
        return _reject_form(not _MAYBE_TEMPORAL.fullmatch(text))
    date = _read_date(match["date"], kind)
    time = _read_time(match["time"] or "00:00:00", kind)
    if not isinstance(date, dt.date) or not isinstance(time, dt.time):
        return None
    value, zone = dt.datetime.combine(date, time), match["zone"]
    if isinstance(kind, t.LocalZonedTimestampType):
        value = value.replace(tzinfo=dt.UTC) if zone in (None, "Z") else _shift_to_utc(value, zone)
    elif zone:
        return None  # DuckDB decides whether it ignores the zone here
    snap = snap_literal(kind, value)
    return snap.below if snap and snap.exact else None


def _shift_to_utc(value: dt.datetime, zone: str) -> dt.datetime:
    hours, minutes = int(zone[1:3]), int(zone[4:6] or 0)
    offset = dt.timedelta(hours=hours, minutes=minutes) * (-1 if zone[0] == "-" else 1)
    try:
        return (value - offset).replace(tzinfo=dt.UTC)
    except OverflowError:
        raise ValueError("beyond the years 1 to 9999") from None


def _read_binary(text: str, _kind: t.DataType) -> Value | None:
    plain = _BYTE.sub("", text)
    if not plain.isascii() or "\\" in plain:
        return None
    parts = _BYTE.split(text)
    return b"".join(bytes.fromhex(part) if i % 2 else part.encode("ascii") for i, part in enumerate(parts))


def _reject_form(certainly: bool) -> Value | None:
    """Handle a form that is not read here: raise if DuckDB cannot read it either, otherwise leave it to DuckDB."""
    if certainly:
        raise ValueError
    return None


_READERS: tuple[
    tuple[type[t.DataType] | tuple[type[t.DataType], ...], Callable[[str, t.DataType], Value | None]], ...
] = (
    (STRING_TYPES, lambda text, _kind: text),
    (t.BooleanType, _read_boolean),
    (tuple(INTEGER_BITS), _read_integer),
    (t.DecimalType, _read_decimal),
    ((t.FloatType, t.DoubleType), _read_float),
    (t.DateType, _read_date),
    (t.TimeType, _read_time),
    ((t.TimestampType, t.LocalZonedTimestampType), _read_timestamp),
    (BINARY_TYPES, _read_binary),
)


def convert_number(value: Any, column: t.DataField) -> Value | None:
    """Convert INTEGER and DECIMAL literals: exact for integers and decimals, rounded once for FLOAT and DOUBLE."""
    if not isinstance(column.type, (t.FloatType, t.DoubleType)):
        return value if isinstance(column.type, (*INTEGER_BITS, t.DecimalType)) else None
    single = isinstance(column.type, t.FloatType)
    digits, tens = (FLOAT_DIGITS, FLOAT_TENS) if single else (DOUBLE_DIGITS, DOUBLE_TENS)
    sign, coefficient, exponent = Decimal(value).as_tuple()
    unscaled = int("".join(map(str, coefficient)))
    if not isinstance(exponent, int) or exponent > 0 or unscaled > digits or -exponent > tens:
        return None
    dtype: type[np.float32] | type[np.float64] = np.float32 if single else np.float64
    return float(dtype(-unscaled if sign else unscaled) / dtype(10**-exponent))


def convert_double(value: Any, column: t.DataField) -> Value | None:
    """Convert DOUBLE literals: the column is cast to DOUBLE, which is exact except for large integers and decimals."""
    bits = INTEGER_BITS.get(type(column.type))
    if bits:
        return value if bits <= 32 or not np.isfinite(value) or abs(value) < DOUBLE_DIGITS else None
    return value if isinstance(column.type, (t.FloatType, t.DoubleType)) else None


def convert_float(value: Any, column: t.DataField) -> Value | None:
    return value if isinstance(column.type, (t.FloatType, t.DoubleType)) else None


@dataclass(frozen=True)
class Constant:
    """A literal: its Python value, and whether it is an untyped string (`family` "text") or its type."""

    value: Value | None
    family: str


NULL = Constant(None, "null")

_NUMBER = re.compile(r"(?P<whole>\d*)(?:\.(?P<fraction>\d*))?(?P<exponent>[eE][+-]?\d+)?")


def read_constant(node: Node) -> Constant | None:
    """Return the literal of a node, or None."""
    node = node.unnest()
    read = _CONSTANTS.get(type(node))
    return read(node) if read else None


def _read_literal(node: Node) -> Constant | None:
    return Constant(str(node.this), "text") if node.args.get("is_string") else _read_number(str(node.this))


def _read_number(text: str) -> Constant | None:
    match = _NUMBER.fullmatch(text)
    if match is None or not (match["whole"] or match["fraction"]):
        return None
    if match["exponent"]:
        return Constant(float(text), "double")
    if match["fraction"] is None:
        return Constant(int(text), "number")
    return Constant(Decimal(text), "number") if len(match["whole"] + match["fraction"]) <= MAX_DECIMAL_DIGITS else None


def _read_negative(node: Node) -> Constant | None:
    inner = read_constant(node.this)
    if inner is None or inner is NULL:
        return inner
    if not isinstance(inner.value, (int, float, Decimal)) or isinstance(inner.value, bool):
        return None
    return Constant(inner.value.copy_negate() if isinstance(inner.value, Decimal) else -inner.value, inner.family)


def _read_hexadecimal(node: Node) -> Constant | None:
    digits = str(node.this)
    return Constant(bytes.fromhex(digits), "blob") if len(digits) % 2 == 0 else None


def _read_cast(node: Node) -> Constant | None:
    """Read ``DATE '2024-01-01'``, ``CAST('..' AS DATE)``, ``'..'::DATE``: only casts without rounding."""
    inner, target = read_constant(node.this), find_cast_target(node)
    if inner is None or inner is NULL or target is None:
        return NULL if inner is NULL and target is not None else None
    kind, family = target
    if inner.family == "text":
        value = from_text(str(inner.value), t.DataField(0, "literal", kind))
        return None if value is None else Constant(value, family)
    if inner.family != family or inner.value is None:
        return None
    snap = snap_literal(kind, inner.value)
    return Constant(snap.below, family) if snap and snap.exact else None


def find_cast_target(node: Node) -> tuple[t.DataType, str] | None:
    """Return the type of a cast, and the family of its literals; None for a type with options or of another kind."""
    target = node.args.get("to")
    options = {name for name, value in node.args.items() if value not in (None, False, [])} - {"this", "to", "_type"}
    if not isinstance(target, exp.DataType) or options:
        return None
    sizes = [int(size.name) for size in target.expressions if size.name.isdigit()]
    if target.this.name == "DECIMAL" and len(sizes) == 2 and 0 < sizes[0] <= MAX_DECIMAL_DIGITS:
        return t.DecimalType(precision=sizes[0], scale=sizes[1]), "number"
    return None if target.expressions else _CAST_TARGETS.get(target.this.name)


_CAST_TARGETS: dict[str, tuple[t.DataType, str]] = {
    "DATE": (t.DateType(), "date"),
    "TIME": (t.TimeType(), "time"),
    "TIMESTAMP": (t.TimestampType(), "timestamp"),
    "TIMESTAMPNTZ": (t.TimestampType(), "timestamp"),
    "TIMESTAMPTZ": (t.LocalZonedTimestampType(), "timestamptz"),
    "TINYINT": (t.TinyIntType(), "number"),
    "SMALLINT": (t.SmallIntType(), "number"),
    "INT": (t.IntType(), "number"),
    "BIGINT": (t.BigIntType(), "number"),
    "FLOAT": (t.FloatType(), "float"),
    "DOUBLE": (t.DoubleType(), "double"),
    "BOOLEAN": (t.BooleanType(), "boolean"),
    "TEXT": (t.VarCharType(), "text"),
    "VARCHAR": (t.VarCharType(), "text"),
    "VARBINARY": (t.VarBinaryType(), "blob"),
}

_CONSTANTS: dict[type, Callable[[Any], Constant | None]] = {
    exp.Literal: _read_literal,
    exp.Boolean: lambda node: Constant(bool(node.this), "boolean"),
    exp.Null: lambda _node: NULL,
    exp.Neg: _read_negative,
    exp.HexString: _read_hexadecimal,
    exp.RawString: lambda node: Constant(str(node.this), "text"),
    exp.Cast: _read_cast,
}


def convert_constant(literal: Constant, column: t.DataField) -> Value | None:
    """Return the value that DuckDB compares the column with; None if DuckDB casts the column or rounds.

    Raises `InvalidArgument`: an untyped string that is not a value of the column's type.
    """
    convert = _TYPED.get(literal.family)
    return literal.value if convert is None or literal.value is None else convert(literal.value, column)


def _convert_timestamp(value: Any, column: t.DataField) -> Value | None:
    assert isinstance(value, dt.datetime)
    zoned = isinstance(column.type, t.LocalZonedTimestampType)
    return value.replace(tzinfo=dt.UTC) if zoned else value


_TYPED: dict[str, Callable[[Any, t.DataField], Value | None]] = {
    "text": from_text,
    "number": convert_number,
    "double": convert_double,
    "float": convert_float,
    "timestamp": _convert_timestamp,
}
