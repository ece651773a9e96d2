"""Streams of batches from Polars queries, checked for completeness, and errors that name the file.

If Polars panics, its streams end early without an error. So a sentinel row is appended: a stream that ends without
it has lost rows. Polars reports errors of queries over many files, but not always the file: the query is repeated
file by file to find it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from copy import copy

import polars as pl

from morrow.engine.errors import CorruptFile, MorrowError, StorageError, Unsupported
from morrow.engine.format.types import DataField
from morrow.engine.io.store import FileStore
from morrow.engine.names import find_free_name, reserve_name
from morrow.engine.plan.read_guards import guard_read
from morrow.engine.plan.scan_plan import ScanPlan, Section
from morrow.engine.polars_threads import is_in_source
from morrow.engine.polars_versions import STREAMS_IN_SOURCES
from morrow.readers.files import translate_errors
from morrow.readers.files.file_frames import scan_files

END = reserve_name("end")
MAX_FRAMES_AT_ONCE = 128
"""Maximum frames (of one file each) collected together. Polars opens all of their files with a thread per file, and
warns of a deadlock at 512 threads."""


def collect_frames(frames: Sequence[pl.LazyFrame], *, stream: bool = False) -> list[pl.DataFrame]:
    """Return the rows of each frame like `pl.collect_all`, but limit how many files are open at once.

    `stream`: by Polars' streaming engine.
    """
    starts = range(0, len(frames), MAX_FRAMES_AT_ONCE)
    groups = [frames[i : i + MAX_FRAMES_AT_ONCE] for i in starts]
    return [found for some in groups for found in pl.collect_all(some, engine="streaming" if stream else "auto")]


def collect_batches(frame: pl.LazyFrame, rows: int | None = None) -> Iterator[pl.DataFrame]:
    """Yield the rows of `frame` in their order, at most `rows` at a time, by Polars' streaming engine.

    Raises (while iterating):
        pl.exceptions.ComputeError: the stream ended early. Any other error that Polars raises.
    """
    if is_in_source() and not STREAMS_IN_SOURCES:
        whole_frame = frame.collect()
        yield from whole_frame.iter_slices(rows or max(whole_frame.height, 1)) if whole_frame.height else ()
        return
    end = find_free_name(END, frame.collect_schema().names())  # frames of users may have columns of any name
    marked = frame.with_columns(pl.lit(False).alias(end))
    whole = pl.concat([marked, pl.LazyFrame({end: [True]})], how="diagonal")
    complete = False
    for batch in whole.collect_batches(chunk_size=rows, maintain_order=True, lazy=True, engine="streaming"):
        complete = bool(batch.drop_in_place(end)[-1])  # `drop` is a query of its own
        found = batch[:-1] if complete else batch
        if found.height:
            yield found
    if not complete:
        raise pl.exceptions.ComputeError("reading broke off (Polars panicked, and said where on standard error)")


@contextmanager
def translate_file_errors(
    plan: ScanPlan, sections: Sequence[Section], fields: Sequence[DataField], store: FileStore
) -> Iterator[None]:
    """Wrap a query over `sections` in `translate_errors`, and name the corrupt file.

    Files are read one by one only after a failure, until one fails alone.

    Raises:
        CorruptFile, FileMissing, Unsupported, StorageError: as `translate_errors`, naming the file if it is found.
        SnapshotExpired: a file is missing because the plan's snapshot was removed in the meantime.
    """
    paths = {file.path for section in sections for file in section.files}
    with guard_read(plan, store):
        try:
            with translate_errors(plan.table):
                yield
        except CorruptFile as error:
            if error.path not in paths:
                fail_alone(plan, sections, fields, store)
            raise
        except Unsupported as error:
            if str(error).startswith(f"{plan.table}: "):  # a value of one of the files; Polars drops `where`
                fail_alone(plan, sections, fields, store)
            raise
        except StorageError as error:
            if store.is_local and not any(path in str(error) for path in paths):
                _open_each(paths, store)
            raise


def translate_section_errors(
    plan: ScanPlan, sections: Sequence[Section], store: FileStore
) -> AbstractContextManager[None]:
    """Wrap a query over the columns that the plan reads of `sections`; see `translate_file_errors`."""
    return translate_file_errors(plan, sections, tuple(plan.schema.by_name[name] for name in plan.read_columns), store)


def _open_each(paths: Iterable[str], store: FileStore) -> None:
    """Raise the store's error for the first file that cannot be opened."""
    for path in sorted(paths):
        store.open(path).close()


def fail_alone(plan: ScanPlan, sections: Sequence[Section], fields: Sequence[DataField], store: FileStore) -> None:
    """Read files one by one. Raises the error of the first file that cannot be read."""
    for section in sections:
        for file in section.files:
            with translate_errors(file.path):
                try:
                    frame = scan_files(plan, section, [file], fields, store)
                    for _ in collect_batches(frame):
                        pass
                except MorrowError as error:
                    # Errors about a value, from a schema evolution's cast or a decoder, do not name the file either.
                    if file.path in str(error):
                        raise
                    if isinstance(error, CorruptFile):
                        raise CorruptFile(file.path, str(error)) from error
                    told = copy(error)
                    told.args = (f"{file.path}: {str(error).removeprefix(f'{plan.table}: ')}", *error.args[1:])
                    raise told from error
