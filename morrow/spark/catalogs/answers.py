"""Answers to the questions of `MorrowCatalog` in the JVM: JSON, a DataFrame of the JVM, or an exception of the JVM."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from morrow.catalogs.catalog import Catalog
from morrow.engine.errors import (
    AlreadyExists,
    DatabaseNotFound,
    InvalidArgument,
    MorrowError,
    TableNotFound,
    Unsupported,
)
from morrow.engine.telling import shown
from morrow.spark.catalogs import (
    alter,
    by_path,
    changes,
    created,
    databases,
    partitions,
    procedures,
    read,
    streams,
    summaries,
    tables,
    write,
    write_options,
)
from morrow.spark.catalogs.derived import DERIVATION, Derivation
from morrow.spark.catalogs.place import Place, Question
from morrow.spark.catalogs.rewriting import changed_rows, check_options_of_view, rewritten
from morrow.spark.source.instants import clock_of
from morrow.spark.source.options import Options
from morrow.spark.views import Access

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Answer: TypeAlias = "Callable[[Place, Question, Any], object]"
"""Of rows: a DataFrame, a `Derivation`, or None where none go with the question."""

ANSWERS: Mapping[str, Answer] = {
    **databases.ANSWERS,
    **tables.ANSWERS,
    **created.ANSWERS,
    **alter.ANSWERS,
    **read.ANSWERS,
    **summaries.ANSWERS,
    **write.ANSWERS,
    **write_options.ANSWERS,
    **changes.ANSWERS,
    **streams.ANSWERS,
    **partitions.ANSWERS,
    **procedures.ANSWERS,
}
"""By the verb of a question."""

OF_STATEMENTS: Mapping[str, Callable[[SparkSession, Question], object]] = {
    "rewrite": lambda spark, asked: rewritten(spark, asked["text"]),
    "options of view": lambda spark, asked: check_options_of_view(spark, asked["view"], asked["options"]),
    "changed rows": lambda spark, asked: changed_rows(spark, asked["function"], asked["arguments"]),
}
"""By the verb of a question of a session, whatever the catalog."""

TOLD_APART = (TableNotFound, DatabaseNotFound, AlreadyExists, Unsupported)
"""Errors whose name the JVM looks for; of their subclasses too."""


class Answers:
    """A ``java.util.function.BiFunction``: (a question as JSON, the rows that go with it or None) to its answer."""

    class Java:
        implements = ("java.util.function.BiFunction",)

    def __init__(self, spark: SparkSession, name: str, catalog: Callable[[], Catalog], access: Access) -> None:
        self._spark = spark
        self._name = name
        self.catalog = catalog
        self._access = access

    def apply(self, question: str, rows: Any) -> Any:
        asked = json.loads(question)
        frame = _frame(rows, self._spark)

        def answer() -> object:
            return ANSWERS[asked["verb"]](Place(self._spark, self._name, self.catalog(), self._access), asked, frame)

        return _in_java(answer)

    def toString(self) -> str:  # noqa: N802 - Java's name
        return "the answers of morrow.spark.catalog"


class OfFormat:
    """A ``java.util.function.BiFunction`` for `MorrowFormat` in the JVM: as `Answers`, of tables by their paths."""

    class Java:
        implements = ("java.util.function.BiFunction",)

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def apply(self, question: str, rows: Any) -> Any:
        asked = json.loads(question)
        frame = _frame(rows, self._spark)

        def answer() -> object:
            options = Options(asked["place"] if "place" in asked else asked["options"], clock_of(self._spark))
            return by_path.ANSWERS[asked["verb"]](by_path.ByPath(self._spark, options), asked, frame)

        return _in_java(answer)

    def toString(self) -> str:  # noqa: N802 - Java's name
        return "the answers of format('morrow')"


class Rewriting:
    """A ``java.util.function.BiFunction`` for `Statements` in the JVM: (a statement as JSON, None) to its answer."""

    class Java:
        implements = ("java.util.function.BiFunction",)

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def apply(self, question: str, _rows: Any) -> Any:
        asked = json.loads(question)
        return _in_java(lambda: OF_STATEMENTS[asked["verb"]](self._spark, asked))

    def toString(self) -> str:  # noqa: N802 - Java's name
        return "the statements of morrow.spark.catalog"


def _frame(rows: Any, spark: SparkSession) -> DataFrame | Derivation | None:
    """Returns what the JVM sends along with a question."""
    if rows is None:
        return None
    return Derivation(rows, spark) if rows.getClass().getSimpleName() == DERIVATION else DataFrame(rows, spark)


def _in_java(function: Callable[[], object]) -> Any:
    """Returns what a function returns or raises in the form that `Python.java` takes."""
    try:
        answer = function()
    except MorrowError as error:
        return json.dumps({"error": _name(error), "message": str(error)})
    except PySparkException as error:
        origin = getattr(error, "_origin", None)
        return json.dumps(_told(error)) if origin is None else origin
    except (ValueError, TypeError, OSError, LookupError, ArithmeticError, RuntimeError) as error:
        return json.dumps(_told(error))  # what the JVM gets of an exception is a traceback
    return answer._jdf if isinstance(answer, DataFrame) else json.dumps({"value": answer})


def _told(error: Exception) -> dict[str, str]:
    return {"error": type(error).__name__, "message": shown(str(error))}


def _name(error: MorrowError) -> str:
    kind = next((known for known in TOLD_APART if isinstance(error, known)), type(error))
    return InvalidArgument.__name__ if kind is MorrowError else kind.__name__
