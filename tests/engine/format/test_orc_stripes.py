"""Values of ORC streams are counted from the headers of their runs."""

from __future__ import annotations

import io

import numpy as np
import pyarrow as pa
import pyarrow.orc as orc
import pytest

from morrow.engine.errors import CorruptFile
from morrow.engine.format.orc_file import OrcLayout
from morrow.engine.format.orc_stripes import LENGTH, count_bytes, count_values
from tests.engine.format.test_orc_columns import DELTA, DIRECT, FALLING, PATCHED_BASE, SHORT_REPEAT

RANDOM = np.random.default_rng(5)


@pytest.mark.parametrize(("stream", "values"), [SHORT_REPEAT, DIRECT, DELTA, PATCHED_BASE, FALLING])
def test_runs_of_the_specification(stream: str, values: list[int]) -> None:
    assert count_values(bytes.fromhex(stream), "f") == len(values)


@pytest.mark.parametrize(
    "lengths",
    [
        RANDOM.integers(0, 3, 5000),
        RANDOM.integers(0, 1000, 5000),
        np.full(5000, 7),
        np.where(RANDOM.random(5000) < 0.01, 5000, 3),
        np.arange(2000) % 300,
    ],
    ids=["few", "many", "equal", "outliers", "rising"],
)
def test_lengths_that_a_writer_wrote(lengths: np.ndarray) -> None:
    sink = io.BytesIO()
    orc.write_table(pa.table({"s": pa.array(["x" * length for length in lengths])}), sink, compression="uncompressed")
    layout = OrcLayout(io.BytesIO(sink.getvalue()), "f")
    stream = layout.stream_bytes(layout.stripe(0), 1, LENGTH)

    assert count_values(stream, "f") == len(lengths)


@pytest.mark.parametrize("stream", [SHORT_REPEAT, DIRECT, DELTA, PATCHED_BASE])
def test_a_stream_that_ends_early_is_a_corrupt_file(stream: tuple[str, list[int]]) -> None:
    data = bytes.fromhex(stream[0])
    for end in range(1, len(data)):
        with pytest.raises(CorruptFile):
            count_values(data[:end], "f")


def test_a_patched_run_without_patches_is_a_corrupt_file() -> None:
    data = bytearray.fromhex(PATCHED_BASE[0])
    data[3] &= 0xE0
    with pytest.raises(CorruptFile, match="patch"):
        count_values(bytes(data), "f")


def test_too_many_runs_are_not_counted() -> None:
    assert count_values(bytes.fromhex(SHORT_REPEAT[0]) * 3, "f", most_runs=3) is not None
    assert count_values(bytes.fromhex(SHORT_REPEAT[0]) * 4, "f", most_runs=3) is None
    assert count_bytes(bytes.fromhex("6100"), "f", 1) == 100
    assert count_bytes(bytes.fromhex("6100" * 2), "f", 1) is None


def test_version_1() -> None:
    # 100 times 7, then 2, 3, 6, 7, 0.
    assert count_values(bytes.fromhex("6100" + "07" + "fb0203060700"), "f", version=1) == 105


def test_bytes() -> None:
    assert count_bytes(bytes.fromhex("6100" + "fe4445"), "f") == 102
    with pytest.raises(CorruptFile):
        count_bytes(bytes.fromhex("fe44"), "f")
