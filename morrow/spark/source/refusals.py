"""Refusals of SQL statements and calls that Spark would execute wrongly or in part.

Parsed statements exist only in the JVM, which Spark Connect clients cannot reach. So statements are checked as
text, without literals and comments:
=====================================================  ==========================================================
CREATE [OR REPLACE] TABLE ... USING morrow             refused: the table in Spark's catalog would be unreadable
CREATE TEMPORARY VIEW ... USING morrow OPTIONS (...)   the view of what ``load`` gives, in a session with a JVM
SELECT /*+ OPTIONS(...) */                             refused: Spark ignores hints that it does not know
view WITH (...)                                        refused for views of tables: Spark ignores their options
=====================================================  ==========================================================
Spark's own catalog would store the path of a table of the format but not pass it to a Python data source. Tables of
any format with the name of a view of a Morrow table are refused, too: Spark would create the table behind the view,
and leave the table shown by the view unchanged.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.names import VIEW
from morrow.spark.sessions import is_connect
from morrow.spark.source.messages import ALIAS, NAME
from morrow.spark.source.replaced_methods import (
    DEFAULT_SOURCE,
    Method,
    Replacement,
    is_of_other_catalog,
    is_ours,
    is_ours_or_default,
    is_registered,
    list_names,
    make_refusal,
    note_format,
)
from morrow.spark.source.settings import parse_names, refuse_settings
from morrow.spark.versions import to_mapping

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NAMED = r"(?:`(?:[^`]|``)*`|[\w$]+)"
SKIPPED = re.compile(
    r"""`(?:[^`]|``)*` | '(?:[^'\\]|\\.)*' | "(?:[^"\\]|\\.)*" | --[^\n]* | /\*(?!\+).*?\*/""", re.DOTALL | re.VERBOSE
)
"""A pattern of names in backticks, which are kept, and of literals and comments, which are removed."""

ODD_NAME = re.compile(r"`(?!\w+`)(?:[^`]|``)*`")
"""A pattern of names in backticks that are not plain words. Such names may even contain SQL keywords."""

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
"""A pattern of statements that contain other statements as literals."""

TRAVEL = "give it to what makes the view: morrow.spark.read(spark, path, snapshot=...)"

OURS = re.compile(rf"\bSubqueryAlias {VIEW}\b|\bRelationV2\[[^\n]*\] (?:{NAME}|{ALIAS})\b")
"""A pattern of plans from `morrow.spark.reading`, or with a relation of the data source."""


def _check_sql(sql: Method) -> Method:
    @functools.wraps(sql)
    def done(self: Any, sqlQuery: str, args: Any = None, **variables: Any) -> Any:  # noqa: N803 - Spark's name
        text = strip_literals(sqlQuery) if isinstance(sqlQuery, str) else ""
        if any(known.search(text) for known in (MAKES_TABLE, MAKES_VIEW, HINT, WITH_OPTIONS)) and is_registered(self):
            _check(text, self)
            if MAKES_VIEW.match(text) and is_connect(self):
                located = PATH.search(sqlQuery)
                refuse_settings(self, "a view USING morrow", *parse_names(located[1] if located else ""))
            if MAKES_VIEW.match(text) and not variables and not args and not is_connect(self):
                made = _view(sqlQuery, self)
                if made is not None:
                    return made
        return sql(self, sqlQuery, args, **variables)

    return done


def _check_table(table: Method) -> Method:
    @functools.wraps(table)
    def read(self: Any, tableName: str) -> Any:  # noqa: N803 - Spark's name
        frame = table(self, tableName)
        given = _list_options(self)
        if given and is_registered(frame.sparkSession) and is_of_table(frame):
            raise make_ignored_error(tableName, given[0])
        return frame

    return read


SQL_REPLACEMENTS: tuple[Replacement, ...] = (
    ("SparkSession", "sql", _check_sql),
    ("DataFrameReader", "table", _check_table),
)


def is_of_table(frame: DataFrame) -> bool:
    """Return whether a view or DataFrame reads a Morrow table anywhere in its plan."""
    if is_connect(frame):
        plan = cast("Any", frame)._explain_string(extended=True)
    else:
        plan = cast("Any", frame)._jdf.queryExecution().analyzed().toString()
    return OURS.search(plan) is not None


def strip_literals(text: str) -> str:
    """Remove literals and comments from a statement."""
    if IN_TEXT.match(text):
        return text.replace("'", " ").replace('"', " ")
    return SKIPPED.sub(lambda found: found[0] if found[0].startswith("`") else " ", text)


def is_table_creation(
    text: str, default: str, formats: Sequence[str] = (NAME,), elsewhere: Callable[[str], bool] = lambda _: False
) -> bool:
    """Return whether a statement, stripped by `strip_literals`, creates a table of the format.

    Args:
        default: the session's default format.
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


def _check(text: str, spark: SparkSession) -> None:
    """Raise `Unsupported` for a statement that Spark would accept without executing it."""
    default = str(spark.conf.get(DEFAULT_SOURCE, ""))
    if is_table_creation(text, default, list_names(spark), lambda name: is_of_other_catalog(name, spark)):
        raise make_refusal("CREATE TABLE")
    check_ignored(text, lambda name: is_view_of_table(name, spark))


def check_ignored(text: str, is_view: Callable[[str], bool]) -> None:
    """Raise `Unsupported` for options in a statement, stripped by `strip_literals`, that Spark ignores.

    `is_view`: a function that says whether a name is a view of a Morrow table.
    """
    if HINT.search(ODD_NAME.sub("`_`", text)):
        raise Unsupported("the hint OPTIONS in Spark's SQL, which Spark ignores,", hint=TRAVEL)
    for found in WITH_OPTIONS.finditer(text):
        if is_view(found[1]):
            raise Unsupported(f"options of the view {found[1]}, which Spark ignores,", hint=TRAVEL)


def make_ignored_error(view: str, option: str) -> InvalidArgument:
    """Return the error for an option of a reader of a view."""
    return InvalidArgument(f"{view}: Spark does not heed the option {option!r} of a view; {TRAVEL}")


def is_view_of_table(name: str, spark: SparkSession) -> bool:
    """Return whether this is the name of a view of a Morrow table."""
    from pyspark.errors import PySparkException

    try:
        return is_of_table(spark.table(name))
    except PySparkException:  # not a view: a function, or another kind of WITH
        return False


def _view(text: str, spark: SparkSession) -> DataFrame | None:
    """Create the view of a statement; None if Spark has to report an error in it."""
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
    frame = reader.options(**to_mapping(session, asked.options())).load()
    kind = "Global" if getattr(asked, "global")() else ""
    getattr(frame, f"create{'OrReplace' if asked.replace() else ''}{kind}TempView")(f"`{_escape(name.table())}`")
    return spark.range(0).select()


def _escape(name: str) -> str:
    return name.replace("`", "``")


def _list_options(reader: Any) -> list[str]:
    """Return the names of a reader's options."""
    if is_connect(reader):
        return [name for name, value in reader._options.items() if value is not None]
    return list(to_mapping(reader._spark, reader._jreader.extraOptions().originalMap()))


def _check_name(name: object, call: str, spark: Any) -> None:
    """Raise `Unsupported` if this is the name of a view of a Morrow table."""
    if isinstance(name, str) and is_registered(spark) and is_view_of_table(name, spark):
        raise Unsupported(
            f"{call} with the name of the view {name}, which would leave the view's table as it is,",
            hint="write to that table by .write.format('morrow').save(path), or choose another name",
        )


def _note_table(init: Method) -> Method:
    @functools.wraps(init)
    def named(self: Any, *arguments: Any, **options: Any) -> None:
        init(self, *arguments, **options)
        # The JVM's writer and Spark Connect's writer expose it in different ways.
        self._morrow_table = (
            options["table"]
            if "table" in options
            else next(argument for argument in reversed(arguments) if isinstance(argument, str))
        )

    return named


def _is_of_format(source: str | None, table: object, spark: Any) -> bool:
    """Return whether a call would create a table of the format in Spark's own catalog."""
    return is_ours_or_default(source, spark) and not (isinstance(table, str) and is_of_other_catalog(table, spark))


def _check_using(using: Method) -> Method:
    @functools.wraps(using)
    def named(self: Any, provider: str) -> Any:
        if is_ours(provider, self._spark) and _is_of_format(provider, self._morrow_table, self._spark):
            raise make_refusal("writeTo(...).using")
        self._morrow_provider = provider
        return using(self, provider)

    return named


def _check_create(method: Method) -> Method:
    @functools.wraps(method)
    def created(self: Any) -> None:
        if _is_of_format(getattr(self, "_morrow_provider", None), self._morrow_table, self._spark):
            raise make_refusal(f"writeTo(...).{method.__name__}")
        method(self)

    return created


def _save_as_table(method: Method) -> Method:
    @functools.wraps(method)
    def saved(self: Any, name: str, format: str | None = None, *arguments: Any, **options: Any) -> None:
        source = format or (self._write.source if is_connect(self) else self._jwrite.source())
        if _is_of_format(source, name, self._spark):
            raise make_refusal("saveAsTable", name)
        _check_name(name, "saveAsTable", self._spark)
        method(self, name, format, *arguments, **options)

    return saved


def _create_table(method: Method) -> Method:
    @functools.wraps(method)
    def created(
        self: Any,
        tableName: str,  # noqa: N803 - Spark's name
        path: str | None = None,
        source: str | None = None,
        *arguments: Any,
        **options: Any,
    ) -> Any:
        if _is_of_format(source, tableName, self._sparkSession):
            raise make_refusal("catalog.createTable", tableName)
        return method(self, tableName, path, source, *arguments, **options)

    return created


def _to_table(method: Method) -> Method:
    @functools.wraps(method)
    def started(self: Any, tableName: str, format: str | None = None, *arguments: Any, **options: Any) -> Any:  # noqa: N803
        source = format or getattr(self, "_morrow_source", None)
        if _is_of_format(source, tableName, self._session if is_connect(self) else self._spark):
            raise make_refusal("writeStream.toTable", tableName)
        return method(self, tableName, format, *arguments, **options)

    return started


TABLE_REPLACEMENTS: tuple[Replacement, ...] = (
    ("DataFrameWriterV2", "__init__", _note_table),
    ("DataFrameWriterV2", "using", _check_using),
    *(("DataFrameWriterV2", name, _check_create) for name in ("create", "replace", "createOrReplace")),
    ("Catalog", "createTable", _create_table),
    ("DataFrameWriter", "saveAsTable", _save_as_table),
    ("DataStreamWriter", "format", note_format),
    ("DataStreamWriter", "toTable", _to_table),
)
