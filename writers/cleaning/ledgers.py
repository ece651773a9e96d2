"""Ledgers that killed drivers of Spark left in a table: ``.morrow-write-<job>/*``, see `morrow.writers.spark.ledger`.

A job that goes on adds to its ledger with every file it makes, and stops when it does not find it any more. So a
ledger is left alone, with its oldest entries, as long as one of them is young. The files that it names are not looked
at: those that no commit has taken are orphans like others.
"""

from __future__ import annotations

from collections.abc import Iterator

from morrow.engine.io.store import FileStatus
from morrow.engine.plan.metadata import TableMetadata
from morrow.writers.spark.ledger import PREFIX


def abandoned_ledgers(table: TableMetadata, before_millis: int) -> Iterator[tuple[str, list[FileStatus]]]:
    """The folders of ledgers last added to before this moment (epoch milliseconds), with the files in them."""
    for folder in table.store.list(table.root):
        if not folder.is_dir or not folder.name.startswith(PREFIX):
            continue
        path = f"{table.root}/{folder.name}"
        entries = table.store.list(path)
        if all(entry.modified_millis < before_millis for entry in entries or [folder]):
            yield path, entries
