"""What an executor does with one section."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from morrow.engine.io.store import FileStore
from morrow.engine.plan.scan_plan import ScanPlan
from morrow.readers import execute
from morrow.readers.dtypes import to_arrow_table


def rows_of(plan: ScanPlan, store: FileStore, schema: pa.Schema, *, merged_only: bool) -> Iterator[pa.RecordBatch]:
    if not merged_only:
        for batch in execute.to_batches(plan, store):
            yield from pa.Table.from_batches([batch]).cast(schema, safe=False).to_batches()
        return
    from morrow.readers.merges.sections import merged_frame
    from morrow.readers.section_frames import filtered

    frame = filtered(plan, merged_frame(plan, plan.sections[0], plan.read_columns, store))
    for chunk in frame.select(plan.columns).collect_batches(engine="streaming", maintain_order=True):
        yield from to_arrow_table(chunk, plan.fields).cast(schema, safe=False).to_batches()
