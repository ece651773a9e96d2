"""Rewriting of the SQL of queries before DuckDB gets it: conditions that prune files, and functions over VARIANT.

DuckDB pushes comparisons of numbers and text into the scan of a table, but no comparison of floats, LIKE, function or
list. The WHERE of a SELECT over one table is therefore parsed a second time, as a filter of the table. The scan
gets the predicate that follows from it and drops most rows; DuckDB tests the whole condition on the others.

Functions over VARIANT are ``parse_json``, ``variant_get``, and paths such as ``payload:items[0].price::int``.

A variant is a struct of two blobs in DuckDB. The functions are replaced with functions of Morrow, which DuckDB calls
with Arrow arrays, and with casts. A path is a name, a colon and a name without blanks in between. DuckDB's
``name: value`` and ``{name: value}`` are left alone. ``to_duckdb_variant`` gives DuckDB's own VARIANT, which version 2
has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import SqlglotError, TokenError
from sqlglot.tokenizer_core import Token, TokenType

from morrow.engine.errors import InvalidArgument, MorrowError
from morrow.engine.format.types import ArrayType, DataField, LocalZonedTimestampType, MapType, RowType
from morrow.engine.plan.filter import parse_filter
from morrow.engine.plan.filter.literals import STRING_TYPES
from morrow.engine.plan.predicate import ALWAYS, Predicate, combine_predicates, find_columns
from morrow.queries.dialect import Dialect, Node, bind

if TYPE_CHECKING:
    import duckdb

OTHER_SOURCES = ("joins", "laterals", "sample", "pivots", "match", "connect", "prewhere")
"""Clauses of a SELECT or a table after which WHERE tests other rows than the rows of the table."""


def find_condition(
    table: Node, fields: Sequence[DataField], parameters: Mapping[str, object], connection: duckdb.DuckDBPyConnection
) -> Predicate:
    """Return a predicate that all rows of a table fulfil that its SELECT keeps; `ALWAYS` if none is known.

    Comparisons that depend on the session (times with a zone, text under a collation) are left out.
    """
    select, source, alias = table.parent_select, table.parent, table.args.get("alias")
    if not isinstance(source, exp.From) or source.parent is not select or select is None:
        return ALWAYS
    where = select.args.get("where")
    if where is None:
        return ALWAYS
    if any(node.args.get(clause) for node in (select, table) for clause in OTHER_SOURCES):
        return ALWAYS
    if alias is not None and alias.args.get("columns"):
        return ALWAYS
    renamed = {each.alias.lower() for each in select.expressions if isinstance(each, exp.Alias)}
    condition = where.this
    conjuncts = list(condition.flatten()) if isinstance(condition, exp.And) else [condition]
    names = {(table.alias or table.name).lower()}
    found = [
        predicate
        for conjunct in conjuncts
        if (text := _write_condition(conjunct, names, renamed, parameters)) is not None
        for predicate in _parse_predicate(text, fields)
    ]
    predicate = combine_predicates(*found)
    return ALWAYS if predicate == ALWAYS or _depends_on_session(predicate, where, fields, connection) else predicate


def suits_masks(table: Node, fields: Sequence[DataField]) -> bool:
    """Return whether a query is faster if DuckDB reads the files of a table, and looks up the mask of each row.

    A look-up costs more than to pass a number from Morrow to DuckDB. It costs less if conditions leave few rows, and if
    DuckDB decodes less: it groups text by codes, and reads nested columns and the columns of the top rows in part.
    """
    select = table.parent_select
    if isinstance(select, exp.Select) and _saves_decoding(select, fields):
        return True
    while isinstance(select, exp.Select):
        joins = select.args.get("joins") or ()
        if select.args.get("where") is not None or any(not join.side for join in joins):
            return True
        if any(select.args.get(clause) for clause in ("group", "distinct", "limit")):
            return False
        select = select.parent_select
    return False


def _saves_decoding(select: exp.Select, fields: Sequence[DataField]) -> bool:
    texts = {field.name.casefold() for field in fields if isinstance(field.type, STRING_TYPES)}
    nested = {field.name.casefold() for field in fields if isinstance(field.type, (ArrayType, MapType, RowType))}
    used = {part.name.casefold() for column in select.find_all(exp.Column) for part in column.parts}
    if used & nested:
        return True
    distinct = select.expressions if select.args.get("distinct") is not None else []
    grouped = [*filter(None, [select.args.get("group")]), *select.find_all(exp.Distinct), *distinct]
    if any(column.name.casefold() in texts for clause in grouped for column in clause.find_all(exp.Column)):
        return True
    is_top = select.args.get("order") is not None and select.args.get("limit") is not None
    return is_top and (bool(used & texts) or any(each.is_star for each in select.expressions))


AGGREGATES: Mapping[type[Node], str] = {exp.Count: "count", exp.Min: "min", exp.Max: "max"}
"""Aggregates that metadata may answer."""


def find_aggregates(table: Node, columns: Sequence[str]) -> list[tuple[str, str | None]] | None:
    """Return the aggregates of a SELECT that reads all rows of a table for them; None if it is another query."""
    select, source = table.parent_select, table.parent
    if not isinstance(select, exp.Select) or not isinstance(source, exp.From) or source.parent is not select:
        return None
    if _list_clauses(select) - {"expressions", "from", "from_"} or _list_clauses(table) & {*OTHER_SOURCES}:
        return None
    if isinstance(alias := table.args.get("alias"), exp.TableAlias) and alias.args.get("columns"):
        return None
    found = [_find_aggregate(each.unalias(), columns) for each in select.expressions]
    return None if None in found else [each for each in found if each is not None]


def _list_clauses(node: Node) -> set[str]:
    return {name for name, value in node.args.items() if value}


def _find_aggregate(expression: Node, columns: Sequence[str]) -> tuple[str, str | None] | None:
    function, argument = AGGREGATES.get(type(expression)), expression.this
    if function is None or expression.args.get("expressions"):
        return None
    if isinstance(argument, exp.Star) and not _list_clauses(argument):
        return (function, None) if function == "count" else None
    if not isinstance(argument, exp.Column) or len(argument.parts) > 1 or argument.this.args.get("quoted"):
        return None
    named = [name for name in columns if name.casefold() == argument.name.casefold()]
    return (function, named[0]) if named else None


def put_aggregates(table: Node) -> None:
    """Replace the aggregates of `find_aggregates` with the columns ``s0``, ``s1`` ..., named as DuckDB names them."""
    select = table.parent_select
    assert select is not None  # `find_aggregates` found it
    for number, each in enumerate(select.expressions):
        inner = each.unalias()
        written = (
            "count_star()" if isinstance(inner.this, exp.Star) else f"{AGGREGATES[type(inner)]}({inner.this.name})"
        )
        value = exp.column(f"s{number}", quoted=True)
        name = each.args["alias"] if isinstance(each, exp.Alias) else exp.to_identifier(written, quoted=True)
        each.replace(exp.Alias(this=value, alias=name.copy()))


def _write_condition(
    conjunct: Node, names: set[str], renamed: set[str], parameters: Mapping[str, object]
) -> str | None:
    """Return a condition without the name of its table; None if it names something else than columns of the table."""
    if conjunct.find(exp.Query, exp.AggFunc, exp.Window) is not None:
        return None
    copy = conjunct.copy()
    for column in copy.find_all(exp.Column):
        parts = column.parts
        if len(parts) > 2 or (len(parts) == 2 and parts[0].name.lower() not in names):
            return None
        if column.name.lower() in renamed:
            return None
        column.set("table", None)
    try:
        bind(copy, parameters)
    except MorrowError:  # DuckDB gets the parameter, and says what is wrong with it
        return None
    return str(copy.sql(dialect=DuckDB))


def _parse_predicate(text: str, fields: Sequence[DataField]) -> Iterator[Predicate]:
    """Yield the predicate of a condition; none if it is not a filter, which DuckDB then reports."""
    try:
        yield parse_filter(text, fields).predicate
    except MorrowError:
        return


def _depends_on_session(
    predicate: Predicate, where: Node, fields: Sequence[DataField], connection: duckdb.DuckDBPyConnection
) -> bool:
    """Return whether settings or macros of the session may change what the conditions mean."""
    used = find_columns(predicate)
    kinds = [field.type for field in fields if field.name in used]
    if any(isinstance(kind, LocalZonedTimestampType) for kind in kinds):
        return True
    checks = (
        ["current_setting('default_collation') <> ''"] if any(isinstance(each, STRING_TYPES) for each in kinds) else []
    )
    if any(not isinstance(each, (exp.Connector, exp.Cast)) for each in where.find_all(exp.Func)):
        checks.append("EXISTS (FROM duckdb_functions() WHERE function_type = 'macro' AND NOT internal)")
    if not checks:
        return False
    with connection.cursor() as cursor:
        return cursor.execute(f"SELECT {' OR '.join(checks)}").fetchall() != [(False,)]


VARIANT = "STRUCT(value BLOB, metadata BLOB)"
PARSE, TRY_PARSE, PART, TEXT, IS_NULL = (
    f"morrow_variant_{name}" for name in ("parse", "try_parse", "part", "text", "is_null")
)
"""The functions that DuckDB calls."""
WHOLE = ("TINYINT", "SMALLINT", "INT", "BIGINT")
FRACTION = r"^(-?[0-9]+)\.[0-9]*$"
"""A decimal, whose fraction a cast to an integer drops."""
OPENING, CLOSING = (TokenType.L_BRACE, TokenType.L_BRACKET), (TokenType.R_BRACE, TokenType.R_BRACKET)
STEPS = (TokenType.NUMBER, TokenType.STRING)
PARTS = ("metadata", "value")
"""The order in which DuckDB's function takes the bytes of a variant."""
GETS = {"variant_get": exp.Cast, "try_variant_get": exp.TryCast}


def write_paths(query: str) -> str:
    """Return a query with calls of ``variant_get`` instead of paths after colons."""
    if ":" not in query:
        return query
    for start, colon, end in reversed(_find_paths(query)):
        column, path = query[start:colon], query[colon + 1 : end]
        path = path if path.startswith("[") else f".{path}"
        quoted = f"${path}".replace("'", '"')
        query = f"{query[:start]}variant_get({column}, '{quoted}'){query[end:]}"
    return query


def _find_paths(query: str) -> list[tuple[int, int, int]]:
    """Return the starts, colons and ends of paths in the text of a query."""
    try:
        tokens = Dialect.Tokenizer(dialect=Dialect).tokenize(query)
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


def put_variant_functions(tree: Node, connection: duckdb.DuckDBPyConnection) -> bool:
    """Replace the functions over VARIANT in a query; return whether there were any."""
    found = [node for node in tree.find_all(exp.Func) if _name(node) in REPLACEMENTS]
    for node in reversed(found):  # inner calls first
        made = REPLACEMENTS[_name(node)](node)
        parent = node.parent
        if isinstance(parent, exp.Cast) and isinstance(made, exp.Anonymous) and made.name == PART:
            parent.replace(_cast(made.expressions[0], made.expressions[1], parent.to, type(parent)))
        else:
            node.replace(made)
    if found:
        _register(connection)
    return bool(found)


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
        return _call(PART, value, path)
    kind = others[1]
    if not isinstance(kind, exp.Literal) or not kind.is_string:
        raise InvalidArgument(f"{_name(node)}: the type is a text such as 'int', not {kind.sql()}")
    if kind.name.strip().lower() == "variant":
        return _call(PART, value, path)
    try:
        target = exp.DataType.build(kind.name, dialect="spark")
    except (SqlglotError, ValueError) as error:
        raise InvalidArgument(f"{_name(node)}: {kind.name!r} is not a type") from error
    return _cast(value, path, target, GETS[_name(node)])


def _cast(value: Node, path: Node, target: Node, cast: type[exp.Cast]) -> Node:
    """Return the part of a variant in a type of DuckDB, by way of its text."""
    text = _call(TEXT, value, path)
    if target.this in exp.DataType.NESTED_TYPES:
        text = cast(this=text, to=exp.DataType.build("json", dialect="duckdb"))
    elif target.sql(dialect="duckdb").upper() in WHOLE:
        text = _call("regexp_replace", text, exp.Literal.string(FRACTION), exp.Literal.string(r"\1"))
    return cast(this=text, to=target.copy())


def _to_own(node: Node) -> Node:
    (value,) = _list_arguments(node, 1, 1)
    members = [exp.Dot(this=exp.Paren(this=value.copy()), expression=exp.to_identifier(name)) for name in PARTS]
    made = _call("variant_bytes_to_variant", exp.DPipe(this=members[0], expression=members[1]))
    return exp.Case(ifs=[exp.If(this=exp.Not(this=exp.Is(this=value.copy(), expression=exp.Null())), true=made)])


REPLACEMENTS: dict[str, Callable[[Node], Node]] = {
    "parse_json": lambda node: _call(PARSE, *_list_arguments(node, 1, 1)),
    "try_parse_json": lambda node: _call(TRY_PARSE, *_list_arguments(node, 1, 1)),
    "is_variant_null": lambda node: _call(IS_NULL, *_list_arguments(node, 1, 1)),
    "variant_get": _get,
    "try_variant_get": _get,
    "to_duckdb_variant": _to_own,
}


# --- functions that DuckDB calls ---


def _join(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _parse(texts: pa.Array) -> pa.Array:
    from morrow.engine.format.variant_json import encode_json_column

    return encode_json_column(_join(texts))


def _try_parse(texts: pa.Array) -> pa.Array:
    from morrow.engine.format.variant_json import encode_json_column

    return encode_json_column(_join(texts), errors=False)


def _find_path(paths: pa.Array) -> tuple[str | int, ...]:
    from morrow.engine.format.variant_arrays import parse_path

    distinct = _join(paths).unique()
    if len(distinct) != 1 or not distinct[0].is_valid:
        raise InvalidArgument("variant_get: the path is one text for all rows")
    return parse_path(distinct[0].as_py())


def _part(variants: pa.Array, paths: pa.Array) -> pa.Array:
    from morrow.engine.format.variant_arrays import extract

    return extract(_join(variants), _find_path(paths))


def _text(variants: pa.Array, paths: pa.Array) -> pa.Array:
    from morrow.engine.format.variant_arrays import extract_text

    return extract_text(_join(variants), _find_path(paths)).cast(pa.string())


def _is_null(variants: pa.Array) -> pa.Array:
    from morrow.engine.format.variant_arrays import find_nulls

    return pa.array(find_nulls(_join(variants)))


FUNCTIONS: tuple[tuple[str, Callable[..., pa.Array], tuple[str, ...], str], ...] = (
    (PARSE, _parse, ("VARCHAR",), VARIANT),
    (TRY_PARSE, _try_parse, ("VARCHAR",), VARIANT),
    (PART, _part, (VARIANT, "VARCHAR"), VARIANT),
    (TEXT, _text, (VARIANT, "VARCHAR"), "VARCHAR"),
    (IS_NULL, _is_null, (VARIANT,), "BOOLEAN"),
)


def _register(connection: duckdb.DuckDBPyConnection) -> None:
    with connection.cursor() as cursor:
        query = "SELECT 1 FROM duckdb_functions() WHERE function_name = ? LIMIT 1"
        if cursor.execute(query, [PARSE]).fetchone() is not None:
            return
    for name, function, parameters, result in FUNCTIONS:
        connection.create_function(  # type: ignore[call-overload]  # the stub wants an invariant list of unions
            name, function, list(parameters), result, type="arrow", null_handling="special"
        )
