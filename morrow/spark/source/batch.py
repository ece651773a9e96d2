"""Plans of batch reads, and the columns of a read of which it is not known yet whether it is a stream."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from morrow.engine.plan.predicate import And, Predicate
from morrow.scans.table_scan import Scan
from morrow.spark.source.options import Options
from morrow.spark.source.pieces import pieces
from morrow.spark.source.plain import Piece
from morrow.spark.source.schemas import as_spark_schema, check_schema, scan_of
from morrow.spark.source.stream import StreamPlanner

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter
    from pyspark.sql.types import StructType


def schema_of(given: Mapping[str, str]) -> StructType:
    """Returns the schema of a read by these options. Without options of a stream it is that of a batch.

    Raises:
        TableNotFound, SnapshotNotFound, TagNotFound, BranchNotFound: no such table or state.
        ColumnNotFound, InvalidArgument: an option is wrong. Unsupported: a type that Spark does not have.
    """
    options = Options(given)
    return as_spark_schema(StreamPlanner(options).fields if options.is_stream else scan_of(options).fields)


@dataclass
class BatchPlanner:
    """The plan of one read, to which Spark adds filters."""

    scan: Scan
    pushed: list[Predicate] = field(default_factory=list)

    @classmethod
    def of(cls, given: Mapping[str, str], schema: StructType) -> BatchPlanner:
        """Plans a read by options. Raises as `schema_of`, and `InvalidArgument` for another schema than the
        table's.
        """
        scan = scan_of(Options(given))
        check_schema(schema, scan.fields)
        return cls(scan)

    def push(self, filters: Iterable[Filter]) -> list[Filter]:
        """Takes the filters that can be translated exactly; returns the others for Spark to test."""
        from morrow.spark.types.filters import translated

        fields = {field.name: field for field in self.scan.fields}
        left = []
        for one in filters:
            predicate = translated(one, fields)
            if predicate is None:
                left.append(one)
            else:
                self.pushed.append(predicate)
        return left

    def partitions(self) -> list[Piece]:
        """Returns the plan's sections in groups."""
        scan = self.scan.narrowed(filter=And(tuple(self.pushed))) if self.pushed else self.scan
        return pieces(scan.plan, scan.store)
