"""Parsing of SQL by sqlglot: deep nesting, columns named ``array`` or ``list``, and messages of syntax errors.

sqlglot recurses some forty calls per parenthesis, so thirty of them exhaust a thousand calls. Text that exceeds the
stack is parsed again on a thread with a larger stack. Text that nests deeper than DuckDB supports is refused before
parsing, since a compiled parser would crash the process.

sqlglot interprets ``"array"[1]`` as the array of 1, `Parser` as an element of the column.
"""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import ParseError, SqlglotError
from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]  # re-exported, in every version

from morrow.engine.errors import InvalidArgument
from morrow.engine.plan.filter.literals import Node
from morrow.engine.plan.predicate import Op

MAX_NESTING = 512
"""The maximum nesting depth of brackets, CASEs and prefixes."""
MAX_CALLS = 200
"""The maximum nesting depth of functions, lists, CASEs etc.: DuckDB crashes at some hundreds of nested lists."""
MAX_RECURSION = 60_000
"""The recursion limit for that depth."""
STACK_BYTES = 512 << 20
"""Bytes of address space; memory is allocated as it is used."""

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

_turn = threading.Lock()


def run_with_stack(work: Callable[[], T], text: str, what: str) -> T:
    """Return the result of `work` on the SQL `text`, run on a stack that is large enough.

    Raises:
        InvalidArgument: the text is nested too deeply; the message begins with `what`.
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

    Raises:
        InvalidArgument: the message begins with `what`.
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
