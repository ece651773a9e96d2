"""Functions and paths over VARIANT in SQL, and conditions on the parts of variants that files may have as columns.

Functions over VARIANT are ``parse_json``, ``variant_get``, and paths such as ``payload:items[0].price::int``. A path is
a name, a colon and a name without blanks in between. DuckDB's ``name: value`` and ``{name: value}`` are left alone.
``to_duckdb_variant`` gives DuckDB's own VARIANT, which version 2 has.

A variant is a struct of two blobs in DuckDB. The functions are replaced with functions of Morrow, which DuckDB calls
with Arrow arrays, and with casts.

``payload:age::int > 30`` compares a *part* of a variant: a path in a column, and a type. Files may have shredded the
part into a column of its own. A condition that reads nothing but parts is therefore a predicate over them, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import SqlglotError, TokenError
from sqlglot.tokenizer_core import Token, TokenType

from morrow.engine.errors import InvalidArgument
from morrow.engine.format.types import VariantType
from morrow.engine.names import reserve_name
from morrow.engine.plan.filter.sql_parsing import Node, find_cast_target
from morrow.engine.plan.predicate import (
    VARIANT_IS_NULL,
    VARIANT_PARSE,
    VARIANT_PART,
    VARIANT_TEXT,
    VARIANT_TRY_PARSE,
    Columns,
    VariantPart,
)
from morrow.engine.structs import replace

WHOLE = ("TINYINT", "SMALLINT", "INT", "BIGINT")
DROP_FRACTION = "regexp_replace"
FRACTION = r"^(-?[0-9]+)\.[0-9]*$"
"""A decimal, whose fraction a cast to an integer drops."""
OPENING, CLOSING = (TokenType.L_BRACE, TokenType.L_BRACKET), (TokenType.R_BRACE, TokenType.R_BRACKET)
STEPS = (TokenType.NUMBER, TokenType.STRING)
PARTS = ("metadata", "value")
"""The order in which DuckDB's function takes the bytes of a variant."""
GETS = {"variant_get": exp.Cast, "try_variant_get": exp.TryCast}


def write_paths(query: str, dialect: type[DuckDB] = DuckDB) -> str:
    """Return a query or condition with calls of ``variant_get`` instead of paths after colons."""
    if ":" not in query:
        return query
    for start, colon, end in reversed(_find_paths(query, dialect)):
        column, path = query[start:colon], query[colon + 1 : end]
        path = path if path.startswith("[") else f".{path}"
        quoted = f"${path}".replace("'", '"')
        query = f"{query[:start]}variant_get({column}, '{quoted}'){query[end:]}"
    return query


def _find_paths(query: str, dialect: type[DuckDB]) -> list[tuple[int, int, int]]:
    """Return the starts, colons and ends of paths in the text of a query."""
    try:
        tokens = dialect.Tokenizer(dialect=dialect).tokenize(query)
    except TokenError:  # reported when the query is parsed
        return []
    found, depth = [], 0
    for at, token in enumerate(tokens):
        depth += token.token_type in OPENING
        depth -= token.token_type in CLOSING
        if token.token_type is not TokenType.COLON or depth or not 0 < at < len(tokens) - 1:
            continue
        if not (_is_name(tokens[at - 1]) and _touch(tokens[at - 1], token) and _touch(token, tokens[at + 1])):
            continue
        first = at - 1
        while first > 1 and tokens[first - 1].token_type is TokenType.DOT and _is_name(tokens[first - 2]):
            first -= 2
        last = _find_end(tokens, at)
        if last > at:
            found.append((tokens[first].start, token.start, tokens[last].end + 1))
    return found


def _find_end(tokens: Sequence[Token], colon: int) -> int:
    """Return the last token of the path after a colon; the colon if there is no path."""
    last = colon
    while last + 1 < len(tokens):
        ahead = tokens[last + 1 :]
        is_first = last == colon
        if is_first and _is_name(ahead[0]):
            last += 1
        elif not is_first and len(ahead) > 1 and ahead[0].token_type is TokenType.DOT and _is_name(ahead[1]):
            last += 2
        elif len(ahead) > 2 and ahead[0].token_type is TokenType.L_BRACKET and _touch(tokens[last], ahead[0]):
            if ahead[1].token_type not in STEPS or ahead[2].token_type is not TokenType.R_BRACKET:
                break
            last += 3
        else:
            break
    return last


def _touch(one: Token, other: Token) -> bool:
    return bool(one.end + 1 == other.start)


def _is_name(token: Token) -> bool:
    return token.token_type in (TokenType.VAR, TokenType.IDENTIFIER) or token.text.isidentifier()


def put_variant_functions(tree: Node) -> bool:
    """Replace the functions over VARIANT below a node with the functions of Morrow; return whether there were any."""
    found = [node for node in tree.find_all(exp.Func) if _name(node) in REPLACEMENTS]
    for node in reversed(found):  # inner calls first
        made = REPLACEMENTS[_name(node)](node)
        parent = node.parent
        if isinstance(parent, exp.Cast) and isinstance(made, exp.Anonymous) and made.name == VARIANT_PART:
            parent.replace(_cast(made.expressions[0], made.expressions[1], parent.to, type(parent)))
        else:
            node.replace(made)
    return bool(found)


def is_part(node: Node) -> bool:
    """Return whether a call gives a part of a variant."""
    return _name(node) in GETS


def _name(node: Node) -> str:
    if isinstance(node, exp.ParseJSON):
        return "try_parse_json" if node.args.get("safe") else "parse_json"
    return node.name.lower() if isinstance(node, exp.Anonymous) else ""


def _list_arguments(node: Node, least: int, most: int) -> list[Node]:
    arguments = node.expressions if isinstance(node, exp.Anonymous) else [node.this]
    if not least <= len(arguments) <= most:
        raise InvalidArgument(f"{_name(node)} takes {least} to {most} arguments, not {len(arguments)}")
    return list(arguments)


def _call(name: str, *arguments: Node) -> Node:
    return exp.Anonymous(this=name, expressions=[each.copy() for each in arguments])


def _get(node: Node) -> Node:
    value, *others = _list_arguments(node, 1, 3)
    path = others[0] if others else exp.Literal.string("$")
    if len(others) < 2:
        return _call(VARIANT_PART, value, path)
    kind = others[1]
    if not isinstance(kind, exp.Literal) or not kind.is_string:
        raise InvalidArgument(f"{_name(node)}: the type is a text such as 'int', not {kind.sql()}")
    if kind.name.strip().lower() == "variant":
        return _call(VARIANT_PART, value, path)
    try:
        target = exp.DataType.build(kind.name, dialect="spark")
    except (SqlglotError, ValueError) as error:
        raise InvalidArgument(f"{_name(node)}: {kind.name!r} is not a type") from error
    return _cast(value, path, target, GETS[_name(node)])


def _cast(value: Node, path: Node, target: Node, cast: type[exp.Cast]) -> Node:
    """Return the part of a variant as a cast of its text to a type of DuckDB."""
    text = _call(VARIANT_TEXT, value, path)
    if target.this in exp.DataType.NESTED_TYPES:
        text = cast(this=text, to=exp.DataType.build("json", dialect="duckdb"))
    elif target.sql(dialect="duckdb").upper() in WHOLE:
        text = _call(DROP_FRACTION, text, exp.Literal.string(FRACTION), exp.Literal.string(r"\1"))
    return cast(this=text, to=target.copy())


def _to_own(node: Node) -> Node:
    (value,) = _list_arguments(node, 1, 1)
    members = [exp.Dot(this=exp.Paren(this=value.copy()), expression=exp.to_identifier(name)) for name in PARTS]
    made = _call("variant_bytes_to_variant", exp.DPipe(this=members[0], expression=members[1]))
    return exp.Case(ifs=[exp.If(this=exp.Not(this=exp.Is(this=value.copy(), expression=exp.Null())), true=made)])


REPLACEMENTS: dict[str, Callable[[Node], Node]] = {
    "parse_json": lambda node: _call(VARIANT_PARSE, *_list_arguments(node, 1, 1)),
    "try_parse_json": lambda node: _call(VARIANT_TRY_PARSE, *_list_arguments(node, 1, 1)),
    "is_variant_null": lambda node: _call(VARIANT_IS_NULL, *_list_arguments(node, 1, 1)),
    "variant_get": _get,
    "try_variant_get": _get,
    "to_duckdb_variant": _to_own,
}


# --- parts ---


def put_parts(tree: Node, columns: Columns, parts: dict[VariantPart, VariantPart]) -> Node:
    """Return a condition with columns instead of parts of variants, which are added to `parts`, by their value.

    `tree` has the functions of `put_variant_functions`. Parts of other types than Morrow's, and of members of rows, are
    left as they are.
    """
    root = exp.Paren(this=tree.copy())
    for node in list(root.find_all(exp.Cast)):
        made = _read_part(node, columns)
        if made is not None:
            part = parts.setdefault(made, replace(made, name=reserve_name("part", f"{len(parts)}x")))
            node.replace(exp.column(part.name, quoted=True))
    return root.this


def _read_part(node: exp.Cast, columns: Columns) -> VariantPart | None:
    target, call = find_cast_target(node), node.this
    if isinstance(call, exp.Anonymous) and call.name == DROP_FRACTION:
        call = call.expressions[0]
    if target is None or not isinstance(call, exp.Anonymous) or call.name != VARIANT_TEXT:
        return None
    column, path = call.expressions
    if not isinstance(column, exp.Column) or len(column.parts) > 1 or not isinstance(path, exp.Literal):
        return None
    field = columns.find(column.name)
    if not isinstance(field.type, VariantType):
        return None
    from morrow.engine.format.variant_arrays import parse_path

    return VariantPart("", field.name, parse_path(path.name), target[0])
