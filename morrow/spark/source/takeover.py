"""Replacement of methods of PySpark's classes, for sessions that have registered the format.

They are replaced in the classes, since PySpark creates readers and writers anew each time and has no hook for
subclasses. Sessions that have not registered the format, and other formats, get the original methods.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeAlias

from morrow.engine.errors import Unsupported
from morrow.spark.source.plain import ALIAS, NAME

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Method: TypeAlias = Callable[..., Any]
Replacement: TypeAlias = tuple[str, str, Callable[[Method], Method]]
"""A PySpark class, as a key of `_owners`, the name of a method, and the function that wraps the method."""

REGISTERED = "spark.morrow.registered"
"""The setting that marks a session with the format registered. Clones of a session have it, like the registration."""

HAS_ALIAS = "spark.morrow.registered.paimon"
"""The setting that marks one where the format has its other name as well."""

CATALOGS, SPARKS_CATALOG = "spark.sql.catalog.", "spark_catalog"
"""The prefix of the settings that name classes of catalogs, and the name of Spark's own."""

PART = re.compile(r"`((?:[^`]|``)*)`|([^\s.`]+)")
"""A pattern of the parts of a name."""

DEFAULT_SOURCE = "spark.sql.sources.default"
"""The setting of Spark's default format."""

REPLACED = "_morrow_replaced"
"""The attribute that marks a replaced method."""


def take_over(spark: SparkSession, replacements: Iterable[Replacement]) -> None:
    """Replaces these methods for this session; repeating it changes nothing."""
    spark.conf.set(REGISTERED, "true")
    owners = _owners(spark)
    for owner, name, replaced in replacements:
        kind = owners[owner]
        method = getattr(kind, name)
        if not hasattr(method, REPLACED):
            made = replaced(method)
            setattr(made, REPLACED, True)
            setattr(kind, name, made)


def _owners(spark: SparkSession) -> dict[str, type]:
    """Returns PySpark's classes for this kind of session, which has its own of each."""
    module = sys.modules[type(spark.read).__module__]
    streams = sys.modules[type(spark.readStream).__module__]
    return {
        "DataFrameReader": module.DataFrameReader,
        "DataFrameWriter": module.DataFrameWriter,
        "DataFrameWriterV2": module.DataFrameWriterV2,
        "DataStreamReader": streams.DataStreamReader,
        "DataStreamWriter": streams.DataStreamWriter,
        "SparkSession": type(spark),
        "Catalog": type(spark.catalog),
    }


def is_registered(spark: SparkSession) -> bool:
    return spark.conf.get(REGISTERED, None) == "true"


def is_ours(source: str | None, spark: SparkSession) -> bool:
    """Returns whether the session has registered the format and `source` names it."""
    return source is not None and is_registered(spark) and source.lower() in names_of(spark)


def names_of(spark: SparkSession) -> tuple[str, ...]:
    """Returns the names of the format in a session that has registered it."""
    return (NAME, ALIAS) if spark.conf.get(HAS_ALIAS, None) == "true" else (NAME,)


def is_of_other_catalog(name: str, spark: SparkSession) -> bool:
    """Returns whether a table of this name, as SQL writes it, is in a catalog other than Spark's own."""
    parts = [quoted.replace("``", "`") or plain for quoted, plain in PART.findall(name)]
    if len(parts) > 1 and parts[0].lower() == SPARKS_CATALOG:
        return False
    if len(parts) > 1 and spark.conf.get(f"{CATALOGS}{parts[0]}", None) is not None:
        return True
    return spark.catalog.currentCatalog() != SPARKS_CATALOG


def is_ours_or_default(source: str | None, spark: SparkSession) -> bool:
    """Returns as `is_ours`; without a name, for the session's default format."""
    return is_ours(source or spark.conf.get(DEFAULT_SOURCE, None), spark)


def refused(call: str, name: str = "orders") -> Unsupported:
    """Returns the error for a call that would make a table."""
    return Unsupported(
        f"{call} with format('morrow')",
        hint="Spark's catalog does not tell the format where its tables are: write by "
        ".write.format('morrow').save(path), and for SQL use morrow.spark.attach or "
        f"CREATE TEMPORARY VIEW {name} USING morrow OPTIONS (path '...')",
    )
