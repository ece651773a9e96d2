"""The error for values whose bytes an aggregate function cannot read, and a bounds-checked cursor."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from morrow.engine.errors import Unsupported
from morrow.readers.merges.functions.base import POLARS_CONTEXT


class CorruptValue(Unsupported):
    """A value of a column is invalid for its aggregate function: users may write any bytes.

    Built from its message alone: Polars re-creates exceptions that pass through a query, with the expression appended
    to the message; that is removed.
    """

    def __init__(self, message: str) -> None:
        message = message.partition(POLARS_CONTEXT)[0]
        super().__init__(message)
        self.args = (message,)


def corrupt_value(function: str, problem: str) -> CorruptValue:
    """Returns the error of an aggregate function about a value."""
    return CorruptValue(
        f"the aggregate function {function}: a value cannot be merged, {problem.replace('; ', ', ')}; "
        "write what the function expects, or give the column another function"
    )


@dataclass
class Cursor:
    """The bytes of a value and a read position; every step is checked against their end."""

    data: bytes
    function: str
    at: int = 0

    def corrupt(self, problem: str) -> CorruptValue:
        return corrupt_value(self.function, f"{problem} (at byte {self.at} of {len(self.data)})")

    def take(self, size: int, what: str) -> bytes:
        if size > len(self.data) - self.at:
            raise self.corrupt(f"{what} needs {size} bytes, {len(self.data) - self.at} are left")
        self.at += size
        return self.data[self.at - size : self.at]

    def integer(self, width: int, what: str) -> int:
        """Reads an unsigned little-endian integer."""
        return int.from_bytes(self.take(width, what), "little")

    def u16s(self, count: int, what: str) -> npt.NDArray[np.uint16]:
        return np.frombuffer(self.take(2 * count, what), "<u2").astype(np.uint16)
