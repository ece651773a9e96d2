"""Reader of the data files of one bucket as version frames, in batches, and the expiry of old rows.

Compactions of tables with a primary key drop old rows if ``record-level.expire-time`` is set.

The time of a row is in the column ``record-level.time-field``: seconds, or milliseconds in a BIGINT of 10^12 or more,
or a timestamp. Rows without a time stay. As in Paimon, each version of a key is dropped by its own time, before
versions are merged. Reads show old rows until a compaction rewrites their files.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import msgspec
import numpy as np
import polars as pl

from morrow.engine.errors import CorruptFile, InvalidArgument
from morrow.engine.format.manifest_entries import DataFileMeta, decode_column_stats
from morrow.engine.format.schema import SEQUENCE_NUMBER_FIELD, VALUE_KIND_FIELD
from morrow.engine.format.types import BigIntType, DataField, IntType, has_same_values
from morrow.engine.names import RUN_LEVEL, col
from morrow.engine.plan.data_files import (
    list_file_columns,
    list_readable_roots,
    parse_file_formats,
    resolve_external_path,
)
from morrow.engine.plan.filter import NO_FILTER
from morrow.engine.plan.scan_plan import DataFile, ScanPlan, Section, SectionKind
from morrow.engine.structs import replace
from morrow.readers.execution.strategy import may_fail_by_replaced_rows
from morrow.readers.files.file_frames import scan_files, translate_file_errors
from morrow.readers.files.registry import is_scanned
from morrow.readers.masks import Mask
from morrow.readers.masks.live_rows import compute_superseded_masks
from morrow.writers.files.data_files import Placement, build_file_path
from morrow.writers.files.deletion_vectors import DeletionMaintainer
from morrow.writers.target import WriteTarget

MIN_MILLIS = 10**12
"""The least BIGINT that is a time in milliseconds; smaller ones are seconds, as in Paimon."""
MILLIS_PER_SECOND = 1000


@dataclass(frozen=True)
class RecordExpiry:
    """The age in seconds at which rows expire, and the column of their time."""

    target: WriteTarget
    field: DataField
    seconds: int
    now: Callable[[], float] = time.time

    @classmethod
    def of(cls, target: WriteTarget) -> RecordExpiry | None:
        """Return the expiry of a table's rows, None if they do not expire.

        Raises `InvalidArgument`: the options do not name a column of the table for the time.
        """
        age, name = target.write.record_expire_time, target.write.record_time_field
        if age is None:
            return None
        if name is None or name not in target.schema.by_name:
            raise InvalidArgument(
                f"{target.where}: 'record-level.time-field' is {name!r}, which is not a column of the table; set it to "
                "the column with the time of a row"
            )
        return cls(target, target.schema.by_name[name], int(age.total_seconds()))

    def drop_expired(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the rows that have not expired."""
        return rows.filter(~self._is_expired(col(self.field.name)).fill_null(False))

    def may_hold_expired(self, file: DataFileMeta) -> bool:
        """Return whether the statistics of a file show a row that has expired."""
        schema = self.target.metadata.schema(file.schema_id)
        written = next((field for field in schema.fields if field.id == self.field.id), None)
        if written is None or not has_same_values(written.type, self.field.type):
            return False
        stats, covered = file.value_stats, file.write_cols if file.value_stats_cols is None else file.value_stats_cols
        found = decode_column_stats(
            pl.Series([stats.min_values], dtype=pl.Binary),
            pl.Series([stats.max_values], dtype=pl.Binary),
            pl.Series([stats.null_counts], dtype=pl.List(pl.Int64)),
            None if covered is None else pl.Series([covered], dtype=pl.List(pl.String)),
            {field.name: field.type for field in schema.fields},
            [written.name],
            where=self.target.where,
        )[written.name].minimum
        return found is not None and found.to_frame("time").select(self._is_expired(pl.col("time"))).item() is True

    def _is_expired(self, value: pl.Expr) -> pl.Expr:
        return self._to_seconds(value) < int(self.now()) - self.seconds

    def _to_seconds(self, value: pl.Expr) -> pl.Expr:
        if isinstance(self.field.type, IntType):
            return value.cast(pl.Int64)
        if isinstance(self.field.type, BigIntType):
            return pl.when(value >= MIN_MILLIS).then(value // MILLIS_PER_SECOND).otherwise(value)
        return value.dt.epoch("s")


@dataclass(frozen=True)
class StoredFiles:
    """Reader of the data files `files` of one bucket, without the rows that `vectors` mark as dead.

    With `leveled`, frames have the additional column `RUN_LEVEL` (Int32). In levels below `merged_below`, versions that
    newer ones of these levels replace may be left out, and are if their values may not have the types of today. Rows
    that have expired by `expiry` are left out.
    """

    target: WriteTarget
    place: Placement
    files: tuple[DataFileMeta, ...]
    vectors: DeletionMaintainer | None = None
    leveled: bool = False
    merged_below: int = 0
    expiry: RecordExpiry | None = None

    @cached_property
    def fields(self) -> tuple[DataField, ...]:
        """The columns of version frames."""
        return (*self.target.schema.fields, SEQUENCE_NUMBER_FIELD, VALUE_KIND_FIELD)

    @cached_property
    def plan(self) -> ScanPlan:
        """A plan that reads all the files in the columns of the newest schema."""
        metadata, schema = self.target.metadata, self.target.schema
        return ScanPlan(
            table=metadata.where,
            schema=schema,
            columns=tuple(field.name for field in schema.fields),
            filter=NO_FILTER,
            sections=(self.section,),
            merge=self.target.merge,
            file_fields={i: list_file_columns(metadata.schema(i)) for i in sorted({f.schema_id for f in self.files})},
            file_options=self.target.options.raw,
            roots=list_readable_roots(metadata, self.target.options),
        )

    @cached_property
    def section(self) -> Section:
        values = self.target.partition_values(self.place.partition)
        files = tuple(self._by_name.values())
        return Section(SectionKind.RAW, values, self.place.bucket, files, partition_row=self.place.partition)

    @cached_property
    def _by_name(self) -> dict[str, DataFile]:
        names = pl.DataFrame({"_FILE_NAME": [file.file_name for file in self.files]})
        formats = parse_file_formats(names, self.target.where) if self.files else ()
        return {file.file_name: self._data_file(file, format) for file, format in zip(self.files, formats)}

    def _data_file(self, file: DataFileMeta, format: str) -> DataFile:
        if file.external_path is None:
            path = build_file_path(self.target, self.place, file.file_name)
        else:
            path = resolve_external_path(self.target.metadata, self.target.options, file.external_path)
        return DataFile(
            path=path,
            format=format,
            size=file.file_size,
            row_count=file.row_count,
            level=file.level,
            schema_id=file.schema_id,
            min_sequence=file.min_sequence_number,
            max_sequence=file.max_sequence_number,
            delete_rows=file.delete_row_count,
            first_row_id=file.first_row_id,
            write_columns=file.write_cols,
        )

    def lazy(self, file: DataFileMeta) -> pl.LazyFrame:
        """Return all rows of a file, including dead ones, as a version frame."""
        data_file = self._by_name[file.file_name]
        frame = scan_files(self.plan, self.section, [data_file], self.fields, self.target.store, live=self._live(file))
        return frame.with_columns(pl.lit(file.level, pl.Int32).alias(RUN_LEVEL)) if self.leveled else frame

    def collect(self, frames: Sequence[pl.LazyFrame]) -> list[pl.DataFrame]:
        """Run `pl.collect_all`, with errors that name the unreadable file."""
        with translate_file_errors(self.plan, [self.section], self.fields, self.target.store):
            return pl.collect_all(frames)

    def whole(self, files: Sequence[DataFileMeta]) -> list[pl.DataFrame]:
        """Return the live rows of each file."""
        frames = self.collect([self.lazy(file) for file in files])
        return [self._alive(file, frame, 0) for file, frame in zip(files, frames)]

    def batches(self, run: Iterable[DataFileMeta], rows: int) -> Iterator[pl.DataFrame]:
        """Yield the live rows of a sorted run's files, about `rows` at a time."""
        for file in run:
            frame = self.lazy(file)
            step = self.step(file, rows)
            for start in range(0, file.row_count, max(step, 1)):
                yield self._alive(file, self.collect([frame.slice(start, step)])[0], start)

    def step(self, file: DataFileMeta, rows: int) -> int:
        """Return how many rows of a file are read at once: `rows`, or all if the format cannot be read in parts."""
        data_file = self._by_name[file.file_name]
        return rows if is_scanned(data_file.format, data_file.path) else file.row_count

    def _alive(self, file: DataFileMeta, rows: pl.DataFrame, start: int) -> pl.DataFrame:
        """Return the live rows among consecutive rows of a file, starting at position `start`."""
        if start == 0 and rows.height > file.row_count:
            raise CorruptFile(self._by_name[file.file_name].path, f"more rows than the {file.row_count} of its entry")
        live = self._live(file)
        rows = rows if live is None else rows.filter(live[start : start + rows.height])
        return rows if self.expiry is None else self.expiry.drop_expired(rows)

    def _live(self, file: DataFileMeta) -> pl.Series | None:
        """Return a mask of the live rows of a file, None if all are live."""
        vector = None if self.vectors is None else self.vectors.vector(file.file_name)
        live = None if vector is None else pl.Series(np.asarray(vector.live(file.row_count)))
        newest = self._newest.get(file.file_name)
        return newest if live is None else live if newest is None else live & newest

    @cached_property
    def _newest(self) -> Mapping[str, Mask]:
        """Masks of the newest versions, by file; empty if all versions are read."""
        names = [file.file_name for file in self.files if file.level < self.merged_below]
        files, spec = tuple(self._by_name[name] for name in names), self.plan.merge
        if spec is None or {file.schema_id for file in files} <= {self.plan.schema.id}:
            return {}
        section = msgspec.structs.replace(self.section, kind=SectionKind.MERGE, files=files)
        if not may_fail_by_replaced_rows(self.plan, section):
            return {}
        if self.vectors is not None and any(self.vectors.vector(name) is not None for name in names):
            return {}  # a dead row may have the greatest number in its sequence field
        plan = replace(self.plan, sections=(section,), merge=replace(spec, keeps_retractions=True))
        return dict(zip(names, compute_superseded_masks(plan, section, self.target.store)))
