"""The commands that write rows or compact files. Each makes one commit and prints one line about it."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, BinaryIO, TypeAlias, cast

import typer

import morrow
from morrow.catalogs.import_files import RowSource, join_rows
from morrow.catalogs.imports import append_files, check_existing, open_rows_of
from morrow.cli.arguments import Format
from morrow.cli.output import open_output, write_rows
from morrow.cli.targets import get_metadata, open_scan, open_table, resolve_name
from morrow.cli.terminal import confirm, count_batches, write_note
from morrow.engine.errors import InvalidArgument
from morrow.engine.plan.time_travel import TravelArguments
from morrow.engine.redaction import clean_text
from morrow.engine.units import format_count
from morrow.writers.files.formats.wheel_files import relax_members
from morrow.writers.ingest.text_files import CsvOptions

if TYPE_CHECKING:
    import pyarrow as pa

    from morrow.engine.format.snapshot import Snapshot
    from morrow.writers.operations.append import SchemaMode


def append(
    path: str,
    sources: Sequence[str],
    options: FileOptions,
    kinds: str | None,
    schema_mode: str | None,
    primary_key: Sequence[str],
    partition_by: Sequence[str],
) -> None:
    """Append the rows of files. With a primary key, they replace rows with the same key."""
    table = open_table(path)
    check_existing(table, primary_key, partition_by)
    mode = parse_schema_mode(schema_mode)
    with _open_rows(table, sources, options, mode) as rows:
        print_snapshot(append_files(table, rows, kinds=kinds, schema_mode=mode))


def upsert(path: str, sources: Sequence[str], options: FileOptions, schema_mode: str | None) -> None:
    """Upsert the rows of files: insert new keys and replace rows with existing ones."""
    table = open_table(path)
    mode = parse_schema_mode(schema_mode)
    if not table.primary_keys:
        table.upsert({})  # raises the error of tables without keys
    with _open_rows(table, sources, options, mode) as rows:
        print_snapshot(append_files(table, rows, kinds=None, schema_mode=mode))


def update(path: str, set_: Mapping[str, str], where: str | None, dry_run: bool) -> None:
    """Change columns of rows."""
    table = open_table(path)
    if dry_run:
        confirm(f"update {format_count(table.scan(filter=where).count(), 'row')}", yes=True, dry_run=True)
    else:
        print_snapshot(table.update(set_, where))


def import_(
    path: str,
    sources: Sequence[str],
    options: FileOptions,
    *,
    query: str | None,
    primary_key: Sequence[str],
    partition_by: Sequence[str] | None,
    table_options: Mapping[str, str],
    comment: str | None,
    schema_mode: str | None,
    dry_run: bool,
) -> None:
    """Import a source as `Catalog.import_table` does."""
    catalog, name = resolve_name(path)
    with _spool_stdin(sources, options) as found:
        plan = catalog.import_table(
            found[0] if len(found) == 1 else found,
            name,
            primary_keys=primary_key,
            partition_keys=partition_by,
            options=table_options,
            comment=comment,
            query=query,
            format=options.get("format"),
            csv=build_csv_options(options),
            schema_mode=parse_schema_mode(schema_mode),
            dry_run=True,
        )
        if dry_run:
            typer.echo(f"would {plan}")
        elif plan.imported_files and not plan.files:
            typer.echo(f"nothing to do: {format_count(plan.imported_files, 'file')} imported before")
        else:
            print_snapshot(get_metadata(plan.run()).latest_snapshot())


def export(
    path: str, file: Path, at: TravelArguments, columns: Sequence[str] | None, where: str | None, limit: int | None
) -> None:
    """Write rows to a file in the format of its extension. The file appears when it is complete."""
    form = EXPORTS.get(file.suffix.lower())
    if form is None:
        raise InvalidArgument(f"{file}: the ending says no format; known are {', '.join(sorted(EXPORTS))}")
    scan = open_scan(path, at, columns, where, limit)
    rows = 0
    whole = where is None and limit is None
    stored = scan.plan.stored_rows if whole and isinstance(scan, morrow.Scan) else 0

    def batches() -> Iterator[pa.RecordBatch]:
        nonlocal rows
        for batch in scan.to_batches(EXPORTED_AT_ONCE):
            rows += batch.num_rows
            yield batch

    if isinstance(form, Format):
        write_rows(scan.schema, batches(), form, file, rows=stored)
    else:
        with open_output(file) as out:
            form(scan.schema, count_batches(batches(), rows=stored), out)
    write_note(f"{format_count(rows, 'row')} written to {file}")


def _write_parquet(schema: pa.Schema, batches: Iterable[pa.RecordBatch], out: BinaryIO) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    written = pa.schema([relax_members(field) for field in schema])  # Arrow refuses NOT NULL below a null
    with pq.ParquetWriter(out, written) as writer:
        for batch in batches:
            writer.write_table(pa.Table.from_batches([batch]).cast(written))


def _write_arrow(schema: pa.Schema, batches: Iterable[pa.RecordBatch], out: BinaryIO) -> None:
    import pyarrow as pa

    with pa.ipc.new_file(out, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)


def _write_xlsx(schema: pa.Schema, batches: Iterable[pa.RecordBatch], out: BinaryIO) -> None:
    from morrow.cli.workbook import write_xlsx

    write_xlsx(schema, batches, out)


EXPORTED_AT_ONCE = 65_536
EXPORTS: Mapping[str, Format | Callable[[pa.Schema, Iterable[pa.RecordBatch], BinaryIO], None]] = {
    ".parquet": _write_parquet,
    ".arrow": _write_arrow,
    ".xlsx": _write_xlsx,
    ".csv": Format.CSV,
    ".json": Format.JSON,
    ".jsonl": Format.JSON,
    ".ndjson": Format.JSON,
}


def overwrite(
    path: str, sources: Sequence[str], options: FileOptions, whole: bool, *, yes: bool, dry_run: bool
) -> None:
    """Replace the partitions that the files have rows for, or the whole table, with the rows of the files."""
    table = open_table(path)
    what = "the whole table" if whole or not table.partition_keys else "the partitions that it has rows of"
    with _open_rows(table, sources, options, None) as rows:
        named = sources[0] if len(sources) == 1 and sources[0] != STDIN else rows.title
        if confirm(f"put the rows of {named} in place of {what}, {table.name}", yes=yes, dry_run=dry_run):
            print_snapshot(table.overwrite(join_rows(rows, table.schema), dynamic=False if whole else None))


def delete(path: str, where: str, *, yes: bool, dry_run: bool) -> None:
    """Delete rows."""
    table = open_table(path)
    count = table.scan(filter=where).count() if dry_run or not yes else 0
    if confirm(f"delete {format_count(count, 'row')} of {table.name}", yes=yes, dry_run=dry_run):
        print_snapshot(table.delete(where))


def compact(path: str, full: bool, where: str | None, order_by: Sequence[str] | None, strategy: str | None) -> None:
    """Compact files."""
    print_snapshot(open_table(path).compact(full, where=where, order_by=order_by, strategy=strategy))


def print_snapshot(snapshot: Snapshot | None) -> None:
    """Print the snapshot of a commit, or that there was none."""
    if snapshot is None:
        typer.echo("nothing to do")
    else:
        typer.echo(
            clean_text(f"snapshot {snapshot.id} ({snapshot.commit_kind}): {snapshot.total_record_count} stored rows")
        )


FileOptions: TypeAlias = Mapping[str, Any]
"""The given options of commands that read files, of `morrow.cli.arguments.FILE_OPTIONS`."""
CSV_OPTIONS = ("delimiter", "header", "null_values", "quote", "encoding")
STDIN = "-"


@contextmanager
def _open_rows(
    table: morrow.Table, sources: Sequence[str], options: FileOptions, schema_mode: SchemaMode
) -> Iterator[RowSource]:
    """Open the rows of files for an existing table."""
    csv = CsvOptions.of(build_csv_options(options))
    with _spool_stdin(sources, options) as found:
        yield open_rows_of(table, found, format=options.get("format"), csv=csv, schema_mode=schema_mode)


def build_csv_options(options: FileOptions) -> dict[str, object]:
    """Return the options of CSV files; escapes such as ``\\t`` and ``\\x01`` are replaced in characters."""
    found: dict[str, object] = {name: options[name] for name in CSV_OPTIONS if options.get(name) not in (None, [])}
    return found | {name: _unescape(options[name]) for name in ("delimiter", "quote") if name in found}


def _unescape(text: str) -> str:
    return text.encode("latin-1", "backslashreplace").decode("unicode_escape") if "\\" in text[:-1] else text


def parse_schema_mode(text: str | None) -> SchemaMode:
    """Return a schema mode. Raises `InvalidArgument`."""
    if text not in (None, "merge"):
        raise InvalidArgument(f"--schema-mode {text}: write merge, or leave it out")
    return cast("SchemaMode", text)


@contextmanager
def _spool_stdin(sources: Sequence[str], options: FileOptions) -> Iterator[list[str]]:
    """Yield the sources with a temporary file instead of ``-``, since formats are read several times."""
    if STDIN not in sources:
        yield list(sources)
        return
    with TemporaryDirectory(prefix="morrow-") as folder:
        form = options.get("format")
        file = Path(folder, f"stdin.{form}" if form else "stdin")
        with file.open("wb") as out:
            shutil.copyfileobj(sys.stdin.buffer, out)
        yield [str(file) if each == STDIN else each for each in sources]
