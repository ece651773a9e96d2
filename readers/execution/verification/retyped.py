"""Columns of data files whose type is another one now: the values that it does not read, or does not keep."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import polars as pl
import pyarrow as pa

from morrow.engine.errors import Unsupported
from morrow.engine.format import types as t
from morrow.engine.format.schema import TableSchema
from morrow.engine.format.type_equality import same_values
from morrow.engine.io.store import FileStore
from morrow.engine.plan.file_facts import FileFacts, file_facts
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.scan_plan import ScanPlan
from morrow.readers.casts.base import Cast, TypeChange, apply
from morrow.readers.casts.dtypes import polars_dtype, to_arrow_array
from morrow.readers.casts.losses import BITS, Loss, first_loss, keeps_all
from morrow.readers.files import reading, scan
from morrow.readers.files.file_frames import source_of, written_fields
from morrow.readers.files.streaming import batches
from morrow.readers.masks.live import read_deletion

BATCH_ROWS = 1 << 17


@dataclass(frozen=True)
class Retyped:
    """A column of a data file, and the type in which a schema has it."""

    plan: ScanPlan
    facts: FileFacts
    written: t.DataField
    wanted: t.DataField
    schema_id: int

    @property
    def cast(self) -> Cast:
        change = TypeChange((self.wanted.name,), self.facts.schema.id, self.schema_id)
        return Cast(self.written.type, self.wanted.type, where=self.facts.file.path, change=change)

    def values(self, store: FileStore) -> Iterator[pa.Array]:
        """Reads the values batch by batch, also of rows that newer ones replace, as reads of the table cast them.

        Values of rows that a deletion vector marks as dead are left out.

        Raises as `morrow.readers.files.reading`.
        """
        file = self.facts.file
        live, start = None if file.deletion is None else read_deletion(file, store), 0
        with reading(file.path):
            for batch in batches(scan([source_of(file, self.plan, store)], [self.written]), BATCH_ROWS):
                values = batch.to_series()
                if live is not None:
                    values, start = values.filter(live[start : start + len(values)]), start + len(values)
                yield to_arrow_array(values, self.written.type)

    def bounds(self) -> pa.Array | None:
        """Returns the least and the greatest value where metadata tell them, and they decide what a cast keeps."""
        decide = self.written.type.__class__ in BITS and isinstance(self.wanted.type, (*BITS, t.DecimalType))
        known = self.facts.values.get(self.written.name)
        if not decide or known is None or known.minimum is None or known.maximum is None:
            return None
        ends = [end.cast(polars_dtype(self.written.type)) for end in (known.minimum, known.maximum)]
        return to_arrow_array(pl.concat([end.alias(self.written.name) for end in ends]), self.written.type)


def unreadable(metadata: TableMetadata, plan: ScanPlan) -> Iterator[Unsupported]:
    """Yields the error of a read for each column of each live file that has a value which the newest type cannot have.

    Raises:
        CorruptFile, FileMissing, StorageError, UnsafePath: a file cannot be read at all.
    """
    for column in _retyped(metadata, plan, metadata.latest_schema(), None):
        try:
            for values in column.values(metadata.store):
                apply(values, column.cast)
        except Unsupported as error:
            yield error


def losses(
    metadata: TableMetadata, plan: ScanPlan, schema: TableSchema, ids: Collection[int]
) -> Iterator[tuple[FileFacts, Loss]]:
    """Yields a value for each column of each live file that `schema` would change; of the columns of these ids.

    Raises:
        Unsupported: a value that cannot be cast. Others as `unreadable`.
    """
    for column in _retyped(metadata, plan, schema, ids):
        bounds = column.bounds()
        if bounds is not None and first_loss(bounds, column.cast) is None:
            continue
        for values in column.values(metadata.store):
            if (found := first_loss(values, column.cast)) is not None:
                yield column.facts, found
                break


def _retyped(
    metadata: TableMetadata, plan: ScanPlan, schema: TableSchema, ids: Collection[int] | None
) -> Iterator[Retyped]:
    fields = {field.id: field for field in schema.fields if ids is None or field.id in ids}
    for part in plan.parts:
        planned, files = file_facts(metadata, part)
        for facts in files:
            for written in written_fields(planned, facts.file):
                wanted = fields.get(written.id)
                if wanted is None or wanted.name in schema.partition_keys or same_values(written.type, wanted.type):
                    continue
                if not keeps_all(written.type, wanted.type):
                    yield Retyped(planned, facts, written, wanted, schema.id)
