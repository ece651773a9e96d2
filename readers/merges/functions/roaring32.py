"""Unions of Java's RoaringBitmap in the portable format (`engine.format.roaring`), by pyroaring."""

from __future__ import annotations

from typing import TYPE_CHECKING

from morrow.readers.merges.functions.corrupt_value import corrupt_value

if TYPE_CHECKING:
    from pyroaring import BitMap


def union(first: bytes, second: bytes, *, function: str) -> bytes:
    """Unite both bitmaps, as Java's `RoaringBitmap.or`, `runOptimize` and `serialize` write the result.

    Raises:
        CorruptValue: the bytes are not such a bitmap. Bytes after its end are ignored, as in Java.
    """
    united = read(first, function=function) | read(second, function=function)
    united.run_optimize()
    return united.serialize()


def read(data: bytes, *, function: str) -> BitMap:
    """Decode a bitmap. Raises `CorruptValue`."""
    from pyroaring import BitMap

    try:
        return BitMap.deserialize(data)
    except (ValueError, IndexError) as error:
        raise corrupt_value(function, f"it is not a roaring bitmap: {error}") from error
