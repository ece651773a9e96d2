"""The compiled classes in a session: loaded, found by executors, and tried before anything relies on them."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, cast

from pyspark.errors import PySparkException

from morrow.engine.errors import Unsupported
from morrow.spark.jvm.compiling import alias_jar, jar, package
from morrow.spark.versions import as_list, check_catalogs

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

ALIAS = "paimon"
RULES = {"extraOptimizations": "ReadPlans", "extraStrategies": "Commands"}
"""Where Spark takes rules of others in a running session, and the class of ours."""


def class_name(name: str) -> str:
    """Returns the full name of a compiled class."""
    return f"{package()}.{name}"


def load(spark: SparkSession) -> None:
    """Makes the classes known to the session and its rules part of it. Repeating it changes nothing.

    Raises:
        Unsupported: there is no JVM to reach (Spark Connect), or its Spark does not take the classes.
    """
    if not hasattr(spark, "_jsparkSession"):
        raise Unsupported(
            "the catalog through Spark Connect, whose client reaches no JVM,",
            hint="read and write tables by morrow.spark.read, write and attach",
        )
    check_catalogs(spark)
    made = jar(spark)
    if _found(spark, "Python") is None or not _is_sent(spark, made):
        _add(spark, made)
    for place, name in RULES.items():
        _add_rule(spark, place, name)


def load_alias(spark: SparkSession) -> None:
    """Makes the format known by Paimon's name as well, after `load`, unless a jar has that name."""
    from py4j.protocol import Py4JJavaError

    sources = cast("Any", spark)._jvm.org.apache.spark.sql.execution.datasources.DataSource
    conf = cast("Any", spark)._jsparkSession.sessionState().conf()
    try:
        sources.lookupDataSource(ALIAS, conf)
    except (Py4JJavaError, PySparkException):
        _add(spark, alias_jar(spark))


def _is_sent(spark: SparkSession, jar: Path) -> bool:
    """Returns whether executors get a jar; a session that was stopped leaves its classes in the JVM, not to these."""
    sent = as_list(spark, cast("Any", spark)._jsparkSession.sparkContext().listJars())
    return any(str(url).endswith(f"/{jar.name}") for url in sent)


def _takes_jars(loader: Any) -> bool:
    """Returns whether a class loader, or None, takes further jars; of one in Java `hasattr` finds every name."""
    return loader is not None and any(method.getName() == "addURL" for method in loader.getClass().getMethods())


def _add(spark: SparkSession, jar: Path) -> None:
    """Adds a jar for executors, for this thread, and for threads to come, whose class loader is another one."""
    loader = cast("Any", spark)._jsparkSession.sharedState().jarClassLoader().getParent()
    if _takes_jars(loader):
        loader.addURL(cast("Any", spark)._jvm.java.io.File(str(jar)).toURI().toURL())
    path = str(jar).replace("'", "\\'")
    spark.sql(f"ADD JAR '{path}'")


def take_statements(spark: SparkSession) -> str | None:
    """Has the session's parser ask for statements of Paimon's; returns the id under which it asks.

    Returns None, with a warning, where this Spark keeps its parser: such statements stay unknown to it.
    """
    from py4j.protocol import Py4JJavaError

    method = java_class(spark, "Statements").getMethods()
    install = next(one for one in method if one.getName() == "install")
    gateway = cast("Any", spark).sparkContext._gateway
    arguments = gateway.new_array(gateway.jvm.java.lang.Object, 1)
    arguments[0] = cast("Any", spark)._jsparkSession.sessionState()
    try:
        return str(install.invoke(None, arguments))
    except Py4JJavaError as error:
        cause = error.java_exception.getCause() or error.java_exception
        warnings.warn(
            f"Spark {spark.version} keeps its parser ({cause.toString()}): instead of ALTER TABLE ... TAG, use CALL",
            stacklevel=3,
        )
        return None


def java_class(spark: SparkSession, name: str) -> Any:
    """Returns a compiled class, as Java's Class.

    Raises:
        Unsupported: it is not there: `load` was not called, or failed.
    """
    found = _found(spark, name)
    if found is None:
        raise Unsupported(f"the catalog in Spark {spark.version}, which does not find {class_name(name)},")
    return found


def _found(spark: SparkSession, name: str) -> Any:
    from py4j.protocol import Py4JJavaError

    try:
        return cast("Any", spark)._jvm.org.apache.spark.util.Utils.classForName(class_name(name), True, False)
    except Py4JJavaError as error:
        if error.java_exception.getClass().getSimpleName() != "ClassNotFoundException":
            raise
        return None


def _add_rule(spark: SparkSession, place: str, name: str) -> None:
    """Adds a rule to those that the session has from others, in front; not twice."""
    session, jvm = cast("Any", spark)._jsparkSession, cast("Any", spark)._jvm
    experimental = session.experimental()
    rules = as_list(spark, getattr(experimental, place)())
    if any(rule.getClass().getName() == class_name(name) for rule in rules):
        return
    rules.insert(0, java_class(spark, name).getConstructors()[0].newInstance(_no_arguments(spark)))
    buffer = jvm.scala.collection.mutable.ArrayBuffer()
    for rule in rules:
        buffer.append(rule)
    getattr(experimental, f"{place}_$eq")(buffer.toSeq())


def _no_arguments(spark: SparkSession) -> Any:
    gateway = cast("Any", spark).sparkContext._gateway
    return gateway.new_array(gateway.jvm.java.lang.Object, 0)
