"""Parts of a SQL condition as predicates; those that are none stay as they were written."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from morrow.engine.format.types import BooleanType, DataField
from morrow.engine.plan.filter.literals import STRING_TYPES, comparison, is_null, membership, not_null
from morrow.engine.plan.filter.sql_lists import Shelved, constants
from morrow.engine.plan.filter.sql_literals import NULL, Constant, Node, constant, typed
from morrow.engine.plan.filter.terms import Columns, all_true, any_true
from morrow.engine.plan.predicate import ALWAYS, NEGATED, NEVER, Leaf, Op, Predicate

MIRRORED = {Op.EQ: Op.EQ, Op.NE: Op.NE, Op.LT: Op.GT, Op.LE: Op.GE, Op.GT: Op.LT, Op.GE: Op.LE}


class Translator:
    """A translator of nodes to the rows for which they are true (or false); None when no predicate says it exactly."""

    def __init__(self, columns: Columns, lists: Shelved) -> None:
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
        """Returns the rows where `node` is `want`, neither null nor the opposite."""
        rule = self._rules.get(type(node))
        if rule is None or not _plain(node):
            return None
        return rule(node, want is not bool(node.args.get("negate")))

    def _column(self, node: Node) -> DataField | None:
        node = node.unnest()
        if not isinstance(node, exp.Column) or len(node.parts) > 1:
            return None
        return self._columns.find(node.name)

    def _connective(self, node: Node, want: bool) -> Predicate | None:
        assert isinstance(node, exp.Connector)
        children = [self.rows(child, want) for child in node.flatten()]
        return all_true(children) if isinstance(node, exp.And) is want else any_true(children)

    def _bare_column(self, node: Node, want: bool) -> Predicate | None:
        column = self._column(node)
        return Leaf(column.name, Op.EQ, (want,)) if column and isinstance(column.type, BooleanType) else None

    def _comparison(self, node: Node, want: bool) -> Predicate | None:
        op = COMPARISONS[type(node)] if want else NEGATED[COMPARISONS[type(node)]]
        return self._compared(node.this, op, node.expression) or self._compared(
            node.expression, MIRRORED[op], node.this
        )

    def _compared(self, left: Node, op: Op, right: Node) -> Predicate | None:
        column, literal = self._column(left), constant(right)
        if column is None or literal is None:
            return None
        if literal is NULL:
            return NEVER
        value = typed(literal, column)
        return None if value is None else comparison(column, op, value)

    def _between(self, node: Node, want: bool) -> Predicate | None:
        if node.args.get("symmetric"):
            return None
        low, high = node.args["low"], node.args["high"]
        if want:
            return all_true([self._compared(node.this, Op.GE, low), self._compared(node.this, Op.LE, high)])
        return any_true([self._compared(node.this, Op.LT, low), self._compared(node.this, Op.GT, high)])

    def _in(self, node: Node, want: bool) -> Predicate | None:
        column = self._column(node.this)
        literals = self._literals(node.expressions)
        if column is None or not literals or any(literal is None for literal in literals):
            return None
        if len({literal.family for literal in literals if literal is not None and literal is not NULL}) > 1:
            return None  # DuckDB would first cast the list to one type
        values = [typed(literal, column) for literal in literals if literal is not None and literal is not NULL]
        known = [value for value in values if value is not None]
        if len(known) < len(values):
            return None
        if NULL in literals and not want:
            return NEVER
        return membership(column, known, negated=not want) if known else NEVER

    def _literals(self, items: Sequence[Node]) -> Sequence[Constant | None]:
        if len(items) == 1 and items[0].name in self._lists:
            return constants(self._lists[items[0].name])
        return [constant(item) for item in items]

    def _is(self, node: Node, want: bool) -> Predicate | None:
        operand, right = node.this, node.expression
        column = self._column(operand)
        if isinstance(right, exp.Null):
            if column is None:
                return None
            return is_null(column) if want else not_null(column)
        if not isinstance(right, exp.Boolean):
            return None
        value = bool(right.this)
        if want:
            return self.rows(operand, value)
        other = self.rows(operand, not value)
        return any_true([other, is_null(column)]) if column else None

    def _null_safe(self, node: Node, want: bool) -> Predicate | None:
        equal = isinstance(node, exp.NullSafeEQ) is want
        for left, right in ((node.this, node.expression), (node.expression, node.this)):
            column, literal = self._column(left), constant(right)
            if column is None or literal is None:
                continue
            if literal is NULL:
                return is_null(column) if equal else not_null(column)
            same = self._compared(left, Op.EQ if equal else Op.NE, right)
            return same if equal else any_true([same, is_null(column)])
        return None

    def _like(self, node: Node, want: bool) -> Predicate | None:
        literal = constant(node.expression)
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
        literal = constant(node.expression)
        if literal is None or not isinstance(literal.value, str):
            return None
        return self._text(node.this, Op.STARTS_WITH, literal.value, want)

    def _text(self, operand: Node, op: Op, literal: str, want: bool) -> Predicate | None:
        column = self._string_column(operand)
        return Leaf(column.name, op if want else NEGATED[op], (literal,)) if column else None

    def _string_column(self, node: Node) -> DataField | None:
        column = self._column(node)
        return column if column and isinstance(column.type, STRING_TYPES) else None


KNOWN_ARGUMENTS = frozenset({"this", "expression", "expressions", "low", "high", "symmetric", "negate"})


def _plain(node: Node) -> bool:
    """Returns whether the rules read all arguments of the node (not a column's table, a subquery of IN, an option)."""
    return all(name in KNOWN_ARGUMENTS or value in (None, False, []) for name, value in node.args.items())


COMPARISONS: dict[type, Op] = {
    exp.EQ: Op.EQ,
    exp.NEQ: Op.NE,
    exp.LT: Op.LT,
    exp.LTE: Op.LE,
    exp.GT: Op.GT,
    exp.GTE: Op.GE,
}
