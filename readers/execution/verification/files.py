"""Checks of one data file, read whole, against all of its metadata."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import polars as pl

from morrow.engine.errors import CorruptFile, MorrowError, StorageError
from morrow.engine.format.file_formats import TIMESTAMPS, file_format
from morrow.engine.format.schema import VALUE_KIND, key_field
from morrow.engine.format.types import CharType, DataField, DoubleType, FloatType
from morrow.engine.names import col, unnamed
from morrow.engine.plan.file_facts import FileFacts
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.pruning import file_index
from morrow.engine.plan.scan_plan import ScanPlan
from morrow.readers.execution.verification.bounds import wrong_bounds
from morrow.readers.execution.verification.contents import Contents
from morrow.readers.execution.verification.indexes import IndexCheck
from morrow.readers.execution.verification.report import VerifiedFile
from morrow.readers.files import FileSource, reading, scan, verify
from morrow.readers.files.file_frames import constant_of, source_of, written_fields
from morrow.readers.files.page_checks import count_pages
from morrow.readers.files.registry import stored_names
from morrow.readers.files.streaming import batches
from morrow.readers.masks.live import read_deletion

WORKERS = 2
"""Files verified at once."""
BATCH_ROWS = 1 << 17
FLOATS = (FloatType, DoubleType)


def verified(metadata: TableMetadata, plan: ScanPlan, files: Sequence[FileFacts]) -> Iterator[VerifiedFile]:
    """Verifies each file of one part of a plan.

    Raises:
        StorageError: the store does not answer, which is no problem of a file.
    """
    with ThreadPoolExecutor(WORKERS) as pool:
        yield from pool.map(lambda facts: verified_file(metadata, plan, facts), files)


def verified_file(metadata: TableMetadata, plan: ScanPlan, facts: FileFacts) -> VerifiedFile:
    """Verifies a file with its deletion vector and its index. Raises `StorageError`."""
    file = facts.file
    try:
        source = source_of(file, plan, metadata.store)
        pages = count_pages(source)
        problems = list(_problems(metadata, plan, facts, source))
    except StorageError:
        raise
    except MorrowError as error:
        problem = getattr(error, "problem", str(error))
        return VerifiedFile(file.path, file.format, file.row_count, problems=(problem,), error=error)
    damage = CorruptFile(file.path, problems[0]) if problems else None
    return VerifiedFile(file.path, file.format, file.row_count, pages.checked, pages.unchecked, tuple(problems), damage)


def _problems(metadata: TableMetadata, plan: ScanPlan, facts: FileFacts, source: FileSource) -> Iterator[str]:
    file, fields = facts.file, written_fields(plan, facts.file)
    verify(source, rows=True)
    if file.deletion is not None:
        read_deletion(file, metadata.store)
    stored = {field.name for field in fields}
    keys = facts.schema.trimmed_primary_keys if facts.bucket >= 0 and VALUE_KIND in stored else ()
    exact = file_format(file.format, file.path).is_exact
    contents = Contents(fields, keys, exact=exact)
    yield from _read(metadata, facts, source, contents, padded=not exact)
    yield from contents.problems
    if contents.rows != file.row_count:
        yield f"has {contents.rows} rows where metadata says {file.row_count}"
    yield from _wrong_counts(facts, contents)
    yield from _wrong_keys(facts, contents, loose=not exact)
    yield from _wrong_statistics(facts, contents, fields)
    yield from _wrong_partition(facts, contents, fields)
    if keys and not contents.problems:
        yield from _wrong_copies(facts, source)


def _read(
    metadata: TableMetadata, facts: FileFacts, source: FileSource, contents: Contents, *, padded: bool
) -> Iterator[str]:
    """Reads the file; yields the values that the index does not find in it."""
    index = file_index(metadata, source.path, facts.embedded_index, list(facts.extra_files))
    # Indexes hold CHAR with the blanks that ORC drops.
    indexed = [each for each in contents.fields if not (padded and isinstance(each.type, CharType))]
    check = None if index is None else IndexCheck(index, indexed, facts.file.row_count)
    found: dict[str, None] = {}
    with reading(source.path):
        for batch in _batches(source, contents.fields):
            contents.add(batch)
            if check is not None and contents.rows <= facts.file.row_count:
                found |= dict.fromkeys(check.problems(batch))
    yield from found


def _batches(source: FileSource, fields: Sequence[DataField]) -> Iterator[pl.DataFrame]:
    return batches(scan([source], fields), BATCH_ROWS)


def _wrong_counts(facts: FileFacts, contents: Contents) -> Iterator[str]:
    file = facts.file
    if not facts.schema.primary_keys or not contents.rows:
        return
    if file.delete_rows is not None and contents.retractions != file.delete_rows:
        yield f"has {contents.retractions} retractions where metadata says {file.delete_rows}"
    sequence, said = contents.sequence, (file.min_sequence, file.max_sequence)
    if sequence is not None and sequence != said:
        yield "has the sequence numbers {} to {} where metadata says {} to {}".format(*sequence, *said)


def _wrong_keys(facts: FileFacts, contents: Contents, *, loose: bool) -> Iterator[str]:
    """Checks the first and the last key of a file whose rows are in order."""
    types = [facts.schema.by_name[name].type for name in contents.keys]
    if loose and any(isinstance(kind, (CharType, *TIMESTAMPS)) for kind in types):
        return
    for row, said, which in ((contents.first, facts.first_key, "first"), (contents.last, facts.last_key, "last")):
        if row is None or not said or all(map(_is_same, row.iter_columns(), said)):
            continue
        # Up to 1.0, compactions that dropped the keys after the last one recorded one of those.
        further = tuple(value.item() for value in said) > row.row(0)
        if not (which == "last" and further and facts.file.level > 0):
            yield f"its {which} key is not the one of metadata"


def _is_same(found: pl.Series, said: pl.Series) -> bool:
    return bool(unnamed(found).eq_missing(unnamed(said).cast(found.dtype)).all())


def _wrong_statistics(facts: FileFacts, contents: Contents, fields: Sequence[DataField]) -> Iterator[str]:
    totals, by_name = contents.totals, {field.name: field for field in fields}
    exact = file_format(facts.file.format, facts.file.path).is_exact
    if not totals:
        return
    for known, what in ((facts.values, "statistics"), (facts.keys, "statistics of keys")):
        for name, bounds in known.items():
            if name in by_name:
                yield from wrong_bounds(totals, by_name[name], bounds, what, exact=exact)
    for field in fields:
        absent = totals.get(f"absent {field.name}")
        if absent is not None and absent.item():
            yield f"column {field.name!r} is NOT NULL, and null in {absent.item()} rows"


def _wrong_partition(facts: FileFacts, contents: Contents, fields: Sequence[DataField]) -> Iterator[str]:
    """Checks that stored values of partition columns equal the partition's; null stands for several texts there."""
    totals = contents.totals
    for field in fields:
        value = facts.partition.get(field.name)
        if value is None or isinstance(field.type, (*FLOATS, CharType, *TIMESTAMPS)) or not totals:
            continue
        said = pl.select(constant_of(value, field)).to_series()
        ends = [totals[f"{which} {field.name}"] for which in ("min", "max") if f"{which} {field.name}" in totals]
        if not all(_is_same(end, said) for end in ends):
            yield f"column {field.name!r} holds other values than its partition"


def _wrong_copies(facts: FileFacts, source: FileSource) -> Iterator[str]:
    """Checks the copies of the key columns, which Java reads and Morrow does not."""
    there = stored_names(source)
    keys = [facts.schema.by_name[name] for name in facts.schema.trimmed_primary_keys]
    pairs = [(key, key_field(key)) for key in keys if key_field(key).name in there]
    if not pairs:
        return
    same = [col(key.name).eq_missing(col(copy.name)).all().alias(key.name) for key, copy in pairs]
    with reading(source.path):
        for batch in _batches(source, [each for pair in pairs for each in pair]):
            for column in batch.select(same).iter_columns():
                if not column.item():
                    yield f"the copy of key column {column.name!r} holds other values"
                    return
