"""Verification of data files against their metadata, row by row, as `Scan.verify` runs it.

Each file is read whole and once, batch by batch; one batch is in memory at a time. The aggregates of its columns
(nulls, bounds, order of keys) are checked against its statistics. Its file index must not exclude matching rows: this
is checked by look-ups of values spread over the file.

Bounds are exact except for text: there a minimum may be cut to a prefix, and a maximum cut with its last character
incremented. Floats that hold NaN may be bounded by the values before it. ORC stores milliseconds of timestamps,
counted in the zone of their writer.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cached_property

import polars as pl

from morrow.engine.errors import CorruptFile, FileMissing, MorrowError, StorageError
from morrow.engine.format.blobs import is_blob_type
from morrow.engine.format.file_formats import TIMESTAMPS, get_format
from morrow.engine.format.file_index import FileIndex
from morrow.engine.format.row_kinds import RETRACT_BIT
from morrow.engine.format.schema import SEQUENCE_NUMBER, VALUE_KIND, make_key_field
from morrow.engine.format.types import CharType, DataField, DoubleType, FloatType
from morrow.engine.io.store import FileStore
from morrow.engine.names import clear_pattern_name, col, cols, get_series
from morrow.engine.options import Options, TableOptions
from morrow.engine.options.declared.merging import SEQUENCE_SNAPSHOT_ORDERING
from morrow.engine.plan.file_statistics import Bounds, FileFacts, read_file_facts
from morrow.engine.plan.manifests import guard_read
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.predicate import SURROGATES
from morrow.engine.plan.pruning import SUCCESSOR_OF_D7FF, load_file_index
from morrow.engine.plan.scan_plan import DataFile, PruneStep, ScanPlan, Section
from morrow.engine.redaction import get_logger
from morrow.engine.structs import replace
from morrow.readers.execution.strategy import WHOLE
from morrow.readers.files import FileSource, scan, translate_errors, verify
from morrow.readers.files.file_frames import collect_batches, list_written_fields, make_source, to_constant
from morrow.readers.files.page_checksums import count_pages
from morrow.readers.files.registry import read_stored_names
from morrow.readers.masks.live_rows import read_deletion
from morrow.readers.masks.ordering import to_sortable

log = get_logger(__name__)


def verify_plan(metadata: TableMetadata, plan: ScanPlan) -> Verification:
    """Return the report on every data file of a plan.

    Raises:
        SnapshotExpired: files are missing because the snapshot was removed in the meantime.
        CorruptFile, FileMissing, Unsupported, UnsafePath: metadata that cannot be read. StorageError.
    """
    with guard_read(plan, metadata.store):
        parts = [read_file_facts(metadata, part) for part in plan.parts]
        found = Verification(tuple(file for part, files in parts for file in verify_files(metadata, part, files)))
        if missing := [file.error for file in found.files if isinstance(file.error, FileMissing)]:
            with suppress(FileMissing), guard_read(plan, metadata.store):
                raise missing[0]  # which says whether the snapshot has been removed
    return found


def leave_out_unreadable(plan: ScanPlan, store: FileStore, options: TableOptions) -> ScanPlan:
    """Return the plan without the files that the options allow to be missing or damaged, which a warning names.

    To find damage, every file is decoded whole. Rows whose columns lie in several files need all of these files.

    Raises `SnapshotExpired`: files are missing because the snapshot was removed in the meantime. `StorageError`.
    """
    with ThreadPoolExecutor(WORKERS) as pool:
        errors = list(pool.map(lambda file: _find_error(file, plan, store, options), plan.files))
    lost = {file.path: error for file, error in zip(plan.files, errors) if error is not None}
    fallback = None if plan.fallback is None else leave_out_unreadable(plan.fallback, store, options)
    if not lost:
        return replace(plan, fallback=fallback)
    with suppress(FileMissing), guard_read(plan, store):
        if missing := [error for error in lost.values() if isinstance(error, FileMissing)]:
            raise missing[0]  # which says whether the snapshot has been removed
    sections = [_keep_files(section, lost.keys()) for section in plan.sections]
    for error in lost.values():
        log.warning("%s: left out, as an option says: %s", plan.table, error)
    names = ", ".join(path.rpartition("/")[2] for path in lost)
    step = PruneStep(f"unreadable files left out ({names})", len(plan.files) - len(lost), len(plan.files))
    kept = tuple(section for section in sections if section.files)
    return replace(plan, sections=kept, steps=(*plan.steps, step), fallback=fallback)


def _keep_files(section: Section, lost: Collection[str]) -> Section:
    kept = tuple(file for file in section.files if file.path not in lost)
    if len(kept) == len(section.files):
        return section
    return replace(section, files=() if section.kind in WHOLE else kept)


def _find_error(file: DataFile, plan: ScanPlan, store: FileStore, options: TableOptions) -> MorrowError | None:
    """Return why a file cannot be read, if the options allow for that. Raises `StorageError`."""
    try:
        source = make_source(file, plan, store)
        if not options.ignores_corrupt_files:
            verify(source)
            return None
        verify(source, rows=True)
        fields = list_written_fields(plan, file)
        with translate_errors(source.path):
            for _ in _read_batches(source, _list_stored(source, fields, plan.schema.partition_keys)):
                pass
    except FileMissing as error:
        return error if options.ignores_lost_files else None
    except CorruptFile as error:
        return error if options.ignores_corrupt_files else None
    return None


def _list_stored(
    source: FileSource, fields: tuple[DataField, ...], partition: Collection[str]
) -> tuple[DataField, ...]:
    """Return the columns of a file; files that were adopted may lack the columns of their `partition`."""
    if not partition or not get_format(source.format, source.path).stores_names:
        return fields
    stored = read_stored_names(source)
    return tuple(each for each in fields if each.name in stored or each.name not in partition)


MAX_NAMED_FILES = 5
"""Maximum number of further files that an error names."""


@dataclasses.dataclass(frozen=True)
class VerifiedFile:
    """A verified data file: the extent of its checks, and its problems.

    `pages` were compared with their checksums (Parquet), `unchecked_pages` lack one. `problems` is empty for a sound
    file; `error` is the error to raise for the first of them.
    """

    path: str
    format: str
    rows: int
    pages: int = 0
    unchecked_pages: int = 0
    problems: tuple[str, ...] = ()
    error: MorrowError | None = None

    @property
    def is_sound(self) -> bool:
        return not self.problems


@dataclasses.dataclass(frozen=True)
class Verification:
    """All files that were verified."""

    files: tuple[VerifiedFile, ...]

    @property
    def unsound(self) -> tuple[VerifiedFile, ...]:
        """The files with problems."""
        return tuple(file for file in self.files if not file.is_sound)

    def raise_problems(self) -> None:
        """Raise the error of the first file with a problem, if there is one; the error names the others.

        Raises:
            CorruptFile, FileMissing: a file is damaged or missing. Unsupported, UnsafePath: a file cannot be read.
        """
        damaged = sorted(self.unsound, key=lambda file: not isinstance(file.error, (CorruptFile, FileMissing)))
        if not damaged:
            return
        first, *others = damaged
        assert first.error is not None
        if others and isinstance(first.error, CorruptFile):
            names = ", ".join(file.path for file in others[:MAX_NAMED_FILES])
            more = f" and {len(others) - MAX_NAMED_FILES} more" if len(others) > MAX_NAMED_FILES else ""
            raise CorruptFile(first.path, f"{first.problems[0]} (damaged as well: {names}{more})") from first.error
        raise first.error

    def __str__(self) -> str:
        pages = sum(file.pages for file in self.files)
        unchecked = sum(file.unchecked_pages for file in self.files)
        lines = [f"{file.path}: {problem}" for file in self.unsound for problem in file.problems]
        without = f", {unchecked:,} without a checksum" if unchecked else ""
        return "\n".join(
            [f"{len(self.files):,} files, {len(self.unsound):,} unsound; {pages:,} pages hashed{without}", *lines]
        )


WORKERS = 2
"""Number of files verified at once."""
BATCH_ROWS = 1 << 17
FLOATS = (FloatType, DoubleType)


def verify_files(metadata: TableMetadata, plan: ScanPlan, files: Sequence[FileFacts]) -> Iterator[VerifiedFile]:
    """Verify each file of one part of a plan.

    Raises `StorageError`: the store does not answer; this is not counted as a problem of a file.
    """
    with ThreadPoolExecutor(WORKERS) as pool:
        yield from pool.map(lambda facts: verify_file(metadata, plan, facts), files)


def verify_file(metadata: TableMetadata, plan: ScanPlan, facts: FileFacts) -> VerifiedFile:
    """Verify a file with its deletion vector and its index. Raises `StorageError`."""
    file = facts.file
    try:
        source = make_source(file, plan, metadata.store)
        pages = count_pages(source)
        problems = list(_find_problems(metadata, plan, facts, source))
    except StorageError:
        raise
    except MorrowError as error:
        problem = getattr(error, "problem", str(error))
        return VerifiedFile(file.path, file.format, file.row_count, problems=(problem,), error=error)
    damage = CorruptFile(file.path, problems[0]) if problems else None
    return VerifiedFile(file.path, file.format, file.row_count, pages.checked, pages.unchecked, tuple(problems), damage)


def _find_problems(metadata: TableMetadata, plan: ScanPlan, facts: FileFacts, source: FileSource) -> Iterator[str]:
    file, fields = facts.file, list_written_fields(plan, facts.file)
    verify(source, rows=True)
    fields = _list_stored(source, fields, facts.partition)
    if file.deletion is not None:
        read_deletion(file, metadata.store)
    stored = {field.name for field in fields}
    keys = facts.schema.trimmed_primary_keys if facts.bucket >= 0 and VALUE_KIND in stored else ()
    exact = get_format(file.format, file.path).is_exact
    contents = Contents(fields, keys, exact=exact)
    yield from _read(metadata, facts, source, contents, padded=not exact)
    yield from contents.problems
    if contents.rows != file.row_count:
        yield f"has {contents.rows} rows where metadata says {file.row_count}"
    yield from _find_wrong_counts(facts, contents)
    yield from _find_wrong_keys(facts, contents, loose=not exact)
    yield from _find_wrong_statistics(facts, contents, fields)
    yield from _find_wrong_partition(facts, contents, fields)
    if keys and not contents.problems:
        yield from _find_wrong_copies(facts, source)


def _read(
    metadata: TableMetadata, facts: FileFacts, source: FileSource, contents: Contents, *, padded: bool
) -> Iterator[str]:
    """Read the file; yield the values that the index does not find in it."""
    index = load_file_index(metadata, source.path, facts.embedded_index, list(facts.extra_files))
    # Indexes hold CHAR with the blanks that ORC drops.
    indexed = [each for each in contents.fields if not (padded and isinstance(each.type, CharType))]
    check = None if index is None else IndexCheck(index, indexed, facts.file.row_count)
    found: dict[str, None] = {}
    with translate_errors(source.path):
        for batch in _read_batches(source, contents.fields):
            contents.add(batch)
            if check is not None and contents.rows <= facts.file.row_count:
                found |= dict.fromkeys(check.problems(batch))
    yield from found


def _read_batches(source: FileSource, fields: Sequence[DataField]) -> Iterator[pl.DataFrame]:
    return collect_batches(scan([source], fields), BATCH_ROWS)


def _find_wrong_counts(facts: FileFacts, contents: Contents) -> Iterator[str]:
    file = facts.file
    if not facts.schema.primary_keys or not contents.rows:
        return
    if file.delete_rows is not None and contents.retractions != file.delete_rows:
        yield f"has {contents.retractions} retractions where metadata says {file.delete_rows}"
    if file.snapshot_id is not None and Options(facts.schema.options).get(SEQUENCE_SNAPSHOT_ORDERING):
        return  # the numbers in the file do not count
    sequence, said = contents.sequence, (file.min_sequence, file.max_sequence)
    # pypaimon before 1.4 records a least number that is one too low, which changes no read.
    if sequence is not None and not (said[0] <= sequence[0] and sequence[1] == said[1]):
        yield "has the sequence numbers {} to {} where metadata says {} to {}".format(*sequence, *said)


def _find_wrong_keys(facts: FileFacts, contents: Contents, *, loose: bool) -> Iterator[str]:
    """Check the first and the last key of a file whose rows are in order."""
    types = [facts.schema.by_name[name].type for name in contents.keys]
    if loose and any(isinstance(kind, (CharType, *TIMESTAMPS)) for kind in types):
        return
    for row, said, which in ((contents.first, facts.first_key, "first"), (contents.last, facts.last_key, "last")):
        if row is None or not said or all(map(_is_same, row.iter_columns(), said)):
            continue
        # Up to 1.0, compactions that dropped the keys after the last row recorded one of the dropped keys.
        further = tuple(value.item() for value in said) > row.row(0)
        if not (which == "last" and further and facts.file.level > 0):
            yield f"its {which} key is not the one of metadata"


def _is_same(found: pl.Series, said: pl.Series) -> bool:
    return bool(clear_pattern_name(found).eq_missing(clear_pattern_name(said).cast(found.dtype)).all())


def _find_wrong_statistics(facts: FileFacts, contents: Contents, fields: Sequence[DataField]) -> Iterator[str]:
    totals, by_name = contents.totals, {field.name: field for field in fields}
    exact = get_format(facts.file.format, facts.file.path).is_exact
    if not totals:
        return
    for known, what in ((facts.values, "statistics"), (facts.keys, "statistics of keys")):
        for name, bounds in known.items():
            if name in by_name:
                yield from find_wrong_bounds(totals, by_name[name], bounds, what, exact=exact)
    for field in fields:
        absent = totals.get(f"absent {field.name}")
        if absent is not None and absent.item():
            yield f"column {field.name!r} is NOT NULL, and null in {absent.item()} rows"


def _find_wrong_partition(facts: FileFacts, contents: Contents, fields: Sequence[DataField]) -> Iterator[str]:
    """Check that stored values of partition columns equal the partition's; null stands for several texts there."""
    totals = contents.totals
    for field in fields:
        value = facts.partition.get(field.name)
        if value is None or isinstance(field.type, (*FLOATS, CharType, *TIMESTAMPS)) or not totals:
            continue
        said = pl.select(to_constant(value, field)).to_series()
        ends = [totals[f"{which} {field.name}"] for which in ("min", "max") if f"{which} {field.name}" in totals]
        if not all(_is_same(end, said) for end in ends):
            yield f"column {field.name!r} holds other values than its partition"


def _find_wrong_copies(facts: FileFacts, source: FileSource) -> Iterator[str]:
    """Check the copies of the key columns, which Java reads and Morrow does not."""
    there = read_stored_names(source)
    keys = [facts.schema.by_name[name] for name in facts.schema.trimmed_primary_keys]
    pairs = [(key, make_key_field(key)) for key in keys if make_key_field(key).name in there]
    if not pairs:
        return
    same = [col(key.name).eq_missing(col(copy.name)).all().alias(key.name) for key, copy in pairs]
    with translate_errors(source.path):
        for batch in _read_batches(source, [each for pair in pairs for each in pair]):
            for column in batch.select(same).iter_columns():
                if not column.item():
                    yield f"the copy of key column {column.name!r} holds other values"
                    return


LAST_KIND = 3


@dataclasses.dataclass
class Contents:
    """Aggregates of the columns `fields`; `keys` are the columns that order the rows.

    If not `exact`, CHAR lacks its trailing blanks (statistics keep them), and times before 1970 may be a second late.
    """

    fields: Sequence[DataField]
    keys: Sequence[str] = ()
    exact: bool = True
    rows: int = 0
    retractions: int = 0
    problems: list[str] = dataclasses.field(default_factory=list)
    parts: list[pl.DataFrame] = dataclasses.field(default_factory=list)
    first: pl.DataFrame | None = None
    last: pl.DataFrame | None = None

    def add(self, batch: pl.DataFrame) -> None:
        """Add the next rows of the file."""
        if not batch.height:
            return
        if VALUE_KIND in batch.columns:
            self._kinds(batch[VALUE_KIND])
        self.parts.append(self._gather(batch))
        if self.keys:
            self._check_order(batch.select(cols(self.keys)))
        self.rows += batch.height

    def _problem(self, text: str) -> None:
        if text not in self.problems:
            self.problems.append(text)

    def _kinds(self, kinds: pl.Series) -> None:
        if kinds.null_count() or not kinds.is_between(0, LAST_KIND).all():
            self._problem(f"{VALUE_KIND} holds a value that is not a kind of row")
        self.retractions += int(((kinds & RETRACT_BIT) != 0).sum())

    def _gather(self, batch: pl.DataFrame) -> pl.DataFrame:
        """Return one row: null counts of all columns, bounds of columns with an order, NaN counts of floats."""
        found: list[pl.Expr] = []
        alive = pl.lit(True) if VALUE_KIND not in batch.columns else (pl.col(VALUE_KIND) & RETRACT_BIT) == 0
        for each in self.fields:
            column, dtype = col(each.name), batch.schema[each.name]
            found.append(column.null_count().cast(pl.Int64).alias(f"nulls {each.name}"))
            if not each.type.nullable:
                found.append((column.is_null() & alive).sum().cast(pl.Int64).alias(f"absent {each.name}"))
            if dtype.is_nested() or dtype in (pl.Binary, pl.Null, pl.Object):
                continue
            if not self.exact and isinstance(each.type, CharType):
                column = column.str.pad_end(each.type.length)
            found += [column.min().alias(f"min {each.name}"), column.max().alias(f"max {each.name}")]
            if dtype.is_float():
                found.append(column.is_nan().any().alias(f"nan {each.name}"))
        return batch.select(found) if found else pl.DataFrame()

    def _check_order(self, keys: pl.DataFrame) -> None:
        if any(column.null_count() for column in keys.iter_columns()):
            self._problem("a key is null")
            return
        self.first = keys[:1] if self.first is None else self.first
        with_last = keys if self.last is None else pl.concat([self.last, keys])
        self.last = keys[-1:]
        floats = [column for column in with_last.iter_columns() if column.dtype.is_float()]
        if any(clear_pattern_name(column).is_nan().any() for column in floats):
            return  # equal to every number in Java's comparisons up to 2.0, so there is no order
        if not self.exact and any(map(_has_early_times, with_last.iter_columns())):
            return
        comparable = with_last.select(to_sortable(column) for column in with_last.iter_columns())
        if (problem := _find_disorder(comparable, distinct=not floats)) is not None:
            self._problem(problem)

    @cached_property
    def totals(self) -> dict[str, pl.Series]:
        """The aggregates of the whole file, one value each; valid once all of its rows have been added."""
        if not self.parts:
            return {}
        whole = pl.concat(self.parts)
        how = {"nulls": pl.Expr.sum, "absent": pl.Expr.sum, "min": pl.Expr.min, "max": pl.Expr.max, "nan": pl.Expr.any}
        exprs = [how[name.partition(" ")[0]](col(name)).alias(name) for name in whole.columns]
        return {column.name: column for column in whole.select(exprs).iter_columns()}

    @property
    def sequence(self) -> tuple[int, int] | None:
        """The least and greatest sequence number, None without any."""
        totals = self.totals
        low = totals.get(f"min {SEQUENCE_NUMBER}")
        if low is None or low.null_count():
            return None
        return low.item(), totals[f"max {SEQUENCE_NUMBER}"].item()


def _has_early_times(column: pl.Series) -> bool:
    """Return whether a time column has values that ORC returns out of order."""
    if column.dtype.base_type() != pl.Datetime:
        return False
    return bool((clear_pattern_name(column).dt.epoch("s") < 1).any())


def _find_disorder(keys: pl.DataFrame, *, distinct: bool) -> str | None:
    """Return a description of how the keys violate their order, or None; `distinct` forbids equal keys."""
    if keys.height < 2:
        return None
    columns = [pl.col(f"k{i}") for i in range(keys.width)]
    keys.columns = [f"k{i}" for i in range(keys.width)]
    pairs = [(column.slice(1), column.slice(0, keys.height - 1)) for column in columns]
    less, equal = pl.lit(False), pl.lit(True)
    for after, before in pairs:
        less = less | (equal & (after < before))
        equal = equal & (after == before)
    found = keys.select(less.any().alias("less"), equal.any().alias("equal"))
    if found["less"].item():
        return "its rows are not in the order of their keys"
    return "it holds a key twice" if distinct and found["equal"].item() else None


ORC_SLACK = pl.duration(days=3)
"""The tolerance for bounds of timestamps in ORC: zones, and the calendar before 1582."""


def find_wrong_bounds(
    totals: Mapping[str, pl.Series], field: DataField, known: Bounds, what: str, *, exact: bool
) -> Iterator[str]:
    """Yield contradictions between `known` and the values of a column, given by their aggregates `totals`.

    `exact` is the format's (`FileFormat.is_exact`).
    """
    name = field.name
    # pypaimon counts no nulls of blobs, and nothing is pruned by them.
    nulls = None if is_blob_type(field.type) else totals.get(f"nulls {name}")
    if nulls is not None and known.null_count is not None and nulls.item() != known.null_count:
        yield f"column {name!r} has {nulls.item()} nulls where the {what} say {known.null_count}"
    low, high = totals.get(f"min {name}"), totals.get(f"max {name}")
    if low is None or high is None:
        return
    if low.null_count():
        if known.minimum is not None or known.maximum is not None:
            yield f"column {name!r} holds nothing but nulls where the {what} have bounds"
        return
    nan = totals.get(f"nan {name}")
    if nan is not None and nan.item():
        return
    loose = not exact and isinstance(field.type, TIMESTAMPS)
    if known.minimum is not None and not _is_minimum(low, known.minimum, loose=loose):
        yield f"the least value of column {name!r} is not the minimum of the {what}"
    if known.maximum is not None and not _is_maximum(high, known.maximum, loose=loose):
        yield f"the greatest value of column {name!r} is not the maximum of the {what}"


def _is_minimum(found: pl.Series, said: pl.Series, *, loose: bool) -> bool:
    if found.dtype == pl.String:
        return str(found.item()).startswith(said.item())
    return _is_near(found, said) if loose else _is_same_bound(found, said)


def _is_maximum(found: pl.Series, said: pl.Series, *, loose: bool) -> bool:
    if found.dtype == pl.String:
        return _is_upper(found.item(), said.item())
    return _is_near(found, said) if loose else _is_same_bound(found, said)


def _is_same_bound(found: pl.Series, said: pl.Series) -> bool:
    return bool((found == said.cast(found.dtype)).all())


def _is_near(found: pl.Series, said: pl.Series) -> bool:
    apart = pl.select((pl.lit(found) - pl.lit(said.cast(found.dtype))).abs() <= ORC_SLACK).to_series()
    return bool(apart.all())


def _is_upper(text: str, said: str) -> bool:
    """Return whether `said` is `text`, or a prefix of it whose last character was incremented."""
    if text == said:
        return True
    head, last = said[:-1], said[-1:]
    if not last or len(text) < len(said) or not text.startswith(head):
        return False
    following = ord(text[len(head)]) + 1
    if following in SURROGATES:
        return last == SUCCESSOR_OF_D7FF or ord(last) == SURROGATES.stop
    return ord(last) == following


LOOKUPS_PER_BATCH, MAX_LOOKUPS = 2, 8
"""Values of a column that are looked up in an index: per batch, and per file."""


@dataclasses.dataclass
class IndexCheck:
    """Look-ups of values in `index`, of a file of `row_count` rows, while the file is read."""

    index: FileIndex
    fields: Sequence[DataField]
    row_count: int
    start: int = 0
    asked: dict[str, int] = dataclasses.field(default_factory=dict)

    def problems(self, batch: pl.DataFrame) -> Iterator[str]:
        """Yield values of the next rows that the index does not find.

        Raises `CorruptFile`, `Unsupported`: the index is damaged, or of an unknown version.
        """
        for each in self.fields:
            if each.name in self.index.columns:
                yield from self._of_column(each, get_series(batch, each.name))
        self.start += batch.height

    def _of_column(self, column: DataField, values: pl.Series) -> Iterator[str]:
        if values.dtype.is_nested():
            return
        left = MAX_LOOKUPS - self.asked.get(column.name, 0)
        chosen = values.drop_nulls().unique(maintain_order=True).head(min(LOOKUPS_PER_BATCH, left)).to_list()
        self.asked[column.name] = self.asked.get(column.name, 0) + len(chosen)
        for value in chosen:
            if value == value and self._misses(column, "=", (value,), values == value):
                yield f"the file index does not find a value of column {column.name!r}"
        if values.null_count() and self._misses(column, "IS NULL", (), values.is_null()):
            yield f"the file index does not find a null of column {column.name!r}"

    def _misses(self, column: DataField, op: str, literals: tuple[object, ...], matching: pl.Series) -> bool:
        found = self.index.evaluate(column.name, column.type, op, literals, row_count=self.row_count)
        if found.is_all:
            return False
        maybe = found.mask(self.row_count)[self.start : self.start + len(matching)]
        return bool((matching.fill_null(False).to_numpy() & ~maybe).any())
