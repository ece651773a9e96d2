"""Format tables of a catalog on the command line: commands that read rows accept them, others refuse them by name."""

from __future__ import annotations

from pathlib import Path

import polars as pl

import morrow
from tests.cli.conftest import Run
from tests.support.rest_server import rest_server


def test_their_rows_are_read(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "files"
    (folder / "day=2024-02-29").mkdir(parents=True)
    pl.DataFrame({"id": [1, 2], "v": ["a", None]}).write_parquet(folder / "day=2024-02-29" / "part-0")
    with rest_server(tmp_path / "rest") as server:
        options = {"metastore": "rest", "uri": server.url, "token.provider": "bear", "token": "x"}
        morrow.open_catalog(options).create_table("db.t", "id BIGINT, v STRING, day DATE", partition_keys="day")
        stored = server.databases["db"]["t"]
        stored.files, stored.options = str(folder), {"type": "format-table", "file.format": "parquet"}
        told = [word for key, value in options.items() for word in ("--catalog", f"{key}={value}")]

        assert run(*told, "count", "db.t", "--where", "id > 1").lines == ["1"]
        assert run(*told, "head", "db.t", "-f", "csv").lines == ["id,v,day", "1,a,2024-02-29", "2,,2024-02-29"]
        for refused in (["count", "db.t", "--snapshot", "1"], ["describe", "db.t"], ["count", "db.t$snapshots"]):
            done = run(*told, *refused)
            assert (done.code, done.lines) == (1, [])
            assert "Catalog.format_table and object_table open some" in done.err
