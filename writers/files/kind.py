"""The kind of the files of one call: their format and layout, and the metadata of their rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, cast

import numpy as np
import polars as pl

from morrow.engine.errors import InvalidArgument
from morrow.engine.format.data_file_meta import EMPTY_ROW, SimpleStats
from morrow.engine.format.file_formats import FileFormat, file_format
from morrow.engine.format.file_index.wanted import WantedIndex, build_container, wanted_indexes
from morrow.engine.format.row_kinds import RETRACT_BIT
from morrow.engine.format.schema import SEQUENCE_NUMBER, VALUE_KIND
from morrow.engine.names import cols
from morrow.engine.options import WriteOptions
from morrow.engine.values import replace
from morrow.writers.files import stats
from morrow.writers.files.blocks import MOST_BLOCK_BYTES
from morrow.writers.files.encoders import Block, Encoder, EncoderOptions, FileWriter, file_writer
from morrow.writers.files.layout import FileLayout
from morrow.writers.files.stats_modes import StatsMode, stats_modes
from morrow.writers.target import WriteTarget

NO_COLUMNS = pl.DataFrame()


@dataclass(frozen=True)
class Described:
    """A block and the metadata of its rows.

    `ends` are the keys of the first and the last row (BinaryRows), `indexed` the columns that the file indexes.
    """

    block: Block
    collected: stats.Collected
    ends: tuple[bytes, bytes]
    indexed: pl.DataFrame
    sequences: tuple[int, int] = (0, 0)
    retractions: int = 0
    value_stats: tuple[SimpleStats, tuple[str, ...] | None] | None = None
    """The statistics of a file of this block alone, if they were computed together with those of other blocks."""
    key_stats: SimpleStats | None = None
    """As `value_stats`, of the key."""

    def without_body(self) -> Described:
        """Returns the part that is needed after the rows are in the file."""
        return replace(self, block=replace(self.block, body=b""))


@dataclass(frozen=True)
class FileKind:
    """The layout, format and statistics of files, as the options set them for their level."""

    layout: FileLayout
    format: FileFormat
    level: int
    encoder: Encoder
    modes: tuple[StatsMode, ...]
    dense: bool
    indexes: tuple[WantedIndex, ...]
    prefix: str
    suffix: str
    block_bytes: int

    @classmethod
    def of(cls, target: WriteTarget, level: int, *, changelog: bool, prefix: str | None = None) -> FileKind:
        """Returns the kind of a level. Raises `Unsupported`, `InvalidArgument`: options that the format rejects."""
        write, where, layout = target.write, target.where, FileLayout.of(target)
        name = (changelog and write.changelog_format) or write.format_of(level)
        writer, format_ = file_writer(name, where), file_format(name, where)
        codec = (changelog and write.changelog_compression) or write.compression_of(level)
        mode = (changelog and write.changelog_stats_mode) or write.stats_mode_per_level.get(level, write.stats_mode)
        named_codec = f".{codec}" if write.suffix_includes_compression else ""
        return cls(
            layout,
            format_,
            level,
            writer.encoder(layout, EncoderOptions(codec, write, where)),
            stats_modes(layout, write, mode, cuts_system_columns=format_.cuts_system_columns, where=where),
            write.stats_dense_store,
            wanted_indexes(write.raw, layout.columns),
            prefix or (write.changelog_file_prefix if changelog else write.data_file_prefix),
            f"{named_codec}.{name}",
            min(_block_size(write, writer) or MOST_BLOCK_BYTES, write.target_file_size, MOST_BLOCK_BYTES),
        )

    def describe(self, frame: pl.DataFrame) -> Described:
        """Encodes rows and collects their metadata.

        Raises:
            InvalidArgument: a null in a NOT NULL column, or a value that the format cannot hold.
        """
        columns, keys = self.layout.columns, self.layout.keys
        self._check_nulls({name: (count,) for name, count in stats.null_counts(frame, columns).items()})
        block = self.encoder.block(self.layout.stored(frame))
        found = Described(
            block,
            stats.collect(frame, columns, self._bounded, self.format, block.text_ends),
            (stats.key_row(frame[:1], keys), stats.key_row(frame[-1:], keys)),
            frame.select(cols(dict.fromkeys(index.column for index in self.indexes))) if self.indexes else NO_COLUMNS,
        )
        if not keys:
            return found
        numbers = frame[SEQUENCE_NUMBER]
        low, high = cast(int, numbers.min()), cast(int, numbers.max())
        retractions = int((frame[VALUE_KIND] & RETRACT_BIT).sum())
        return replace(found, sequences=(low, high), retractions=retractions)

    def describe_each(self, frames: Sequence[pl.DataFrame]) -> list[Callable[[], Described]]:
        """Returns `describe` of each of these frames, none of them empty, for a file each.

        The metadata of all frames comes from common queries, since with few rows a query costs more than its work. The
        returned functions only encode, which several threads may do.

        Raises: as `describe`, here or when they are called.
        """
        frame, heights, columns = pl.concat(frames), [each.height for each in frames], self.layout.columns
        groups = stats.collect_each(frame, heights, columns, self._bounded, self.format)
        self._check_nulls(groups.nulls)
        encoders = self.encoder.blocks(self.layout.stored(frame), heights)
        each, covered = stats.encoded_each(groups, columns, self._value_modes, self.format, dense=self.dense)
        keyed = self._keys_each(frame, heights, groups)
        indexed = list(dict.fromkeys(index.column for index in self.indexes))

        def described(number: int) -> Described:
            rows = frames[number].select(cols(indexed)) if indexed else NO_COLUMNS
            value_stats = each[number], covered
            return Described(encoders[number](), groups[number], indexed=rows, value_stats=value_stats, **keyed[number])

        return [partial(described, number) for number in range(len(frames))]

    def _keys_each(self, frame: pl.DataFrame, heights: Sequence[int], groups: stats.Groups) -> list[dict[str, Any]]:
        """Returns the members of `Described` about the keys of consecutive groups of rows."""
        keys = self.layout.keys
        if not keys:
            return [{"ends": (EMPTY_ROW, EMPTY_ROW)}] * len(heights)
        ends = np.cumsum(heights, dtype=np.int64)
        starts = ends - heights
        first, last = (stats.key_rows(frame[rows], keys) for rows in (starts, ends - 1))
        numbers, kinds = frame[SEQUENCE_NUMBER].to_numpy(), frame[VALUE_KIND].to_numpy()
        low, high = (ufunc.reduceat(numbers, starts).tolist() for ufunc in (np.minimum, np.maximum))
        retractions = np.add.reduceat(kinds & RETRACT_BIT, starts, dtype=np.int64).tolist()
        key_stats, _ = stats.encoded_each(groups, keys, self._key_modes, self.format, dense=False)
        members = ("ends", "sequences", "retractions", "key_stats")
        columns = zip(zip(first, last), zip(low, high), retractions, key_stats, strict=True)
        return [dict(zip(members, each, strict=True)) for each in columns]

    def _check_nulls(self, nulls: Mapping[str, Sequence[int]]) -> None:
        for column in self.layout.columns:
            if not column.type.nullable and any(nulls[column.name]):
                raise InvalidArgument(f"the column {column.name!r} is {column.type} and would get a null")

    def index(self, blocks: Sequence[Described]) -> bytes | None:
        """Returns the container with the indexes of a file; None where the table has none."""
        return build_container(pl.concat([b.indexed for b in blocks]), self.indexes) if self.indexes else None

    def metadata(self, blocks: Sequence[Described], first_sequence: int) -> dict[str, Any]:
        """Returns members of `DataFileMeta` about the rows of a file, and in append tables their sequence numbers."""
        rows = sum(block.block.rows for block in blocks)
        value_stats, covered = (len(blocks) == 1 and blocks[0].value_stats) or self._value_stats(blocks)
        common = {
            "row_count": rows,
            "value_stats": value_stats,
            "value_stats_cols": covered,
            "delete_row_count": sum(block.retractions for block in blocks),
        }
        if not self.layout.keys:
            return common | {
                "min_sequence_number": first_sequence,
                "max_sequence_number": first_sequence + rows - 1,
            }
        key_stats = (len(blocks) == 1 and blocks[0].key_stats) or self._key_stats(blocks)
        return common | {
            "min_key": blocks[0].ends[0],
            "max_key": blocks[-1].ends[1],
            "key_stats": key_stats,
            "min_sequence_number": min(block.sequences[0] for block in blocks),
            "max_sequence_number": max(block.sequences[1] for block in blocks),
        }

    def _value_stats(self, blocks: Sequence[Described]) -> tuple[SimpleStats, tuple[str, ...] | None]:
        collected = stats.combine([block.collected for block in blocks], self.format)
        return stats.encoded(collected, self.layout.columns, self._value_modes, self.format, dense=self.dense)

    def _key_stats(self, blocks: Sequence[Described]) -> SimpleStats:
        collected = stats.combine([block.collected for block in blocks], self.format)
        return stats.encoded(collected, self.layout.keys, self._key_modes, self.format, dense=False)[0]

    @cached_property
    def _value_modes(self) -> tuple[StatsMode, ...]:
        return self.modes[-len(self.layout.columns) :]

    @cached_property
    def _key_modes(self) -> tuple[StatsMode, ...]:
        """The statistics modes of the key: without columns of their own, keys have those of the columns they copy."""
        if not self.layout.thin:
            return self.modes[: len(self.layout.keys)]
        by_name = dict(zip((f.name for f in self.layout.columns), self._value_modes, strict=True))
        return tuple(by_name[key.name] for key in self.layout.keys)

    @cached_property
    def _bounded(self) -> frozenset[str]:
        """The columns whose bounds are kept, for themselves or as part of the key."""
        pairs = [*zip(self.layout.columns, self._value_modes), *zip(self.layout.keys, self._key_modes)]
        return frozenset(field.name for field, mode in pairs if mode.bounds)


def _block_size(write: WriteOptions, writer: FileWriter) -> int | None:
    return write.block_size or (None if writer.block_size is None else write.given.get(writer.block_size))
