"""Data files of the bucket that is written, as readers want them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from morrow.engine.errors import Unsupported
from morrow.engine.format.binary_row import Value
from morrow.engine.format.data_file_meta import DataFileMeta
from morrow.engine.format.paths import segment
from morrow.engine.plan.data_files import ENDING, FORMATS, external
from morrow.engine.plan.filter import NO_FILTER
from morrow.engine.plan.planner import file_columns
from morrow.engine.plan.scan_plan import DataFile, ScanPlan, Section, SectionKind
from morrow.writers.files.placement import Placement
from morrow.writers.target import WriteTarget


@dataclass(frozen=True)
class StoredFiles:
    """Makes what `morrow.readers.file_frames` takes of the files of one bucket."""

    target: WriteTarget
    place: Placement

    @cached_property
    def folder(self) -> str:
        """Where the bucket's data files lie."""
        return self.target.bucket_folder(self.place.partition, self.place.bucket)

    @cached_property
    def values(self) -> tuple[Value | None, ...]:
        """The partition's values."""
        return self.target.partition_values(self.place.partition)

    def data_file(self, meta: DataFileMeta) -> DataFile:
        """One file to read.

        Raises:
            UnsafePath: a name or an external path that leads outside. Unsupported: a format that is not known.
        """
        where = self.target.where
        name = segment(meta.file_name, where)
        ending = re.search(ENDING, name)
        if ending is None or ending[1].lower() not in FORMATS:
            raise Unsupported(f"the file format of {name}", where=where, hint=f"Morrow reads {', '.join(FORMATS)}")
        path = f"{self.folder}/{name}"
        if meta.external_path is not None:
            path = external(self.target.metadata, self.target.options, meta.external_path)
        return DataFile(
            path,
            ending[1].lower(),
            meta.file_size,
            meta.row_count,
            meta.level,
            meta.schema_id,
            meta.min_sequence_number,
            meta.max_sequence_number,
            meta.delete_row_count,
            meta.first_row_id,
            meta.write_cols,
        )

    def plan(self, files: Iterable[DataFileMeta]) -> ScanPlan:
        """A plan that knows the schemas of these files and all columns of the table."""
        target = self.target
        return ScanPlan(
            table=target.where,
            schema=target.schema,
            columns=tuple(target.schema.by_name),
            filter=NO_FILTER,
            sections=(),
            merge=target.merge,
            file_fields={i: file_columns(target.metadata.schema(i)) for i in {file.schema_id for file in files}},
            file_options=target.options.raw,
        )

    def section(self, *files: DataFile) -> Section:
        """These files, each row for itself."""
        return Section(SectionKind.RAW, self.values, self.place.bucket, files)
