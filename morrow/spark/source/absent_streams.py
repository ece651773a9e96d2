"""Refusal of streams of ``format("morrow")`` by PySpark's classes, where this version of Spark has none.

Spark would look for a class of Java's by the name, or fail in the first batch, with a page of its own stack.
"""

from __future__ import annotations

import functools
from typing import Any

from morrow.engine.errors import Unsupported
from morrow.spark.sessions import is_connect
from morrow.spark.source.takeover import Method, Replacement, is_ours
from morrow.spark.versions import HAS_SOURCES, WRITES_STREAMS


def _format(method: Method) -> Method:
    @functools.wraps(method)
    def named(self: Any, source: str) -> Any:
        reader = method(self, source)
        reader._morrow_source = source  # not exposed by the JVM's reader
        return reader

    return named


def _load(load: Method) -> Method:
    @functools.wraps(load)
    def loading(self: Any, path: Any = None, format: str | None = None, *arguments: Any, **options: Any) -> Any:
        if is_ours(format or getattr(self, "_morrow_source", None), self._client if is_connect(self) else self._spark):
            raise Unsupported(
                "streams from format('morrow') before Spark 4.0",
                hint="read the table as a batch, by morrow.spark.read(spark, path)",
            )
        return load(self, path, format, *arguments, **options)

    return loading


def _start(start: Method) -> Method:
    @functools.wraps(start)
    def starting(self: Any, path: str | None = None, format: str | None = None, *arguments: Any, **options: Any) -> Any:
        if is_ours(format or getattr(self, "_morrow_source", None), self._session if is_connect(self) else self._spark):
            raise Unsupported(
                "streams into format('morrow') before Spark 4.1",
                hint="use writeStream.foreachBatch(morrow.spark.sink(...))",
            )
        return start(self, path, format, *arguments, **options)

    return starting


def replacements() -> tuple[Replacement, ...]:
    """Returns the methods to be replaced in this version."""
    reads: tuple[Replacement, ...] = (("DataStreamReader", "format", _format), ("DataStreamReader", "load", _load))
    writes: tuple[Replacement, ...] = (("DataStreamWriter", "start", _start),)
    return (*(() if HAS_SOURCES else reads), *(() if WRITES_STREAMS else writes))
