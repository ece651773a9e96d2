"""Attempt logs that killed Spark drivers left in a table: ``.morrow-write-<job>/*``.

A running job adds to its attempt log with every file it writes, and stops when the log is gone (see
`morrow.writers.commit.attempt_log`). So a log is kept, with its oldest entries, as long as one of them is young. The
files that it names are not examined here: those that no commit names are orphans like others.
"""

from __future__ import annotations

from collections.abc import Iterator

from morrow.engine.io.confined import is_link
from morrow.engine.io.store import FileStatus
from morrow.engine.plan.metadata import TableMetadata
from morrow.writers.commit.attempt_log import PREFIX


def abandoned_attempt_logs(table: TableMetadata, before_millis: int) -> Iterator[tuple[str, list[FileStatus]]]:
    """Yields the folders of attempt logs last added to before this moment (epoch milliseconds), with their files."""
    for folder in table.store.list(table.root):
        if not folder.is_dir or not folder.name.startswith(PREFIX):
            continue
        path = f"{table.root}/{folder.name}"
        if is_link(table.store, path):
            continue
        entries = table.store.list(path)
        if all(entry.modified_millis < before_millis for entry in entries or [folder]):
            yield path, entries
