"""Deletion vectors: positions, masks and comparison."""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import fastavro
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap, BitMap64

from morrow.engine.errors import CorruptFile, InvalidArgument, Unsupported
from morrow.engine.format.deletion_vectors import (
    EMPTY,
    DeletionVector,
    DeletionVectorRange,
    compute_entry_span,
    decode_vector,
    encode_vector,
    read_entry,
    write_index_file,
)


def vector(*positions: int) -> DeletionVector:
    return DeletionVector.from_positions(np.array(positions, np.int64))


def test_mask_of_a_file() -> None:
    dead = vector(1, 3)

    assert dead.dead(5).tolist() == [False, True, False, True, False]
    assert dead.live(5).tolist() == [True, False, True, False, True]
    assert dead.packed(5).tolist() == [0b01010]
    assert dead.positions().tolist() == [1, 3]
    assert dead.cardinality == 2


def test_from_positions_in_any_order_repeated_and_of_any_width() -> None:
    assert DeletionVector.from_positions(np.array([70000, 3, 3], np.uint32)) == vector(3, 70000)
    assert DeletionVector.from_positions([]) == EMPTY


def test_from_mask_is_the_inverse_of_dead() -> None:
    mask = np.array([True, False, True] * 50_000)

    assert np.array_equal(DeletionVector.from_mask(mask).dead(mask.size), mask)
    assert DeletionVector.from_mask(~mask) == DeletionVector.from_packed(np.packbits(~mask, bitorder="little"))


def test_union() -> None:
    assert vector(1, 200_000).union(vector(2, 200_000, 900_000)) == vector(1, 2, 200_000, 900_000)
    assert EMPTY.union(vector(7)) == vector(7)


def test_nothing_is_dead() -> None:
    assert EMPTY.live(3).all()
    assert EMPTY.dead(0).tolist() == []


def test_vectors_travel_and_compare() -> None:
    dead = vector(5, 100_000)

    assert pickle.loads(pickle.dumps(dead)) == dead
    assert hash(dead) == hash(vector(100_000, 5))
    assert dead != vector(5)


@pytest.mark.parametrize("bad", [[-1], [1.5], [2**40]])
def test_positions_that_are_none(bad: list[float]) -> None:
    with pytest.raises(InvalidArgument, match="dead positions must be integers"):
        DeletionVector.from_positions(bad)


def test_masks_that_are_none() -> None:
    with pytest.raises(InvalidArgument, match="a mask is a one-dimensional boolean array"):
        DeletionVector.from_mask(np.zeros(3, np.int8))


# Index files of deletion vectors: their bytes, both bitmap widths, and damaged files.

JAVA_32 = bytes.fromhex("01000000185e43f2d03a3000000100000000000100100000000d001e006f978a77")
"""A file by Java Paimon with one vector of two positions; the manifest says offset 1 and 24 bytes."""
JAVA_64 = bytes.fromhex(
    "01"
    "00000048"
    "d1d33964"
    "0100000000000000"
    "00000000"
    "3a300000"
    "01000000"
    "0000"
    "1300"
    "10000000"
    "03000400050006000a00110016002200310032003e003f004d006500660068006b0076007b007f00"
    "195bdeaa"
)
"""A file with `deletion-vectors.bitmap64` and 20 positions; the manifest says 80 bytes."""


def test_an_entry_in_which_nothing_is_dead() -> None:
    assert (
        decode_vector(encode_vector(EMPTY), where="t")
        == decode_vector(encode_vector(EMPTY, bitmap64=True), where="t")
        == EMPTY
    )


def test_what_java_wrote() -> None:
    data, ranges = write_index_file({"data-0.parquet": vector(13, 30)})
    data64, ranges64 = write_index_file({"data-0.parquet": read_entry(JAVA_64, 1, 80, where="t")}, bitmap64=True)

    assert data == JAVA_32
    assert ranges == (DeletionVectorRange("data-0.parquet", offset=1, length=24, cardinality=2),)
    assert data64 == JAVA_64
    assert ranges64 == (DeletionVectorRange("data-0.parquet", offset=1, length=80, cardinality=20),)


def test_the_length_of_a_64_bit_vector_counts_its_frame() -> None:
    data, (first, second) = write_index_file({"a": vector(3), "b": vector(2**33, 2**33 + 1)}, bitmap64=True)

    assert (first.offset, first.length) == (1, second.offset - 1)
    assert second.offset + second.length == len(data)
    assert data[5:9].hex() == "d1d33964"
    assert read_entry(data, second.offset, second.length, where="index-0") == vector(2**33, 2**33 + 1)


def test_one_vector_from_a_part_of_the_file() -> None:
    data, (_, second) = write_index_file({"a": vector(3), "b": vector(4)})
    part = data[second.offset : second.offset + compute_entry_span(second.length)]

    assert read_entry(part, second.offset, second.length, where="index-0", base=second.offset) == vector(4)


positions = st.one_of(
    st.lists(st.integers(0, 200_000), max_size=60),
    st.lists(st.integers(0, 2**31 - 1), max_size=20),
    st.builds(
        lambda starts, size, step: [p for start in starts for p in range(start, start + size, step)],
        st.lists(st.integers(0, 400_000), min_size=1, max_size=6),
        st.integers(1, 30_000),
        st.sampled_from([1, 1, 2, 3, 16]),
    ),
)
far = st.lists(st.integers(0, 2**40 - 1), max_size=20)


@given(positions)
def test_bytes_are_those_of_roaring(dead: list[int]) -> None:
    bitmap = BitMap(dead)
    plain = bytes.fromhex("5e43f2d0") + bitmap.serialize()
    bitmap.run_optimize()
    optimized = bytes.fromhex("5e43f2d0") + bitmap.serialize()
    expected = DeletionVector.from_positions(np.array(dead, np.int64))

    assert encode_vector(expected) == optimized
    assert decode_vector(plain, where="t") == decode_vector(optimized, where="t") == expected
    assert expected.positions().tolist() == sorted(set(dead))


@given(st.one_of(positions, far))
def test_64_bit_bytes_are_those_of_roaring(dead: list[int]) -> None:
    bitmap = BitMap64(dead)
    bitmap.run_optimize()
    expected = DeletionVector.from_positions(np.array(dead, np.int64))

    assert encode_vector(expected, bitmap64=True) == bytes.fromhex("d1d33964") + bitmap.serialize()
    assert decode_vector(encode_vector(expected, bitmap64=True), where="t") == expected
    assert expected.positions().tolist() == sorted(set(dead))


@pytest.mark.parametrize("rate", [0.0001, 0.03, 0.5, 0.9999])
@pytest.mark.parametrize("bitmap64", [False, True])
def test_a_million_rows_of_any_density(rate: float, bitmap64: bool) -> None:
    mask = np.random.default_rng(7).random(1_000_003) < rate

    dead = decode_vector(
        encode_vector(DeletionVector.from_mask(mask), bitmap64=bitmap64), where="t", row_count=mask.size
    )

    assert np.array_equal(dead.dead(mask.size), mask)
    assert np.array_equal(dead.positions(), np.flatnonzero(mask))


@pytest.mark.parametrize("keys", [[0], [32767], [0, 1, 5], [3, 4, 9, 10]])
def test_run_containers_with_and_without_offsets(keys: list[int]) -> None:
    dead = DeletionVector.from_positions(np.concatenate([np.arange(100, 65000) + key * 65536 for key in keys]))

    assert len(encode_vector(EMPTY)) < len(encode_vector(dead)) < 100
    assert decode_vector(encode_vector(dead), where="t") == dead


def test_a_position_beyond_the_file_is_corrupt() -> None:
    payload = encode_vector(vector(1, 10))

    with pytest.raises(CorruptFile, match=r"index-0: row 10 is marked deleted in a data file of 10 rows"):
        decode_vector(payload, where="index-0", row_count=10)
    with pytest.raises(CorruptFile, match="row 10 is marked deleted"):
        decode_vector(payload, where="index-0").live(10)
    assert decode_vector(payload, where="index-0", row_count=11).cardinality == 2


def test_another_cardinality_than_the_manifest_says_is_corrupt() -> None:
    with pytest.raises(CorruptFile, match="2 rows are marked deleted, the index manifest says 3"):
        decode_vector(encode_vector(vector(1, 2)), where="index-0", expected_cardinality=3)


def test_a_few_bytes_cannot_ask_for_gigabytes() -> None:
    beyond = bytes.fromhex("d1d33964") + BitMap64([2**62]).serialize()
    many = bytes.fromhex("5e43f2d0") + (12346).to_bytes(4, "little") + (2**32 - 1).to_bytes(4, "little")
    count = bytes.fromhex("d1d33964") + (2**63).to_bytes(8, "little")

    for payload in (beyond, many, count, encode_vector(vector(2**31 - 1))):
        with pytest.raises(CorruptFile):
            decode_vector(payload, where="index-0", row_count=1000)
    with pytest.raises(CorruptFile):
        decode_vector(beyond, where="index-0")


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (lambda b: b[:1] + b[1:5][::-1] + b[5:], "its size field says"),
        (lambda b: b[:5] + b"\0\0\0\0" + b[9:29] + zlib.crc32(b"\0\0\0\0" + b[9:29]).to_bytes(4, "big"), "begins with"),
        (lambda b: b[:20] + bytes([b[20] ^ 1]) + b[21:], "its CRC32 is"),
        (lambda b: b[:-1] + bytes([b[-1] ^ 1]), "its CRC32 is"),
        (lambda b: b[:-1], "do not lie within"),
        (lambda b: b[:6], "does not lie within"),
        (lambda b: b[:0], "is empty"),
    ],
)
def test_damage_is_found(damage, problem: str) -> None:  # type: ignore[no-untyped-def]  # lambdas of bytes
    with pytest.raises(CorruptFile, match=problem) as error:
        read_entry(damage(JAVA_32), 1, 24, where="index-0")
    assert error.value.path.startswith("index-0")


def test_a_range_outside_the_file_is_corrupt() -> None:
    for offset, length in ((0, 24), (-5, 24), (2, 24), (1, 23), (1, -1), (10**9, 24)):
        with pytest.raises(CorruptFile, match=f"deletion vector at byte {offset}"):
            read_entry(JAVA_32, offset, length, where="index-0")


def test_an_unknown_version_is_not_guessed_at() -> None:
    with pytest.raises(Unsupported, match="version 2 of deletion vector index files"):
        read_entry(b"\x02" + JAVA_32[1:], 1, 24, where="index-0")


@given(st.binary(max_size=80))
@settings(max_examples=settings().max_examples * 2)
def test_any_bytes_decode_or_are_corrupt(bitmap: bytes) -> None:
    for magic in ("5e43f2d0", "d1d33964", ""):
        with suppress(CorruptFile):
            assert decode_vector(bytes.fromhex(magic) + bitmap, where="t", row_count=10**6).live(10**6).size == 10**6


@given(positions.filter(bool), st.data())
@settings(max_examples=settings().max_examples * 2)
def test_a_changed_byte_decodes_to_valid_positions_or_is_corrupt(dead: list[int], data: st.DataObject) -> None:
    payload = bytearray(encode_vector(DeletionVector.from_positions(np.array(dead, np.int64))))
    at = data.draw(st.integers(4, len(payload) - 1))
    payload[at] ^= data.draw(st.integers(1, 255))
    rows = max(dead) + 1
    try:
        changed = decode_vector(bytes(payload), where="t", row_count=rows)
    except CorruptFile:
        return
    assert changed.cardinality == changed.positions().size
    if rows <= 1_000_000:  # a mask of two billion rows takes seconds to build
        assert changed.dead(rows).sum() == changed.cardinality


def test_positions_that_need_64_bits() -> None:
    with pytest.raises(InvalidArgument, match=r"position 2147483648 needs .* deletion-vectors.bitmap64 = true"):
        encode_vector(vector(2**31))


def deletion_vector_files(root: Path) -> Iterator[tuple[Path, list[DeletionVectorRange]]]:
    """Yield the deletion vector index files of the golden tables with their ranges in the index manifests."""
    for manifest in root.rglob("index-manifest-*"):
        with manifest.open("rb") as stream:
            for entry in fastavro.reader(stream):
                assert isinstance(entry, dict)
                path = next(manifest.parents[1].rglob(entry["_FILE_NAME"]), None)
                if entry["_INDEX_TYPE"] == "DELETION_VECTORS" and path:
                    ranges = entry["_DELETIONS_VECTORS_RANGES"]
                    yield path, [DeletionVectorRange(r["f0"], r["f1"], r["f2"], r.get("_CARDINALITY")) for r in ranges]


@pytest.mark.golden
def test_every_file_that_java_wrote_is_written_again_byte_for_byte(golden_root: Path) -> None:
    seen = {False: 0, True: 0}
    for path, ranges in deletion_vector_files(golden_root):
        data = path.read_bytes()
        bitmap64 = data[5:9].hex() == "d1d33964"
        vectors = {
            at.file_name: read_entry(data, at.offset, at.length, where=path.name, expected_cardinality=at.cardinality)
            for at in ranges
        }
        written, written_ranges = write_index_file(vectors, bitmap64)

        assert written == data, path
        assert [at[:3] for at in written_ranges] == [at[:3] for at in ranges]
        seen[bitmap64] += 1
    assert seen[False] > 100 and seen[True] > 10
