"""Another package that provides a file format, as it is after an installation: a zip with its entry points.

Files of the format ``ipc`` are a sequence of Arrow streams, each preceded by its length in 8 bytes.
"""

from __future__ import annotations

from pathlib import Path
from zipfile import ZipFile

ENTRY_POINTS = """
[morrow.file_formats]
ipc = ipc_files:FORMAT

[morrow.file_readers]
ipc = ipc_files:READER

[morrow.file_writers]
ipc = ipc_files:WRITER
"""

MODULE = """
import io
import polars as pl

from morrow.engine.format.file_formats import FileFormat
from morrow.engine.format.types import VariantType
from morrow.readers.files import Chunk, FileReader
from morrow.writers.files.encoders import Block, FileWriter, encode_one_by_one

WIDTH = 8


def lacks(kind):
    return "choose another file.format" if isinstance(kind, VariantType) else None


def decode(source, fields):
    with source.store.open(source.path) as stream:
        while length := stream.read(WIDTH):
            frame = pl.read_ipc_stream(io.BytesIO(stream.read(int.from_bytes(length, "little"))))
            yield Chunk(frame.height, frame.select(field.name for field in fields))


class Encoder:
    head = b""

    def __init__(self, layout, options):
        del layout, options

    def block(self, frame):
        body = io.BytesIO()
        frame.write_ipc_stream(body)
        body = len(body.getvalue()).to_bytes(WIDTH, "little") + body.getvalue()
        return Block(frame.height, len(body), body)

    def blocks(self, frame, heights):
        return encode_one_by_one(self, frame, heights)

    def foot(self, blocks):
        return b""


FORMAT = FileFormat("ipc", lacks)
READER = FileReader(decode)
WRITER = FileWriter(Encoder)
"""


def build(folder: Path, entry_points: str = ENTRY_POINTS) -> Path:
    """Write the package into this folder and return the path for ``sys.path``."""
    path = folder / "ipc_files.zip"
    with ZipFile(path, "w") as archive:
        archive.writestr("ipc_files.py", MODULE)
        archive.writestr("ipc_files-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: ipc-files\nVersion: 1.0\n")
        archive.writestr("ipc_files-1.0.dist-info/entry_points.txt", entry_points)
    return path
