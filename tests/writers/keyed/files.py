"""Descriptions of data files that do not exist, for the tests in this folder."""

from __future__ import annotations

from itertools import count
from typing import Any

from morrow.engine.format.binary_row_encoder import encode_row
from morrow.engine.format.manifest_entries import DataFileMeta
from morrow.engine.format.types import BigIntType, DataField
from morrow.writers.keyed.levels import KeyOrder, LevelRun, make_key_order

NUMBERS = count()
KEY = DataField(0, "k", BigIntType(nullable=False))


def order() -> KeyOrder:
    """Make the key order of a single BIGINT column."""
    return make_key_order((KEY,), where="the table")


def file(
    low: int = 0, high: int = 9, *, level: int = 0, size: int = 1, sequence: int = 0, **members: Any
) -> DataFileMeta:
    """Describe a file with the keys `low` to `high`."""
    given: dict[str, Any] = {
        "file_name": f"f{next(NUMBERS)}",
        "file_size": size,
        "row_count": high - low + 1,
        "min_key": encode_row((low,), [KEY.type]),
        "max_key": encode_row((high,), [KEY.type]),
        "min_sequence_number": sequence,
        "max_sequence_number": sequence,
        "schema_id": 0,
        "level": level,
        "creation_time": 0,
    }
    return DataFileMeta(**given | members)


def run(level: int, size: int = 1) -> LevelRun:
    """Make a sorted run of one file."""
    return LevelRun(level, (file(level=level, size=size),))


def runs(*levels_and_sizes: tuple[int, int]) -> list[LevelRun]:
    return [run(level, size) for level, size in levels_and_sizes]
