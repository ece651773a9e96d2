"""The context of a question: the session and the warehouse; and names of tables in questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from morrow.catalogs.catalog import Catalog
from morrow.engine.catalog.names import ObjectName, parse_object_name
from morrow.engine.errors import InvalidArgument, TableNotFound
from morrow.spark.source.settings import find_source_options
from morrow.spark.views import Access
from morrow.tables.table import Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Question: TypeAlias = Mapping[str, Any]


class TableOpener(Protocol):
    """A session that opens the tables named in questions."""

    @property
    def spark(self) -> SparkSession: ...

    def table(self, name: str) -> Table: ...

    def set_for(self, question: Question) -> dict[str, str]:
        """Return the options that session settings give for the table of a question."""
        ...


@dataclass(frozen=True)
class Place:
    """A session, the catalog of a question, its name in the session, and the access to its tables."""

    spark: SparkSession
    name: str
    catalog: Catalog
    access: Access

    def table(self, name: str) -> Table:
        """Open ``db.t`` or ``db.t$branch_dev``. Raises `TableNotFound`, also for invalid names."""
        parts = parse_name(name)
        if parts.system is not None:
            raise TableNotFound(f"{name} is a system table, which cannot be written")
        return self.catalog.table(parts.table, branch=parts.branch)

    def set_for(self, question: Question) -> dict[str, str]:
        return find_source_options(question.get("settings", {}), self.name, *question["table"].split(".", 1))


def build_full_name(namespace: Sequence[str], name: str) -> str:
    """Return ``database.table``. Raises `TableNotFound` for an invalid database name."""
    if len(namespace) != 1 or not is_database_name(namespace[0]):
        raise TableNotFound(f"there is no table {'.'.join([*namespace, name])}; tables are named database.table")
    return f"{namespace[0]}.{name}"


def is_database_name(name: str) -> bool:
    """Return whether this is a valid database name. It must not contain a dot, which ends it in a full name."""
    return bool(name) and not any(character in name for character in "./\\$")


def parse_name(name: str) -> ObjectName:
    """Return the parts of a table's full name. Raises `TableNotFound` for an invalid name."""
    try:
        return parse_object_name(name)
    except InvalidArgument as error:
        raise TableNotFound(str(error)) from error
