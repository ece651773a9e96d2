"""What a scan asks for."""

from __future__ import annotations

from functools import cached_property

import msgspec

from morrow.engine.format.schema import TableSchema
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.format.types import DataField
from morrow.engine.merge.spec import MergeSpec
from morrow.engine.options import TableOptions
from morrow.engine.plan.filter import Filter
from morrow.engine.plan.time_travel import Travel
from morrow.engine.values import replace


class ScanRequest(msgspec.Struct, frozen=True, dict=True):
    """A caller's request: output columns in order, a parsed filter, a limit; snapshot and schema are resolved.

    `travel` is how the caller asked for this snapshot, where that matters later. `merge` overrides the table's own
    merge. Partitions `left_out` (as stored) are not read, nor are files of keyed tables below `least_level`. `extra`
    are columns beside those of the schema, which readers compute (`morrow.readers.files.virtual_columns`);
    `keeps_retractions` gives deleted keys as rows too.
    """

    schema: TableSchema
    options: TableOptions
    snapshot: Snapshot | None
    columns: tuple[str, ...]
    filter: Filter
    limit: int | None = None
    travel: Travel = msgspec.field(default_factory=Travel)
    left_out: frozenset[bytes] = frozenset()
    least_level: int = 0
    extra: tuple[DataField, ...] = ()
    keeps_retractions: bool = False
    merge: MergeSpec | None = None

    @cached_property
    def read_schema(self) -> TableSchema:
        """`schema` with the extra columns: the columns that `columns` and `filter` may name."""
        return replace(self.schema, fields=(*self.schema.fields, *self.extra)) if self.extra else self.schema
