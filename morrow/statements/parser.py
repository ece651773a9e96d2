"""The parser of SQL text: statements by their first words; SHOW, DESCRIBE, USE, CALL, COPY and EXPLAIN.

`Catalog.sql` and `morrow.spark.sql` share it. Parsing does not access tables. Each family of statements has a parser.
Unparsed tokens are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from sqlglot.tokenizer_core import TokenType

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.queries.dialect import find_hints
from morrow.statements import statement as st
from morrow.statements.copy_parser import parse_copy_into
from morrow.statements.ddl_parser import DDL_PARSERS
from morrow.statements.dml_parser import DML_PARSERS, parse_static_partition
from morrow.statements.tokens import CATALOG_SYNTAX, DATABASE, Syntax, Words, read_tokens, split

EXPLAINED = (st.Query, st.Insert, st.Update, st.Delete, st.MergeInto)
"""Statements that EXPLAIN supports."""


def _parse_use(words: Words) -> st.Statement:
    has_kind = len(words.tokens) - words.at > 1 and not words.comes(".", after=1)
    if has_kind and words.has("CATALOG"):
        return _parse_use_catalog(words)
    is_database = has_kind and words.one_of(*DATABASE) is not None
    return st.Use(words.database(), "DATABASE" if is_database else None)


def _parse_use_catalog(words: Words) -> st.Statement:
    return st.Use((words.name(),), "CATALOG")


def _parse_set(words: Words) -> st.Statement:
    return st.SetOption(*words.setting()) if not words.is_at_end() else st.SetOption()


def _parse_reset(words: Words) -> st.Statement:
    return st.ResetOption(words.setting()[0]) if not words.is_at_end() else st.ResetOption()


# SHOW


def _parse_like(words: Words) -> str | None:
    words.has("LIKE")
    return words.string() if not words.is_at_end() else None


def _parse_in_database(words: Words) -> tuple[str, ...]:
    return words.database() if words.has("IN") or words.has("FROM") else ()


def _show_databases(words: Words) -> st.Statement:
    return st.Show("databases", _parse_in_database(words), _parse_like(words))


def _show_state(what: str) -> Parse:
    return lambda words: st.Show(what, like=_parse_like(words) if what == "catalogs" else None)


def _show_tables(words: Words) -> st.Statement:
    return st.Show("tables", _parse_in_database(words), _parse_like(words))


def _show_named(what: str) -> Parse:
    return lambda words: st.Show(what, _parse_in_database(words), _parse_like(words))


def _show_extended(words: Words) -> st.Statement:
    name = _parse_in_database(words)
    words.need("LIKE")
    pattern = words.string()
    if words.comes("PARTITION"):
        raise Unsupported("SHOW TABLE EXTENDED of a partition", hint="SHOW PARTITIONS")
    return st.Show("table extended", name, pattern)


def _show_partitions(words: Words) -> st.Statement:
    table = words.path()
    return st.Show("partitions", table, partition=parse_static_partition(words) if words.has("PARTITION") else None)


def _show_properties(words: Words) -> st.Statement:
    table = words.path()
    key = None
    if words.comes("("):
        words.at += 1
        key = words.property_key()
        words.needs(TokenType.R_PAREN, ")")
    return st.Show("tblproperties", table, key)


def _show_columns(words: Words) -> st.Statement:
    if words.one_of("IN", "FROM") is None and not words.syntax.has_catalogs:
        raise words.unexpected("IN or FROM")
    table = words.path()
    return st.Show("columns", (*words.database(), table[-1]) if words.one_of("IN", "FROM") is not None else table)


def _show(what: str) -> Parse:
    return lambda words: st.Show(what, words.path())


def _show_procedures(words: Words) -> st.Statement:
    _parse_in_database(words)
    return st.Show("procedures", like=_parse_like(words))


def _refuse_show(words: Words) -> st.Statement:
    hint = "it shows DATABASES, TABLES, COLUMNS, PARTITIONS, TBLPROPERTIES, TAGS and so on"
    raise Unsupported(f"SHOW {words.word()}".rstrip(), hint=hint)


# DESCRIBE, CALL, COPY


def _parse_describe(words: Words) -> st.Statement:
    if words.one_of(*DATABASE) is not None:
        extended = words.has("EXTENDED")
        return st.DescribeDatabase(words.database(), extended)
    is_spark = words.syntax.has_catalogs
    if is_spark and (words.has("QUERY") or any(words.comes(word) for word in ("SELECT", "WITH", "FROM", "VALUES"))):
        return st.DescribeQuery(words.rest())
    words.has("TABLE")
    extended = words.has("EXTENDED") or words.has("FORMATTED")
    table = words.path()
    if is_spark and not words.is_at_end():
        return st.Describe(table, extended, words.path())
    if not words.is_at_end():  # time travel, for example
        words.at = len(words.tokens)
        return st.Query(words.text)
    return st.Describe(table, extended)


def _parse_call(words: Words) -> st.Statement:
    procedure = words.path()
    words.needs(TokenType.L_PAREN, "(")
    arguments: list[st.Argument] = []
    while not words.comes(")"):
        arguments.append(_parse_argument(words))
        if not words.takes(TokenType.COMMA):
            break
    words.needs(TokenType.R_PAREN, ")")
    return st.CallProcedure(procedure, tuple(arguments))


def _parse_argument(words: Words) -> st.Argument:
    name = None
    arrow = next((arrow for arrow in (("=>",), (":=",), ("=", ">")) if words.comes(*arrow, after=1)), None)
    if arrow is not None:
        name = words.string() if words.next is not None and words.next.token_type is TokenType.STRING else words.name()
        words.need(*arrow)
    return st.Argument(name, words.until(","))


def _parse_copy(words: Words) -> st.Statement:
    if words.has("INTO"):
        return parse_copy_into(words)
    start = words.at
    if words.comes("("):
        words.at += 1
        query = words.until()
        words.needs(TokenType.R_PAREN, ")")
    else:
        words.path()
        if words.comes("("):
            raise Unsupported("COPY of some columns of a table", hint="COPY (SELECT ...) TO")
        query = f"SELECT * FROM {words.raw(start, words.at)}"
    if words.comes("FROM"):
        raise Unsupported("COPY ... FROM", hint="COPY INTO t FROM '...' FILE_FORMAT = (TYPE = CSV)")
    words.need("TO")
    token = words.next
    if token is None or token.token_type is not TokenType.STRING:
        raise words.unexpected("a file in single quotes")
    return st.CopyTo(query, words.rest())


OTHER_PARSERS: Sequence[tuple[tuple[str, ...], Parse]] = (
    (("SET", "CATALOG"), _parse_use_catalog),
    (("SET",), _parse_set),
    (("RESET",), _parse_reset),
    (("USE",), _parse_use),
    (("SHOW", "CATALOGS"), _show_state("catalogs")),
    (("SHOW", "CURRENT", "CATALOG"), _show_state("current catalog")),
    *((("SHOW", "CURRENT", word), _show_state("current database")) for word in DATABASE),
    (("SHOW", "DATABASES"), _show_databases),
    (("SHOW", "SCHEMAS"), _show_databases),
    (("SHOW", "NAMESPACES"), _show_databases),
    (("SHOW", "TABLES"), _show_tables),
    (("SHOW", "TABLE", "EXTENDED"), _show_extended),
    (("SHOW", "PARTITIONS"), _show_partitions),
    (("SHOW", "TBLPROPERTIES"), _show_properties),
    (("SHOW", "CREATE", "TABLE"), _show("create table")),
    (("SHOW", "COLUMNS"), _show_columns),
    (("SHOW", "TAGS"), _show("tags")),
    (("SHOW", "BRANCHES"), _show("branches")),
    (("SHOW", "SNAPSHOTS"), _show("snapshots")),
    (("SHOW", "PROCEDURES"), _show_procedures),
    (("SHOW", "VIEWS"), _show_named("views")),
    (("SHOW", "FUNCTIONS"), _show_named("functions")),
    (("SHOW",), _refuse_show),
    (("DESCRIBE",), _parse_describe),
    (("DESC",), _parse_describe),
    (("CALL",), _parse_call),
    (("COPY",), _parse_copy),
)

READING = ("SELECT", "WITH", "FROM", "VALUES", "TABLE", "SUMMARIZE", "PIVOT", "UNPIVOT")
"""The first words of queries, which may also begin with parentheses."""
CHANGING = frozenset({"INSERT", "UPDATE", "DELETE", "MERGE"})

Parse = Callable[[Words], st.Statement]
BEGINNINGS: Sequence[tuple[tuple[str, ...], Parse]] = (*DDL_PARSERS, *DML_PARSERS, *OTHER_PARSERS)
"""The first words of statements, and the parsers of the rest. Longer sequences precede their prefixes."""

REFUSED: Sequence[tuple[tuple[str, ...], str | None]] = (
    (("CREATE", "OR", "REPLACE", "TEMPORARY", "VIEW"), "make a view of DuckDB's by its connection"),
    (("CREATE", "OR", "REPLACE", "TEMP", "VIEW"), "make a view of DuckDB's by its connection"),
    (("CREATE", "TEMPORARY"), "make it by DuckDB's connection"),
    (("CREATE", "TEMP"), "make it by DuckDB's connection"),
    (("CREATE", "EXTERNAL", "TABLE"), "tables lie in the folder of their catalog"),
    (("CREATE", "FUNCTION"), "the catalog has no functions"),
    (("CREATE", "OR", "REPLACE", "FUNCTION"), "the catalog has no functions"),
    (("CREATE", "INDEX"), "set the options file-index.*"),
    (("DROP", "FUNCTION"), "the catalog has no functions"),
    (("MSCK",), "partitions are there when they have rows"),
    (("INSERT", "OR"), "an INSERT into a table with a primary key is an upsert; MERGE INTO does the rest"),
    (("UPSERT",), "an INSERT into a table with a primary key is an upsert"),
    (("REPLACE", "INTO"), "an INSERT into a table with a primary key is an upsert"),
    (("REPAIR",), "partitions are there when they have rows"),
    (("REFRESH",), "every query sees the newest snapshot"),
    (("CACHE",), "make a table of DuckDB's by its connection"),
    (("UNCACHE",), None),
    (("PRAGMA",), "use DuckDB's connection"),
    (("LOAD",), None),
    (("INSTALL",), "use DuckDB's connection"),
    (("ATTACH",), "use DuckDB's connection, or morrow.duckdb.attach"),
    (("DETACH",), "use DuckDB's connection"),
    (("BEGIN",), "every statement is one commit"),
    (("START", "TRANSACTION"), "every statement is one commit"),
    (("COMMIT",), "every statement is one commit"),
    (("ROLLBACK",), "CALL sys.rollback(...) goes back to a snapshot or tag"),
    (("GRANT",), None),
    (("REVOKE",), None),
    (("VACUUM",), "CALL sys.expire_snapshots(...) or sys.compact(...)"),
    (("OPTIMIZE",), "CALL sys.compact(...)"),
    (("LOCK",), None),
)
"""Unsupported statements, each with an alternative."""


def parse_statements(text: str, syntax: Syntax = CATALOG_SYNTAX) -> list[st.Statement]:
    """Parse the statements of a text, separated by semicolons.

    Raises:
        InvalidArgument: the text is not a statement, or has unexpected tokens. Unsupported: a known statement, or a
            part of one, that Morrow does not support.
    """
    return [parse_statement(words) for words in split(text, syntax)]


def parse_statement(words: Words) -> st.Statement:
    """Parse one statement. Raises as `parse_statements`."""
    found = _parse_by_keyword(words)
    words.end()
    if not isinstance(found, st.Query):
        _check_hints(words, found)
    return found


def _parse_by_keyword(words: Words) -> st.Statement:
    if words.has("EXPLAIN"):
        return _parse_explain(words)
    for begin, parse in BEGINNINGS:
        if words.comes(*begin):
            if begin == ("DESCRIBE",) and words.comes(*begin, "SELECT") and not words.syntax.has_catalogs:
                break
            words.need(*begin)
            return parse(words)
    for begin, hint in REFUSED:
        if words.comes(*begin):
            is_duckdb = words.syntax is CATALOG_SYNTAX
            raise Unsupported(" ".join(begin) + ("" if is_duckdb else " here"), hint=hint if is_duckdb else None)
    first = words.word()
    if first == "WITH" and (verb := _find_verb_after_with(words)) in CHANGING:
        raise Unsupported(f"WITH in front of {verb}", hint="write WITH in front of the SELECT inside of it")
    if first in READING or first in ("(", "DESCRIBE", "DESC"):
        text = words.rest() if words.at else words.text
        words.at = len(words.tokens)
        return st.Query(text)
    if words.syntax is not CATALOG_SYNTAX:
        known = dict.fromkeys(begin[0] for begin, _ in BEGINNINGS)
        raise Unsupported(f"the statement {first} here", hint=f"there are SELECT, {', '.join(known)}")
    raise InvalidArgument(f"{words}: no statement begins with {first!r}")


def _parse_explain(words: Words) -> st.Statement:
    mode = None
    for word in ("EXTENDED", "FORMATTED", "CODEGEN", "COST", "ANALYZE", "SIMPLE"):
        if words.comes(word) and not words.comes(word, "TABLE"):
            mode = word
            words.at += 1
    words.has("PLAN", "FOR")
    found = _parse_by_keyword(words)
    if not isinstance(found, EXPLAINED):
        raise Unsupported(f"EXPLAIN {found.kind}", hint="it explains queries, INSERT, UPDATE, DELETE and MERGE")
    return st.Explain(found, mode)


def _find_verb_after_with(words: Words) -> str | None:
    """Return the first word behind the common table expressions of a statement that begins with WITH."""
    depth = 0
    for token, following in pairwise(words.tokens):
        depth += (token.token_type is TokenType.L_PAREN) - (token.token_type is TokenType.R_PAREN)
        if depth == 0 and token.token_type is TokenType.R_PAREN and following.text.upper() not in (",", "AS"):
            return following.text.upper()
    return None


def _check_hints(words: Words, found: st.Statement) -> None:
    """Refuse hints outside the query of a statement, since they would be ignored."""
    if "/*+" not in words.text or not words.syntax.keeps_comments:
        return
    inner = found.statement if isinstance(found, st.Explain) else found
    query = str(getattr(inner, "query", None) or getattr(inner, "text", None) or "")
    written, known = (
        sum(len(find_hints(token.comments)) for token in read_tokens(text)) for text in (words.text, query)
    )
    if written != known:
        raise InvalidArgument(f"{words}: a hint /*+ OPTIONS(...) */ belongs behind a table that is read")
