"""Statements of Paimon that Spark cannot parse: their tokens and syntax, and the CALL that Spark parses instead.

The CALL names an internal procedure. See `morrow.statements.words` for tokens.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, cast

from sqlglot.dialects.spark import Spark
from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token, TokenType

from morrow.engine.errors import DatabaseNotFound, InvalidArgument, Unsupported
from morrow.engine.structs import replace
from morrow.queries.incremental import CHANGES_BY
from morrow.spark.catalogs.questions import build_full_name
from morrow.spark.expressions import quote_name
from morrow.spark.jvm.classes import get_class_name
from morrow.spark.source.refusals import check_ignored, is_view_of_table, make_ignored_error, strip_literals
from morrow.statements.tokens import Words, join_words

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CATALOG_SETTING = "spark.sql.catalog."
CLASS = "MorrowCatalog"
PROCEDURE = "morrow.statement"
SPARKS_OWN = "spark_catalog"


def rewrite_statement(spark: SparkSession, text: str) -> str | None:
    """Return the text that Spark parses instead of a Paimon statement on a Morrow catalog; None for other statements.

    Raises:
        InvalidArgument: a syntax error after the beginning of a Paimon statement.
        Unsupported: the statement has options that Spark ignores.
    """
    check_ignored(strip_literals(text), lambda name: _is_temporary(spark, name) and is_view_of_table(name, spark))
    statement = parse_statement(text)
    if statement is None:
        return None
    whose = resolve_database if statement.verb == ALL_ANALYZED else resolve_name
    catalog, name = whose(spark, statement.table)
    if not _is_ours(spark, catalog):
        return None
    if statement.verb == CONSTRAINT:
        raise Unsupported(
            "ALTER TABLE with CONSTRAINT", hint="columns of the primary key and NOT NULL are all there are"
        )
    if "source" in statement.parts:
        source = resolve_name(spark, statement.parts["source"])
        if source[0] != catalog:
            raise Unsupported(f"CREATE TABLE LIKE a table of another catalog, {source[0]},")
        statement = replace(statement, parts={**statement.parts, "source": source[1]})
    return f"CALL {quote_name(catalog)}.sys.{quote_name(PROCEDURE)}('{pack_statement(statement, name)}')"


def check_options_of_view(spark: SparkSession, view: str, options: Sequence[str]) -> None:
    """Raise `InvalidArgument` for reader options on a view of a Morrow table, which Spark ignores."""
    if is_view_of_table(view, spark):
        raise make_ignored_error(view, options[0])


def _is_temporary(spark: SparkSession, name: str) -> bool:
    """Return whether this is the name of a temporary view, local or global."""
    session = cast("Any", spark)._jsparkSession.sessionState()
    return bool(session.catalog().isTempView(session.sqlParser().parseMultipartIdentifier(name)))


def resolve_name(spark: SparkSession, parts: tuple[str, ...]) -> tuple[str, Sequence[str]]:
    """Resolve a name as Spark does. Return its catalog and the other parts."""
    first = parts[0]
    if len(parts) > 1 and (first == SPARKS_OWN or spark.conf.get(f"{CATALOG_SETTING}{first}", None) is not None):
        return first, parts[1:]
    manager = cast("Any", spark)._jsparkSession.sessionState().catalogManager()
    namespace = tuple(manager.currentNamespace()) if len(parts) == 1 else ()
    return str(manager.currentCatalog().name()), (*namespace, *parts)


def resolve_database(spark: SparkSession, parts: tuple[str, ...]) -> tuple[str, Sequence[str]]:
    """Resolve the name of a database. Return its catalog and name; missing parts are the current ones."""
    if len(parts) > 1:
        return resolve_name(spark, parts)
    manager = cast("Any", spark)._jsparkSession.sessionState().catalogManager()
    return str(manager.currentCatalog().name()), parts or tuple(manager.currentNamespace())


def _is_ours(spark: SparkSession, catalog: str) -> bool:
    return spark.conf.get(f"{CATALOG_SETTING}{catalog}", None) == get_class_name(CLASS)


def resolve_changes_function(spark: SparkSession, function: str, arguments: Sequence[str | None]) -> dict[str, object]:
    """Return the table that a function of changes reads, and its other arguments as read options.

    Raises:
        InvalidArgument: wrong arguments. Unsupported: a table of another catalog.
    """
    key, count = CHANGES_BY[function]
    if len(arguments) != count + 1 or None in arguments:
        raise InvalidArgument(f"{function} takes the name of a table and {count} more, none of them null")
    name, *others = map(str, arguments)
    catalog, parts = resolve_name(spark, split_name(name))
    if not _is_ours(spark, catalog):
        raise Unsupported(f"{function} of a table of the catalog {catalog}")
    return {"table": [catalog, *parts], "options": {key: ",".join(others)}}


def pack_statement(statement: Statement, name: Sequence[str]) -> str:
    """Pack a statement as text that fits in any literal; `name` is the table's name in the catalog."""
    told = {**asdict(statement), "table": list(name)}
    return base64.b64encode(json.dumps(told).encode()).decode("ascii")


def unpack_statement(text: str) -> tuple[Statement, str]:
    """Unpack text of `pack_statement`: the statement, and the full name of its table or database.

    Raises `TableNotFound`, `DatabaseNotFound`.
    """
    told = json.loads(base64.b64decode(text))
    *namespace, name = told["table"]
    statement = Statement(told["verb"], tuple(told["table"]), told["parts"])
    if statement.verb != ALL_ANALYZED:
        return statement, build_full_name(namespace, name)
    if namespace:
        raise DatabaseNotFound(f"there is no database {'.'.join(told['table'])}")
    return statement, name


UNITS: Mapping[str, dt.timedelta] = {
    "DAYS": dt.timedelta(days=1),
    "HOURS": dt.timedelta(hours=1),
    "MINUTES": dt.timedelta(minutes=1),
}
"""The units of RETAIN."""

ALL_ANALYZED = "analyze all"
"""The verb of ANALYZE TABLES, which takes the name of a database."""

CONSTRAINT = "constraint"
"""The verb of ALTER TABLE ... ADD | DROP CONSTRAINT, which tables do not support."""


@dataclass(frozen=True)
class Statement:
    """A statement: its verb, the parts of its table's name, and its other parts as JSON values."""

    verb: str
    table: tuple[str, ...]
    parts: Mapping[str, Any] = field(default_factory=dict)


def parse_statement(text: str) -> Statement | None:
    """Parse a statement of Paimon. Return None for all other statements, which Spark parses.

    Raises:
        InvalidArgument: a syntax error after the beginning of a Paimon statement.
    """
    try:
        words = SparkWords(text)
    except InvalidArgument:
        return None
    if words.has("SHOW", "TAGS"):
        return _finish(words, Statement("show tags", words.path()))
    if words.has("CREATE", "TABLE"):
        return _parse_create_like(words)
    if words.has("ANALYZE", "TABLE"):
        return _parse_analyze(words)
    if words.has("ANALYZE", "TABLES"):
        return _parse_analyze_all(words)
    if words.has("ALTER", "TABLE"):
        try:
            table = words.path()
        except InvalidArgument:
            return None
        if words.has("ADD", "CONSTRAINT") or words.has("DROP", "CONSTRAINT"):
            return Statement(CONSTRAINT, table)
        for begin, parse in _OF_TAGS:
            if words.has(*begin):
                return _finish(words, parse(words, table))
    return None


def _parse_create_like(words: SparkWords) -> Statement | None:
    """Parse CREATE TABLE ... LIKE; None for every other CREATE TABLE."""
    ignores = words.has("IF", "NOT", "EXISTS")
    try:
        table = words.path()
    except InvalidArgument:
        return None
    if not words.has("LIKE"):
        return None
    parts: dict[str, Any] = {"source": words.path(), "if not exists": ignores, "properties": {}}
    while not words.is_at_end():
        if words.has("USING"):
            parts["provider"] = words.name()
        elif words.has("TBLPROPERTIES"):
            parts["properties"] = words.properties()
        else:
            raise words.unexpected("USING, TBLPROPERTIES or the end")
    return _finish(words, Statement("create like", table, parts))


def _parse_analyze(words: SparkWords) -> Statement | None:
    """Parse ANALYZE TABLE; return None if no name follows."""
    try:
        table = words.path()
    except InvalidArgument:
        return None
    of_partitions = words.has("PARTITION")
    if of_partitions:
        words.enclosed(lambda: words.until(","))
    words.need("COMPUTE", "STATISTICS")
    parts: dict[str, Any] = {"partition": of_partitions, "noscan": words.has("NOSCAN"), "columns": []}
    if words.has("FOR", "ALL", "COLUMNS"):
        parts["columns"] = None
    elif words.has("FOR", "COLUMNS"):
        parts["columns"] = words.listed(words.name)
    return _finish(words, Statement("analyze", table, parts))


def _parse_analyze_all(words: SparkWords) -> Statement:
    """Parse ANALYZE TABLES. Its name is that of a database, empty for the current one."""
    named = words.has("IN") or words.has("FROM")
    path = words.path() if named else ()
    words.need("COMPUTE", "STATISTICS")
    return _finish(words, Statement(ALL_ANALYZED, path, {"noscan": words.has("NOSCAN")}))


def _finish(words: SparkWords, statement: Statement) -> Statement:
    words.end()
    return statement


def _make_tag_parser(*, replace: bool) -> Callable[[SparkWords, tuple[str, ...]], Statement]:
    def parse(words: SparkWords, table: tuple[str, ...]) -> Statement:
        ignores = not replace and words.has("IF", "NOT", "EXISTS")
        parts: dict[str, Any] = {"tag": words.name(), "replace": replace, "if not exists": ignores}
        if words.has("AS", "OF", "VERSION"):
            parts["snapshot"] = words.number()
        if words.has("RETAIN"):
            number = words.number()
            unit = words.one_of(*UNITS)
            if unit is None:
                raise words.unexpected(join_words(UNITS))
            parts["seconds"] = number * UNITS[unit].total_seconds()
        return Statement("create tag", table, parts)

    return parse


def _parse_delete_tag(words: SparkWords, table: tuple[str, ...]) -> Statement:
    ignores = words.has("IF", "EXISTS")
    return Statement("delete tag", table, {"tags": words.name(), "if exists": ignores})


def _parse_rename_tag(words: SparkWords, table: tuple[str, ...]) -> Statement:
    ignores = words.has("IF", "EXISTS")
    tag = words.name()
    words.need("TO")
    return Statement("rename tag", table, {"tag": tag, "to": words.name(), "if exists": ignores})


_OF_TAGS: tuple[tuple[tuple[str, ...], Callable[[SparkWords, tuple[str, ...]], Statement]], ...] = (
    (("CREATE", "TAG"), _make_tag_parser(replace=False)),
    (("CREATE", "OR", "REPLACE", "TAG"), _make_tag_parser(replace=True)),
    (("REPLACE", "TAG"), _make_tag_parser(replace=True)),
    (("DELETE", "TAG"), _parse_delete_tag),
    (("RENAME", "TAG"), _parse_rename_tag),
)
"""Words that follow ALTER TABLE and a name, and the function that parses the rest."""

QUOTED = frozenset({TokenType.STRING, TokenType.IDENTIFIER})


class Tokenizer(Spark.Tokenizer):
    """A tokenizer for Spark's SQL that also splits the statements which sqlglot keeps as one text."""

    COMMANDS: ClassVar[set[TokenType]] = set()


class SparkWords(Words):
    """A cursor over the tokens of one statement, with optional semicolons at its end."""

    def __init__(self, text: str) -> None:
        """Tokenize a text. Raises `InvalidArgument` if it cannot be tokenized, such as for an open quote."""
        try:
            found = Tokenizer(dialect="spark").tokenize(text)
        except TokenError as error:
            raise InvalidArgument(f"the statement does not parse: {str(error).splitlines()[0]}") from error
        super().__init__(text, [part for token in found for part in _split_token(token)])

    def is_at_end(self) -> bool:
        """Consume semicolons, and return whether nothing else is left."""
        while self.takes(TokenType.SEMICOLON):
            pass
        return self.next is None

    def raw(self, start: int, end: int) -> str:
        """Return the text of tokens as it was written, without comments after the last token."""
        return self.text[self.tokens[start].start : self.tokens[end - 1].end + 1]


def _split_token(token: Token) -> Iterator[Token]:
    """Yield the words of a token: sqlglot joins the words of some keywords to one token (``PARTITIONED BY``)."""
    parts = token.text.split()
    if len(parts) < 2 or token.token_type in QUOTED:
        yield token
        return
    for match in re.finditer(r"\S+", token.text):
        start = token.start + match.start()
        yield Token(TokenType.VAR, match.group(), start=start, end=start + len(match.group()) - 1)


def split_name(text: str) -> tuple[str, ...]:
    """Return the parts of a name. Raises `InvalidArgument` if the text is not a name."""
    try:
        words = SparkWords(text)
    except InvalidArgument as error:
        raise InvalidArgument(f"{text!r} is no name of a table") from error
    found = words.path()
    words.end()
    return found
