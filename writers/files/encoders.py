"""File formats as writers see them: a file is a head, blocks of rows, and a foot that says where the blocks are.

Blocks (row groups, stripes, Avro's blocks) know nothing of each other, so several threads encode them, and rolling is
deciding after which block a file ends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Protocol

import polars as pl

from morrow.engine.errors import Unsupported
from morrow.engine.options import WriteOptions
from morrow.writers.files.layout import FileLayout


@dataclass(frozen=True)
class Block:
    """Encoded rows, `size` bytes; `details` is what the foot of the format needs to know."""

    rows: int
    size: int
    body: Any = field(repr=False)
    details: Any = field(default=None, repr=False)


class Encoder(Protocol):
    """Encodes files of one table in one format. Safe for use by several threads."""

    head: bytes

    def block(self, frame: pl.DataFrame) -> Block:
        """Encode rows: the columns of the layout, in its order.

        Raises:
            InvalidArgument: a value that the format cannot hold.
        """
        ...

    def foot(self, blocks: Sequence[Block]) -> bytes:
        """What follows the head and these blocks."""
        ...


@dataclass(frozen=True)
class EncoderOptions:
    """What the options of the table say about one file: its codec, and options of the format by their full names."""

    compression: str
    write: WriteOptions
    where: str


EncoderFactory = Callable[[FileLayout, EncoderOptions], Encoder]

FORMATS = ("parquet", "orc", "avro")
"""Each has a module of that name here with a function `encoder`, imported when first used."""


def encoder(format_: str, layout: FileLayout, options: EncoderOptions) -> Encoder:
    """The encoder of a format.

    Raises:
        Unsupported: a format, codec or column type that Morrow does not write.
    """
    if format_ not in FORMATS:
        raise Unsupported(
            f"writing files of the format {format_!r}", where=options.where, hint=f"choose one of {', '.join(FORMATS)}"
        )
    factory: EncoderFactory = import_module(f"{__package__}.{format_}").encoder
    return factory(layout, options)
