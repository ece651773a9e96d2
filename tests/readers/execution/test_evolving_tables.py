"""Random data-evolution tables with blobs and vectors, as Java and the versions of pypaimon write them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import morrow
from morrow.engine.format import types as t
from tests.support.schema_file import Spelling
from tests.support.table_factory import TableFactory

OPTIONS = {"bucket": "-1", "row-tracking.enabled": "true", "data-evolution.enabled": "true"}
BLOBS = ("picture", "sound")
ELEMENTS = (t.FloatType(), t.DoubleType(), t.IntType())
Row = dict[str, object]


@dataclass(frozen=True)
class Part:
    """Some columns of rows, in one file."""

    first_row_id: int
    columns: tuple[str, ...]
    format: str
    commit_after: bool


@dataclass(frozen=True)
class EvolvingTable:
    """A table's columns, its rows as they are in the end, and its files in the order in which they are written."""

    fields: tuple[t.DataField, ...]
    rows: tuple[Row, ...]
    parts: tuple[tuple[Part, tuple[Row, ...]], ...]
    spelling: Spelling

    def write(self, path: Path) -> None:
        table = TableFactory(path, self.fields, options=OPTIONS, spelling=self.spelling)
        kinds = {f.name: f.arrow() for f in self.fields}
        for number, (part, rows) in enumerate(self.parts, start=1):
            schema = pa.schema([kinds[name] for name in part.columns])
            columns = pa.Table.from_pylist([{name: row[name] for name in part.columns} for row in rows], schema)
            table.write_columns(columns, part.first_row_id, sequence=number, format=part.format)
            if part.commit_after:
                table.commit()
        table.commit()


@st.composite
def evolving_tables(draw: st.DrawFn) -> EvolvingTable:
    vector = t.VectorType(element=draw(st.sampled_from(ELEMENTS)), length=draw(st.integers(1, 4)))
    kinds = {"id": t.BigIntType(), "v": vector, "s": t.VarCharType(), **dict.fromkeys(BLOBS, t.BlobType())}
    fields = tuple(t.DataField(at, name, kind) for at, (name, kind) in enumerate(kinds.items()))
    whole = st.integers(-100, 100)
    value = {
        "id": whole,
        "v": st.none() | st.lists(whole, min_size=vector.length, max_size=vector.length),
        "s": st.none() | st.text(max_size=3),
        **dict.fromkeys(BLOBS, st.none() | st.binary(max_size=9)),
    }
    row = st.fixed_dictionaries(value)
    rows: list[Row] = []
    parts: list[tuple[Part, tuple[Row, ...]]] = []
    formats = st.sampled_from(("parquet", "orc"))
    for batch in draw(st.lists(st.lists(row, min_size=1, max_size=3), min_size=1, max_size=3)):
        first = len(rows)
        rows += batch
        files = [(("id", "v", "s"), draw(formats)), *(((name,), "blob") for name in BLOBS)]
        parts += [
            (Part(first, columns, format, name == BLOBS[-1] and draw(st.booleans())), tuple(batch))
            for columns, format in files
            for name in columns[-1:]
        ]
        if changed := draw(st.sampled_from((None, "v", "s", *BLOBS))):
            batch = [old | {changed: draw(value[changed])} for old in batch]
            rows[first:] = batch
            format = "blob" if changed in BLOBS else draw(formats)
            parts.append((Part(first, (changed,), format, commit_after=True), tuple(batch)))
    return EvolvingTable(fields, tuple(rows), tuple(parts), draw(SPELLINGS))


SPELLINGS = st.builds(
    Spelling,
    type_texts=st.booleans(),
    unchecked_lengths=st.booleans(),
    uncounted_blobs=st.booleans(),
    fixed_lists=st.booleans(),
)


@given(table=evolving_tables())
@settings(max_examples=settings().max_examples // 5)
def test_rows_of_other_writers(tmp_path_factory: pytest.TempPathFactory, table: EvolvingTable) -> None:
    path = tmp_path_factory.mktemp("t")
    table.write(path)
    read = morrow.open(str(path))
    assert read.to_arrow().to_pylist() == list(table.rows)
    assert read.scan(columns=["sound", "v"], filter="picture IS NULL").to_arrow().to_pylist() == [
        {"sound": row["sound"], "v": row["v"]} for row in table.rows if row["picture"] is None
    ]
    assert read.count("v IS NOT NULL") == sum(row["v"] is not None for row in table.rows)
    assert [finding for finding in read.doctor(data=True).findings if finding.severity.value == "error"] == []
