"""A memory of the Java packages and classes that py4j has looked up.

py4j asks the JVM for each step of `jvm.org.apache.spark.SparkEnv` each time, and the JVM searches its 250 jars for a
class named `org`, then for `org.apache`, and so on. This took two fifths of the CPU of the Spark driver in the tests.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from py4j.java_gateway import JavaClass, JavaPackage, JVMView


def remember_java_names() -> None:
    """Keep found classes and packages as attributes of the package, or of the view of the JVM, that has them."""
    for owner in (JavaPackage, JVMView):
        if not hasattr(owner.__getattr__, "asks"):
            owner.__getattr__ = _remembering(owner.__getattr__)


def _remembering(ask: Callable[[Any, str], Any]) -> Callable[[Any, str], Any]:
    def look_up(owner: Any, name: str) -> Any:
        found = ask(owner, name)
        # An unknown name is a package to py4j, and may become a class by a later import.
        if isinstance(found, JavaClass) or (isinstance(found, JavaPackage) and name.islower()):
            setattr(owner, name, found)
        return found

    look_up.asks = ask  # type: ignore[attr-defined]
    return look_up
