"""What every cast rule is given, and the helpers they share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from morrow.engine.errors import Unsupported
from morrow.engine.format import types as t

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Cast:
    """One cast: from which type to which, in which session time zone, for which column."""

    source: Any
    target: Any
    zone: str = "UTC"
    where: str | None = None

    def failure(self, value: object, reason: str) -> Unsupported:
        """The error for a value that the cast cannot represent; Java fails on it as well, unless `reason` says so."""
        return Unsupported(
            f"the value {value!r} in a cast from {self.source} to {self.target}",
            where=self.where,
            hint=f"{reason}; read a snapshot of before the type change, or correct the value and rewrite the file",
        )

    def require(self, array: pa.Array, valid: pa.Array, reason: str) -> None:
        """Fail for the first value of `array` that is not null and not `valid`.

        Raises:
            Unsupported: there is one.
        """
        bad = array.filter(pc.and_(array.is_valid(), pc.invert(pc.fill_null(valid, False))))
        if len(bad):
            raise self.failure(bad[0].as_py() if not pa.types.is_temporal(bad.type) else str(bad[0]), reason)


Rule = Callable[[pa.Array, Cast], pa.Array]


def numbers(array: pa.Array) -> npt.NDArray[Any]:
    """The values of a fixed-width array as numpy, 0 where null; temporal types as their integers."""
    if pa.types.is_date32(array.type) or pa.types.is_time32(array.type):
        array = array.cast(pa.int32())
    elif pa.types.is_timestamp(array.type):
        array = array.cast(pa.int64())
    if array.null_count:
        array = pc.fill_null(array, 0)
    result: npt.NDArray[Any] = array.to_numpy(zero_copy_only=False)
    return result


def like(values: npt.NDArray[Any], array: pa.Array, type: pa.DataType) -> pa.Array:
    """`values` as an Arrow array of `type`, null where `array` is null."""
    mask = array.is_null().to_numpy(zero_copy_only=False) if array.null_count else None
    return pa.array(values, mask=mask).cast(type)


def over_distinct(array: pa.Array, function: Callable[[Any], Any], type: pa.DataType) -> pa.Array:
    """Apply a Python function once to each distinct value (nulls stay null): for what no vectorised kernel does."""
    encoded = array.dictionary_encode()
    results = pa.array([function(value) for value in encoded.dictionary.to_pylist()], type=type)
    return results.take(encoded.indices)


def sized_text(text: pa.Array, target: t.CharType | t.VarCharType) -> pa.Array:
    """Text cut to the target's length in characters; CHAR is filled with blanks."""
    if target.length < t.MAX_LENGTH:
        text = pc.utf8_slice_codeunits(text, 0, target.length)
    return pc.utf8_rpad(text, target.length) if isinstance(target, t.CharType) else text
