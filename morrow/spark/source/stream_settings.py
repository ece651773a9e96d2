"""Refusal of settings by streams of ``format("morrow")`` where no JVM tells them, as by ``load`` and ``save``."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from morrow.spark.sessions import is_connect
from morrow.spark.source.option_names import PATH
from morrow.spark.source.plain import NAME
from morrow.spark.source.settings import names_in, refuse_settings
from morrow.spark.source.takeover import Method, Replacement, is_ours

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OURS = f"a stream of format({NAME!r})"


def _refuse(spark: SparkSession, path: object) -> None:
    """Raises as `refuse_settings`; a path that is missing is the format's own error."""
    if isinstance(path, str):
        refuse_settings(spark, OURS, *names_in(path))


def _reading(method: Method, name: str) -> Method:
    """Returns a method of a reader of streams that notes its argument, which the JVM's does not expose."""

    @functools.wraps(method)
    def noted(self: Any, *arguments: Any, **options: Any) -> Any:
        reader = method(self, *arguments, **options)
        if name == "format":
            reader._morrow_source = arguments[0] if arguments else options["source"]
        else:
            given = dict([arguments]) if name == "option" and arguments else options
            reader._morrow_path = given.get(PATH, getattr(reader, "_morrow_path", None))
        return reader

    return noted


def _load(load: Method) -> Method:
    @functools.wraps(load)
    def loading(self: Any, path: Any = None, format: str | None = None, schema: Any = None, **options: Any) -> Any:
        spark = self._client if is_connect(self) else self._spark
        if is_ours(format or getattr(self, "_morrow_source", None), spark):
            _refuse(spark, path or options.get(PATH) or getattr(self, "_morrow_path", None))
        return load(self, path, format, schema, **options)

    return loading


def _start(start: Method) -> Method:
    @functools.wraps(start)
    def starting(self: Any, path: str | None = None, format: str | None = None, *arguments: Any, **options: Any) -> Any:
        spark = self._session if is_connect(self) else self._spark
        if is_ours(format or getattr(self, "_morrow_source", None), spark):
            _refuse(spark, path or options.get(PATH) or getattr(self, "_morrow_path", None))
        return start(self, path, format, *arguments, **options)

    return starting


REPLACEMENTS: tuple[Replacement, ...] = (
    *(
        (owner, name, functools.partial(_reading, name=name))
        for owner in ("DataStreamReader", "DataStreamWriter")
        for name in ("option", "options")
    ),
    ("DataStreamReader", "format", functools.partial(_reading, name="format")),
    ("DataStreamReader", "load", _load),
    ("DataStreamWriter", "start", _start),
)
