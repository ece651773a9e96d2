"""Names the file when a query over many files fails: Polars reports what is wrong, not always where."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from morrow.engine.errors import CorruptFile, MorrowError
from morrow.engine.format.types import DataField
from morrow.engine.io.store import FileStore
from morrow.engine.plan.in_flight import in_flight
from morrow.engine.plan.scan_plan import ScanPlan, Section
from morrow.readers.file_frames import file_frame
from morrow.readers.files import reading


@contextmanager
def reading_files(
    plan: ScanPlan, sections: Sequence[Section], fields: Sequence[DataField], store: FileStore
) -> Iterator[None]:
    """`reading` around a query over `sections`: a corrupt file is named.

    Only after a failure, the files are read one by one until one fails alone.

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
                _fail_alone(plan, sections, fields, store)
            raise


def _fail_alone(plan: ScanPlan, sections: Sequence[Section], fields: Sequence[DataField], store: FileStore) -> None:
    for section in sections:
        for file in section.files:
            with reading(file.path):
                try:
                    frame = file_frame(plan, section, [file], fields, store)
                    for _ in frame.collect_batches(lazy=True, engine="streaming"):
                        pass
                except MorrowError as error:
                    # What a cast of evolution or a decoder says about a value does not know the file either.
                    raise error if file.path in str(error) else CorruptFile(file.path, str(error)) from error
