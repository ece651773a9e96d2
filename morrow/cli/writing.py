"""The commands that write rows or compact files. Each makes one commit and prints one line about it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

import typer

import morrow
from morrow.cli.arguments import Format
from morrow.cli.output import open_output, write_rows
from morrow.cli.targets import open_scan, open_table, resolve_name
from morrow.cli.terminal import confirm, count_batches, write_note
from morrow.engine.errors import DatabaseNotFound, InvalidArgument, TableNotFound
from morrow.engine.plan.time_travel import TravelArguments
from morrow.engine.redaction import clean_text, escape_to_line
from morrow.engine.units import format_count

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.dataset as ds

    from morrow.engine.format.snapshot import Snapshot


def append(path: str, file: Path, kinds: str | None) -> None:
    """Append the rows of a file. With a primary key, they replace rows with the same key."""
    table = open_table(path)
    print_snapshot(table.append(_read_rows(file, table.schema), kinds=kinds))


def upsert(path: str, file: Path) -> None:
    """Upsert the rows of a file: insert new keys and replace rows with existing ones."""
    table = open_table(path)
    print_snapshot(table.upsert(_read_rows(file, table.schema)))


def update(path: str, set_: Mapping[str, str], where: str | None, dry_run: bool) -> None:
    """Change columns of rows."""
    table = open_table(path)
    if dry_run:
        confirm(f"update {format_count(table.scan(filter=where).count(), 'row')}", yes=True, dry_run=True)
    else:
        print_snapshot(table.update(set_, where))


def import_(path: str, file: Path, primary_key: Sequence[str]) -> None:
    """Append the rows of a file, and create the table with the file's columns if it does not exist."""
    try:
        table = open_table(path)
    except (TableNotFound, DatabaseNotFound):
        table, is_made = _create_table(path, file, primary_key), True
    else:
        is_made = False
        if primary_key and tuple(primary_key) != tuple(table.primary_keys):
            raise InvalidArgument(f"{path} exists, with other keys: leave --primary-key out; nothing was written")
    try:
        print_snapshot(table.append(_read_rows(file, table.schema)))
    except BaseException:
        if is_made:
            catalog, name = resolve_name(path)
            catalog.drop_table(name)
        raise


def _create_table(path: str, file: Path, primary_key: Sequence[str]) -> morrow.Table:
    catalog, name = resolve_name(path)
    reader = FORMATS.get(file.suffix.lower())
    if reader is None or not file.is_file():
        _read_rows(file, None)  # raises the error of the file
    import pyarrow as pa

    hint = f"make the table first: morrow create {path} 'id BIGINT, ...'"
    try:
        schema = _infer_schema(file)
    except pa.ArrowInvalid as error:
        reason = escape_to_line(str(error).rpartition("Invalid: ")[2])
        raise InvalidArgument(f"{file}: its columns cannot be told from its rows ({reason}); {hint}") from error
    empty = [escape_to_line(column.name) for column in schema if pa.types.is_null(column.type)]
    if empty:
        raise InvalidArgument(f"{file}: its rows have no value of {', '.join(empty)}; {hint}")
    return catalog.create_table(name, schema=schema, primary_keys=primary_key)


def _infer_schema(file: Path) -> pa.Schema:
    """Return the columns of a file: its own types, or for text files the inferred lossless types."""
    from morrow.cli.text_files import infer_csv_schema, infer_json_schema

    ending = file.suffix.lower()
    found = {"csv": infer_csv_schema, "json": infer_json_schema}.get(FORMATS[ending])
    return found(file) if found else cast("ds.Dataset", _READERS[ending](file, None)).schema


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
    import pyarrow.parquet as pq

    with pq.ParquetWriter(out, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)


def _write_arrow(schema: pa.Schema, batches: Iterable[pa.RecordBatch], out: BinaryIO) -> None:
    import pyarrow as pa

    with pa.ipc.new_file(out, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)


EXPORTED_AT_ONCE = 65_536
EXPORTS: Mapping[str, Format | Callable[[pa.Schema, Iterable[pa.RecordBatch], BinaryIO], None]] = {
    ".parquet": _write_parquet,
    ".arrow": _write_arrow,
    ".csv": Format.CSV,
    ".json": Format.JSON,
    ".jsonl": Format.JSON,
    ".ndjson": Format.JSON,
}
FORMATS: Mapping[str, str] = {
    ".parquet": "parquet",
    ".orc": "orc",
    ".arrow": "ipc",
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
}
"""Extensions of files that can be imported -> Arrow's names of the formats."""


def overwrite(path: str, file: Path, whole: bool, *, yes: bool, dry_run: bool) -> None:
    """Replace the partitions that the file has rows for, or the whole table, with the rows of the file."""
    table = open_table(path)
    what = "the whole table" if whole or not table.partition_keys else "the partitions that it has rows of"
    if confirm(f"put the rows of {file} in place of {what}, {table.name}", yes=yes, dry_run=dry_run):
        print_snapshot(table.overwrite(_read_rows(file, table.schema), dynamic=False if whole else None))


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


def _read_rows(file: Path, schema: pa.Schema | None) -> object:
    """Read the rows of a file by its extension, with text converted to the types of the table."""
    if not file.is_file():
        raise InvalidArgument(f"{file}: there is no such file")
    read = _READERS.get(file.suffix.lower())
    if read is None:
        raise InvalidArgument(f"{file}: the ending says no format; known are {', '.join(sorted(_READERS))}")
    import pyarrow as pa

    try:
        return read(file, schema)
    except pa.ArrowInvalid as error:
        raise InvalidArgument(f"{file}: {error}") from error


def _make_reader(form: str) -> Callable[[Path, pa.Schema | None], object]:
    def read(file: Path, _: pa.Schema | None) -> object:
        import pyarrow.dataset as ds

        from morrow.writers.ingest.sources import to_exact_dataset

        return to_exact_dataset(ds.dataset(file, format=form))

    return read


def _read_csv(file: Path, schema: pa.Schema) -> object:
    from morrow.cli.text_files import read_csv

    return read_csv(file, schema)


def _read_json(file: Path, schema: pa.Schema) -> object:
    from morrow.cli.text_files import read_json

    return read_json(file, schema)


_READERS: dict[str, Callable[[Path, pa.Schema | None], object]] = {
    ".parquet": _make_reader("parquet"),
    ".orc": _make_reader("orc"),
    ".arrow": _make_reader("ipc"),
    ".csv": _read_csv,
    ".json": _read_json,
    ".jsonl": _read_json,
    ".ndjson": _read_json,
}
