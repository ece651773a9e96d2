"""Blob files: records with magic number, length and checksum, and the index of their lengths."""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from morrow.engine.errors import CorruptFile, MorrowError, Unsupported
from morrow.engine.format import types as t
from morrow.engine.io.local import LocalStore
from morrow.readers.files import FileSource, scan, verify
from morrow.readers.files.formats import blob
from tests.support.data_files import BLOB_MAGIC, blob_file

PICTURE = t.DataField(2, "picture", t.BlobType())


def source(path: Path, data: bytes, rows: int = -1) -> FileSource:
    path.write_bytes(data)
    return FileSource(LocalStore(), str(path), len(data), rows, "blob")


@given(st.lists(st.none() | st.binary(max_size=300)), st.sampled_from([1, 100, 1 << 26]), st.sampled_from([0, 8]))
def test_values_come_back(
    tmp_path_factory: pytest.TempPathFactory, values: list[bytes | None], chunk: int, unchecked: int
) -> None:
    file = source(tmp_path_factory.mktemp("blob") / "f.blob", blob_file(values, unchecked=unchecked), len(values))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blob, "CHUNK_BYTES", chunk)
        frame = scan([file], [PICTURE], position="at").collect()

    assert frame["picture"].to_list() == values
    assert frame["at"].to_list() == list(range(len(values)))
    verify(file, rows=True)


@pytest.mark.parametrize(("unchecked", "is_sound"), [(0, True), (8, True), (1, False), (9, False)])
def test_checksums_of_pypaimon_before_2_1_leave_out_the_length(tmp_path: Path, unchecked: int, is_sound: bool) -> None:
    values = [b"one", None, b""]
    read = scan([source(tmp_path / "f.blob", blob_file(values, unchecked=unchecked))], [PICTURE])
    if is_sound:
        assert read.collect()["picture"].to_list() == values
    else:
        with pytest.raises(CorruptFile, match="checksum"):
            read.collect()


def test_the_layout_byte_by_byte(tmp_path: Path) -> None:
    record = BLOB_MAGIC + b"ab" + bytes.fromhex("1200000000000000")  # 4 + 2 + 8 + 4 = 18 = 0x12 bytes
    record += zlib.crc32(record).to_bytes(4, "little")
    index = bytes.fromhex("24 25")  # zigzag of 18, and of -1 - 18
    data = record + index + bytes.fromhex("02000000 01")

    assert scan([source(tmp_path / "f.blob", data)], [PICTURE]).collect()["picture"].to_list() == [b"ab", None]


@pytest.mark.parametrize(
    ("place", "problem"),
    [(0, "magic"), (5, "checksum"), (8, "another length"), (19, "magic"), (-7, "index"), (-5, "index")],
)
def test_a_changed_byte(tmp_path: Path, place: int, problem: str) -> None:
    data = bytearray(blob_file([b"abc", b"d"]))
    data[place] ^= 0x10

    with pytest.raises(CorruptFile, match=problem):
        scan([source(tmp_path / "f.blob", bytes(data))], [PICTURE]).collect()


@given(st.data())
def test_damage_raises_nothing_but_morrow_errors(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    damaged = bytearray(blob_file([b"abc", None, b"d" * 200]))
    damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    kept = data.draw(st.integers(0, len(damaged)))
    try:
        scan([source(tmp_path_factory.mktemp("blob") / "f.blob", bytes(damaged[:kept]))], [PICTURE]).collect()
    except MorrowError as error:
        assert "f.blob" in str(error)


def test_other_versions_and_columns_are_unsupported(tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match="version 2"):
        scan([source(tmp_path / "a.blob", blob_file([], version=2))], [PICTURE]).collect()
    with pytest.raises(Unsupported, match="one BLOB column"):
        scan([source(tmp_path / "c.blob", blob_file([]))], [t.DataField(0, "id", t.IntType())]).collect()
