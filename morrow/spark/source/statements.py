"""SQL statements that name the format, or views of its tables, and that Spark would execute wrongly or in part.

Parsed statements exist only in the JVM, out of reach of Spark Connect clients. So statements are checked as text,
without literals and comments, before Spark sees them:

=====================================================  ==============================================================
CREATE [OR REPLACE] TABLE ... USING morrow             refused: Spark's catalog would make a table that nobody can read
CREATE TEMPORARY VIEW ... USING morrow OPTIONS (...)   the view of what ``load`` gives, in a session with a JVM
SELECT /*+ OPTIONS(...) */                             refused: Spark ignores hints that it does not know
view WITH (...)                                        refused for views of tables: Spark ignores their options
=====================================================  ==============================================================
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.names import VIEW
from morrow.spark.sessions import is_connect
from morrow.spark.source.plain import ALIAS, NAME
from morrow.spark.source.settings import names_in, refuse_settings
from morrow.spark.source.takeover import (
    DEFAULT_SOURCE,
    Method,
    Replacement,
    is_of_other_catalog,
    is_ours,
    is_registered,
    names_of,
    refused,
)
from morrow.spark.versions import as_mapping

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NAMED = r"(?:`(?:[^`]|``)*`|[\w$]+)"
SKIPPED = re.compile(
    r"""`(?:[^`]|``)*` | '(?:[^'\\]|\\.)*' | "(?:[^"\\]|\\.)*" | --[^\n]* | /\*(?!\+).*?\*/""", re.DOTALL | re.VERBOSE
)
"""A pattern of names in backticks, which are kept, and of literals and comments, which are removed."""

ODD_NAME = re.compile(r"`(?!\w+`)(?:[^`]|``)*`")
"""A pattern of names, which may contain anything, also SQL keywords."""

MAKES_TABLE = re.compile(r"\b(?:create|replace)\s+(?:external\s+)?table\b([^;]*)", re.IGNORECASE)
TABLE_NAME = re.compile(rf"\s*(?:if\s+not\s+exists\s+)?({NAMED}(?:\s*\.\s*{NAMED})*)", re.IGNORECASE)
USES = re.compile(r"\busing\s+`?([\w.]+)", re.IGNORECASE)
OTHER_FORMAT = re.compile(r"\b(?:stored\s+(?:as|by)|row\s+format|like)\b", re.IGNORECASE)
MAKES_VIEW = re.compile(
    rf"\s*create\b.*\btemp(?:orary)?\s+view\b.*\busing\s+`?(?:{NAME}|{ALIAS})\b", re.IGNORECASE | re.DOTALL
)
PATH = re.compile(r"\bpath\b['`]?\s*=?\s*'([^']*)'", re.IGNORECASE)
HINT = re.compile(r"/\*\+(?:(?!\*/).)*\boptions\s*\(", re.IGNORECASE | re.DOTALL)
WITH_OPTIONS = re.compile(rf"({NAMED}(?:\s*\.\s*{NAMED})*)\s+with\s*\(", re.IGNORECASE)
IN_TEXT = re.compile(r"\s*execute\s+immediate\b", re.IGNORECASE)
"""A pattern of statements whose literals are statements."""

TRAVEL = "give it to what makes the view: morrow.spark.read(spark, path, snapshot=...)"

OURS = re.compile(rf"\bSubqueryAlias {VIEW}\b|\bRelationV2\[[^\n]*\] (?:{NAME}|{ALIAS})\b")
"""A pattern of plans made by `morrow.spark.reading`, or with a relation of the data source."""


def _sql(sql: Method) -> Method:
    @functools.wraps(sql)
    def done(self: Any, sqlQuery: str, args: Any = None, **variables: Any) -> Any:  # noqa: N803 - Spark's name
        text = bare(sqlQuery) if isinstance(sqlQuery, str) else ""
        if _may_concern(text) and is_registered(self):
            _check(text, self)
            if MAKES_VIEW.match(text) and is_connect(self):
                located = PATH.search(sqlQuery)
                refuse_settings(self, "a view USING morrow", *names_in(located[1] if located else ""))
            if MAKES_VIEW.match(text) and not variables and not args and not is_connect(self):
                made = _view(sqlQuery, self)
                if made is not None:
                    return made
        return sql(self, sqlQuery, args, **variables)

    return done


def _table(table: Method) -> Method:
    @functools.wraps(table)
    def read(self: Any, tableName: str) -> Any:  # noqa: N803 - Spark's name
        frame = table(self, tableName)
        given = _options(self)
        if given and is_registered(frame.sparkSession) and is_of_table(frame):
            raise ignored_option(tableName, given[0])
        return frame

    return read


REPLACEMENTS: tuple[Replacement, ...] = (("SparkSession", "sql", _sql), ("DataFrameReader", "table", _table))


def is_of_table(frame: DataFrame) -> bool:
    """Returns whether a view or DataFrame reads a Morrow table anywhere in its plan."""
    if is_connect(frame):
        plan = cast("Any", frame)._explain_string(extended=True)
    else:
        plan = cast("Any", frame)._jdf.queryExecution().analyzed().toString()
    return OURS.search(plan) is not None


def bare(text: str) -> str:
    """Removes literals and comments from a statement."""
    if IN_TEXT.match(text):
        return text.replace("'", " ").replace('"', " ")
    return SKIPPED.sub(lambda found: found[0] if found[0].startswith("`") else " ", text)


def makes_table(
    text: str, default: str, formats: Sequence[str] = (NAME,), elsewhere: Callable[[str], bool] = lambda _: False
) -> bool:
    """Returns whether a statement, stripped by `bare`, makes a table of the format; `default` is the session's.

    Args:
        formats: the names of the format.
        elsewhere: whether a table of this name is in another catalog than Spark's own.
    """
    for made in MAKES_TABLE.finditer(ODD_NAME.sub("`_`", text)):
        name = TABLE_NAME.match(made[1])
        if name is not None and elsewhere(name[1]):
            continue
        sources = [source.lower() for source in USES.findall(made[1])]
        if not sources and not OTHER_FORMAT.search(made[1]):
            sources = [default.lower()]
        if not set(formats).isdisjoint(sources):
            return True
    return False


def _may_concern(text: str) -> bool:
    return any(known.search(text) for known in (MAKES_TABLE, MAKES_VIEW, HINT, WITH_OPTIONS))


def _check(text: str, spark: SparkSession) -> None:
    """Raises `Unsupported` for a statement that Spark would only claim to have executed."""
    default = str(spark.conf.get(DEFAULT_SOURCE, ""))
    if makes_table(text, default, names_of(spark), lambda name: is_of_other_catalog(name, spark)):
        raise refused("CREATE TABLE")
    check_ignored(text, lambda name: names_table_of_ours(name, spark))


def check_ignored(text: str, is_view: Callable[[str], bool]) -> None:
    """Raises `Unsupported` for options in a statement, stripped by `bare`, that Spark ignores.

    `is_view`: whether this is the name of a view of a Morrow table.
    """
    if HINT.search(ODD_NAME.sub("`_`", text)):
        raise Unsupported("the hint OPTIONS in Spark's SQL, which Spark ignores,", hint=TRAVEL)
    for found in WITH_OPTIONS.finditer(text):
        if is_view(found[1]):
            raise Unsupported(f"options of the view {found[1]}, which Spark ignores,", hint=TRAVEL)


def ignored_option(view: str, option: str) -> InvalidArgument:
    """Returns the error for an option of a reader of a view."""
    return InvalidArgument(f"{view}: Spark does not heed the option {option!r} of a view; {TRAVEL}")


def names_table_of_ours(name: str, spark: SparkSession) -> bool:
    """Returns whether this is the name of a view of a Morrow table."""
    from pyspark.errors import PySparkException

    try:
        return is_of_table(spark.table(name))
    except PySparkException:  # no such view: a function, or another kind of WITH
        return False


def _view(text: str, spark: SparkSession) -> DataFrame | None:
    """Makes the view of a statement; None where Spark has to report what is wrong with it."""
    from pyspark.errors import PySparkException

    session = cast("Any", spark)
    try:
        asked = session._jsparkSession.sessionState().sqlParser().parsePlan(text)
    except PySparkException:
        return None
    if asked.getClass().getSimpleName() != "CreateTempViewUsing" or not is_ours(asked.provider(), spark):
        return None
    name, schema = asked.tableIdent(), asked.userSpecifiedSchema()
    if name.database().isDefined():
        return None
    reader = spark.read.format(NAME)
    if schema.isDefined():
        reader = reader.schema(schema.get().toDDL())
    frame = reader.options(**as_mapping(session, asked.options())).load()
    kind = "Global" if getattr(asked, "global")() else ""
    getattr(frame, f"create{'OrReplace' if asked.replace() else ''}{kind}TempView")(f"`{_escaped(name.table())}`")
    return spark.range(0).select()


def _escaped(name: str) -> str:
    return name.replace("`", "``")


def _options(reader: Any) -> list[str]:
    """Returns the names of a reader's options."""
    if is_connect(reader):
        return [name for name, value in reader._options.items() if value is not None]
    return list(as_mapping(reader._spark, reader._jreader.extraOptions().originalMap()))
