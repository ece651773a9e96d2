"""Excerpts of Parquet files: the rows of their pages equal the rows of the whole file, whatever wrote it."""

from __future__ import annotations

import datetime as dt
import io
import random
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from morrow.engine.format.parquet_metadata import I64, decode_thrift, encode_thrift
from morrow.engine.io.local import LocalStore
from morrow.engine.io.store import FileStore
from morrow.readers.files import excerpts
from morrow.readers.files.excerpts import Excerpt, cut_excerpts
from morrow.readers.files.source import FileSource

ROWS = 300


class Remembered(dict[Hashable, Any]):
    def __call__(self, part: Hashable, make: Callable[[], tuple[Any, int]]) -> Any:
        if part not in self:
            self[part] = make()[0]
        return self[part]


class RemoteStore:
    """A store that counts requests; its files are on a local disk."""

    is_local = False

    def __init__(self) -> None:
        self.ranges: list[int] = []

    def read_range(self, path: str, start: int, length: int) -> bytes:
        self.ranges.append(length)
        return LocalStore().read_range(path, start, length)


def cut(
    path: Path, columns: list[str], places: list[int], store: FileStore | None = None, remember: Any = None
) -> list[list[Excerpt]] | None:
    source = FileSource(
        store or LocalStore(), str(path), path.stat().st_size, pq.read_metadata(path).num_rows, "parquet"
    )
    return cut_excerpts(source, columns, np.array(places), Remembered() if remember is None else remember)


def read(groups: list[list[Excerpt]], places: list[int]) -> dict[str, list[Any]]:
    """Return the columns of the excerpts at these places."""
    found: dict[str, list[Any]] = {}
    for each in (each for several in groups for each in several):
        table = pq.read_table(io.BytesIO(each.data))
        assert set(table.column_names) == each.columns
        assert table.num_rows == len(each.rows)
        mine = [int(np.searchsorted(each.rows, place)) for place in places if place in each.rows]
        for name in table.column_names:
            found.setdefault(name, []).extend(table[name].take(mine).to_pylist())
    return found


def make_rows(count: int = ROWS, seed: int = 1) -> pa.Table:
    """Return columns of all kinds, nested ones and nulls among them."""
    draw = random.Random(seed)
    day = dt.datetime(2024, 5, 14)

    def maybe(value: Any) -> Any:
        return None if draw.random() < 0.2 else value

    return pa.table(
        {
            "k": pa.array(range(count), pa.int64()),
            "n": pa.array([maybe(i % 7) for i in range(count)], pa.int32()),
            "x": pa.array([maybe(draw.random()) for _ in range(count)]),
            "s": pa.array([maybe("text" * draw.randrange(9) + str(i)) for i in range(count)]),
            "b": pa.array([maybe(draw.random() < 0.5) for _ in range(count)]),
            "d": pa.array([maybe(i) for i in range(count)], pa.decimal128(20, 2)),
            "t": pa.array([maybe(day + dt.timedelta(seconds=i)) for i in range(count)], pa.timestamp("us")),
            "l": pa.array([maybe([maybe(str(j)) for j in range(i % 5)]) for i in range(count)], pa.list_(pa.string())),
            "r": pa.array([maybe({"a": i, "t": maybe("é" * (i % 40))}) for i in range(count)]),
            "m": pa.array(
                [maybe([(j, maybe(i)) for j in range(i % 3)]) for i in range(count)], pa.map_(pa.int32(), pa.int64())
            ),
        }
    )


LAYOUTS: dict[str, dict[str, Any]] = {
    "plain": {"use_dictionary": False},
    "dictionary": {},
    "a dictionary that overflows": {"dictionary_pagesize_limit": 400},
    "differences": {"use_dictionary": False, "column_encoding": {"k": "DELTA_BINARY_PACKED", "s": "DELTA_BYTE_ARRAY"}},
    "pages of version 2": {"data_page_version": "2.0"},
    "an index": {"write_page_index": True},
    "an index and version 2": {"write_page_index": True, "data_page_version": "2.0"},
    "statistics": {"write_statistics": True, "write_page_checksum": True},
}
CODECS = ("none", "snappy", "gzip", "brotli", "zstd", "lz4")


CASES = [*zip(LAYOUTS, (*CODECS, *CODECS)), *(("pages of version 2", codec) for codec in CODECS)]


@pytest.mark.parametrize(("layout", "codec"), CASES)
def test_rows_of_pages_are_those_of_the_file(tmp_path: Path, layout: str, codec: str) -> None:
    path, table = tmp_path / "f.parquet", make_rows()
    pq.write_table(
        table, path, compression=codec, row_group_size=170, data_page_size=300, max_rows_per_page=20, **LAYOUTS[layout]
    )
    draw, remember = random.Random(f"{layout} {codec}"), Remembered()
    counted = "index" in layout or "2" in layout  # other pages of lists do not count rows
    for count in (1, 1, 2, 5, 40):
        places = sorted(draw.sample(range(ROWS), count))
        among = table.column_names if counted else [name for name in table.column_names if name not in ("l", "m")]
        names = draw.sample(among, draw.randrange(1, len(among)))
        found = cut(path, names, places, remember=remember)
        assert found is not None
        assert read(found, places) == table.select(names).take(places).to_pydict()


def test_an_excerpt_has_the_pages_of_the_rows(tmp_path: Path) -> None:
    """The columns of one page share an excerpt; the pages of lists have counts of rows in an index."""
    path, table = tmp_path / "f.parquet", make_rows()
    pq.write_table(table, path, max_rows_per_page=20, write_batch_size=20, write_page_index=True)

    ((one,),) = cut(path, table.column_names, [41]) or [[]]
    ((two,),) = cut(path, table.column_names, [41, 299]) or [[]]

    assert one.rows.tolist() == list(range(40, 60))
    assert two.rows.tolist() == [*range(40, 60), *range(280, 300)]


@given(st.data())
def test_random_pages(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    path = tmp_path_factory.mktemp("pages") / "f.parquet"
    table = make_rows(data.draw(st.integers(1, 60)), data.draw(st.integers(0, 99)))
    pq.write_table(
        table,
        path,
        row_group_size=data.draw(st.integers(1, 60)),
        data_page_size=data.draw(st.integers(1, 400)),
        max_rows_per_page=data.draw(st.integers(1, 30)),
        write_batch_size=data.draw(st.integers(1, 30)),
        dictionary_pagesize_limit=data.draw(st.integers(1, 500)),
        use_dictionary=data.draw(st.booleans()),
        data_page_version=data.draw(st.sampled_from(("1.0", "2.0"))),
        write_page_index=data.draw(st.booleans()),
        compression=data.draw(st.sampled_from(CODECS)),
    )
    places = sorted(data.draw(st.sets(st.integers(0, table.num_rows - 1), min_size=1)))
    names = data.draw(st.lists(st.sampled_from(table.column_names), unique=True, min_size=1))

    found = cut(path, names, places)

    assert found is not None or {"l", "m"} & {*names}
    assert found is None or read(found, places) == table.select(names).take(places).to_pydict()


def test_golden_files_in_pages(golden_root: Path) -> None:
    """Java's files have an offset index. Files in the LZ4 of Hadoop are left to others."""
    paths = [path for path in sorted((golden_root / "public").rglob("data-*.parquet")) if "lz4" not in str(path)][::40]
    assert len(paths) > 20
    for path in paths:
        whole = pq.read_table(path, partitioning=None)
        places = sorted({0, whole.num_rows // 2, whole.num_rows - 1})
        assert repr(read(cut(path, whole.column_names, places) or [], places)) == repr(whole.take(places).to_pydict())


def test_pages_of_a_remote_file_take_three_rounds_of_requests(tmp_path: Path) -> None:
    """The footer, the indexes, the pages; without an index the file is left to others."""
    path, table = tmp_path / "f.parquet", make_rows(5_000).select(["k", "x", "s"])
    pq.write_table(table, path, max_rows_per_page=100, write_page_index=True, use_dictionary=False)
    store, remember = RemoteStore(), Remembered()

    found = cut(path, ["x", "s"], [4321], store, remember)  # type: ignore[arg-type]  # only reads of ranges are used

    assert read(found or [], [4321]) == table.select(["x", "s"]).slice(4321, 1).to_pydict()
    assert len(store.ranges) == 1 + 2 + 2
    cut(path, ["x", "s"], [17], store, remember)  # type: ignore[arg-type]
    assert len(store.ranges) == 5 + 2

    pq.write_table(table, path)
    assert cut(path, ["x"], [17], store) is None  # type: ignore[arg-type]


@pytest.mark.parametrize("part", ["a page header", "a body", "the index", "the footer"])
def test_a_damaged_file_is_left_to_others(tmp_path: Path, part: str) -> None:
    path, table = tmp_path / "f.parquet", make_rows().select(["x"])
    pq.write_table(table, path, write_page_index=True, use_dictionary=False, compression="zstd", write_statistics=False)
    column = pq.read_metadata(path).row_group(0).column(0)
    length = path.stat().st_size
    end = column.data_page_offset + column.total_compressed_size
    data = bytearray(path.read_bytes())
    foot = length - 8 - int.from_bytes(data[-8:-4], "little")
    frame = data.index(b"\x28\xb5\x2f\xfd")
    starts = {"a page header": column.data_page_offset, "a body": frame, "the index": end, "the footer": foot}
    start = starts[part]
    data[start : start + 9] = b"\xff" * 9
    path.write_bytes(data)
    source = FileSource(LocalStore(), str(path), length, ROWS, "parquet")

    assert cut_excerpts(source, ["x"], np.array([7]), Remembered()) is None


@pytest.mark.parametrize("column", ["k", "l"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_an_index_with_other_rows_than_its_pages_is_not_used(tmp_path: Path, column: str, version: str) -> None:
    """The first row of the third page is one too high. The rows of lists are counted by their repetition levels."""
    path, table = tmp_path / "f.parquet", make_rows()
    form = {"write_page_index": True, "data_page_version": version}
    pq.write_table(table.select([column]), path, max_rows_per_page=20, write_batch_size=20, **form)
    data = bytearray(path.read_bytes())
    footer = decode_thrift(bytes(data[-8 - int.from_bytes(data[-8:-4], "little") : -8]))
    chunk = footer[4][1][0][1][1][0]
    start, length = chunk[4][1], chunk[5][1]
    index = decode_thrift(bytes(data[start : start + length]))
    index[1][1][2][3] = (I64, 41)
    data[start : start + length] = encode_thrift(index)
    path.write_bytes(data)

    assert [cut(path, [column], [place]) is None for place in (5, 25, 45, 65)] == [False, True, True, False]


def test_files_that_are_not_suited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A column that the file lacks, another row count, a long footer, and pages beyond the limit."""
    path = tmp_path / "f.parquet"
    pq.write_table(make_rows(), path)
    assert cut(path, ["absent"], [1]) is None
    source = FileSource(LocalStore(), str(path), path.stat().st_size, ROWS + 1, "parquet")
    assert cut_excerpts(source, ["k"], np.array([1]), Remembered()) is None
    assert cut(path, ["k"], [1]) is not None
    monkeypatch.setattr(excerpts, "MAX_LOCAL_BYTES", 100)
    assert cut(path, ["k"], [1]) is None
    monkeypatch.undo()
    monkeypatch.setattr(excerpts, "MAX_FOOTER_BYTES", 100)
    assert cut(path, ["k"], [1]) is None
