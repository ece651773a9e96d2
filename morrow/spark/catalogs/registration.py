"""`morrow.spark.catalog` and `morrow.spark.register`: a session's catalogs and format in its JVM.

``catalog`` registers a warehouse as a Spark SQL catalog (``pm.db.orders``); ``register`` makes ``format("morrow")``
available to DataFrames, streams, temporary views and Spark's own catalog. Java classes call this process by an id
of the session. Answers are JSON, a DataFrame of the JVM, or an exception of the JVM.
"""

from __future__ import annotations

import json
import os
import re
import uuid
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from morrow.catalogs.catalog import Catalog, open_with
from morrow.catalogs.profiles import find_storage_options
from morrow.engine.arguments import check_mapping
from morrow.engine.catalog.settings import WAREHOUSE
from morrow.engine.errors import (
    AlreadyExists,
    DatabaseNotFound,
    InvalidArgument,
    MorrowError,
    TableNotFound,
    Unsupported,
)
from morrow.engine.io.resolve import Roots, resolve_roots
from morrow.engine.redaction import clean_text, get_logger
from morrow.engine.structs import replace
from morrow.session import Verify
from morrow.spark.catalogs import (
    by_path,
    ddl,
    descriptions,
    functions,
    partitions,
    reads,
    statements,
    streams,
    view_statements,
    writes,
)
from morrow.spark.catalogs import options as write_options
from morrow.spark.catalogs.questions import Place, Question
from morrow.spark.catalogs.syntax import (
    CATALOG_SETTING,
    CLASS,
    GENERIC,
    SPARKS_OWN,
    check_options_of_view,
    resolve_changes_function,
    rewrite_statement,
)
from morrow.spark.catalogs.writes import DERIVATION, Derivation
from morrow.spark.jvm.classes import find_class, get_class_name, load, load_alias, take_statements
from morrow.spark.sessions import is_connect
from morrow.spark.source import register_replacing, register_source
from morrow.spark.source.options import Options
from morrow.spark.source.settings import get_clock
from morrow.spark.views import Access, get_access

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ID = "id"
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
RESERVED_NAMES = ("system", "session")
BUILTIN = "builtin"
"""The value of the setting of `SPARKS_OWN` in a session that has only Spark's own tables."""


def catalog(
    spark: SparkSession,
    name: str = "pm",
    *,
    warehouse: str | os.PathLike[str] | Catalog | None = None,
    options: Mapping[str, object] | None = None,
    storage_options: Mapping[str, str] | None = None,
    allowed_roots: Roots = (),
    verify: Verify | None = None,
    **more: object,
) -> None:
    """Make a warehouse a catalog of the session: ``spark.sql("SELECT * FROM pm.db.orders")``.

    Statements and DataFrame calls that name ``pm.database.table`` read and write its tables; docs/spark-sql.md lists
    them. Every query sees the newest snapshot. ``format("paimon")`` and ``format("morrow")`` are registered, too, as
    by `morrow.spark.register`. Another call with the same name changes the catalog's warehouse and options.

    Args:
        spark: the session that gets the catalog. Other sessions need their own call.
        name: the catalog's name in SQL: letters, digits and ``_``. ``spark_catalog`` adds the tables to Spark's own
            databases: tables ``USING paimon`` are Morrow's, all others stay Spark's.
        warehouse: its folder or URL, valid on every executor; it need not exist yet. Or a `morrow.Catalog` of any
            kind (`morrow.open_catalog`), which already has its options. For ``spark_catalog``, by default
            ``spark.sql.warehouse.dir``.
        options, more: options of a catalog that is not just a folder, as for `morrow.open_catalog`:
            ``metastore="jdbc", uri="jdbc:..."``, ``options={"token.provider": "bear"}``.
        storage_options, allowed_roots, verify: as for `morrow.open`, for all tables. They stay in this process: no
            Spark setting, plan or log contains them.

    Raises:
        InvalidArgument: an invalid name. AlreadyExists: the session has another catalog of this name.
        Unsupported: the JVM cannot be reached (Spark Connect), or Morrow does not support its version of Spark.
    """
    if not isinstance(name, str) or not NAME.fullmatch(name) or name.lower() in RESERVED_NAMES:
        raise InvalidArgument(f"name is the catalog's name in SQL, such as 'pm', not {name!r}")
    access = Access(storage_options, resolve_roots(allowed_roots), verify)
    if name == SPARKS_OWN and warehouse is None and not options and not more:
        warehouse = str(spark.conf.get("spark.sql.warehouse.dir")).removeprefix("file:")
    answers = _open_answers(spark, name, warehouse, access, {**check_mapping(options, "options"), **more})
    answers.catalog()  # reports a wrong warehouse now
    register_in_jvm(spark)
    start_answering(spark, _ensure_id(spark, name), answers)
    # Spark creates a catalog when it is first named, in a thread that may not see the classes, with the settings
    # of the active session. So create it now, with this session active.
    session = cast("Any", spark)._jsparkSession
    cast("Any", spark)._jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(session)
    session.sessionState().catalogManager().catalog(name)


def _open_answers(
    spark: SparkSession,
    name: str,
    warehouse: str | os.PathLike[str] | Catalog | None,
    access: Access,
    given: Mapping[str, object],
) -> CatalogAnswers:
    """Open the catalog. Raises `InvalidArgument` unless exactly one is named."""
    if isinstance(warehouse, Catalog):
        if given:
            raise InvalidArgument("a Catalog has its options: give it alone")
        opened = access.catalog(warehouse)
        return CatalogAnswers(spark, name, lambda: opened, get_access(opened))
    if given:
        described = given if warehouse is None else {**given, WAREHOUSE.key: os.fspath(warehouse)}
        made = open_with(described, access.allowed_roots, access.storage_options, access.verify)
        if made.is_folder:
            access = replace(access, storage_options=find_storage_options(made))
        return CatalogAnswers(spark, name, lambda: made, access)
    if warehouse is None:
        raise InvalidArgument("no catalog is named: give its warehouse, or the options metastore, uri and warehouse")
    return CatalogAnswers(spark, name, lambda: access.catalog(warehouse), access)


def _ensure_id(spark: SparkSession, name: str) -> str:
    """Return the id that a catalog sends with its questions, stored in its settings; create the settings if missing."""
    setting, ours = f"{CATALOG_SETTING}{name}", get_class_name(GENERIC if name == SPARKS_OWN else CLASS)
    there = spark.conf.get(setting, None)
    if there is not None and there not in (ours, BUILTIN):
        raise AlreadyExists(f"the session has a catalog {name} already, which is {there}; choose another name")
    known = spark.conf.get(f"{setting}.{ID}", None)
    if known is not None:
        return known
    made = uuid.uuid4().hex
    spark.conf.set(f"{setting}.{ID}", made)
    spark.conf.set(setting, ours)
    return made


FORMAT_SETTING = "spark.morrow.format"
"""The setting of a session with the registered format: the id that `MorrowFormat` sends with its questions."""
REDACTED = "spark.sql.redaction.options.regex"
"""The setting with a pattern of option names. Spark redacts the values of these options everywhere."""
STORE_OPTIONS = r"(?i)^storage\."
"""The pattern of store options. All are redacted, since not every secret can be recognised by its name."""

log = get_logger(__name__)


def register(spark: SparkSession) -> None:
    """Register ``format("morrow")`` in a session; its options are in `morrow.spark.source.options`.

    It is registered as ``paimon``, too, unless a jar has that name. Repeating it changes nothing.

    From Spark 4.0 on, the format is a class in the session's JVM. Before, and over Spark Connect, methods of PySpark's
    classes are replaced for sessions that have called this function.
    """
    if not is_connect(spark):
        try:
            register_in_jvm(spark)
        except Unsupported as error:
            log.info("format('morrow') replaces methods of PySpark: %s", error)
        else:
            return
    register_replacing(spark)


def register_in_jvm(spark: SparkSession) -> None:
    """Register the format as a class in the session's JVM.

    Raises `Unsupported` if the JVM cannot be reached or rejects the class.
    """
    load(spark)
    id = spark.conf.get(FORMAT_SETTING, None)
    if id is None:
        id = uuid.uuid4().hex
        spark.conf.set(FORMAT_SETTING, id)
    start_answering(spark, id, FormatAnswers(spark))
    register_streams(spark)
    load_alias(spark)
    answer_statements(spark)
    redacted = spark.conf.get(REDACTED, None)
    if redacted is None or STORE_OPTIONS not in redacted:
        spark.conf.set(REDACTED, f"{redacted}|{STORE_OPTIONS}" if redacted else STORE_OPTIONS)


def start_answering(spark: SparkSession, id: str, answers: CatalogAnswers | FormatAnswers | StatementAnswers) -> None:
    """Register the answers to the JVM's questions under an id, replacing earlier answers."""
    from pyspark import java_gateway

    gateway = cast("Any", spark).sparkContext._gateway
    cast("Any", java_gateway).ensure_callback_server_started(gateway)
    find_class(spark, "Python").getField("ANSWERING").get(None).put(id, answers)


def answer_statements(spark: SparkSession) -> None:
    """Have the session's parser ask about statements of Paimon, and about those that Spark would execute in part."""
    statements = take_statements(spark)
    if statements is not None:
        start_answering(spark, statements, StatementAnswers(spark))


def register_streams(spark: SparkSession) -> None:
    """Register the data source of the streams that the JVM requests."""
    from morrow.spark.source.datasource import StreamsByName  # Spark 3.5 cannot import it

    register_source(spark, StreamsByName)


Answer: TypeAlias = "Callable[[Place, Question, Any], object]"
"""A function that answers a question. Its last argument is the rows sent along: a DataFrame, a `Derivation` or None."""

ANSWERS: Mapping[str, Answer] = {
    **ddl.DATABASE_ANSWERS,
    **ddl.TABLE_ANSWERS,
    **descriptions.CREATE_ANSWERS,
    **ddl.ALTER_ANSWERS,
    **reads.READ_ANSWERS,
    **reads.SUMMARY_ANSWERS,
    **writes.WRITE_ANSWERS,
    **write_options.ANSWERS,
    **writes.CHANGE_ANSWERS,
    **streams.ANSWERS,
    **partitions.ANSWERS,
    **statements.ANSWERS,
    **view_statements.ANSWERS,
    **functions.ANSWERS,
}
"""Answers by the verb of the question."""

STATEMENT_ANSWERS: Mapping[str, Callable[[SparkSession, Question], object]] = {
    "rewrite": lambda spark, asked: rewrite_statement(spark, asked["text"]),
    "options of view": lambda spark, asked: check_options_of_view(spark, asked["view"], asked["options"]),
    "changed rows": lambda spark, asked: resolve_changes_function(spark, asked["function"], asked["arguments"]),
}
"""Answers by the verb of a question about a session, whatever the catalog."""

NAMED_ERRORS = (TableNotFound, DatabaseNotFound, AlreadyExists, Unsupported)
"""Errors that the JVM recognises by class name; subclasses are reported under these names."""


class CatalogAnswers:
    """A ``java.util.function.BiFunction`` that answers a question (JSON, and the rows sent along or None)."""

    class Java:
        implements = ("java.util.function.BiFunction",)

    def __init__(self, spark: SparkSession, name: str, catalog: Callable[[], Catalog], access: Access) -> None:
        self._spark = spark
        self._name = name
        self.catalog = catalog
        self._access = access

    def apply(self, question: str, rows: Any) -> Any:
        asked = json.loads(question)
        frame = _to_frame(rows, self._spark)

        def answer() -> object:
            return ANSWERS[asked["verb"]](Place(self._spark, self._name, self.catalog(), self._access), asked, frame)

        return _answer_java(answer)

    def toString(self) -> str:  # noqa: N802 - Java's name
        return "the answers of morrow.spark.catalog"


class FormatAnswers:
    """A ``java.util.function.BiFunction`` for `MorrowFormat` in the JVM: `CatalogAnswers` for tables by path."""

    class Java:
        implements = ("java.util.function.BiFunction",)

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def apply(self, question: str, rows: Any) -> Any:
        asked = json.loads(question)
        frame = _to_frame(rows, self._spark)

        def answer() -> object:
            options = Options(asked["place"] if "place" in asked else asked["options"], get_clock(self._spark))
            return by_path.ANSWERS[asked["verb"]](by_path.ByPath(self._spark, options), asked, frame)

        return _answer_java(answer)

    def toString(self) -> str:  # noqa: N802 - Java's name
        return "the answers of format('morrow')"


class StatementAnswers:
    """A ``java.util.function.BiFunction`` for `Statements` in the JVM that answers (a statement as JSON, None)."""

    class Java:
        implements = ("java.util.function.BiFunction",)

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def apply(self, question: str, _rows: Any) -> Any:
        asked = json.loads(question)
        return _answer_java(lambda: STATEMENT_ANSWERS[asked["verb"]](self._spark, asked))

    def toString(self) -> str:  # noqa: N802 - Java's name
        return "the statements of morrow.spark.catalog"


def _to_frame(rows: Any, spark: SparkSession) -> DataFrame | Derivation | None:
    """Convert the rows that the JVM sends along with a question."""
    if rows is None:
        return None
    return Derivation(rows, spark) if rows.getClass().getSimpleName() == DERIVATION else DataFrame(rows, spark)


def _answer_java(function: Callable[[], object]) -> Any:
    """Convert the result or error of a function to the form that `Python.java` takes."""
    try:
        answer = function()
    except MorrowError as error:
        return json.dumps({"error": _name(error), "message": str(error)})
    except PySparkException as error:
        origin = getattr(error, "_origin", None)
        return json.dumps(_describe_error(error)) if origin is None else origin
    except (ValueError, TypeError, OSError, LookupError, ArithmeticError, RuntimeError) as error:
        return json.dumps(_describe_error(error))  # the JVM would get an exception only as a traceback
    if isinstance(answer, list) and any(isinstance(each, DataFrame) for each in answer):
        frames = cast("Any", answer[0].sparkSession)._jvm.java.util.ArrayList()
        for each in answer:
            frames.add(each._jdf)
        return frames
    return answer._jdf if isinstance(answer, DataFrame) else json.dumps({"value": answer})


def _describe_error(error: Exception) -> dict[str, str]:
    return {"error": type(error).__name__, "message": clean_text(str(error))}


def _name(error: MorrowError) -> str:
    kind = next((known for known in NAMED_ERRORS if isinstance(error, known)), type(error))
    return InvalidArgument.__name__ if kind is MorrowError else kind.__name__
