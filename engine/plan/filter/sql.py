"""Translation of SQL text to predicates: the body of a WHERE clause in DuckDB's dialect.

The text is cut at its top-level ANDs by tokens, so a part that is not a predicate is passed on exactly as written. A
part becomes a predicate by asking each node for the rows for which it is true, or for which it is false. With both
questions, NOT does not need an operator of its own, and NULL stays unknown on both sides.

sqlglot takes 70 microseconds per literal, and programs write lists of 100,000. So ``IN (1, 2, 3, ...)`` is parsed as
``IN (name)``. The name replaces the list, and is not a valid name of a column.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

import msgspec
import sqlglot
from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import SqlglotError
from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]  # re-exported, in every version

from morrow.engine.errors import InvalidArgument
from morrow.engine.format.types import BooleanType, DataField
from morrow.engine.names import OWN_PREFIX, reserve_name
from morrow.engine.plan.filter.implied import derive_predicate
from morrow.engine.plan.filter.literals import (
    STRING_TYPES,
    build_comparison,
    build_is_not_null,
    build_is_null,
    build_membership,
)
from morrow.engine.plan.filter.sql_parsing import (
    CLOSING,
    COMPARISONS,
    NULL,
    OPENING,
    Constant,
    Node,
    Parser,
    check_calls,
    convert_constant,
    describe_problem,
    read_constant,
    run_with_stack,
)
from morrow.engine.plan.filter.variant_parts import put_parts, put_variant_functions, write_paths
from morrow.engine.plan.predicate import (
    ALWAYS,
    MIRRORED,
    NEGATED,
    NEVER,
    Columns,
    Leaf,
    Op,
    Part,
    PartCondition,
    Predicate,
    Residual,
    VariantPart,
    combine_all,
    combine_any,
    combine_predicates,
    find_columns,
    limit_depth,
    shorten_text,
)


class _Dialect(DuckDB):
    """DuckDB's dialect with hexadecimal strings, which were added to it later: ``x'00ff'``."""

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
"""Expressions that DuckDB would cast to BOOLEAN. Refused, since ``DELETE ... WHERE id`` would delete every row."""
JOINTS = (exp.And, exp.Or, exp.Not, exp.Paren)
"""Expressions that are a condition if their operands are."""

STATEMENTS = ("Block", "Command")


def split_sql(text: str, columns: Columns) -> list[Part]:
    """Return the conjuncts. Raises `InvalidArgument`, `ColumnNotFound`: see `parse_filter`."""
    text = write_paths(text)
    lists = extract_lists(text)
    return run_with_stack(lambda: _split(text, lists, columns), lists.text, "filter")


def _split(text: str, lists: ExtractedLists, columns: Columns) -> list[Part]:
    whole = _parse_condition(lists.text)
    _check(whole, text)
    pieces = list(_split_conjuncts(lists.text, list(_Dialect().tokenize(lists.text))))
    trees = [whole] if len(pieces) == 1 else [_parse_condition(piece) for piece in pieces]
    translator = Translator(columns, lists)
    conditions = [limit_depth(translator.rows(tree, True)) for tree in trees]
    rest = [(piece, tree) for piece, tree, known in zip(pieces, trees, conditions) if known is None]
    for _, tree in rest:
        check_calls(tree, "filter")
        _check_is_condition(tree, columns)
    parts: list[Part] = [condition for condition in conditions if condition is not None]
    if not rest:
        return parts
    derived = [limit_depth(derive_predicate(tree, translator)) for _, tree in rest]
    parts += [predicate for predicate in derived if predicate is not None and predicate != ALWAYS]
    written = [_Condition(piece, lists.restored(piece), tree) for piece, tree in rest]
    found: dict[VariantPart, VariantPart] = {}
    first: list[Predicate] = []
    for number, (piece, tree) in enumerate(rest):
        if not put_variant_functions(tree):
            continue
        written[number] = _Condition(piece, lists.restored(tree.sql(dialect=_Dialect, normalize_functions=False)), tree)
        # A condition after others may fail on rows that these drop.
        by_parts = _find_part_predicate(tree, columns, found, lists) if number == len(first) else None
        first += [] if by_parts is None else [by_parts]
    if first:
        condition = PartCondition(combine_predicates(*first), tuple(found.values()))
        parts.append(_combine_residuals(written[: len(first)], lists, columns, condition))
    return [*parts, _combine_residuals(written[len(first) :], lists, columns)] if len(first) < len(written) else parts


def _find_part_predicate(
    tree: Node, columns: Columns, parts: dict[VariantPart, VariantPart], lists: ExtractedLists
) -> Predicate | None:
    """Return a condition as a predicate over parts of variants; None if it has no exact one, or reads other values.

    Its parts are added to `parts`.
    """
    copy = put_parts(tree, columns, parts)
    names = {part.name for part in parts.values()}
    used = {column.name for column in copy.find_all(exp.Column)} - lists.lists.keys()
    known = Columns([DataField(-1, part.name, part.type) for part in parts.values()])
    predicate = limit_depth(Translator(known, lists).rows(copy, True)) if used and used <= names else None
    # A cast that the predicate leaves out may fail.
    return predicate if predicate is not None and find_columns(predicate) == used else None


class _Condition(msgspec.Struct, frozen=True):
    """A condition without a predicate: as it was written, as DuckDB gets it, and parsed."""

    text: str
    expression: str
    tree: Node


def _combine_residuals(
    conditions: Sequence[_Condition], lists: ExtractedLists, columns: Columns, parts: PartCondition | None = None
) -> Residual:
    """Combine the conditions without a predicate into one: DuckDB tests each only if the previous ones are true."""
    names = {name for each in conditions for name in _find_root_columns(each.tree)} - lists.lists.keys()
    reads = frozenset(columns.find(name).name for name in names)
    text = _join_conditions([lists.restored(each.text) for each in conditions])
    expression = _join_conditions([each.expression for each in conditions])
    return Residual("sql", text, reads, expression, expression.encode("utf-8", "surrogatepass"), parts)


def _join_conditions(pieces: Sequence[str]) -> str:
    # A piece may end in a comment, which a line break closes.
    return pieces[0] if len(pieces) == 1 else " AND ".join(f"({piece}\n)" for piece in pieces)


def _parse_condition(text: str) -> Node:
    try:
        tree = sqlglot.parse_one(text, into=exp.Condition, dialect=_Dialect)
    except SqlglotError as error:
        raise InvalidArgument(
            f"filter: the SQL does not parse{describe_problem(error)}; it is the body of a WHERE clause: "
            f"{shorten_text(text)!r}"
        ) from None
    if type(tree).__name__ in STATEMENTS:
        raise InvalidArgument(f"filter: one condition is expected, not statements: {shorten_text(text)!r}")
    return tree


def _check(tree: Node, text: str) -> None:
    for node in tree.find_all(*FORBIDDEN):
        name = next(name for kind, name in FORBIDDEN.items() if isinstance(node, kind))
        raise InvalidArgument(
            f"filter: {name} ({shorten_text(node.sql('duckdb'))}) cannot be used in a filter: {shorten_text(text)!r}"
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
                f"filter: {shorten_text(node.sql('duckdb'))} is a value, not a condition; compare it, such as with ="
            )


def _find_root_columns(tree: Node) -> Iterator[str]:
    """Yield names of top-level columns: ``a`` of ``a.b.c``; variables of lambdas and comprehensions are excluded."""
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


def _split_conjuncts(text: str, tokens: list[Token]) -> Iterator[str]:
    """Yield the text between its top-level ANDs, parentheses around the whole removed."""
    while len(tokens) > 1 and _is_wrapped(tokens):
        tokens = tokens[1:-1]
    cuts = _find_top_level_ands(tokens)
    if not cuts:
        yield text[tokens[0].start : tokens[-1].end + 1]
        return
    for start, end in zip([-1, *cuts], [*cuts, len(tokens)], strict=True):
        yield from _split_conjuncts(text, tokens[start + 1 : end])


def _find_top_level_ands(tokens: list[Token]) -> list[int]:
    """Return the positions of the ANDs that join the whole; none if an OR does. The AND of a BETWEEN does not count."""
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


def _is_wrapped(tokens: list[Token]) -> bool:
    if tokens[0].token_type is not TokenType.L_PAREN or tokens[-1].token_type is not TokenType.R_PAREN:
        return False
    depth = 0
    for position, token in enumerate(tokens):
        depth += (token.token_type in OPENING) - (token.token_type in CLOSING)
        if depth == 0:
            return position == len(tokens) - 1
    return False


class Translator:
    """A translator of nodes to the rows for which they are true (or false); None without an exact predicate."""

    def __init__(self, columns: Columns, lists: ExtractedLists) -> None:
        self._columns = columns
        self._lists = lists.lists
        self._rules: dict[type, Callable[[Node, bool], Predicate | None]] = {
            exp.And: self._connective,
            exp.Or: self._connective,
            exp.Not: lambda node, want: self.rows(node.this, not want),
            exp.Paren: lambda node, want: self.rows(node.this, want),
            exp.Column: self._bare_column,
            exp.Boolean: lambda node, want: ALWAYS if bool(node.this) is want else NEVER,
            exp.Null: lambda _node, _want: NEVER,
            exp.In: self._in,
            exp.Between: self._between,
            exp.Is: self._is,
            exp.NullSafeEQ: self._null_safe,
            exp.NullSafeNEQ: self._null_safe,
            exp.Like: self._like,
            exp.StartsWith: self._starts_with,
            **dict.fromkeys(COMPARISONS, self._comparison),
        }

    def rows(self, node: Node, want: bool) -> Predicate | None:
        """Return the rows for which `node` is `want`, neither null nor the opposite."""
        rule = self._rules.get(type(node))
        if rule is None or not _is_plain(node):
            return None
        return rule(node, want is not bool(node.args.get("negate")))

    def find_column(self, node: Node) -> DataField | None:
        """Return the column that a node is; None for anything else, also for a member of a column."""
        node = node.unnest()
        if not isinstance(node, exp.Column) or len(node.parts) > 1:
            return None
        return self._columns.find(node.name)

    def _connective(self, node: Node, want: bool) -> Predicate | None:
        assert isinstance(node, exp.Connector)
        children = [self.rows(child, want) for child in node.flatten()]
        return combine_all(children) if isinstance(node, exp.And) is want else combine_any(children)

    def _bare_column(self, node: Node, want: bool) -> Predicate | None:
        column = self.find_column(node)
        return Leaf(column.name, Op.EQ, (want,)) if column and isinstance(column.type, BooleanType) else None

    def _comparison(self, node: Node, want: bool) -> Predicate | None:
        op = COMPARISONS[type(node)] if want else NEGATED[COMPARISONS[type(node)]]
        return self._compare(node.this, op, node.expression) or self._compare(node.expression, MIRRORED[op], node.this)

    def _compare(self, left: Node, op: Op, right: Node) -> Predicate | None:
        column, literal = self.find_column(left), read_constant(right)
        if column is None or literal is None:
            return None
        if literal is NULL:
            return NEVER
        value = convert_constant(literal, column)
        return None if value is None else build_comparison(column, op, value)

    def _between(self, node: Node, want: bool) -> Predicate | None:
        if node.args.get("symmetric"):
            return None
        low, high = node.args["low"], node.args["high"]
        if want:
            return combine_all([self._compare(node.this, Op.GE, low), self._compare(node.this, Op.LE, high)])
        return combine_any([self._compare(node.this, Op.LT, low), self._compare(node.this, Op.GT, high)])

    def _in(self, node: Node, want: bool) -> Predicate | None:
        column = self.find_column(node.this)
        literals = self._literals(node.expressions)
        if column is None or not literals or any(literal is None for literal in literals):
            return None
        if len({literal.family for literal in literals if literal is not None and literal is not NULL}) > 1:
            return None  # DuckDB would first cast the list to a common type
        values = [
            convert_constant(literal, column) for literal in literals if literal is not None and literal is not NULL
        ]
        known = [value for value in values if value is not None]
        if len(known) < len(values):
            return None
        if NULL in literals and not want:
            return NEVER
        return build_membership(column, known, negated=not want) if known else NEVER

    def _literals(self, items: Sequence[Node]) -> Sequence[Constant | None]:
        if len(items) == 1 and items[0].name in self._lists:
            return parse_constants(self._lists[items[0].name])
        return [read_constant(item) for item in items]

    def _is(self, node: Node, want: bool) -> Predicate | None:
        operand, right = node.this, node.expression
        column = self.find_column(operand)
        if isinstance(right, exp.Null):
            if column is None:
                return None
            return build_is_null(column) if want else build_is_not_null(column)
        if not isinstance(right, exp.Boolean):
            return None
        value = bool(right.this)
        if want:
            return self.rows(operand, value)
        other = self.rows(operand, not value)
        return combine_any([other, build_is_null(column)]) if column else None

    def _null_safe(self, node: Node, want: bool) -> Predicate | None:
        equal = isinstance(node, exp.NullSafeEQ) is want
        for left, right in ((node.this, node.expression), (node.expression, node.this)):
            column, literal = self.find_column(left), read_constant(right)
            if column is None or literal is None:
                continue
            if literal is NULL:
                return build_is_null(column) if equal else build_is_not_null(column)
            same = self._compare(left, Op.EQ if equal else Op.NE, right)
            return same if equal else combine_any([same, build_is_null(column)])
        return None

    def _like(self, node: Node, want: bool) -> Predicate | None:
        literal = read_constant(node.expression)
        if literal is NULL:
            return NEVER if self._string_column(node.this) else None
        if literal is None or not isinstance(literal.value, str):
            return None
        pattern: str = literal.value
        prefix = pattern[:-1] if pattern.endswith("%") else pattern
        if "%" in prefix or "_" in prefix:
            return None
        return self._text(node.this, Op.STARTS_WITH if prefix != pattern else Op.EQ, prefix, want)

    def _starts_with(self, node: Node, want: bool) -> Predicate | None:
        literal = read_constant(node.expression)
        if literal is None or not isinstance(literal.value, str):
            return None
        return self._text(node.this, Op.STARTS_WITH, literal.value, want)

    def _text(self, operand: Node, op: Op, literal: str, want: bool) -> Predicate | None:
        column = self._string_column(operand)
        return Leaf(column.name, op if want else NEGATED[op], (literal,)) if column else None

    def _string_column(self, node: Node) -> DataField | None:
        column = self.find_column(node)
        return column if column and isinstance(column.type, STRING_TYPES) else None


KNOWN_ARGUMENTS = frozenset({"this", "expression", "expressions", "low", "high", "symmetric", "negate"})


def _is_plain(node: Node) -> bool:
    """Return whether the rules read all arguments of the node (not a column's table, a subquery of IN, an option)."""
    return all(name in KNOWN_ARGUMENTS or value in (None, False, []) for name, value in node.args.items())


MAX_SHORT_TEXT_LENGTH = 4096
"""The limit of characters of a text that is parsed without extracting lists."""
MIN_LIST_LITERALS = 100
UNCLEAR = ("--", "/*", "$", "\\", OWN_PREFIX)
"""Marks that may begin a comment or another kind of literal: if one occurs, even in a string, the parser decides."""

_NUMBER = r"-?\d{1,19}+(?:\.\d{1,19}+)?+(?![\w.])"
"""At most 38 digits: longer numbers are not DECIMAL."""
_TEXT = r"'(?:[^']|'')*+'"
_LIST = "|".join(
    rf"(?P<{kind}>{literal}(?:\s*+,\s*+{literal}){{{MIN_LIST_LITERALS - 1},}}+)"
    for kind, literal in (("numbers", _NUMBER), ("texts", _TEXT))
)
_TOKEN = re.compile(rf"""{_TEXT}|"(?:[^"]|"")*+"|\b[iI][nN]\s*+\(\s*+(?:{_LIST})\s*+\)""")


@dataclass(frozen=True)
class ExtractedLists:
    """SQL text with long lists replaced by names, and the lists by name."""

    text: str
    lists: Mapping[str, str] = field(default_factory=dict)
    """Name -> the literals, as written."""

    def restored(self, text: str) -> str:
        """Return a part of the text with its original lists."""
        for name, written in self.lists.items():
            text = text.replace(name, written)
        return text


def extract_lists(text: str) -> ExtractedLists:
    """Return the text with its long lists replaced by names."""
    if len(text) <= MAX_SHORT_TEXT_LENGTH or any(mark in text for mark in UNCLEAR):
        return ExtractedLists(text)
    pieces: list[str] = []
    lists: dict[str, str] = {}
    end = 0
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup
        if kind is None:
            continue
        # No name is a prefix of another, because all end in a letter.
        name = reserve_name("list", f"{len(lists)}x")
        lists[name] = match[kind]
        pieces += [text[end : match.start(kind)], name]
        end = match.end(kind)
    return ExtractedLists("".join(pieces) + text[end:], lists)


def parse_constants(written: str) -> list[Constant]:
    """Return the literals of a list, see `morrow.engine.plan.filter.literals.read_constant`."""
    if written.startswith("'"):
        return [Constant(text[1:-1].replace("''", "'"), "text") for text in re.findall(_TEXT, written)]
    if "." not in written:
        return [Constant(number, "number") for number in map(int, written.split(","))]
    return [Constant(Decimal(text) if "." in text else int(text), "number") for text in re.findall(_NUMBER, written)]
