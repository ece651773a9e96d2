"""Results of commands as ``table``, ``vertical``, ``json``, ``csv`` or ``arrow``, on standard output or in a file."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, TypeAlias

import pyarrow as pa
import typer

from morrow.cli.arguments import Format
from morrow.cli.plain_text import format_plain, normalize_array
from morrow.cli.terminal import count_batches
from morrow.engine.errors import InvalidArgument

TABLE_ROWS = 20
"""Default limit of rows in the form ``table``, which is for people."""

TABLES = (Format.TABLE, Format.VERTICAL)

TEXT_BATCH_ROWS = 16_384
"""Rows converted to text at a time, since text is larger than columns."""


def write_rows(
    schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
    form: Format,
    output: Path | None = None,
    cap: int | None = None,
    header: bool = True,
    rows: int = 0,
) -> None:
    """Write the rows of `batches` in the requested form; `header` applies to CSV.

    `rows` is the total for the progress display, 0 if unknown.

    One batch at a time is in memory, except in ``table`` and ``vertical``, which hold all rows. With `cap`, these two
    show up to `cap` rows and a note if there are more; other forms ignore it.

    Raises:
        typer.BadParameter: Arrow bytes to a terminal. InvalidArgument: the file cannot be created.
        Unsupported: a type without text form. Also errors of reading; no incomplete file is left then.
    """
    if form is Format.ARROW and output is None and sys.stdout.isatty():
        raise typer.BadParameter("arrow is not for a terminal: name a file with --output, or pipe it on")
    shown = output is not None or not sys.stdout.isatty() or form in TABLES
    with open_output(output) as out:
        if form in TABLES:
            _write_table(schema, count_batches(batches, rows=rows), out, cap, form is Format.VERTICAL)
        else:
            write = WRITERS[form] if header else HEADLESS.get(form, WRITERS[form])
            write(schema, count_batches(batches, rows=rows, shown=shown), out)


@contextmanager
def open_output(output: Path | None) -> Iterator[BinaryIO]:
    """Open standard output, or a file that gets its name when it is complete.

    Raises `InvalidArgument`: the file cannot be created.
    """
    if output is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    draft = output.with_name(f".{output.name}.{os.getpid()}.part")
    try:
        file = draft.open("xb")
    except OSError as error:
        raise InvalidArgument(
            f"--output {output}: {error.strerror}; name a file in a folder that can be written"
        ) from error
    try:
        with file:
            yield file
        draft.replace(output)
    finally:
        draft.unlink(missing_ok=True)


def _write_arrow(schema: pa.Schema, batches: Iterable[pa.RecordBatch], out: BinaryIO) -> None:
    import pyarrow as pa

    stream = pa.ipc.new_stream(out, schema)
    for batch in batches:
        stream.write_batch(batch)
    # Not in a `finally`: an interrupted stream must not end like a complete one.
    stream.close()


def _write_json(_: pa.Schema, batches: Iterable[pa.RecordBatch], out: BinaryIO) -> None:
    from morrow.cli.json_text import format_json_lines

    for batch in _split_batches(batches):
        out.write(format_json_lines(batch))


def _write_csv(schema: pa.Schema, batches: Iterable[pa.RecordBatch], out: BinaryIO) -> None:
    import polars as pl

    # A separate row, since there may not be any batch.
    header = pl.DataFrame([[name] for name in schema.names], schema=[str(i) for i in range(len(schema.names))])
    out.write(header.write_csv(include_header=False).encode())
    _write_csv_rows(schema, batches, out)


def _write_csv_rows(_: pa.Schema, batches: Iterable[pa.RecordBatch], out: BinaryIO) -> None:
    import polars as pl

    for batch in _split_batches(batches):
        columns = {
            str(i): pl.Series(pl.from_arrow(format_texts(column)), dtype=pl.String)
            for i, column in enumerate(batch.columns)
        }
        out.write(pl.DataFrame(columns).write_csv(include_header=False).encode())


Write: TypeAlias = "Callable[[pa.Schema, Iterable[pa.RecordBatch], BinaryIO], None]"
WRITERS: Mapping[Format, Write] = {
    Format.JSON: _write_json,
    Format.CSV: _write_csv,
    Format.ARROW: _write_arrow,
}
HEADLESS: Mapping[Format, Write] = {Format.CSV: _write_csv_rows}


def _split_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for start in range(0, len(batch), TEXT_BATCH_ROWS):
            yield batch.slice(start, TEXT_BATCH_ROWS)


def _write_table(
    schema: pa.Schema, batches: Iterable[pa.RecordBatch], out: BinaryIO, cap: int | None, vertical: bool
) -> None:
    from morrow.cli.table_layout import render
    from morrow.cli.terminal import emit

    rows, more = _read_first_rows(batches, cap)
    numeric = [_is_number(kind) for kind in schema.types]
    text = render(schema.names, rows, numeric=numeric, terminal=out is sys.stdout.buffer, vertical=vertical)
    note = " shown, there are more: give --limit, or another --format" if more else ""
    emit(f"{text}{_describe_count(len(rows))}{note}\n", out)


def _read_first_rows(batches: Iterable[pa.RecordBatch], cap: int | None) -> tuple[list[tuple[str | None, ...]], bool]:
    """Return up to `cap` rows as text, and whether there are more."""

    rows: list[tuple[str | None, ...]] = []
    for batch in _split_batches(batches):
        left = len(batch) if cap is None else cap - len(rows)
        shown = batch.slice(0, left)
        rows += zip(*(format_texts(column).to_pylist() for column in shown.columns), strict=True)
        if len(batch) > left:
            return rows, True
    return rows, False


def _describe_count(rows: int) -> str:
    return "1 row" if rows == 1 else f"{rows:,} rows"


def _is_number(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def format_texts(array: pa.Array) -> pa.Array:
    """Return the values as text (large_string); nulls stay null.

    Raises `Unsupported`: a type that only SQL produces and tables lack, such as an interval or a union.
    """
    array = normalize_array(array)
    if not _is_nested(array.type):
        return format_plain(array)
    from morrow.cli.json_text import format_nested  # needs Arrow's compute functions, which are slow to import

    return format_nested(array)


def _is_nested(kind: pa.DataType) -> bool:
    tests = (pa.types.is_map, pa.types.is_list, pa.types.is_large_list, pa.types.is_struct)
    return any(test(kind) for test in tests)
