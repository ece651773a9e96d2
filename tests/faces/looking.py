"""A table read through every interface ("face"), compared with DuckDB, Polars or pyarrow on the table's full rows."""

from __future__ import annotations

import datetime as dt
import pickle
import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads

import morrow
from morrow.engine.errors import InvalidArgument, MorrowError, Unsupported
from morrow.engine.names import cols
from morrow.tables.table import Table
from tests.faces.conditions import Condition, arrow, polars, sql
from tests.faces.tables import ROW_ID, RandomTable, make
from tests.support.hostile_names import NAMES as HOSTILE
from tests.support.hostile_names import quoted

CONDITIONS = 3
"""Number of conditions in each language for each table."""
NAMES = (*"abcdefg" * 6, *HOSTILE)
"""Names of columns; most are plain, since few tables could be written in every format otherwise."""

Lines = Counter[str]
"""The number of times that each row occurs, as text."""
Shown = pa.Table | int
Face = Callable[[Table, Sequence[str], Condition], Shown]


@contextmanager
def duck() -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a new connection with ``paimon_scan`` and the time zone UTC."""
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        morrow.duckdb.install(connection)
        yield connection


def _batches(table: Table, columns: Sequence[str], condition: Condition) -> Shown:
    scan = table.scan(columns, condition)
    return pa.Table.from_batches(list(scan.to_batches(batch_rows=3)), scan.schema)


def _paimon_scan(table: Table, columns: Sequence[str], condition: Condition) -> Shown:
    path = table.path.replace("'", "''")
    with duck() as connection:
        listed = ", ".join(map(quoted, columns))
        return connection.sql(f"SELECT {listed} FROM paimon_scan('{path}') WHERE {condition}").to_arrow_table()


def _relation(table: Table, columns: Sequence[str], condition: Condition) -> Shown:
    with duck() as connection:
        relation = table.scan().to_duckdb(connection).filter(str(condition))
        return relation.project(", ".join(map(quoted, columns))).to_arrow_table()


def _of_duckdb(table: Table, columns: Sequence[str], condition: Condition) -> Shown:
    with duck() as connection:
        listed = ", ".join(map(quoted, columns))
        connection.register("looked_at", table.dataset())
        return connection.sql(f"SELECT {listed} FROM looked_at WHERE {condition}").to_arrow_table()


def _dataset(table: Table, columns: Sequence[str], condition: Condition) -> Shown:
    return table.dataset().to_table(columns=list(columns), filter=condition)


def _head(table: Table, columns: Sequence[str], condition: Condition) -> Shown:
    """Read all rows with a limit that is one too high."""
    return table.scan(columns, condition, limit=table.scan(columns, condition).count() + 1).to_arrow()


def _splits(table: Table, columns: Sequence[str], condition: Condition) -> Shown:
    splits = [pickle.loads(pickle.dumps(split)) for split in table.scan(columns, condition).splits(5)]
    assert sum(split.count() for split in splits) == sum(split.to_polars().height for split in splits)
    return pa.concat_tables([table.scan(columns).schema.empty_table(), *(split.to_arrow() for split in splits)])


def _fragments(table: Table, columns: Sequence[str], condition: Condition) -> Shown:
    found = [each.to_table(columns=list(columns)) for each in table.dataset().get_fragments(condition)]
    return pa.concat_tables([table.scan(columns).schema.empty_table(), *found])


ANY: Mapping[str, Face] = {
    "to_arrow": lambda t, columns, c: t.scan(columns, c).to_arrow(),
    "to_polars": lambda t, columns, c: t.scan(columns, c).to_polars().height,
    "lazy": lambda t, columns, c: t.scan(columns, c).lazy().select(pl.len()).collect().item(),
    "to_batches": _batches,
    "count": lambda t, columns, c: t.scan(columns, c).count(),
    "limit": _head,
    "splits": _splits,
}
"""Faces that accept conditions in every language."""
OF_POLARS: Mapping[str, Face] = {
    "filter of lazy": lambda t, columns, c: t.scan().lazy().filter(c).select(cols(columns)).collect().height,
}
OF_SQL: Mapping[str, Face] = {"paimon_scan": _paimon_scan, "relation": _relation, "registered dataset": _of_duckdb}
OF_ARROW: Mapping[str, Face] = {"dataset": _dataset, "fragments": _fragments}


@dataclass(frozen=True)
class Wrong:
    """A face with a wrong result."""

    face: str
    condition: str
    columns: tuple[str, ...]
    told: str

    def __str__(self) -> str:
        return f"{self.face}({list(self.columns)}, {self.condition}): {self.told}"


@dataclass(frozen=True)
class Looked:
    """The results for one table."""

    kind: str
    """Its merge engine and file format, or "refused"."""
    looks: int
    wrong: tuple[Wrong, ...]


def look(seed: int, folder: Path) -> Looked:
    """Make a table from this seed in a folder, read it through all faces, and remove the folder."""
    chance = random.Random(seed)
    try:
        made = make(str(folder / "warehouse"), chance, NAMES)
    except (Unsupported, InvalidArgument):
        return Looked("refused", 0, ())
    looks = [result for number in range(CONDITIONS) for result in _looks(made, chance, folder / str(number))]
    kind = f"{made.engine or 'append'} in {made.table.options['file.format']}"
    shutil.rmtree(folder)
    return Looked(kind, len(looks), tuple(result for result in looks if result is not None))


def _looks(made: RandomTable, chance: random.Random, folder: Path) -> Iterator[Wrong | None]:
    """Yield each face's error for one random condition in each language, or None if it is right."""
    full = made.table.scan().to_arrow()
    columns = [*made.columns, *([made.partition] if made.partition else [])]
    chosen = tuple(chance.sample(full.column_names, chance.randrange(1, len(full.column_names) + 1)))
    condition: Condition = sql(columns, chance)
    expected = _asked_duckdb(full, str(condition))
    yield from _looked({**ANY, **OF_SQL}, made.table, full, chosen, condition, expected)
    if expected is not None and made.engine in (None, "deduplicate"):
        for name, change in CHANGES.items():
            yield _changed(name, change, made, full, str(condition), expected, folder / name)
    condition = polars(columns, chance)
    yield from _looked({**ANY, **OF_POLARS}, made.table, full, chosen, condition, _asked_polars(full, condition))
    condition = arrow(columns, chance)
    yield from _looked({**ANY, **OF_ARROW}, made.table, full, chosen, condition, _asked_arrow(full, condition))


Ids = list[int]


def _asked_duckdb(full: pa.Table, condition: str) -> Ids | None:
    """Return the row ids for which the condition is true in DuckDB, or None if DuckDB raises an error."""
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("full_rows", full)
        try:
            return [i for (i,) in connection.execute(f"SELECT {ROW_ID} FROM full_rows WHERE {condition}").fetchall()]
        except duckdb.Error:
            return None


def _asked_polars(full: pa.Table, condition: pl.Expr) -> Ids | None:
    try:
        return pl.DataFrame(pl.from_arrow(full)).filter(condition)[ROW_ID].to_list()
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException):
        return None


def _asked_arrow(full: pa.Table, condition: pc.Expression) -> Ids | None:
    try:
        return list(pads.dataset(full).to_table(columns=[ROW_ID], filter=condition)[ROW_ID].to_pylist())
    except (pa.ArrowException, NotImplementedError):
        return None


def _looked(
    faces: Mapping[str, Face],
    table: Table,
    full: pa.Table,
    columns: tuple[str, ...],
    condition: Condition,
    expected: Ids | None,
) -> Iterator[Wrong | None]:
    for name, face in faces.items():
        told = _told(face, table, full, columns, condition, expected)
        yield None if told is None else Wrong(name, str(condition), columns, told)


def _told(
    face: Face, table: Table, full: pa.Table, columns: tuple[str, ...], condition: Condition, expected: Ids | None
) -> str | None:
    """Return a description of the error in a face's result, or None if it is right."""
    try:
        shown = face(table, columns, condition)
    except MorrowError as error:
        return None if expected is None else f"{type(error).__name__}: {error}"
    except duckdb.OutOfRangeException:
        return None  # DuckDB tests the terms of its own filter in any order
    except (duckdb.Error, pl.exceptions.PolarsError) as error:
        return None if expected is None else f"an error of the engine: {type(error).__name__}: {error}"
    except BaseException as error:  # noqa: BLE001 - any untyped error is a finding
        return f"untyped: {type(error).__name__}: {error}"
    if expected is None:
        return None  # the face may have read only a part of the rows
    if isinstance(shown, int):
        return None if shown == len(expected) else f"{shown} rows, not {len(expected)}"
    want = lines(_rows(full, expected).select(list(columns)))
    got = lines(shown.select(list(columns)))
    return None if got == want else _difference(got, want)


def _changed(
    name: str, change: Change, made: RandomTable, full: pa.Table, condition: str, chosen: Ids, folder: Path
) -> Wrong | None:
    """Change the chosen rows of a copy of the table, and check its rows."""
    copy = shutil.copytree(made.table.path, folder / "db.db" / "t")
    try:
        rows = change(morrow.open(str(copy)), made.columns[0].name, condition)
    except Unsupported:
        return None
    except BaseException as error:  # noqa: BLE001 - any untyped error is a finding
        return Wrong(name, condition, (), f"{type(error).__name__}: {error}")
    want, got = lines(_expected(name, full, made.columns[0].name, chosen)), lines(rows)
    return None if want == got else Wrong(name, condition, (), _difference(got, want))


def _delete(table: Table, _: str, condition: str) -> pa.Table:
    table.delete(condition)
    return _seen(table)


def _update(table: Table, column: str, condition: str) -> pa.Table:
    table.update({column: None}, where=condition)
    return _seen(table)


def _seen(table: Table) -> pa.Table:
    """Read the rows; a table whose writers never compact is compacted first, so that the last write is visible."""
    if "write-only" in table.options:
        table.compact()
    return table.scan().to_arrow()


Change = Callable[[Table, str, str], pa.Table]
CHANGES: Mapping[str, Change] = {"delete": _delete, "update": _update}


def _expected(name: str, full: pa.Table, column: str, chosen: Ids) -> pa.Table:
    """Compute the expected rows after the change."""
    is_chosen = pc.is_in(full[ROW_ID], pa.array(chosen, full[ROW_ID].type))
    if name == "delete":
        return full.filter(pc.invert(is_chosen))
    at = full.column_names.index(column)
    kept = [None if gone else value for gone, value in zip(is_chosen.to_pylist(), full[column].to_pylist())]
    return full.set_column(at, full.schema.field(column), pa.array(kept, full.schema.field(column).type))


def _difference(got: Lines, want: Lines) -> str:
    return f"missing {list((want - got).elements())[:3]}, extra {list((got - want).elements())[:3]}"


def _rows(full: pa.Table, ids: Ids) -> pa.Table:
    return full.filter(pc.is_in(full[ROW_ID], pa.array(ids, full[ROW_ID].type)))


def lines(rows: pa.Table) -> Lines:
    """Return the rows by value, independent of their Arrow layout."""
    return Counter(repr([_plain(value) for value in row.values()]) for row in rows.to_pylist())


def _plain(value: Any) -> Any:
    """Convert a value to one with the same text for every engine."""
    if isinstance(value, (dt.date, dt.time)):  # datetimes and pandas' timestamps are instances of date, too
        return value.isoformat()
    if isinstance(value, dict):
        return {name: _plain(member) for name, member in value.items()}
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value
