"""`morrow.spark.catalog`: a warehouse as a catalog in Spark's SQL, ``pm.db.orders``."""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from morrow.catalogs.catalog import Catalog
from morrow.engine.arguments import mapping
from morrow.engine.catalog.settings import WAREHOUSE
from morrow.engine.errors import AlreadyExists, InvalidArgument
from morrow.engine.io.resolve import Roots, given_roots
from morrow.engine.values import replace
from morrow.opening import open_with, storage_of
from morrow.session import Verify
from morrow.spark.catalogs.answering import start_answering
from morrow.spark.catalogs.answers import Answers
from morrow.spark.catalogs.formats import register_in_jvm
from morrow.spark.catalogs.rewriting import CLASS, SETTING, SPARKS_OWN
from morrow.spark.jvm.runtime import class_name
from morrow.spark.views import Access, access_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ID = "id"
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
TAKEN = (SPARKS_OWN, "system", "session")


def catalog(
    spark: SparkSession,
    name: str = "pm",
    *,
    warehouse: str | os.PathLike[str] | Catalog | None = None,
    options: Mapping[str, object] | None = None,
    storage_options: Mapping[str, str] | None = None,
    allowed_roots: Roots = (),
    verify: Verify | None = None,
    **more: object,
) -> None:
    """Makes a warehouse a catalog of the session: ``spark.sql("SELECT * FROM pm.db.orders")``.

    Statements and DataFrame calls that name ``pm.database.table`` read and write its tables; docs/spark-sql.md lists
    them. Every query sees the newest snapshot. ``format("paimon")`` and ``format("morrow")`` are known then, too, as
    `morrow.spark.register` has them. Called again with the same name, it changes the catalog's warehouse and options.

    Args:
        spark: the session, to which the catalog belongs: another one needs a call of its own.
        name: the catalog's name in SQL: letters, digits and ``_``.
        warehouse: its folder or URL, as every executor sees it; it need not exist yet. Or a `morrow.Catalog` of any
            kind (`morrow.open_catalog`), which has its options already.
        options, more: of a catalog that is not just a folder, as `morrow.open_catalog` takes them:
            ``metastore="jdbc", uri="jdbc:..."``, ``options={"token.provider": "bear"}``.
        storage_options, allowed_roots, verify: as for `morrow.open`, for all tables. They stay in this process: no
            setting of Spark, plan or log has them.

    Raises:
        InvalidArgument: a name that no catalog can have. AlreadyExists: the session has another catalog of this name.
        Unsupported: there is no JVM to reach (Spark Connect), or its Spark is one that Morrow does not know.
    """
    if not isinstance(name, str) or not NAME.fullmatch(name) or name.lower() in TAKEN:
        raise InvalidArgument(f"name is the catalog's name in SQL, such as 'pm', not {name!r}")
    access = Access(storage_options, given_roots(allowed_roots), verify)
    answers = _answers(spark, name, warehouse, access, {**mapping(options, "options"), **more})
    answers.catalog()  # a wrong warehouse is an error here
    register_in_jvm(spark)
    start_answering(spark, _id_of(spark, name), answers)
    # Spark makes its catalogs when they are first named, in a thread that may not know the classes, and by the settings
    # of the active session, which becomes this one.
    session = cast("Any", spark)._jsparkSession
    cast("Any", spark)._jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(session)
    session.sessionState().catalogManager().catalog(name)


def _answers(
    spark: SparkSession,
    name: str,
    warehouse: str | os.PathLike[str] | Catalog | None,
    access: Access,
    given: Mapping[str, object],
) -> Answers:
    """Opens the catalog. Raises `InvalidArgument` where none is named, or two."""
    if isinstance(warehouse, Catalog):
        if given:
            raise InvalidArgument("a Catalog has its options: give it alone")
        opened = access.catalog(warehouse)
        return Answers(spark, name, lambda: opened, access_of(opened))
    if given:
        described = given if warehouse is None else {**given, WAREHOUSE.key: os.fspath(warehouse)}
        made = open_with(described, access.allowed_roots, access.storage_options, access.verify)
        if made.is_folder:
            access = replace(access, storage_options=storage_of(made))
        return Answers(spark, name, lambda: made, access)
    if warehouse is None:
        raise InvalidArgument("no catalog is named: give its warehouse, or the options metastore, uri and warehouse")
    return Answers(spark, name, lambda: access.catalog(warehouse), access)


def _id_of(spark: SparkSession, name: str) -> str:
    """Returns the id under which a catalog asks, which its settings hold; sets them where they are not there."""
    setting, ours = f"{SETTING}{name}", class_name(CLASS)
    there = spark.conf.get(setting, None)
    if there is not None and there != ours:
        raise AlreadyExists(f"the session has a catalog {name} already, which is {there}; choose another name")
    known = spark.conf.get(f"{setting}.{ID}", None)
    if known is not None:
        return known
    made = uuid.uuid4().hex
    spark.conf.set(f"{setting}.{ID}", made)
    spark.conf.set(setting, ours)
    return made
