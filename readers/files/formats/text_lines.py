"""Lines of text files (json, text), and decompression of whole text files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from morrow.engine.errors import Unsupported
from morrow.readers.files.source import FileSource

CHUNK_BYTES = 1 << 24
"""Text that is decoded at a time."""
NEWLINE = b"\n"
BYTE_ORDER_MARK = b"\xef\xbb\xbf"

CODECS = {"gz": "gzip", "bz2": "bz2", "zst": "zstd"}
"""Arrow codec of each file name extension that Paimon's writers append."""
UNREADABLE_CODECS = frozenset({"deflate", "snappy", "lz4", "lzo"})
"""Extensions of Hadoop framings that no library here decodes."""


def decompressed(source: FileSource) -> BinaryIO | pa.NativeFile:
    """Opens the text of a file as a stream; the extension gives the compression.

    Raises:
        Unsupported: a Hadoop framing of snappy, lz4, lzo or deflate.
    """
    extension = source.path.rpartition(".")[2]
    if extension in UNREADABLE_CODECS:
        raise Unsupported(f"text compressed with {extension}", where=source.path)
    stream = source.store.open(source.path)
    return pa.CompressedInputStream(stream, CODECS[extension]) if extension in CODECS else stream


def lines(source: FileSource, delimiter: str) -> Iterator[pl.Series]:
    r"""Yields lines of a text file in chunks, without their ends, as a String series named ``line``.

    The delimiter ``"\n"`` stands for ``\n``, ``\r`` and ``\r\n``, and a byte order mark is then skipped.

    Raises:
        pa.ArrowInvalid: not UTF-8.
        OSError: damaged compression.
    """
    ending = delimiter.encode()
    rest = b""
    with decompressed(source) as stream:
        first = True
        while piece := bytes(stream.read(CHUNK_BYTES)):
            if first and ending == NEWLINE:
                piece = piece.removeprefix(BYTE_ORDER_MARK)
            first = False
            complete, found, rest = _unified(rest + piece, ending).rpartition(ending)
            if found:
                yield _split(complete, delimiter)
    if rest := rest.replace(b"\r", NEWLINE) if ending == NEWLINE else rest:
        yield _split(rest.removesuffix(NEWLINE) if ending == NEWLINE else rest, delimiter)


def _unified(text: bytes, ending: bytes) -> bytes:
    """Replaces line ends by one newline each; a carriage return at the very end may be half of one and stays."""
    if ending != NEWLINE or b"\r" not in text:
        return text
    body, last = (text[:-1], b"\r") if text.endswith(b"\r") else (text, b"")
    return body.replace(b"\r\n", NEWLINE).replace(b"\r", NEWLINE) + last


def _split(text: bytes, delimiter: str) -> pl.Series:
    whole = pa.array([text], pa.large_binary()).cast(pa.large_string())
    return pl.Series("line", pl.from_arrow(pc.split_pattern(whole, delimiter).flatten()), dtype=pl.String)
