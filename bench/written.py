"""Uncompacted tables of real writers: a base and updates by Morrow or pypaimon."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

import polars as pl

import morrow
from bench import data, peers

OPTIONS = {"bucket": "1", "write-only": "true"}


def by_morrow(warehouse: Path, commits: Iterable[pl.DataFrame]) -> None:
    table = _created(warehouse)
    for rows in commits:
        table.upsert(rows)


def by_pypaimon(warehouse: Path, commits: Iterable[pl.DataFrame]) -> None:
    _created(warehouse)
    peers.install("pypaimon")
    writer = peers.Peer("pypaimon")
    with tempfile.TemporaryDirectory() as folder:
        for rows in commits:
            source = Path(folder, "rows.arrow")
            rows.write_ipc(source)
            writer.write(str(warehouse), "db.t", str(source))
    writer.close()


def _created(warehouse: Path) -> morrow.Table:
    catalog = morrow.Catalog(warehouse)
    return catalog.create_table(
        "db.t", schema=data.fields(data.BIGINT_KEY), primary_keys=list(data.BIGINT_KEY), options=OPTIONS
    )


WRITERS: dict[str, Callable[[Path, Iterable[pl.DataFrame]], None]] = {
    "by_morrow": by_morrow,
    "by_pypaimon": by_pypaimon,
}
"""Name of the table -> the function that writes the rows of each commit."""
