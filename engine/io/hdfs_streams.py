"""Streams over files of Hadoop's file system; their errors are those of the store that opens them."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from hdfs_native import FileReader, FileWriter

Asked: TypeAlias = Callable[[str, Callable[[], Any]], Any]
"""Runs an operation on a path, and raises the store's errors."""


class FileInput(io.RawIOBase):
    """A seekable stream over one file."""

    def __init__(self, path: str, asked: Asked, opened: Callable[[], FileReader]) -> None:
        self._path, self._asked = path, asked
        self._reader: FileReader = asked(path, opened)
        self._size, self._position = len(self._reader), 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = max(base + offset, 0)
        return self._position

    def readinto(self, buffer: Any) -> int:
        length = min(len(buffer), self._size - self._position)
        if length <= 0:
            return 0
        data: bytes = self._asked(self._path, lambda: self._reader.read_range(self._position, length))
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)


class FileOutput(io.RawIOBase):
    """A stream into a file that is open for writing; closing it leaves the file open."""

    def __init__(self, path: str, asked: Asked, writer: FileWriter) -> None:
        self._path, self._asked, self._writer = path, asked, writer
        self._position = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def write(self, data: Any) -> int:
        written: int = self._asked(self._path, lambda: self._writer.write(bytes(data)))
        self._position += written
        return written
