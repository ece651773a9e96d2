"""Names with NUL, which end early in Arrow and file systems, or with half a character are always refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import morrow
from morrow.engine.errors import InvalidArgument, MorrowError, Unsupported

MADE: dict[str, Callable[[morrow.Catalog, morrow.Table, str], object]] = {
    "column": lambda catalog, _, name: catalog.create_table("d.n", f"`{name}` INT"),
    "member": lambda catalog, _, name: catalog.create_table("d.n", f"r ROW<`{name}` INT>"),
    "column of SQL": lambda catalog, _, name: catalog.sql(f'CREATE TABLE d.n ("{name}" INT)'),
    "added column": lambda _, table, name: table.alter.add_column(name, "INT"),
    "renamed column": lambda _, table, name: table.alter.rename_column("id", name),
    "table": lambda catalog, _, name: catalog.create_table(f"d.{name}", "id INT"),
    "renamed table": lambda catalog, _, name: catalog.rename_table("d.t", f"d.{name}"),
    "database": lambda catalog, _, name: catalog.create_database(name),
    "tag": lambda _, table, name: table.tags.create(name),
    "tag that is read": lambda _, table, name: table.scan(tag=name),
    "branch": lambda _, table, name: table.branches.create(name),
    "branch that is read": lambda _, table, name: table.scan(branch=name),
    "consumer": lambda _, table, name: table.stream(consumer_id=name),
    "option": lambda _, table, name: table.alter.set_options({name: "x"}),
    "value of an option": lambda _, table, name: table.alter.set_options({"owner": name}),
}


@pytest.mark.parametrize("name", ["a\0b", "a\ud800b"], ids=["NUL", "surrogate"])
@pytest.mark.parametrize("made", MADE)
def test_names_are_refused(tmp_path: Path, made: str, name: str) -> None:
    catalog = morrow.Catalog(tmp_path)
    table = catalog.create_table("d.t", "id INT")
    table.append([{"id": 1}])
    with pytest.raises(MorrowError):
        MADE[made](catalog, table, name)
    assert [str(each) for each in catalog.tables("d")] in (["t"], ["d.t"])
    assert table.scan().count() == 1


def test_a_table_of_another_engine_with_such_a_column_is_unsupported(tmp_path: Path) -> None:
    table = morrow.Catalog(tmp_path).create_table("d.t", "abc INT")
    schema = tmp_path / "d.db/t/schema/schema-0"
    schema.write_bytes(schema.read_bytes().replace(b"abc", rb"a\u0000c"))
    for use in (lambda: table.append([{"x": 1}]), lambda: morrow.open(table.path).scan().to_arrow()):
        with pytest.raises(Unsupported, match="NUL"):
            use()


def test_literals_of_arrow_filters_are_values_of_their_type(tmp_path: Path) -> None:
    table = morrow.Catalog(tmp_path).create_table("d.t", "s STRING, d DATE")
    latin = pa.Array.from_buffers(pa.string(), 1, pa.array([b"M\xf6lln"]).buffers())
    for filter in (pc.field("s") == latin[0], pc.field("s").isin(latin)):
        with pytest.raises(InvalidArgument, match="column 's' is not string"):
            table.to_arrow(filter=filter)
    far = pa.array([2**31 - 1], pa.int32()).cast(pa.date32())
    assert table.to_arrow(filter=pc.field("d") < far[0]).num_rows == 0
