"""The kinds of work that tasks do, and the modules that do them.

A module in `HOMES` has a mapping `WORKS` from its kinds to functions of the part that all tasks of a job share and the
record batches of one task. It is imported where a task runs; this module imports little, as `tasks`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import pyarrow as pa

Run: TypeAlias = "Callable[[Any, Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]"
"""From what the tasks of a job share and the batches of one task to its results."""


class Work(StrEnum):
    """A kind of work: its input, and its output."""

    SCAN = "scan"
    """Sections of a plan: their rows."""
    MERGE = "merge"
    """Sections of a plan: the rows of keys whose versions are combined."""
    MASKS = "masks"
    """Sections of a plan: for each file, the live rows as they are stored."""
    ENTRIES = "entries"
    """Manifests: their entries, as a plan needs them."""
    PLACES = "places"
    """Sections of a plan: their rows, with the bucket of each, and its file and position where it lies in one place."""
    CHANGES = "changes"
    """Changes between snapshots: their rows."""
    WRITE = "write"
    """Rows of a DataFrame: the messages of the files written."""
    NUMBER = "number"
    """Rows of a DataFrame: the same rows, with the task that writes each."""
    VERSIONS = "versions"
    """Changed rows and those before: the rows to write, so that the merge engine makes of them what was said."""
    COMPACT = "compact"
    """Units of a compaction: the messages of the files written."""
    SPLIT = "split"
    """Files of a partition to be sorted: their rows, split by range."""
    SORT = "sort"
    """Rows split by range: the messages of the files written."""
    LIST = "list"
    """Folders: hashes of the names in them."""
    FIND = "find"
    """Folders: the files whose names have given hashes."""
    READ_FOLDER = "read folder"
    """Files of a format table: their rows."""
    WRITE_FOLDER = "write folder"
    """Rows of a DataFrame: the files of a format table written."""


HOMES: Mapping[Work, str] = {
    Work.SCAN: "morrow.spark.reading.work",
    Work.MERGE: "morrow.spark.reading.work",
    Work.MASKS: "morrow.spark.reading.work",
    Work.PLACES: "morrow.spark.reading.work",
    Work.ENTRIES: "morrow.spark.reading.manifests",
    Work.CHANGES: "morrow.spark.source.work",
    Work.WRITE: "morrow.spark.writing.work",
    Work.NUMBER: "morrow.spark.writing.work",
    Work.VERSIONS: "morrow.spark.writing.version_work",
    Work.COMPACT: "morrow.spark.maintenance.compaction_work",
    Work.SPLIT: "morrow.spark.maintenance.sort_work",
    Work.SORT: "morrow.spark.maintenance.sort_work",
    Work.LIST: "morrow.spark.maintenance.listing_work",
    Work.FIND: "morrow.spark.maintenance.listing_work",
    Work.READ_FOLDER: "morrow.spark.format_tables.work",
    Work.WRITE_FOLDER: "morrow.spark.format_tables.work",
}


def runner(work: Work) -> Run:
    """Returns the function that does a kind of work."""
    run: Run = import_module(HOMES[work]).WORKS[work]
    return run
