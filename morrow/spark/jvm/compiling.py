"""The Java text of this package as one compilation unit, and its classes in a jar, made by Spark's own compiler.

Spark compiles the code of its queries by Janino, which therefore is in every driver. Classes stay loaded as long as the
JVM runs, so their package is named by the hash of their text: another version of Morrow has other classes.
"""

from __future__ import annotations

import atexit
import hashlib
import re
import shutil
import tempfile
import zipfile
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from morrow.engine.errors import Unsupported

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PACKAGE = "morrow.spark.jvm"
"""The folder of the catalog's text."""
SCANS = f"{PACKAGE}.scans"
"""The folder of the text that reads need, which is small and compiled apart."""
SHARED = {SCANS: ("Values.java",)}
"""Texts of the catalog that another folder has as well."""
JAVA_VERSION = 8
"""The language that Janino knows."""

SOURCES = "META-INF/services/org.apache.spark.sql.sources.DataSourceRegister"
"""Where Spark finds the formats of a jar."""
FORMAT = "MorrowFormat"

IMPORT = re.compile(r"^import [^;]+;\n", re.MULTILINE)


def sources(folder: str = PACKAGE) -> dict[str, str]:
    """Returns the text of every class of a folder by its file's name."""
    files = [file for file in resources.files(folder).iterdir() if file.name.endswith(".java")]
    shared = [resources.files(PACKAGE) / name for name in SHARED.get(folder, ())]
    texts = {file.name: file.read_text("utf-8") for file in (*files, *shared)}
    return {name: texts[name].replace(f"package {PACKAGE};\n", f"package {folder};\n") for name in sorted(texts)}


@cache
def package(folder: str = PACKAGE) -> str:
    """Returns the name of the package of the compiled classes."""
    text = "\0".join(sources(folder).values())
    return f"{folder}{hashlib.sha256(text.encode()).hexdigest()[:12]}"


@cache
def compilation_unit(folder: str = PACKAGE) -> str:
    """Returns all classes as one text, as Janino compiles it: classes of several texts could not name each other."""
    texts = list(sources(folder).values())
    imports = sorted({found for text in texts for found in IMPORT.findall(text)})
    bodies = [IMPORT.sub("", text).replace(f"package {folder};\n", "") for text in texts]
    return "".join([f"package {package(folder)};\n", *imports, *bodies])


def compiled(spark: SparkSession) -> dict[str, bytes]:
    """Compiles the catalog's classes in the driver's JVM, and returns the bytes of each by its name.

    Raises:
        Unsupported: the text does not compile against this version of Spark.
    """
    compiler = cooked(
        spark,
        PACKAGE,
        f"the catalog in Spark {spark.version}",
        "read and write tables by morrow.spark.read, write and attach",
    )
    return {name: bytes(code) for name, code in compiler.getBytecodes().items()}


def cooked(
    spark: SparkSession, folder: str, what: str, hint: str | None = None, *, edit: tuple[str, str] | None = None
) -> Any:
    """Compiles the classes of a folder in the driver's JVM, and returns Janino's compiler, which holds them.

    `edit`: words of the text, and those that this version of Spark wants in their place.

    Raises:
        Unsupported: the text does not compile against this version of Spark; the message begins with `what`.
    """
    from py4j.protocol import Py4JJavaError

    jvm = cast("Any", spark)._jvm
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(jvm.java.lang.Thread.currentThread().getContextClassLoader())
    compiler.setSourceVersion(JAVA_VERSION)
    compiler.setTargetVersion(JAVA_VERSION)
    try:
        compiler.cook(compilation_unit(folder).replace(*edit) if edit else compilation_unit(folder))
    except Py4JJavaError as error:
        raise Unsupported(f"{what} ({root_of(error.java_exception)})", hint=hint) from error
    return compiler


def root_of(error: Any) -> str:
    """Returns what the innermost cause says: those around it tell where in the text."""
    while error.getCause() is not None:
        error = error.getCause()
    return str(error.getMessage())


_JARS: dict[tuple[str, str], Path] = {}
"""The jars that this process has made, by package and Spark's version."""


def jar(spark: SparkSession) -> Path:
    """Returns a jar with the classes, made once per process. Raises as `compiled`."""
    key = package(), spark.version
    if key not in _JARS:
        folder = Path(tempfile.mkdtemp(prefix="morrow-jvm-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        made = folder / f"{package()}.jar"
        with zipfile.ZipFile(made, "w") as archive:
            for name, code in compiled(spark).items():
                archive.writestr(f"{name.replace('.', '/')}.class", code)
            archive.writestr(SOURCES, f"{package()}.{FORMAT}\n")
        _JARS[key] = made
    return _JARS[key]


def alias_jar(spark: SparkSession) -> Path:
    """Returns a jar that makes the format known by Paimon's name, beside that of `jar`. Raises as `compiled`."""
    made = jar(spark).with_name(f"{package()}-alias.jar")
    if not made.exists():
        with zipfile.ZipFile(made, "w") as archive:
            archive.writestr(SOURCES, f"{package()}.{FORMAT}$Alias\n")
    return made
