"""Wrong arguments to every public callable either work or raise a MorrowError."""

from __future__ import annotations

import datetime as dt
import inspect
import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pytest

import morrow
from morrow.engine.errors import ColumnNotFound, InvalidArgument, MorrowError

NONSENSE: dict[str, Any] = {
    "None": None,
    "5": 5,
    "-1": -1,
    "1.5": 1.5,
    "nan": float("nan"),
    "huge": 10**30,
    "-huge": -(10**30),
    "''": "",
    "x": "x",
    "long": "x" * 300,
    "half": "\udcff",
    "nul": "a\0b",
    "slash": "../x",
    "bytes": b"x",
    "[]": [],
    "[5]": [5],
    "twice": ["a", "a"],
    "()": (None,),
    "{}": {},
    "{5}": {5: 5},
    "set": {"a"},
    "object": object(),
    "function": lambda: 1,
    "type": int,
    "True": True,
    "date": dt.date(1, 1, 1),
    "ages": dt.timedelta.max,
    "time": dt.datetime.min,
}
ROWS = pl.DataFrame({"id": [1], "p": ["a"], "v": [1]}, schema={"id": pl.Int32, "p": pl.String, "v": pl.Int32})
RIGHT: dict[str, Any] = {
    "data": ROWS,
    "source": ROWS,
    "where": "id = 1",
    "filter": "id = 1",
    "set": {"v": "1"},
    "on": ["id"],
    "schema": "id INT",
    "column": "v",
    "options": {"a": "b"},
    "type": "INT",
    "messages": [],
    "batches": {},
    "timestamp": 0,
    "next_snapshot": 1,
    "branch": "b",
    "query": "SELECT 1",
    "partition": {"p": "a"},
    "to": 1,
}
"""Valid values for the other arguments."""
LONG = os.environ.get("HYPOTHESIS_PROFILE") == "long"
OTHERS = {"show_graph", "adapted", "narrowed", "sql", "stream"}
"""Callables that are not for users, or have tests of their own for wrong arguments."""


def made(folder: Path) -> tuple[morrow.Catalog, morrow.Table]:
    catalog = morrow.Catalog(folder)
    options = {"bucket": 1, "file.format": "avro"}
    table = catalog.create_table(
        "db.t", schema="id INT, p STRING, v INT", primary_keys=["id", "p"], partition_keys=["p"], options=options
    )
    table.upsert(ROWS)
    table.tags.create("v1")
    table.branches.create("b", tag="v1")
    return catalog, table


FACES: dict[str, Callable[[morrow.Catalog, morrow.Table], Any]] = {
    "catalog": lambda catalog, _: catalog,
    "table": lambda _, table: table,
    "scan": lambda _, table: table.scan(),
    "changes": lambda _, table: table.changes(),
    "system": lambda _, table: table.system("snapshots"),
    "tags": lambda _, table: table.tags,
    "branches": lambda _, table: table.branches,
    "alter": lambda _, table: table.alter,
    "writer": lambda _, table: table.writer(),
    "committer": lambda _, table: table.committer("u"),
    "consumers": lambda _, table: table.consumers,
    "duckdb": lambda *_: morrow.duckdb,
    "morrow": lambda *_: morrow,
}


def calls(face: object, chosen: list[str]) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Yield callables of a face by name, each with one wrong argument."""
    for name in getattr(face, "__all__", dir(face)):
        call = getattr(face, name)
        if (
            name.startswith("_")
            or name in OTHERS
            or not callable(call)
            or (inspect.isclass(call) and name != "Catalog")
        ):
            continue
        parameters = [p for p in inspect.signature(call).parameters.values() if p.kind != p.VAR_POSITIONAL]
        needed = [p for p in parameters if p.default is p.empty and p.kind != p.VAR_KEYWORD]
        for one in parameters:
            others = {p.name: RIGHT.get(p.name, "db.z") for p in needed if p is not one}
            for wrong in chosen:
                key = "some" if one.kind == one.VAR_KEYWORD else one.name
                yield name, {**others, key: NONSENSE[wrong]}, f"{name}({key}={wrong})"


def tried(face: object, name: str, arguments: dict[str, Any]) -> None:
    made = getattr(face, name)(**arguments)
    if name in ("scan", "changes", "system"):
        made.to_arrow()
    if inspect.isgenerator(made):
        list(itertools.islice(made, 2))


SOME = ("None", "5", "half", "[5]")
"""Wrong arguments for tables and catalogs, whose calls commit; `make test-long` tries all."""


@pytest.mark.parametrize("face", FACES)
def test_wrong_arguments(tmp_path: Path, face: str) -> None:
    numbers = itertools.count()
    catalog, table = made(tmp_path / "0")
    chosen = list(SOME if face in ("table", "catalog") and not LONG else NONSENSE)
    untyped = []
    for name, arguments, shown in calls(FACES[face](catalog, table), chosen):
        try:
            tried(FACES[face](catalog, table), name, arguments)
        except MorrowError as error:
            str(error).encode()
        except Exception as error:  # noqa: BLE001  # any other error is a finding
            untyped.append(f"{shown}: {error!r}")
        if not (Path(table.path, "schema/schema-0").exists() and len(table.schema) == 3):
            catalog, table = made(tmp_path / str(next(numbers) + 1))
    assert untyped == []


def test_rows_that_make_no_table(tmp_path: Path) -> None:
    _, table = made(tmp_path)
    mixed = pd.DataFrame({"id": [1, 2], "p": ["a", 1], "v": [1, 2]})
    for rows in (mixed, {"id": object()}, [{"id": object()}], [5], 5, None, "rows", "", {"id": [1, [2]]}, {5: [1]}):
        with pytest.raises(MorrowError):
            table.upsert(rows)


def test_macro_arguments_that_are_none() -> None:
    connection = morrow.duckdb.install(duckdb.connect())
    with pytest.raises(duckdb.Error, match="the path of paimon_scan is text"):
        connection.sql("FROM paimon_scan(NULL)").fetchall()


def test_what_is_said(tmp_path: Path) -> None:
    catalog, table = made(tmp_path)
    with pytest.raises(InvalidArgument, match="primary_keys is a name or a list of names, not 5"):
        catalog.create_table("db.u", schema="a INT", primary_keys=5)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="path is a folder or URL, as text or a path, not None"):
        morrow.open(None)  # type: ignore[arg-type]
    with pytest.raises(ColumnNotFound, match="there is no column 5; the columns are"):
        table.update({5: "1"})  # type: ignore[dict-item]
    with pytest.raises(InvalidArgument, match="properties is a mapping"):
        table.append(ROWS, properties=5)  # type: ignore[arg-type]
    assert catalog.create_table("db.v", schema="a INT", primary_keys=None).primary_keys == ()  # type: ignore[arg-type]
