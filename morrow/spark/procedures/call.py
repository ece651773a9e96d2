"""The class `Call`: a call of a procedure in a session of Spark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from morrow.engine.errors import InvalidArgument

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from morrow.catalogs.catalog import Catalog
    from morrow.engine.plan.metadata import TableMetadata
    from morrow.spark.procedures.tables import TableArgument
    from morrow.tables.table import Table


@dataclass(frozen=True)
class Call:
    """A call of a procedure: the session, and the table that it names; without one, only its catalog."""

    spark: SparkSession
    where: TableArgument
    distributed: bool | None = None

    @property
    def metadata(self) -> TableMetadata:
        """The metadata of the table. Raises `TableNotFound` and the like."""
        return self.where.metadata()

    @property
    def catalog(self) -> Catalog:
        """The catalog of the table. Raises `InvalidArgument` where it is a folder."""
        found = self.where.catalog
        if found is None:
            raise InvalidArgument("in which warehouse? Give warehouse=...")
        return found

    @property
    def table(self) -> Table:
        """The table as a `Table`. Raises as `metadata`."""
        return self.where.table

    @property
    def tables(self) -> Sequence[Table]:
        """The tables that are meant: this one, or all of a database."""
        return [one.table for one in self.where.each()]
