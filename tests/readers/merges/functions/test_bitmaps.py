"""rbm32 and rbm64: unions have the same bytes as Java's roaring bitmaps. Java wrote the hex literals."""

from __future__ import annotations

import polars as pl
import pyroaring
import pytest
from hypothesis import given
from hypothesis import strategies as st

from morrow.engine.errors import Unsupported
from morrow.engine.format.types import VarBinaryType
from morrow.readers.merges.functions import sketches
from tests.support.aggregates import function, stepped

BYTES = VarBinaryType()


def bits(text: str) -> bytes:
    return bytes.fromhex(text.replace(" ", ""))


# {1, 2, 3, 70000} | {3, 4, 0xFFFFFFFF}
JAVA_32 = (
    "3a300000 02000000 0000 0200 0100 0000 18000000 1e000000 010002000300 7011",
    "3a300000 02000000 0000 0100 ffff 0000 18000000 1c000000 03000400 ffff",
    "3b300200 01 0000 0300 0100 0000 ffff 0000 0100 01000300 7011 ffff",
)
# [0, 4) as a run | {100}: run containers are kept in case of equal sizes; a new bitmap would have an array.
JAVA_RUN = (
    "3b300000 01 0000 0300 0100 00000300",
    "3a300000 01000000 0000 0000 10000000 6400",
    "3b300000 01 0000 0400 0200 00000300 64000000",
)
# {1, 2, 1 << 40} | {2, 0xFFFFFFFFFFFFFFFF}
JAVA_64 = (
    "01 0200000000000000 00 0200 02 0000 00000100 04000000 000000000000 0000000000000000"
    "04000000 000001000000 0100000000000000 01000000 fe 02000000 01 02 02000000 01000200 01 02 01000000 0000"
    "0200000000000000 00000000 01000000",
    "01 0200000000000000 00 0200 00 0000ff00 04000000 000000000000 0000000000000000"
    "04000000 ffffffffffff 0100000000000000 01000000 fe 02000000 01 02 01000000 0200 01 02 01000000 ffff"
    "0200000000000000 00000000 01000000",
    "01 0300000000000000 00 0200 00 0000ff00 00 0200 01 00 00000100 04000000 000000000000 0000000000000000"
    "04000000 000001000000 0100000000000000 04000000 ffffffffffff 0200000000000000"
    "01000000 fe 03000000 01 02 02000000 01000200 01 02 01000000 0000 01 02 01000000 ffff"
    "0300000000000000 00000000 02000000",
)
EMPTY_32, EMPTY_64 = "3a300000 00000000", "00"


@pytest.mark.parametrize(
    ("name", "first", "second", "union"),
    [
        ("rbm32", *JAVA_32),
        ("rbm32", *JAVA_RUN),
        ("rbm32", JAVA_32[2], EMPTY_32, JAVA_32[2]),
        ("rbm32", EMPTY_32, EMPTY_32, EMPTY_32),
        ("rbm64", *JAVA_64),
        ("rbm64", JAVA_64[0], EMPTY_64, JAVA_64[0]),
        ("rbm64", EMPTY_64, JAVA_64[1], JAVA_64[1]),
        ("rbm64", EMPTY_64, EMPTY_64, EMPTY_64),
    ],
)
def test_the_bytes_are_those_of_java(name: str, first: str, second: str, union: str) -> None:
    assert stepped("agg", name, BYTES, [(bits(first), bits(second))]) == [bits(union)]


@pytest.mark.parametrize("name", ["rbm32", "rbm64"])
def test_one_value_alone_is_not_even_read(name: str) -> None:
    pairs = [(None, None), (b"junk", None), (None, b"junk")]
    assert stepped("agg", name, BYTES, pairs) == [None, b"junk", b"junk"]
    assert function(name, BYTES).retract({"value": pl.col("acc")}, pl.col("new")) is None


@pytest.mark.parametrize("junk", ["", "02", "3a30", "deadbeef" * 4, "3b30ffff", JAVA_32[0][:-4], JAVA_64[0][:-4]])
@pytest.mark.parametrize(("name", "empty"), [("rbm32", EMPTY_32), ("rbm64", EMPTY_64)])
def test_what_is_no_bitmap_is_refused(name: str, empty: str, junk: str) -> None:
    good = bits(empty)
    for pair in ((good, bits(junk)), (bits(junk), good)):
        with pytest.raises(
            Unsupported, match=f"the aggregate function {name}: a value cannot be merged, .*; write what"
        ):
            stepped("agg", name, BYTES, [pair])


# Few high parts, so that bitmaps share containers, and long ranges, so that there are runs and bitmaps.
STRETCHES = st.lists(st.tuples(st.integers(0, 5 * 65536), st.integers(1, 9000)), max_size=5)


@given(STRETCHES, STRETCHES)
def test_a_32_bit_union_has_the_positions_of_both(first: list[tuple[int, int]], second: list[tuple[int, int]]) -> None:
    bitmaps = []
    for stretches in (first, second):
        bitmap = pyroaring.BitMap()
        for start, length in stretches:
            bitmap |= pyroaring.BitMap(range(start, start + length, 1 + start % 3))
        bitmaps.append(bitmap)
    union = sketches.merge_bitmaps32(*(bitmap.serialize() for bitmap in bitmaps), function="rbm32")
    assert pyroaring.BitMap.deserialize(union) == bitmaps[0] | bitmaps[1]
    assert sketches.merge_bitmaps32(union, union, function="rbm32") == union


# Keys with common prefixes of every length, and many that differ in one byte, which gives all kinds of nodes.
KEYS = st.one_of(
    st.integers(0, 300),
    st.integers(0, 2**48 - 1),
    st.builds(lambda b, s: b << s, st.integers(0, 255), st.sampled_from([0, 8, 16, 32, 40])),
)
POSITIONS = st.sets(st.builds(lambda key, low: key << 16 | low, KEYS, st.sampled_from([0, 1, 2, 65535])), max_size=120)


def java_64(positions: set[int]) -> bytes:
    """Build a bitmap by additions to an empty one, with containers in key order."""
    grown = sketches.Bitmap64({}, [], 0)
    lows: dict[int, list[int]] = {}
    for position in sorted(positions):
        lows.setdefault(position >> 16, []).append(position & 0xFFFF)
    places = {key.to_bytes(6, "big"): place for place, key in enumerate(lows)}
    containers = [pyroaring.BitMap(low) for low in lows.values()]
    grown.unite(sketches.Bitmap64(places, [*containers], len(containers)))
    return sketches.write_bitmap64(grown)


def positions_of(data: bytes) -> set[int]:
    bitmap = sketches.read_bitmap64(data, function="rbm64")
    found = ((key, bitmap.containers[place]) for key, place in bitmap.places.items())
    return {int.from_bytes(key, "big") << 16 | low for key, one in found if one for low in one}


@given(POSITIONS, POSITIONS)
def test_a_64_bit_union_has_the_positions_of_both(first: set[int], second: set[int]) -> None:
    assert positions_of(java_64(first)) == first
    union = sketches.merge_bitmaps64(java_64(first), java_64(second), function="rbm64")
    assert positions_of(union) == first | second
    assert sketches.merge_bitmaps64(union, java_64(first), function="rbm64") == union


@given(st.binary(max_size=80), st.sampled_from([*JAVA_32, *JAVA_64, JAVA_RUN[2]]), st.data())
def test_damage_is_a_typed_error_or_another_bitmap(patch: bytes, image: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(bits(image))))
    damaged = bits(image)[:at] + patch + bits(image)[at + len(patch) :]
    for union, empty in ((sketches.merge_bitmaps32, EMPTY_32), (sketches.merge_bitmaps64, EMPTY_64)):
        try:
            assert union(damaged, bits(empty), function="f")
        except Unsupported as error:
            assert "the aggregate function f" in str(error)
