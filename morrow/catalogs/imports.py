"""Imports: a source becomes a table, or its rows are added to one, each file once.

The snapshots of an import record its files, so that a second call goes on after an interruption: the property
`FILES` holds 12 bytes a file, the hashes of its path and of its size and time. Snapshots expire, so the newest record
has all files and is also in a file of the table, and a consumer keeps the snapshots until the import is complete.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

import polars as pl
import pyarrow as pa

from morrow.catalogs.import_files import Part, RowSource, find_files, open_files, translate_file_errors
from morrow.catalogs.import_sources import Wanted, open_import_source
from morrow.engine.arguments import check_texts, refuse_depth
from morrow.engine.catalog.names import check_new_table_name
from morrow.engine.errors import AlreadyExists, InvalidArgument, MorrowError
from morrow.engine.format.schema import TableSchema
from morrow.engine.io.resolve import resolve, to_location
from morrow.engine.plan.consumers import Consumers
from morrow.engine.progress import advance, show_progress
from morrow.engine.redaction import clean_lines, escape_to_line
from morrow.engine.schema.columns import to_paimon_type
from morrow.engine.structs import replace
from morrow.engine.units import format_count, format_size
from morrow.statements.execution import render_create_table
from morrow.tables.table import Table
from morrow.writers.commit.commit_lock import retry_on_conflict
from morrow.writers.history.load_history import LoadPremise, Record
from morrow.writers.ingest.row_files import PARQUET
from morrow.writers.ingest.sources import Piece, Source
from morrow.writers.ingest.text_files import CsvOptions
from morrow.writers.operations.append import RowFile, add_columns, adopt_files, append_parts
from morrow.writers.target import WriteTarget

if TYPE_CHECKING:
    from morrow.catalogs.administration import CatalogChanges
    from morrow.engine.format.snapshot import Snapshot
    from morrow.writers.commit.premise import Premise
    from morrow.writers.ingest.validation import Kinds
    from morrow.writers.operations.append import SchemaMode

CONSUMER = "morrow-import"
"""The consumer that keeps the record of an incomplete import from expiry."""
MAX_COMMIT_BYTES = 1 << 30
"""Bytes of files after which an import commits; beyond them, an interruption costs more work than a commit."""
MAX_COMMIT_FILES = 10_000


@dataclass(frozen=True)
class ImportPlan:
    """An import that has not run: what it would read, and the table that it would make or add to."""

    source: str
    """The path, or a description."""
    table: str
    """The name of the table."""
    statement: str | None
    """The CREATE TABLE statement of the table to be made; None if it exists."""
    schema: pa.Schema
    """The columns of the table, as Arrow types."""
    files: tuple[str, ...]
    """The files to import, without the files of earlier imports."""
    bytes: int
    """The size of these files; 0 if it is unknown."""
    imported_files: int
    """The number of files that are imported already."""
    _import: _Import = field(repr=False, compare=False)

    def run(self) -> Table:
        """Import the rows, as `Catalog.import_table` does, and return the table."""
        return self._import.run()

    def __str__(self) -> str:
        size = f" ({format_size(self.bytes)})" if self.bytes else ""
        done = f", {format_count(self.imported_files, 'file')} imported before" if self.imported_files else ""
        what = f"import {self.source}{size}{done} into {self.table}"
        return clean_lines(f"{what}, which exists" if self.statement is None else f"{what}, made by\n{self.statement}")


@dataclass(frozen=True)
class _Import:
    """An import whose source is opened."""

    catalog: CatalogChanges
    name: str
    source: RowSource
    first: TableSchema | None
    """The schema of the table to be made; None if it exists."""
    record: Record
    merge: bool
    adopt: bool = False
    """Make data files of the files, if possible, instead of writing their rows."""

    def list_missing(self) -> list[Part]:
        """Return the parts that are not imported."""
        return [part for part in self.source.parts if not self.record.holds(part.name, part.state)]

    def run(self) -> Table:
        missing = self.list_missing()
        if self.first is None:
            table = Table(self.catalog._catalog.table(self.name))
        else:
            table = self.catalog._create(self.name, self.first)
        rows = sum(part.rows for part in missing) if all(part.rows for part in missing) else 0
        committed = 0
        try:
            with show_progress(f"importing into {self.name}", rows=rows):
                if self.merge:
                    add_new_columns(table, self.source)
                for batch in self._commit_batches(table, missing):
                    committed += len(batch)
        except BaseException as error:
            if self.first is not None and not committed and table._metadata.latest_snapshot() is None:
                self.catalog.drop_table(self.name)
            elif committed and isinstance(error, MorrowError):
                error.add_note(
                    f"{committed} of {format_count(len(missing), 'file')} imported; call again for the others"
                )
            raise
        return table

    def _commit_batches(self, table: Table, missing: Sequence[Part]) -> Iterator[Sequence[Part]]:
        """Commit the parts in batches, and yield each batch after its commit."""
        metadata, title, version = table._metadata, self.source.title, self.source.version
        consumers, batches = Consumers(metadata), list(_split(missing))
        for number, batch in enumerate(batches, 1):
            is_last = number == len(batches)
            marks = [(title, version)] if is_last and version is not None else []
            begun = {} if is_last or version is None else {title: version}

            def once(
                batch: Sequence[Part] = batch,
                marks: Sequence[tuple[str, str]] = marks,
                begun: Mapping[str, str] = begun,
                is_last: bool = is_last,
            ) -> None:
                newest = metadata.latest_snapshot()
                record = Record.of(metadata)
                new = [part for part in batch if not record.holds(part.name, part.state)]  # of an import meanwhile
                others = {key: value for key, value in record.begun.items() if key != title}
                record = record.add([*((part.name, part.state) for part in new), *marks], {**others, **begun})
                if not is_last:
                    consumers.record(CONSUMER, newest.id if newest else 1)
                premise = LoadPremise(newest) if any(part.name for part in new) else None
                made = _commit(table, new, record.properties(), adopt=self.adopt, premise=premise) if new else None
                if made is not None and record.files:
                    record.keep(metadata, made)

            retry_on_conflict(WriteTarget.of(metadata), once, most=None if all(each.name for each in batch) else 0)
            yield batch
        if consumers.progress(CONSUMER) is not None:
            consumers.delete(CONSUMER)


def _split(parts: Sequence[Part]) -> Iterator[Sequence[Part]]:
    """Yield the parts of each commit."""
    batch: list[Part] = []
    size = 0
    for part in parts:
        if batch and (size + part.size > MAX_COMMIT_BYTES or len(batch) >= MAX_COMMIT_FILES):
            yield batch
            batch, size = [], 0
        batch.append(part)
        size += part.size
    if batch:
        yield batch


def _commit(
    table: Table,
    parts: Sequence[Part],
    properties: Mapping[str, str],
    kinds: Kinds = None,
    *,
    adopt: bool = False,
    premise: Premise | None = None,
) -> Snapshot | None:
    def open_part(part: Part) -> object:
        begun.append(part.name)
        advance(files=1)
        with translate_file_errors(part.name):
            opened = part.open(schema)
        return replace(opened, pieces=_read_pieces(part, opened)) if isinstance(opened, Source) else opened

    schema, begun = table.schema, list[str]()
    target = WriteTarget.of(table._metadata, properties=properties)
    is_stream = any(part.is_stream for part in parts)
    try:
        if adopt:
            files = [RowFile(Path(part.name), partial(open_part, part), part.is_partition) for part in parts]
            return adopt_files(target, files)
        rows = [partial(open_part, part) for part in parts]
        return append_parts(target, rows, kinds, is_stream=is_stream, premise=premise)
    except (pa.ArrowException, pl.exceptions.PolarsError) as error:
        where = begun[-1] if begun and begun[-1] else "the source"
        raise InvalidArgument(f"{where}: the rows cannot be read: {str(error).splitlines()[0]}") from error
    except InvalidArgument as error:
        if begun and begun[-1] and begun[-1] not in str(error):
            error.add_note(f"in {begun[-1]}")
        raise


def _read_pieces(part: Part, source: Source) -> Iterator[Piece]:
    with translate_file_errors(part.name):
        yield from source.pieces


def open_rows_of(
    table: Table, sources: Sequence[str], *, format: str | None, csv: CsvOptions, schema_mode: SchemaMode
) -> RowSource:
    """Return the rows of files, to add them to an existing table. Raises as `open_files`."""
    files = find_files(sources, table.name, table.path, table._metadata.store.storage_options)
    merge = schema_mode == "merge"
    return open_files(files, form=format, csv=csv, merge=merge, table=table.schema, name=table.name)


def append_files(table: Table, rows: RowSource, *, kinds: Kinds, schema_mode: SchemaMode) -> Snapshot | None:
    """Add all rows of files to a table, in one commit. Raises as `Table.append`."""
    if schema_mode == "merge":
        add_new_columns(table, rows, kinds)
    return _commit(table, rows.parts, {}, kinds)


def add_new_columns(table: Table, rows: RowSource, kinds: Kinds = None) -> None:
    """Add the columns that the table lacks, except the one with row kinds."""
    new = [each for each in rows.schema or () if each.name not in table.schema.names and each.name != kinds]
    if new:
        add_columns(table._metadata, pa.schema(new))


def plan_import(
    catalog: CatalogChanges,
    source: object,
    name: str,
    *,
    primary_keys: str | Sequence[str] = (),
    partition_keys: str | Sequence[str] | None = None,
    options: Mapping[str, object] | None = None,
    comment: str | None = None,
    query: str | None = None,
    format: str | None = None,
    csv: Mapping[str, object] | None = None,
    schema_mode: SchemaMode = None,
    storage_options: Mapping[str, str] | None = None,
) -> ImportPlan:
    """Return the import that `Catalog.import_table` runs. Raises as it, before anything is written."""
    if schema_mode not in (None, "merge"):
        raise InvalidArgument(f"schema_mode is None or 'merge', not {schema_mode!r}")
    keys, partitions = check_texts(primary_keys, "primary_keys"), check_texts(partition_keys, "partition_keys")
    check_new_table_name(name, catalog._catalog.databases)
    table = Table(catalog._catalog.table(name)) if catalog._catalog.has_table(name) else None
    record = Record() if table is None else Record.of(table._metadata)
    wanted = Wanted(
        name,
        catalog._catalog.where_of(name),
        None if table is None else table.schema,
        query,
        format,
        CsvOptions.of(csv),
        schema_mode == "merge",
        record.begun,
        _find_storage_options(catalog) if storage_options is None else storage_options,
    )
    found = open_import_source(source, wanted)
    first = None
    if table is None:
        first = _build_schema(
            catalog, name, found, keys, found.partition_keys if partition_keys is None else partitions, options, comment
        )
    else:
        check_existing(table, keys, partitions, options, comment)
        if found.version is not None and found.title not in record.begun:
            record.holds(found.title, found.version)
    made = _Import(catalog, name, found, first, record, schema_mode == "merge")
    missing = made.list_missing()
    return ImportPlan(
        found.title,
        name,
        None if first is None else render_create_table(name, first),
        table.schema if first is None and table is not None else cast("TableSchema", first).arrow(),
        tuple(part.name for part in missing if part.name),
        sum(part.size for part in missing),
        len(found.parts) - len(missing),
        made,
    )


def _find_storage_options(catalog: CatalogChanges) -> Mapping[str, str] | None:
    store = getattr(catalog._catalog, "store", None)  # of a warehouse that is a folder
    return None if store is None else store.storage_options or None


@refuse_depth("types are")
def _build_schema(
    catalog: CatalogChanges,
    name: str,
    found: RowSource,
    primary_keys: Sequence[str],
    partition_keys: Sequence[str],
    options: Mapping[str, object] | None,
    comment: str | None,
) -> TableSchema:
    assert found.schema is not None
    empty = [escape_to_line(column.name) for column in found.schema if pa.types.is_null(column.type)]
    if empty:
        raise InvalidArgument(
            f"{found.title}: its rows have no value of {', '.join(empty)}; "
            f"make the table first: morrow create {name} 'id BIGINT, ...', or Catalog.create_table"
        )
    for column in found.schema:
        try:
            to_paimon_type(column.type, column.name)
        except InvalidArgument as error:
            error.add_note(f"in {found.title}; to choose the types yourself, make the table first: morrow create")
            raise
    return catalog._build_first(
        name, found.schema, primary_keys=primary_keys, partition_keys=partition_keys, options=options, comment=comment
    )


def check_existing(
    table: Table,
    primary_keys: Sequence[str],
    partition_keys: Sequence[str],
    options: Mapping[str, object] | None = None,
    comment: str | None = None,
) -> None:
    """Raise `InvalidArgument` for keys, options or a comment that the existing table does not have."""
    for what, given, there in (
        ("primary keys", primary_keys, table.primary_keys),
        ("partition columns", partition_keys, table.partition_keys),
    ):
        if given and tuple(given) != tuple(there):
            raise InvalidArgument(
                f"{table.name} exists, with other {what}: {', '.join(there) or 'none'}, not {', '.join(given)}; "
                "leave them out; nothing was written"
            )
    for what, value in (("options", options), ("comment", comment)):
        if value:
            raise InvalidArgument(f"{table.name} exists; change its {what} by Table.alter; nothing was written")


def clone_parquet(
    catalog: CatalogChanges, folder: str | os.PathLike[str], name: str, options: Mapping[str, object] | None
) -> Table:
    """Create a table from Parquet files; see `Catalog.clone_parquet`."""
    if catalog._catalog.has_table(name):
        raise AlreadyExists(f"{catalog._catalog.where_of(name)}: the table exists already; nothing was cloned")
    # In a list, the folder of a table of another format is refused.
    plan = plan_import(catalog, [folder], name, options=options, format=PARQUET, schema_mode="merge")
    return replace(plan._import, adopt=resolve(to_location(folder))[0].is_local).run()
