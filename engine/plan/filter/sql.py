"""Translation of SQL text to predicates: the body of a WHERE clause in DuckDB's dialect.

The text is cut at its top-level ANDs by tokens, so a part that is no predicate is passed on exactly as written. A part
becomes a predicate by asking each node for the rows where it is true, or where it is false: with both questions NOT
needs no operator of its own and NULL stays unknown on both sides.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import sqlglot
from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import SqlglotError
from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]  # re-exported, in every version

from morrow.engine.errors import InvalidArgument
from morrow.engine.format.types import BooleanType
from morrow.engine.plan.filter.deep import CLOSING, OPENING, check_calls, with_room
from morrow.engine.plan.filter.sql_brackets import Parser
from morrow.engine.plan.filter.sql_errors import problem_of
from morrow.engine.plan.filter.sql_lists import Shelved, shelved
from morrow.engine.plan.filter.sql_literals import Node
from morrow.engine.plan.filter.sql_predicates import Translator
from morrow.engine.plan.filter.terms import Columns, Part, Residual, shallow, shortened


class _Dialect(DuckDB):
    """DuckDB with hexadecimal strings, a later addition to its syntax: ``x'00ff'``."""

    class Tokenizer(DuckDB.Tokenizer):
        HEX_STRINGS = [("x'", "'"), ("X'", "'")]  # noqa: RUF012 - the form sqlglot's tokenizer reads

    Parser = Parser


FORBIDDEN: dict[type, str] = {
    exp.AggFunc: "an aggregate function",
    exp.Window: "a window function",
    exp.Query: "a subquery",
    exp.Exists: "a subquery",
    exp.Placeholder: "a parameter",
    exp.Parameter: "a parameter",
    exp.Star: "a star",
    exp.Unnest: "UNNEST",
    exp.Explode: "UNNEST",
}

VALUES = (exp.Literal, exp.Neg, exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod)
"""What DuckDB casts to a boolean, so that ``5`` or ``id`` would keep every row: a slip, and of a delete a dear one."""
JOINTS = (exp.And, exp.Or, exp.Not, exp.Paren)
"""What is a condition where its operands are."""

STATEMENTS = ("Block", "Command")


def split_sql(text: str, columns: Columns) -> list[Part]:
    """Returns the conjuncts.

    Raises:
        InvalidArgument, ColumnNotFound: see `parse_filter`.
    """
    lists = shelved(text)
    return with_room(lambda: _split(text, lists, columns), lists.text, "filter")


def _split(text: str, lists: Shelved, columns: Columns) -> list[Part]:
    whole = _parsed(lists.text)
    _check(whole, text)
    pieces = list(_conjuncts(lists.text, list(_Dialect().tokenize(lists.text))))
    trees = [whole] if len(pieces) == 1 else [_parsed(piece) for piece in pieces]
    translator = Translator(columns, lists)
    conditions = [shallow(translator.rows(tree, True)) for tree in trees]
    rest = [(piece, tree) for piece, tree, known in zip(pieces, trees, conditions) if known is None]
    for _, tree in rest:
        check_calls(tree, "filter")
        _check_is_condition(tree, columns)
    parts: list[Part] = [condition for condition in conditions if condition is not None]
    return [*parts, _residual(rest, lists, columns)] if rest else parts


def _residual(rest: Sequence[tuple[str, Node]], lists: Shelved, columns: Columns) -> Residual:
    """Combines the conditions without a predicate into one: DuckDB tests each only where those before it are true."""
    names = {name for _, tree in rest for name in _roots(tree)} - lists.lists.keys()
    reads = frozenset(columns.find(name).name for name in names)
    pieces = [lists.restored(piece) for piece, _ in rest]
    # A piece may end in a comment, which a line break closes.
    text = pieces[0] if len(pieces) == 1 else " AND ".join(f"({piece}\n)" for piece in pieces)
    return Residual("sql", text, reads, text, text.encode("utf-8", "surrogatepass"))


def _parsed(text: str) -> Node:
    try:
        tree = sqlglot.parse_one(text, into=exp.Condition, dialect=_Dialect)
    except SqlglotError as error:
        raise InvalidArgument(
            f"filter: the SQL does not parse{problem_of(error)}; it is the body of a WHERE clause: {shortened(text)!r}"
        ) from None
    if type(tree).__name__ in STATEMENTS:
        raise InvalidArgument(f"filter: one condition is expected, not statements: {shortened(text)!r}")
    return tree


def _check(tree: Node, text: str) -> None:
    for node in tree.find_all(*FORBIDDEN):
        name = next(name for kind, name in FORBIDDEN.items() if isinstance(node, kind))
        raise InvalidArgument(
            f"filter: {name} ({shortened(node.sql('duckdb'))}) cannot be used in a filter: {shortened(text)!r}"
        )


def _check_is_condition(tree: Node, columns: Columns) -> None:
    nodes = [tree]
    while nodes:
        node = nodes.pop()
        if isinstance(node, JOINTS):
            nodes += node.iter_expressions()
        elif isinstance(node, VALUES) or (
            isinstance(node, exp.Column)
            and len(node.parts) == 1
            and not isinstance(columns.find(node.name).type, BooleanType)
        ):
            raise InvalidArgument(
                f"filter: {shortened(node.sql('duckdb'))} is a value, no condition; compare it, such as with ="
            )


def _roots(tree: Node) -> Iterator[str]:
    """Yields names of top-level columns: ``a`` of ``a.b.c``; variables of lambdas and comprehensions are excluded."""
    bound = {
        name.name
        for node in tree.find_all(exp.Comprehension, exp.Lambda)
        for name in [*node.expressions, node.expression]
        if isinstance(name, exp.Identifier)
    }
    for column in tree.find_all(exp.Column):
        root = column.parts[0].name
        if root not in bound:
            yield root


def _conjuncts(text: str, tokens: list[Token]) -> Iterator[str]:
    """Yields the text between its top-level ANDs, parentheses around the whole removed."""
    while len(tokens) > 1 and _wraps_all(tokens):
        tokens = tokens[1:-1]
    cuts = _top_level_ands(tokens)
    if not cuts:
        yield text[tokens[0].start : tokens[-1].end + 1]
        return
    for start, end in zip([-1, *cuts], [*cuts, len(tokens)], strict=True):
        yield from _conjuncts(text, tokens[start + 1 : end])


def _top_level_ands(tokens: list[Token]) -> list[int]:
    """Returns the positions of the ANDs that join the whole; none if an OR does. The AND of a BETWEEN joins nothing."""
    depth = betweens = 0
    cuts = []
    for position, token in enumerate(tokens):
        kind = token.token_type
        depth += (kind in OPENING) - (kind in CLOSING)
        if depth:
            continue
        if kind is TokenType.OR:
            return []
        if kind is TokenType.BETWEEN:
            betweens += 1
        elif kind is TokenType.AND:
            if betweens:
                betweens -= 1
            else:
                cuts.append(position)
    return cuts


def _wraps_all(tokens: list[Token]) -> bool:
    if tokens[0].token_type is not TokenType.L_PAREN or tokens[-1].token_type is not TokenType.R_PAREN:
        return False
    depth = 0
    for position, token in enumerate(tokens):
        depth += (token.token_type in OPENING) - (token.token_type in CLOSING)
        if depth == 0:
            return position == len(tokens) - 1
    return False
