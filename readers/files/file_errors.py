"""Adds the file's name to errors of queries over many files: Polars reports the error, but not always the file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from copy import copy

from morrow.engine.errors import CorruptFile, MorrowError, StorageError, Unsupported
from morrow.engine.format.types import DataField
from morrow.engine.io.store import FileStore
from morrow.engine.plan.in_flight import in_flight
from morrow.engine.plan.scan_plan import ScanPlan, Section
from morrow.readers.files import reading
from morrow.readers.files.file_frames import file_frame
from morrow.readers.files.streaming import batches


@contextmanager
def reading_files(
    plan: ScanPlan, sections: Sequence[Section], fields: Sequence[DataField], store: FileStore
) -> Iterator[None]:
    """Wraps a query over `sections` in `reading`, and names the corrupt file.

    Files are read one by one only after a failure, until one fails alone.

    Raises:
        CorruptFile, FileMissing, Unsupported, StorageError: as `reading` does, of the file where it is found.
        SnapshotExpired: a file is missing, because the plan's snapshot has been removed meanwhile.
    """
    paths = {file.path for section in sections for file in section.files}
    with in_flight(plan, store):
        try:
            with reading(plan.table):
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


def reading_sections(plan: ScanPlan, sections: Sequence[Section], store: FileStore) -> AbstractContextManager[None]:
    """Wraps a query over the columns that the plan reads of `sections`; see `reading_files`."""
    return reading_files(plan, sections, tuple(plan.schema.by_name[name] for name in plan.read_columns), store)


def _open_each(paths: Iterable[str], store: FileStore) -> None:
    """Raises the store's error for the first file that cannot be opened."""
    for path in sorted(paths):
        store.open(path).close()


def fail_alone(plan: ScanPlan, sections: Sequence[Section], fields: Sequence[DataField], store: FileStore) -> None:
    """Reads files one by one. Raises the error of the first that cannot be read."""
    for section in sections:
        for file in section.files:
            with reading(file.path):
                try:
                    frame = file_frame(plan, section, [file], fields, store)
                    for _ in batches(frame):
                        pass
                except MorrowError as error:
                    # Errors of an evolution's cast or of a decoder about a value do not name the file either.
                    if file.path in str(error):
                        raise
                    if isinstance(error, CorruptFile):
                        raise CorruptFile(file.path, str(error)) from error
                    told = copy(error)
                    told.args = (f"{file.path}: {str(error).removeprefix(f'{plan.table}: ')}", *error.args[1:])
                    raise told from error
