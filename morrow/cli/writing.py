"""``morrow append``, ``overwrite``, ``delete`` and ``compact``: one commit each, and a line that says what was done."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from morrow.cli.opening import open_table
from morrow.engine.errors import InvalidArgument
from morrow.engine.telling import shown

if TYPE_CHECKING:
    import pyarrow as pa

    from morrow.engine.format.snapshot import Snapshot


def append(path: str, file: Path, kinds: str | None) -> None:
    """Add the rows of a file; with a primary key, put them in place of those with the same key."""
    table = open_table(path)
    tell(table.append(_rows(file, table.schema), kinds=kinds))


def overwrite(path: str, file: Path, whole: bool) -> None:
    """Replace the partitions that the file has rows of, or the whole table, by the rows of the file."""
    table = open_table(path)
    tell(table.overwrite(_rows(file, table.schema), dynamic=False if whole else None))


def delete(path: str, where: str) -> None:
    """Delete rows."""
    tell(open_table(path).delete(where))


def compact(path: str, full: bool, where: str | None, order_by: Sequence[str] | None, strategy: str | None) -> None:
    """Compact files."""
    tell(open_table(path).compact(full, where=where, order_by=order_by, strategy=strategy))


def tell(snapshot: Snapshot | None) -> None:
    """Say what a commit made; None is nothing."""
    if snapshot is None:
        typer.echo("nothing to do")
    else:
        typer.echo(shown(f"snapshot {snapshot.id} ({snapshot.commit_kind}): {snapshot.total_record_count} stored rows"))


def _rows(file: Path, schema: pa.Schema) -> object:
    """The rows of a file, by its ending; text becomes the types of the table."""
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


def _dataset(form: str) -> Callable[[Path, pa.Schema], object]:
    def read(file: Path, _: pa.Schema) -> object:
        import pyarrow.dataset as ds

        return ds.dataset(file, format=form)

    return read


def _csv(file: Path, schema: pa.Schema) -> object:
    from pyarrow import csv

    return csv.open_csv(file, convert_options=csv.ConvertOptions(column_types=schema, strings_can_be_null=True))


def _json(file: Path, schema: pa.Schema) -> object:
    import pyarrow as pa
    from pyarrow import json

    # JSON has no dates and times: Arrow's reader takes them as text, which is what they are cast from.
    read = pa.schema([field.with_type(pa.string()) if pa.types.is_temporal(field.type) else field for field in schema])
    rows = json.read_json(file, parse_options=json.ParseOptions(explicit_schema=read))
    for field in schema:
        if pa.types.is_temporal(field.type) and field.name in rows.column_names:
            at = rows.column_names.index(field.name)
            rows = rows.set_column(at, field.name, rows.column(at).cast(field.type))
    return rows


_READERS: dict[str, Callable[[Path, pa.Schema], object]] = {
    ".parquet": _dataset("parquet"),
    ".orc": _dataset("orc"),
    ".arrow": _dataset("ipc"),
    ".csv": _csv,
    ".json": _json,
    ".jsonl": _json,
    ".ndjson": _json,
}
