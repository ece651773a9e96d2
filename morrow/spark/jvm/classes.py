"""The Java classes of this package: compiled in the driver's JVM, and loaded into a session.

Spark compiles the code of its queries with Janino, so every driver has this compiler. All sources form one
compilation unit. Classes stay loaded as long as the JVM runs, so the package's name contains the hash of the
sources: each version of Morrow has its own classes. Executors get a jar with the classes.
"""

from __future__ import annotations

import atexit
import hashlib
import re
import shutil
import tempfile
import warnings
import zipfile
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pyspark.errors import PySparkException

from morrow.engine.errors import Unsupported
from morrow.spark.versions import check_catalogs, to_list

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ALIAS = "paimon"
RULES = {"extraOptimizations": "ReadPlans", "extraStrategies": "Commands"}
"""The field in which Spark accepts extra rules in a running session, and Morrow's class of such rules."""


def get_class_name(name: str) -> str:
    """Return the full name of a compiled class."""
    return f"{get_package()}.{name}"


def load(spark: SparkSession) -> None:
    """Load the classes in a session and add their rules to it. Repeating it changes nothing.

    Raises `Unsupported`: the JVM cannot be reached (Spark Connect), or its Spark rejects the classes.
    """
    if not hasattr(spark, "_jsparkSession"):
        raise Unsupported(
            "the catalog through Spark Connect, whose client reaches no JVM,",
            hint="read and write tables by morrow.spark.read, write and attach",
        )
    check_catalogs(spark)
    made = make_jar(spark)
    if _look_up_class(spark, "Python") is None or not _is_sent(spark, made):
        _add(spark, made)
    for place, name in RULES.items():
        _add_rule(spark, place, name)


def load_alias(spark: SparkSession) -> None:
    """Register the format under Paimon's name too, after `load`, unless a jar has registered that name."""
    from py4j.protocol import Py4JJavaError

    sources = cast("Any", spark)._jvm.org.apache.spark.sql.execution.datasources.DataSource
    conf = cast("Any", spark)._jsparkSession.sessionState().conf()
    try:
        sources.lookupDataSource(ALIAS, conf)
    except (Py4JJavaError, PySparkException):
        _add(spark, make_alias_jar(spark))


def _is_sent(spark: SparkSession, jar: Path) -> bool:
    """Return whether executors get a jar.

    The classes of a stopped session stay in the JVM, but its executors are gone.
    """
    sent = to_list(spark, cast("Any", spark)._jsparkSession.sparkContext().listJars())
    return any(str(url).endswith(f"/{jar.name}") for url in sent)


def _is_extensible(loader: Any) -> bool:
    """Return whether a class loader (or None) accepts further jars. `hasattr` is always true for Java objects."""
    return loader is not None and any(method.getName() == "addURL" for method in loader.getClass().getMethods())


def _add(spark: SparkSession, jar: Path) -> None:
    """Add a jar for executors, for this thread, and for later threads, which have another class loader."""
    loader = cast("Any", spark)._jsparkSession.sharedState().jarClassLoader().getParent()
    if _is_extensible(loader):
        loader.addURL(cast("Any", spark)._jvm.java.io.File(str(jar)).toURI().toURL())
    path = str(jar).replace("'", "\\'")
    spark.sql(f"ADD JAR '{path}'")


def take_statements(spark: SparkSession) -> str | None:
    """Make the session's parser ask about Paimon statements; return the id that it sends.

    If this version of Spark does not allow it, such statements fail to parse: warn, and return None.
    """
    from py4j.protocol import Py4JJavaError

    method = find_class(spark, "Statements").getMethods()
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


def find_class(spark: SparkSession, name: str) -> Any:
    """Return a compiled class, as Java's Class.

    Raises `Unsupported`: the class is missing: `load` was not called, or failed.
    """
    found = _look_up_class(spark, name)
    if found is None:
        raise Unsupported(f"the catalog in Spark {spark.version}, which does not find {get_class_name(name)},")
    return found


def _look_up_class(spark: SparkSession, name: str) -> Any:
    from py4j.protocol import Py4JJavaError

    try:
        return cast("Any", spark)._jvm.org.apache.spark.util.Utils.classForName(get_class_name(name), True, False)
    except Py4JJavaError as error:
        if error.java_exception.getClass().getSimpleName() != "ClassNotFoundException":
            raise
        return None


def _add_rule(spark: SparkSession, place: str, name: str) -> None:
    """Add a rule before the rules that the session already has, unless it has been added."""
    session, jvm = cast("Any", spark)._jsparkSession, cast("Any", spark)._jvm
    experimental = session.experimental()
    rules = to_list(spark, getattr(experimental, place)())
    if any(rule.getClass().getName() == get_class_name(name) for rule in rules):
        return
    rules.insert(0, find_class(spark, name).getConstructors()[0].newInstance(_make_empty_array(spark)))
    buffer = jvm.scala.collection.mutable.ArrayBuffer()
    for rule in rules:
        buffer.append(rule)
    getattr(experimental, f"{place}_$eq")(buffer.toSeq())


def _make_empty_array(spark: SparkSession) -> Any:
    gateway = cast("Any", spark).sparkContext._gateway
    return gateway.new_array(gateway.jvm.java.lang.Object, 0)


PACKAGE = "morrow.spark.jvm"
"""The folder of the catalog's Java sources."""
SCANS = f"{PACKAGE}.scans"
"""The folder of the Java sources that reads need: few, and compiled separately."""
SHARED = {SCANS: ("Values.java",)}
"""Sources of the catalog that another folder needs too."""
JAVA_VERSION = 8
"""The Java language level that Janino supports."""

SOURCES = "META-INF/services/org.apache.spark.sql.sources.DataSourceRegister"
"""The path in a jar by which Spark finds its formats."""
FORMAT = "MorrowFormat"

IMPORT = re.compile(r"^import [^;]+;\n", re.MULTILINE)


def read_sources(folder: str = PACKAGE) -> dict[str, str]:
    """Read the source of every class in a folder, by file name."""
    files = [file for file in resources.files(folder).iterdir() if file.name.endswith(".java")]
    shared = [resources.files(PACKAGE) / name for name in SHARED.get(folder, ())]
    texts = {file.name: file.read_text("utf-8") for file in (*files, *shared)}
    return {name: texts[name].replace(f"package {PACKAGE};\n", f"package {folder};\n") for name in sorted(texts)}


@cache
def get_package(folder: str = PACKAGE) -> str:
    """Return the package name of the compiled classes."""
    text = "\0".join(read_sources(folder).values())
    return f"{folder}{hashlib.sha256(text.encode()).hexdigest()[:12]}"


@cache
def build_compilation_unit(folder: str = PACKAGE) -> str:
    """Return all classes as one text for Janino: classes in separate texts could not refer to each other."""
    texts = list(read_sources(folder).values())
    imports = sorted({found for text in texts for found in IMPORT.findall(text)})
    bodies = [IMPORT.sub("", text).replace(f"package {folder};\n", "") for text in texts]
    return "".join([f"package {get_package(folder)};\n", *imports, *bodies])


def compile_classes(spark: SparkSession) -> dict[str, bytes]:
    """Compile the catalog's classes in the driver's JVM, and return the bytes of each by its name.

    Raises `Unsupported`: the text does not compile against this version of Spark.
    """
    compiler = compile_folder(
        spark,
        PACKAGE,
        f"the catalog in Spark {spark.version}",
        "read and write tables by morrow.spark.read, write and attach",
    )
    return {name: bytes(code) for name, code in compiler.getBytecodes().items()}


def compile_folder(
    spark: SparkSession, folder: str, what: str, hint: str | None = None, *, edit: tuple[str, str] | None = None
) -> Any:
    """Compile the classes of a folder in the driver's JVM, and return Janino's compiler, which contains them.

    `edit`: words of the sources, and their replacements for this version of Spark.

    Raises `Unsupported`: the text does not compile against this version of Spark; the message begins with `what`.
    """
    from py4j.protocol import Py4JJavaError

    jvm = cast("Any", spark)._jvm
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(jvm.java.lang.Thread.currentThread().getContextClassLoader())
    compiler.setSourceVersion(JAVA_VERSION)
    compiler.setTargetVersion(JAVA_VERSION)
    try:
        compiler.cook(build_compilation_unit(folder).replace(*edit) if edit else build_compilation_unit(folder))
    except Py4JJavaError as error:
        raise Unsupported(f"{what} ({find_root_message(error.java_exception)})", hint=hint) from error
    return compiler


def find_root_message(error: Any) -> str:
    """Return the message of the innermost cause. The outer ones only give the position in the text."""
    while error.getCause() is not None:
        error = error.getCause()
    return str(error.getMessage())


_JARS: dict[tuple[str, str], Path] = {}
"""The jars that this process has made, by package and version of Spark."""


def make_jar(spark: SparkSession) -> Path:
    """Return a jar with the classes, made once per process. Raises as `compile_classes`."""
    key = get_package(), spark.version
    if key not in _JARS:
        folder = Path(tempfile.mkdtemp(prefix="morrow-jvm-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        made = folder / f"{get_package()}.jar"
        with zipfile.ZipFile(made, "w") as archive:
            for name, code in compile_classes(spark).items():
                archive.writestr(f"{name.replace('.', '/')}.class", code)
            archive.writestr(SOURCES, f"{get_package()}.{FORMAT}\n")
        _JARS[key] = made
    return _JARS[key]


def make_alias_jar(spark: SparkSession) -> Path:
    """Return a jar that registers the format under Paimon's name, next to `make_jar`'s. Raises as `compile_classes`."""
    made = make_jar(spark).with_name(f"{get_package()}-alias.jar")
    if not made.exists():
        with zipfile.ZipFile(made, "w") as archive:
            archive.writestr(SOURCES, f"{get_package()}.{FORMAT}$Alias\n")
    return made
