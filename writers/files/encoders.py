"""Encoders of the file formats. A file is a head, blocks of rows, and a foot that locates the blocks.

Blocks (row groups, stripes, Avro blocks) are independent, so several threads encode them, and a file can end after any
block. Frames are cut to the size of blocks.

To add a format: declare it in `morrow.engine.format.file_formats`, put a module in `formats` that has a
`FileWriter` as its `WRITER`, and its name in `BUILT_IN`. In another package, register both by entry points
(`morrow.engine.plugins`).

The columns of a file are the system columns, then the columns of the table:

    append      <column>...
    keyed       _KEY_<key>...  _SEQUENCE_NUMBER  _VALUE_KIND  <column>...
    thin mode                  _SEQUENCE_NUMBER  _VALUE_KIND  <column>...

Keys are the trimmed primary key. Partition columns are stored like any other. Members of a ROW have their own field
ids. The ids of an ARRAY's element and a MAP's key and value are computed from the id of their column (or member) and
from the number of lists and maps around them: a range of a thousand per column, up or (keys) down from a base.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from importlib import import_module
from itertools import accumulate, chain, islice
from typing import Any, Protocol, TypeVar

import polars as pl

from morrow.engine.errors import Unsupported
from morrow.engine.format.file_formats import WHEELS
from morrow.engine.format.schema import SEQUENCE_NUMBER_FIELD, VALUE_KIND_FIELD, make_key_field
from morrow.engine.format.types import DataField
from morrow.engine.names import col, cols
from morrow.engine.options import Declared, WriteOptions
from morrow.engine.plugins import FILE_WRITERS, load_plugin_of
from morrow.engine.structs import replace
from morrow.writers.target import WriteTarget


@dataclass(frozen=True)
class FileLayout:
    """The `columns` of the table (or those of its files), its trimmed primary key (empty in append tables), and whether
    keys are stored twice."""

    columns: tuple[DataField, ...]
    keys: tuple[DataField, ...] = ()
    thin: bool = False

    @classmethod
    def of(cls, target: WriteTarget, columns: tuple[DataField, ...] | None = None) -> FileLayout:
        """Return the layout of files of a table that hold these columns; None: all columns of the table."""
        schema = target.schema
        keys = tuple(schema.by_name[name] for name in schema.trimmed_primary_keys) if target.keyed else ()
        return cls(schema.fields if columns is None else columns, keys, target.write.thin_mode)

    @cached_property
    def key_fields(self) -> tuple[DataField, ...]:
        """The ``_KEY_`` columns of the file."""
        return () if self.thin else tuple(map(make_key_field, self.keys))

    @cached_property
    def fields(self) -> tuple[DataField, ...]:
        """All columns of the file."""
        system = (SEQUENCE_NUMBER_FIELD, VALUE_KIND_FIELD) if self.keys else ()
        return (*self.key_fields, *system, *self.columns)

    def stored(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Convert a version frame (keyed) or a plain frame to the columns of the file."""
        if not self.keys and frame.columns == [field.name for field in self.columns]:
            return frame
        copies = () if self.thin else (col(k.name).alias(c.name) for k, c in zip(self.keys, self.key_fields))
        return frame.select(*copies, *cols(field.name for field in self.fields[len(self.key_fields) :]))


@dataclass(frozen=True)
class Block:
    """Encoded rows of `size` bytes; `details` is the information that the foot of the format needs.

    `text_ends` has the least and the greatest value of text columns, if the encoder computed them.
    """

    rows: int
    size: int
    body: Any = field(repr=False)
    details: Any = field(default=None, repr=False)
    text_ends: Mapping[str, tuple[str, str]] = field(default_factory=dict, repr=False)


class Encoder(Protocol):
    """Encoder of files of one table in one format. Thread-safe."""

    head: bytes

    def block(self, frame: pl.DataFrame) -> Block:
        """Encode rows: the columns of the layout, in its order.

        Raises `InvalidArgument`: a value that the format cannot hold.
        """
        ...

    def blocks(self, frame: pl.DataFrame, heights: Sequence[int]) -> list[Callable[[], Block]]:
        """Return functions that encode consecutive blocks of these heights in `frame`; several threads may call them.

        Raises: as `block`, here or when the functions are called.
        """
        ...

    def foot(self, blocks: Sequence[Block]) -> bytes:
        """Return the bytes that follow the head and these blocks."""
        ...


@dataclass(frozen=True)
class EncoderOptions:
    """The table's options for one file: its codec, and options of the format by their full names."""

    compression: str
    write: WriteOptions
    where: str


def encode_one_by_one(encoder: Encoder, frame: pl.DataFrame, heights: Sequence[int]) -> list[Callable[[], Block]]:
    """Implement `Encoder.blocks` for formats without a faster way to encode many blocks."""
    starts = accumulate(heights, initial=0)
    return [partial(encoder.block, frame[start : start + height]) for start, height in zip(starts, heights)]


EncoderFactory = Callable[[FileLayout, EncoderOptions], Encoder]


@dataclass(frozen=True)
class FileWriter:
    """Writer of a file format: a factory of encoders for a layout, and the option that sets the size of a block.

    `encoder` raises `Unsupported` for a codec or column type that the format lacks. ``file.block-size`` overrides
    `block_size`.
    """

    encoder: EncoderFactory
    block_size: Declared[int | None] | None = None


BUILT_IN = ("parquet", "orc", "avro", *WHEELS, "row")
"""Formats with a module in `formats`, which has a `FileWriter` as its `WRITER`."""


def find_file_writer(format_: str, where: str) -> FileWriter:
    """Return the writer of a format, built in or from another package. Raises `Unsupported` if there is none."""
    found = _load_built_in(format_) if format_ in BUILT_IN else load_plugin_of(FILE_WRITERS, format_, FileWriter)
    if found is None:
        hint = f"choose one of {', '.join(BUILT_IN)}"
        raise Unsupported(f"writing files of the format {format_!r}", where=where, hint=hint)
    return found


@cache
def _load_built_in(format_: str) -> FileWriter:
    module = import_module(f"{__package__}.formats.{'wheel_files' if format_ in WHEELS else format_}")
    found: FileWriter = module.WRITERS[format_] if format_ in WHEELS else module.WRITER
    return found


def make_encoder(format_: str, layout: FileLayout, options: EncoderOptions) -> Encoder:
    """Return the encoder of a format. Raises `Unsupported`: Morrow does not write this format, codec or column type."""
    return find_file_writer(format_, options.where).encoder(layout, options)


MAX_BLOCK_ROWS = 1 << 18
MIN_BLOCK_ROWS = 1000
"""Minimum rows of a block: Java checks the size of a file every thousand rows."""
MAX_BLOCK_BYTES = 32 << 20
"""Maximum bytes of rows in memory that make one block."""
MAX_ENCODING_THREADS = 4
"""Maximum encoding threads. Each holds a block, so this bounds memory on large machines."""

T = TypeVar("T")


def cut_blocks(frames: Iterable[pl.DataFrame], block_bytes: int) -> Iterator[pl.DataFrame]:
    """Yield the same rows in frames of one block each; small frames are joined."""
    waiting: list[pl.DataFrame] = []
    rows = 0
    waiting_bytes: float = 0
    for frame in frames:
        if not frame.height:
            continue
        waiting.append(frame)
        rows += frame.height
        waiting_bytes += frame.estimated_size()
        if rows < MAX_BLOCK_ROWS and waiting_bytes < block_bytes:
            continue
        joined = pl.concat(waiting) if len(waiting) > 1 else frame
        fitting = int(rows * block_bytes / max(waiting_bytes, 1)) // MIN_BLOCK_ROWS * MIN_BLOCK_ROWS
        size = min(max(fitting, MIN_BLOCK_ROWS), MAX_BLOCK_ROWS)
        whole = rows // size * size
        yield from (joined[start : start + size] for start in range(0, whole, size))
        rest = joined[whole:]
        waiting, rows = [rest] if rest.height else [], rest.height
        waiting_bytes = rest.estimated_size()
    if waiting:
        yield pl.concat(waiting) if len(waiting) > 1 else waiting[0]


def encode_in_threads(encode: Callable[[pl.DataFrame], T], pieces: Iterator[pl.DataFrame]) -> Generator[T]:
    """Yield encoded pieces in order, encoding several in parallel; a single piece is encoded without threads."""
    start = list(islice(pieces, 2))
    if len(start) < 2:
        yield from map(encode, start)
        return
    threads = min(pl.thread_pool_size(), MAX_ENCODING_THREADS)
    with ThreadPoolExecutor(threads) as pool:
        ahead: deque[Future[T]] = deque()
        try:
            for piece in chain(start, pieces):
                ahead.append(pool.submit(encode, piece))
                if len(ahead) > threads:
                    yield ahead.popleft().result()
            while ahead:
                yield ahead.popleft().result()
        finally:
            for future in ahead:
                future.cancel()


NESTED_ID_BASE = (2**31 - 1) // 4
MAX_DEPTHS = 1 << 10


@dataclass(frozen=True)
class FieldPlace:
    """Position of a type: its column, the number of lists and maps around it, and whether it is nested."""

    field_id: int
    where: str
    depth: int = 0
    nested: bool = False

    @property
    def inside(self) -> FieldPlace:
        """The place of elements, keys and values."""
        return replace(self, depth=self.depth + 1, nested=True)

    def member(self, field_id: int) -> FieldPlace:
        """Return the place of a ROW's member, with depth 0 again."""
        return FieldPlace(field_id, self.where, nested=True)

    @property
    def element_id(self) -> int:
        """The field id of elements or values at this place."""
        return NESTED_ID_BASE + self.field_id * MAX_DEPTHS + self.depth

    @property
    def key_id(self) -> int:
        """The field id of map keys at this place."""
        return NESTED_ID_BASE - self.field_id * MAX_DEPTHS - self.depth
