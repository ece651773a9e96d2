"""Refusal of tables in Spark's own catalog by ``format("morrow")``, wherever PySpark could make one.

Spark's catalog would keep the path of such a table and not pass it to a Python data source, so the table could be
neither read nor written. Tables of any format with the name of a view of a Morrow table are refused, too: Spark would
make one hidden behind the view, and leave the table that the view shows unchanged.
"""

from __future__ import annotations

import functools
from typing import Any

from morrow.engine.errors import Unsupported
from morrow.spark.sessions import is_connect
from morrow.spark.source.statements import names_table_of_ours
from morrow.spark.source.takeover import (
    Method,
    Replacement,
    is_of_other_catalog,
    is_ours,
    is_ours_or_default,
    is_registered,
    refused,
)


def _check_name(name: object, call: str, spark: Any) -> None:
    """Raises `Unsupported` for the name of a view of a Morrow table."""
    if isinstance(name, str) and is_registered(spark) and names_table_of_ours(name, spark):
        raise Unsupported(
            f"{call} with the name of the view {name}, which would leave the view's table as it is,",
            hint="write to that table by .write.format('morrow').save(path), or choose another name",
        )


def _named(init: Method) -> Method:
    @functools.wraps(init)
    def named(self: Any, *arguments: Any, **options: Any) -> None:
        init(self, *arguments, **options)
        # Neither the JVM's writer nor that of Spark Connect exposes it alike.
        self._morrow_table = (
            options["table"]
            if "table" in options
            else next(argument for argument in reversed(arguments) if isinstance(argument, str))
        )

    return named


def _makes_ours(source: str | None, table: object, spark: Any) -> bool:
    """Returns whether a call would make a table of the format in Spark's own catalog."""
    return is_ours_or_default(source, spark) and not (isinstance(table, str) and is_of_other_catalog(table, spark))


def _using(using: Method) -> Method:
    @functools.wraps(using)
    def named(self: Any, provider: str) -> Any:
        if is_ours(provider, self._spark) and _makes_ours(provider, self._morrow_table, self._spark):
            raise refused("writeTo(...).using")
        self._morrow_provider = provider
        return using(self, provider)

    return named


def _created(method: Method) -> Method:
    @functools.wraps(method)
    def created(self: Any) -> None:
        if _makes_ours(getattr(self, "_morrow_provider", None), self._morrow_table, self._spark):
            raise refused(f"writeTo(...).{method.__name__}")
        method(self)

    return created


def _save_as_table(method: Method) -> Method:
    @functools.wraps(method)
    def saved(self: Any, name: str, format: str | None = None, *arguments: Any, **options: Any) -> None:
        source = format or (self._write.source if is_connect(self) else self._jwrite.source())
        if _makes_ours(source, name, self._spark):
            raise refused("saveAsTable", name)
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
        if _makes_ours(source, tableName, self._sparkSession):
            raise refused("catalog.createTable", tableName)
        return method(self, tableName, path, source, *arguments, **options)

    return created


def _format(method: Method) -> Method:
    @functools.wraps(method)
    def named(self: Any, source: str) -> Any:
        writer = method(self, source)
        writer._morrow_source = source  # not exposed by the JVM's writer
        return writer

    return named


def _to_table(method: Method) -> Method:
    @functools.wraps(method)
    def started(self: Any, tableName: str, format: str | None = None, *arguments: Any, **options: Any) -> Any:  # noqa: N803
        source = format or getattr(self, "_morrow_source", None)
        if _makes_ours(source, tableName, self._session if is_connect(self) else self._spark):
            raise refused("writeStream.toTable", tableName)
        return method(self, tableName, format, *arguments, **options)

    return started


REPLACEMENTS: tuple[Replacement, ...] = (
    ("DataFrameWriterV2", "__init__", _named),
    ("DataFrameWriterV2", "using", _using),
    *(("DataFrameWriterV2", name, _created) for name in ("create", "replace", "createOrReplace")),
    ("Catalog", "createTable", _create_table),
    ("DataFrameWriter", "saveAsTable", _save_as_table),
    ("DataStreamWriter", "format", _format),
    ("DataStreamWriter", "toTable", _to_table),
)
