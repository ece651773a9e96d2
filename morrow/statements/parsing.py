"""Text as statements: ``parsed("USE db; INSERT INTO t VALUES (1)")``."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.queries.hints import hints_in
from morrow.statements.parsing_others import EXPLAINED, OTHERS
from morrow.statements.parsing_rows import ROWS
from morrow.statements.parsing_tables import TABLES
from morrow.statements.statement import Explain, Query, Statement
from morrow.statements.views import VIEWS
from morrow.statements.words import Words, split, tokens_of

READING = ("SELECT", "WITH", "FROM", "VALUES", "TABLE", "SUMMARIZE", "PIVOT", "UNPIVOT")
"""The first words of queries, which may also begin with parentheses."""
CHANGING = frozenset({"INSERT", "UPDATE", "DELETE", "MERGE"})

Parse = Callable[[Words], Statement]
BEGINNINGS: Sequence[tuple[tuple[str, ...], Parse]] = (*TABLES, *VIEWS, *ROWS, *OTHERS)
"""The first words of statements, and what parses the rest; longer ones stand before those that begin alike."""

REFUSED: Sequence[tuple[tuple[str, ...], str | None]] = (
    (("CREATE", "OR", "REPLACE", "VIEW"), "drop the view first"),
    (("CREATE", "OR", "REPLACE", "TEMPORARY", "VIEW"), "make a view of DuckDB's by its connection"),
    (("CREATE", "OR", "REPLACE", "TEMP", "VIEW"), "make a view of DuckDB's by its connection"),
    (("CREATE", "TEMPORARY"), "make it by DuckDB's connection"),
    (("CREATE", "TEMP"), "make it by DuckDB's connection"),
    (("CREATE", "EXTERNAL", "TABLE"), "tables lie in the folder of their catalog"),
    (("CREATE", "FUNCTION"), "the catalog has no functions"),
    (("CREATE", "OR", "REPLACE", "FUNCTION"), "the catalog has no functions"),
    (("CREATE", "INDEX"), "set the options file-index.*"),
    (("DROP", "FUNCTION"), "the catalog has no functions"),
    (("ALTER", "VIEW"), "drop the view and create it again"),
    (("MSCK",), "partitions are there when they have rows"),
    (("INSERT", "OR"), "an INSERT into a table with a primary key is an upsert; MERGE INTO does the rest"),
    (("UPSERT",), "an INSERT into a table with a primary key is an upsert"),
    (("REPLACE", "INTO"), "an INSERT into a table with a primary key is an upsert"),
    (("REPAIR",), "partitions are there when they have rows"),
    (("REFRESH",), "every query sees the newest snapshot"),
    (("CACHE",), "make a table of DuckDB's by its connection"),
    (("UNCACHE",), None),
    (("SET",), "set options of tables by ALTER TABLE, those of DuckDB by its connection"),
    (("RESET",), "set options of tables by ALTER TABLE, those of DuckDB by its connection"),
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
"""Statements that are refused by name, each with what to do instead."""


def parsed(text: str) -> list[Statement]:
    """Returns the statements of a text, which semicolons separate.

    Raises:
        InvalidArgument: text that is no statement, or has more than its parts. Unsupported: a known statement, or a
            part of one, that Morrow does not have.
    """
    return [_statement(words) for words in split(text)]


def _statement(words: Words) -> Statement:
    found = _begun(words)
    words.end()
    if not isinstance(found, Query):
        _check_hints(words, found)
    return found


def _begun(words: Words) -> Statement:
    if words.has("EXPLAIN"):
        return _explained(words)
    for begin, parse in BEGINNINGS:
        if words.comes(*begin):
            if begin == ("DESCRIBE",) and words.comes(*begin, "SELECT"):
                break
            words.need(*begin)
            return parse(words)
    for begin, hint in REFUSED:
        if words.comes(*begin):
            raise Unsupported(" ".join(begin), hint=hint)
    token = words.next
    first = "" if token is None else token.text.upper()
    if first == "WITH" and (inner := _changed_by_with(words)):
        raise Unsupported(f"WITH in front of {inner}", hint="write WITH in front of the SELECT inside of it")
    if first in READING or first in ("(", "DESCRIBE", "DESC"):
        text = words.rest() if words.at else words.text
        words.at = len(words.tokens)
        return Query(text)
    raise InvalidArgument(f"{words}: no statement begins with {first!r}")


def _explained(words: Words) -> Statement:
    for word in ("EXTENDED", "FORMATTED", "CODEGEN", "COST", "ANALYZE"):
        if words.comes(word) and not words.comes(word, "TABLE"):
            raise Unsupported(f"EXPLAIN {word}", hint="EXPLAIN alone shows files, masks and the plan")
    words.has("PLAN", "FOR")
    found = _begun(words)
    if not isinstance(found, EXPLAINED):
        raise Unsupported(f"EXPLAIN {found.kind}", hint="it explains queries, INSERT, UPDATE, DELETE and MERGE")
    return Explain(found)


def _changed_by_with(words: Words) -> str | None:
    """Returns the verb of a statement that begins with WITH and changes rows."""
    depth = 0
    for token in words.tokens:
        depth += (token.text == "(") - (token.text == ")")
        if depth == 0 and token.text.upper() in CHANGING and token.token_type.name == token.text.upper():
            return token.text.upper()
    return None


def _check_hints(words: Words, found: Statement) -> None:
    """Refuses hints outside of the query of a statement, where nobody would look at them."""
    if "/*+" not in words.text:
        return
    inner = found.statement if isinstance(found, Explain) else found
    query = str(getattr(inner, "query", None) or getattr(inner, "text", None) or "")
    written, known = (sum(len(hints_in(token.comments)) for token in tokens_of(text)) for text in (words.text, query))
    if written != known:
        raise InvalidArgument(f"{words}: a hint /*+ OPTIONS(...) */ belongs behind a table that is read")
