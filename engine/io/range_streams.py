"""Files of stores as streams: ranges that are read as they are asked for, bytes that go where a function puts them."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any


class RangeInput(io.RawIOBase):
    """A seekable stream over ranges of one file of `size` bytes; `read_range` takes an offset and a length."""

    def __init__(self, read_range: Callable[[int, int], bytes], size: int) -> None:
        self._read_range, self._size = read_range, size
        self._position = 0

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
        data = self._read_range(self._position, length)
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)


class RangeOutput(io.RawIOBase):
    """A stream whose bytes go to `write`, which returns how many it has taken; closing it closes nothing else."""

    def __init__(self, write: Callable[[bytes], int]) -> None:
        self._write = write
        self._position = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def write(self, data: Any) -> int:
        written = self._write(bytes(data))
        self._position += written
        return written
