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
JAVA_VERSION = 8
"""The language that Janino knows."""

IMPORT = re.compile(r"^import [^;]+;\n", re.MULTILINE)
HEAD = f"package {PACKAGE};\n"


def sources() -> dict[str, str]:
    """Returns the text of every class by its file's name."""
    files = (file for file in resources.files(PACKAGE).iterdir() if file.name.endswith(".java"))
    return {file.name: file.read_text("utf-8") for file in sorted(files, key=lambda file: file.name)}


@cache
def package() -> str:
    """Returns the name of the package of the compiled classes."""
    text = "\0".join(sources().values())
    return f"morrow.spark.jvm{hashlib.sha256(text.encode()).hexdigest()[:12]}"


@cache
def compilation_unit() -> str:
    """Returns all classes as one text, as Janino compiles it: classes of several texts could not name each other."""
    texts = list(sources().values())
    imports = sorted({found for text in texts for found in IMPORT.findall(text)})
    bodies = [IMPORT.sub("", text).replace(HEAD, "") for text in texts]
    return "".join([f"package {package()};\n", *imports, *bodies])


def compiled(spark: SparkSession) -> dict[str, bytes]:
    """Compiles the classes in the driver's JVM, and returns the bytes of each by its name.

    Raises:
        Unsupported: the text does not compile against this version of Spark.
    """
    from py4j.protocol import Py4JJavaError

    jvm = cast("Any", spark)._jvm
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(jvm.java.lang.Thread.currentThread().getContextClassLoader())
    compiler.setSourceVersion(JAVA_VERSION)
    compiler.setTargetVersion(JAVA_VERSION)
    try:
        compiler.cook(compilation_unit())
    except Py4JJavaError as error:
        raise Unsupported(
            f"the catalog in Spark {spark.version} ({_root(error.java_exception)})",
            hint="read and write tables by morrow.spark.read, write and attach",
        ) from error
    return {name: bytes(code) for name, code in compiler.getBytecodes().items()}


def _root(error: Any) -> str:
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
        _JARS[key] = made
    return _JARS[key]
