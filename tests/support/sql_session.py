"""The SQL of the Paimon documentation, run unchanged: each INSERT is a commit, each SELECT a read by Morrow."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

import morrow
from tests.support.table_factory import TableFactory

CREATE = re.compile(
    r"CREATE TABLE (?P<name>\w+)\s*\((?P<columns>.*?),\s*PRIMARY KEY \((?P<key>[^)]*)\) NOT ENFORCED\s*\)"
    r"\s*WITH\s*\((?P<options>.*)\)",
    re.DOTALL,
)
COLUMN = re.compile(r"\s*(\w+)\s+(\w+)\s*")
OPTION = re.compile(r"'([^']*)'\s*=\s*'([^']*)'")
INSERT = re.compile(r"INSERT INTO (?P<name>\w+)\s*(?P<values>VALUES.*)", re.DOTALL)
SELECT = re.compile(r"SELECT \* FROM (?P<name>\w+)", re.DOTALL)
DELETE = re.compile(r"DELETE FROM (?P<name>\w+)\s*(?P<values>VALUES.*)", re.DOTALL)
COMMENT = re.compile(r"--[^\n]*")


class SqlSession:
    """A session that runs CREATE TABLE, INSERT and SELECT statements on tables below a folder.

    ``DELETE FROM t VALUES (...)`` (which is not SQL) writes the rows as -D.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tables: dict[str, TableFactory] = {}

    def run(self, script: str) -> list[list[tuple[Any, ...]]]:
        """Run the statements, and return the sorted rows of each SELECT."""
        statements = (re.sub(r"\s+", " ", s).strip() for s in COMMENT.sub("", script).split(";"))
        return [rows for statement in statements if statement for rows in self._statement(statement)]

    def _statement(self, statement: str) -> list[list[tuple[Any, ...]]]:
        if create := CREATE.fullmatch(statement):
            self._create(create)
        elif insert := INSERT.fullmatch(statement):
            self._write(insert, "+I")
        elif delete := DELETE.fullmatch(statement):
            self._write(delete, "-D")
        elif select := SELECT.fullmatch(statement):
            rows = morrow.open(self.tables[select["name"]].path).scan().to_arrow().to_pylist()
            return [sorted(tuple(row.values()) for row in rows)]
        else:
            raise AssertionError(f"no statement of this session: {statement}")
        return []

    def _create(self, create: re.Match[str]) -> None:
        columns = [COLUMN.fullmatch(column) for column in create["columns"].split(",")]
        fields = [(c[1], c[2].replace("VARCHAR", "STRING")) for c in columns if c is not None]
        assert len(fields) == len(columns), create["columns"]
        keys = [key.strip() for key in create["key"].split(",")]
        options = dict(OPTION.findall(create["options"]))
        self.tables[create["name"]] = TableFactory(
            self.folder / create["name"], fields, primary_keys=keys, options=options
        )

    def _write(self, match: re.Match[str], kind: str) -> None:
        table = self.tables[match["name"]]
        names = [f.name for f in table.columns]
        types = {f.name: re.sub("STRING", "VARCHAR", str(f.type.with_nullable(True))) for f in table.columns}
        casts = ", ".join(f"CAST({name} AS {types[name]}) AS {name}" for name in names)
        rows: pa.Table = duckdb.sql(
            f"SELECT {casts} FROM ({match['values']}) AS rows({', '.join(names)})"
        ).to_arrow_table()
        table.write_file(rows, kinds=[kind] * rows.num_rows)
        table.commit()
