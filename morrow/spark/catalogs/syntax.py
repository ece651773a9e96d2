"""Statements of Paimon that Spark cannot parse, and the CALL that Spark parses instead.

The CALL names an internal procedure. `morrow.statements` parses the statements.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, cast

from sqlglot.dialects.spark import Spark
from sqlglot.tokenizer_core import TokenType

from morrow.engine.errors import DatabaseNotFound, InvalidArgument, Unsupported
from morrow.engine.structs import replace
from morrow.queries.incremental import CHANGES_BY
from morrow.spark.catalogs.questions import build_full_name
from morrow.spark.expressions import quote_name
from morrow.spark.jvm.classes import get_class_name
from morrow.spark.source.refusals import check_ignored, is_view_of_table, make_ignored_error, strip_literals
from morrow.statements.ddl_parser import TAG_WORDS
from morrow.statements.parser import parse_statement
from morrow.statements.statement import (
    AnalyzeTables,
    CopyIntoLocation,
    CreateFunction,
    CreateTableLike,
    DescribeFunction,
    DropFunction,
    Name,
    RepairTable,
    Show,
    Statement,
)
from morrow.statements.tokens import Syntax, Words, read_words, split

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CATALOG_SETTING = "spark.sql.catalog."
CLASS, GENERIC = "MorrowCatalog", "GenericCatalog"
PROCEDURE = "morrow.statement"
SPARKS_OWN = "spark_catalog"


def rewrite_statement(spark: SparkSession, text: str) -> str | None:
    """Return the text that Spark parses instead of a Paimon statement on a Morrow catalog; None for other statements.

    Raises:
        InvalidArgument: a syntax error after the beginning of a Paimon statement.
        Unsupported: the statement has options that Spark ignores.
    """
    check_ignored(strip_literals(text), lambda name: _is_temporary(spark, name) and is_view_of_table(name, spark))
    found = find_statement(text)
    if found is None:
        return None
    words, path = found
    if words.comes("COPY"):
        catalog, name = resolve_copy(spark, path)
    else:
        is_of_database = words.comes("ANALYZE", "TABLES") or words.comes("SHOW", "VIEWS")
        catalog, name = (resolve_database if is_of_database else resolve_name)(spark, path)
    if not is_ours(spark, catalog) or (catalog == SPARKS_OWN and not _is_in_sparks_own(spark, words, name)):
        return None
    changes_view = words.comes("DROP", "VIEW") or words.comes("ALTER", "VIEW")
    if changes_view and _is_temporary(spark, ".".join(map(quote_name, path))):
        return None
    if any(words.comes(*begin) for begin in FUNCTION_WORDS) and _is_sparks_function(spark, words, path):
        return None
    statement, source = parse_spark_statement(words), tuple[str, ...]()
    if isinstance(statement, CreateTableLike):
        other, source = resolve_name(spark, statement.source)
        if other != catalog:
            raise Unsupported(f"CREATE TABLE LIKE a table of another catalog, {other},")
    packed = pack_statement(words.text, name, source)
    return f"CALL {quote_name(catalog)}.sys.{quote_name(PROCEDURE)}('{packed}')"


def check_options_of_view(spark: SparkSession, view: str, options: Sequence[str]) -> None:
    """Raise `InvalidArgument` for reader options on a view of a Morrow table, which Spark ignores."""
    if is_view_of_table(view, spark):
        raise make_ignored_error(view, options[0])


def _is_temporary(spark: SparkSession, name: str) -> bool:
    """Return whether this is the name of a temporary view, local or global."""
    session = cast("Any", spark)._jsparkSession.sessionState()
    return bool(session.catalog().isTempView(session.sqlParser().parseMultipartIdentifier(name)))


def _is_sparks_function(spark: SparkSession, words: Words, path: Name) -> bool:
    """Return whether Spark answers a statement on a function itself: on its own ones, and DESCRIBE of ``sys``.

    Raises `Unsupported`: CREATE FUNCTION with the name of a temporary function.
    """
    if len(path) > 1:
        return words.word().startswith("DESC") and path[-2] == "sys"
    catalog = cast("Any", spark)._jsparkSession.sessionState().catalog()
    is_known = bool(catalog.lookupBuiltinOrTempFunction(path[0]).isDefined())
    if not words.comes("CREATE"):
        return is_known
    identifier = cast("Any", spark)._jvm.org.apache.spark.sql.catalyst.FunctionIdentifier(path[0])
    if is_known and catalog.isTemporaryFunction(identifier):
        if words.comes("CREATE", "OR"):
            what = f"{path[0]} is a temporary function, you should use `CREATE OR REPLACE TEMPORARY FUNCTION {path[0]}`"
        else:
            what = f"{path[0]} is a temporary function and already exists; CREATE FUNCTION of this name"
        raise Unsupported(what, hint=f"DROP TEMPORARY FUNCTION {path[0]}, or name the database")
    return False


def parse_spark_statement(words: Words) -> Statement:
    """Parse a statement, also one on a function. Raises as `parse_statement`."""
    if any(words.has(*begin) for begin in REPAIR_WORDS):
        table, mode = words.path(), words.one_of("ADD", "DROP", "SYNC")
        if mode is not None:
            words.need("PARTITIONS")
        words.end()
        return RepairTable(table, mode != "DROP", mode in ("DROP", "SYNC"))
    begin = next((begin for begin in FUNCTION_WORDS if words.has(*begin)), None)
    if begin is None:
        return parse_statement(words)
    if begin[0] == "DROP":
        statement: Statement = DropFunction(*_flag_and_path(words, "IF", "EXISTS"))
    elif begin[0] != "CREATE":
        statement = DescribeFunction(*_flag_and_path(words, "EXTENDED"))
    else:
        name, ignores = _flag_and_path(words, "IF", "NOT", "EXISTS")
        return _parse_create_function(words, name, ignores, replace="REPLACE" in begin)
    words.end()
    return statement


def _flag_and_path(words: Words, *flag: str) -> tuple[Name, bool]:
    found = words.has(*flag)
    return words.path(), found


def _parse_create_function(words: Words, name: Name, ignores: bool, *, replace: bool) -> CreateFunction:
    if not words.has("AS"):
        start = words.at
        while not words.is_at_end():
            if words.comes("RETURNS", "TABLE"):
                raise Unsupported("creating SQL table functions", hint="a view of the query, or a scalar function")
            words.at += 1
        return CreateFunction(name, words.raw(start, words.at), ignores, replace)
    class_name, files = words.string(), list[tuple[str, str]]()
    if words.has("USING"):
        files = words.listed(lambda: (words.name().upper(), words.string()))
    words.end()
    return CreateFunction(name, "", ignores, replace, class_name, tuple(files))


def resolve_name(spark: SparkSession, parts: tuple[str, ...]) -> tuple[str, Name]:
    """Resolve a name as Spark does. Return its catalog and the other parts."""
    first = parts[0]
    if len(parts) > 1 and (first == SPARKS_OWN or spark.conf.get(f"{CATALOG_SETTING}{first}", None) is not None):
        return first, parts[1:]
    manager = cast("Any", spark)._jsparkSession.sessionState().catalogManager()
    namespace = tuple(manager.currentNamespace()) if len(parts) == 1 else ()
    return str(manager.currentCatalog().name()), (*namespace, *parts)


def resolve_database(spark: SparkSession, parts: tuple[str, ...]) -> tuple[str, Name]:
    """Resolve the name of a database. Return its catalog and name; missing parts are the current ones."""
    if len(parts) > 1:
        return resolve_name(spark, parts)
    manager = cast("Any", spark)._jsparkSession.sessionState().catalogManager()
    return str(manager.currentCatalog().name()), parts or tuple(manager.currentNamespace())


def resolve_copy(spark: SparkSession, path: tuple[str, ...]) -> tuple[str, Name]:
    """Resolve the table that COPY INTO fills; for a location return any catalog of Morrow, which executes it."""
    if path:
        return resolve_name(spark, path)
    current, _ = resolve_database(spark, ())
    names = (row[0].removeprefix(CATALOG_SETTING) for row in spark.sql("SET").collect())
    return next((name for name in (current, *names) if "." not in name and is_ours(spark, name)), current), ()


def is_ours(spark: SparkSession, catalog: str) -> bool:
    """Return whether a catalog of this name is Morrow's."""
    known = (get_class_name(CLASS), get_class_name(GENERIC))
    return spark.conf.get(f"{CATALOG_SETTING}{catalog}", None) in known


def _is_in_sparks_own(spark: SparkSession, words: Words, name: Name) -> bool:
    """Return whether a statement in Spark's own catalog is about a table USING paimon, or COPY INTO a location."""
    if words.comes("COPY") and not name:
        return True
    if len(name) != 2 or any(words.comes(*begin) for begin in (*VIEW_WORDS, *FUNCTION_WORDS, ("SHOW", "VIEWS"))):
        return False
    catalog = cast("Any", spark)._jsparkSession.sessionState().catalogManager().v2SessionCatalog()
    if words.comes("CREATE"):
        made = parse_statement(replace(words, at=0))
        _, name = resolve_name(spark, made.source) if isinstance(made, CreateTableLike) else (None, name)
    return len(name) == 2 and bool(catalog.owns(*name))


def resolve_changes_function(spark: SparkSession, function: str, arguments: Sequence[str | None]) -> dict[str, object]:
    """Return the table that a function of changes reads, and its other arguments as read options.

    Raises `InvalidArgument`: wrong arguments. `Unsupported`: a table of another catalog.
    """
    key, count = CHANGES_BY[function]
    if len(arguments) != count + 1 or None in arguments:
        raise InvalidArgument(f"{function} takes the name of a table and {count} more, none of them null")
    name, *others = map(str, arguments)
    catalog, parts = resolve_name(spark, split_name(name))
    if not is_ours(spark, catalog):
        raise Unsupported(f"{function} of a table of the catalog {catalog}")
    return {"table": [catalog, *parts], "options": {key: ",".join(others)}}


def find_statement(text: str) -> tuple[Words, Name] | None:
    """Return a statement of Paimon and the name of its table or database; None for those that Spark parses.

    Raises `InvalidArgument`: a syntax error after the beginning of a Paimon statement.
    """
    try:
        statements = split(text, SPARK_SYNTAX)
    except InvalidArgument:
        return None
    if not statements:
        return None
    words = statements[0]
    if words.has("SHOW", "TAGS"):
        path = words.path()
    else:
        try:
            found = _find_name(words)
        except InvalidArgument:
            return None
        if found is None:
            return None
        path = found
    if len(statements) > 1:
        raise InvalidArgument(f"{words}: one statement is expected, not {len(statements)}")
    words.at = 0
    return words, path


def _find_name(words: Words) -> Name | None:
    """Return the name that follows the first words of a statement of Paimon; None for other statements."""
    if words.has("SHOW", "VIEWS"):
        return words.path() if words.one_of("IN", "FROM") else ()
    for begin in (*VIEW_WORDS, *FUNCTION_WORDS):
        if words.has(*begin):
            _ = words.has("IF", "NOT", "EXISTS") or words.has("IF", "EXISTS") or words.has("EXTENDED")
            return words.path()
    if any(words.has(*begin) for begin in REPAIR_WORDS):
        return words.path()
    if words.has("COPY", "INTO"):
        return () if words.takes(TokenType.STRING) else words.path()
    if words.has("ANALYZE", "TABLES"):
        return words.path() if words.one_of("IN", "FROM") else ()
    if words.has("ANALYZE", "TABLE"):
        return words.path()
    if words.has("CREATE", "TABLE"):
        words.has("IF", "NOT", "EXISTS")
        table = words.path()
        return table if words.comes("LIKE") else None
    if words.has("ALTER", "TABLE"):
        table = words.path()
        return table if any(words.comes(*begin) for begin in (*TAG_WORDS, *CONSTRAINT_WORDS)) else None
    return None


VIEW_WORDS = (("CREATE", "VIEW"), ("CREATE", "OR", "REPLACE", "VIEW"), ("ALTER", "VIEW"), ("DROP", "VIEW"))
REPAIR_WORDS = (("MSCK", "REPAIR", "TABLE"), ("REPAIR", "TABLE"))
FUNCTION_WORDS = (
    *(("CREATE", "FUNCTION"), ("CREATE", "OR", "REPLACE", "FUNCTION"), ("DROP", "FUNCTION")),
    *(("DESCRIBE", "FUNCTION"), ("DESC", "FUNCTION")),
)
CONSTRAINT_WORDS = (("ADD", "CONSTRAINT"), ("DROP", "CONSTRAINT"))
"""Changes of a table that Spark parses and Paimon does not support."""


def pack_statement(text: str, name: Sequence[str], source: Sequence[str] = ()) -> str:
    """Pack a statement as text that fits in any literal, with the names in the catalog of its table and its source."""
    told = {"text": text, "table": list(name), "source": list(source)}
    return base64.b64encode(json.dumps(told).encode()).decode("ascii")


def unpack_statement(packed: str) -> tuple[Statement, str]:
    """Unpack text of `pack_statement`: the statement, and the full name of its table or database.

    Raises `TableNotFound`, `DatabaseNotFound`.
    """
    told = json.loads(base64.b64decode(packed))
    statement = parse_spark_statement(read_words(told["text"], SPARK_SYNTAX))
    if isinstance(statement, CopyIntoLocation):
        return statement, ""
    *namespace, name = told["table"]
    if isinstance(statement, CreateTableLike):
        statement = replace(statement, source=tuple(told["source"]))
    is_of_database = isinstance(statement, AnalyzeTables) or (isinstance(statement, Show) and statement.what == "views")
    if not is_of_database:
        return statement, build_full_name(namespace, name)
    if namespace:
        raise DatabaseNotFound(f"there is no database {'.'.join(told['table'])}")
    return statement, name


class Tokenizer(Spark.Tokenizer):
    """A tokenizer for Spark's SQL that also splits the statements which sqlglot keeps as one text."""

    COMMANDS: ClassVar[set[TokenType]] = set()


SPARK_SYNTAX = Syntax(
    lambda text: Tokenizer(dialect="spark").tokenize(text),
    has_catalogs=True,
    has_returning=False,
    keeps_comments=False,
)
"""The syntax of `morrow.spark.sql`. Spark itself knows hints, so comments are only comments."""


def split_name(text: str) -> tuple[str, ...]:
    """Return the parts of a name. Raises `InvalidArgument` if the text is not a name."""
    try:
        words = read_words(text, SPARK_SYNTAX)
    except InvalidArgument as error:
        raise InvalidArgument(f"{text!r} is not a table name") from error
    found = words.path()
    words.end()
    return found
