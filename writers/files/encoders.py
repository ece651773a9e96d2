"""Encoders of the file formats: a file is a head, blocks of rows, and a foot that locates the blocks.

Blocks (row groups, stripes, Avro's blocks) are independent, so several threads encode them, and rolling decides after
which block a file ends.

To add a format: declare it in `morrow.engine.format.file_formats`, put a module in `formats` that has a
`FileWriter` as its `WRITER`, and its name in `BUILT_IN`. In another package, register both by entry points
(`morrow.engine.plugins`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from importlib import import_module
from itertools import accumulate
from typing import Any, Protocol

import polars as pl

from morrow.engine.errors import Unsupported
from morrow.engine.options import Declared, WriteOptions
from morrow.engine.plugins import FILE_WRITERS, plugin_of
from morrow.writers.files.layout import FileLayout


@dataclass(frozen=True)
class Block:
    """Encoded rows of `size` bytes; `details` is the information that the foot of the format needs.

    `text_ends` has the least and the greatest value of text columns of which the encoder found them anyway.
    """

    rows: int
    size: int
    body: Any = field(repr=False)
    details: Any = field(default=None, repr=False)
    text_ends: Mapping[str, tuple[str, str]] = field(default_factory=dict, repr=False)


class Encoder(Protocol):
    """Encodes files of one table in one format. Safe for use by several threads."""

    head: bytes

    def block(self, frame: pl.DataFrame) -> Block:
        """Encodes rows: the columns of the layout, in its order.

        Raises:
            InvalidArgument: a value that the format cannot hold.
        """
        ...

    def blocks(self, frame: pl.DataFrame, heights: Sequence[int]) -> list[Callable[[], Block]]:
        """Returns encoders of the consecutive blocks in `frame`, of these heights; several threads may call them.

        Raises: as `block`, here or when they are called.
        """
        ...

    def foot(self, blocks: Sequence[Block]) -> bytes:
        """Returns the bytes that follow the head and these blocks."""
        ...


@dataclass(frozen=True)
class EncoderOptions:
    """The table's options for one file: its codec, and options of the format by their full names."""

    compression: str
    write: WriteOptions
    where: str


def one_by_one(encoder: Encoder, frame: pl.DataFrame, heights: Sequence[int]) -> list[Callable[[], Block]]:
    """Returns `Encoder.blocks` of formats that gain nothing from encoding many blocks at once."""
    starts = accumulate(heights, initial=0)
    return [partial(encoder.block, frame[start : start + height]) for start, height in zip(starts, heights)]


EncoderFactory = Callable[[FileLayout, EncoderOptions], Encoder]


@dataclass(frozen=True)
class FileWriter:
    """The way files of a format are written: the encoder of a layout, and the option that sets the size of a block.

    `encoder` raises `Unsupported` for a codec or column type that the format does not have. ``file.block-size``
    overrides `block_size`.
    """

    encoder: EncoderFactory
    block_size: Declared[int | None] | None = None


BUILT_IN = ("parquet", "orc", "avro")
"""Formats with a module of their name in `formats`, which has a `FileWriter` as its `WRITER`."""


def file_writer(format_: str, where: str) -> FileWriter:
    """Returns the writer of a format, built in or of another package. Raises `Unsupported`: there is none."""
    found = _built_in(format_) if format_ in BUILT_IN else plugin_of(FILE_WRITERS, format_, FileWriter)
    if found is None:
        hint = f"choose one of {', '.join(BUILT_IN)}"
        raise Unsupported(f"writing files of the format {format_!r}", where=where, hint=hint)
    return found


@cache
def _built_in(format_: str) -> FileWriter:
    found: FileWriter = import_module(f"{__package__}.formats.{format_}").WRITER
    return found


def encoder(format_: str, layout: FileLayout, options: EncoderOptions) -> Encoder:
    """Returns the encoder of a format.

    Raises:
        Unsupported: a format, codec or column type that Morrow does not write.
    """
    return file_writer(format_, options.where).encoder(layout, options)
