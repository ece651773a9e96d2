"""Export to an Excel workbook, by Polars and XlsxWriter.

Excel has numbers of 15 digits, dates from 1900 on and milliseconds. A column with other values is written as text, in
the form of CSV, so that no value is rounded; of floats, 16 digits are written.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import BinaryIO

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from morrow.cli.output import format_texts
from morrow.engine.errors import Unsupported
from morrow.engine.library_versions import import_array
from morrow.engine.plugins import require_extra

MAX_ROWS = 1_048_575
"""Rows of a worksheet below its header; more are refused."""
MAX_COLUMNS = 16_384
MAX_TEXT = 32_767
"""Characters of a cell; longer texts are refused."""
EXACT_DIGITS = 15
"""Digits of a number that Excel keeps."""
FIRST_DAY = "1900-03-01"
"""The first day that Excel counts right: for Excel, 1900 is a leap year."""
OPTIONS = {"strings_to_urls": False, "strings_to_formulas": False, "strings_to_numbers": False}
"""Options by which texts stay texts. Excel would keep only 65,530 of them as links."""


def write_xlsx(schema: pa.Schema, batches: Iterable[pa.RecordBatch], out: BinaryIO) -> None:
    """Write rows as the one worksheet of a workbook.

    Raises `Unsupported`: more rows, columns or characters than a worksheet holds, or XlsxWriter is not installed.
    """
    with require_extra("xlsx", "xlsxwriter", "excel"):
        from xlsxwriter import Workbook
    if len(schema) > MAX_COLUMNS:
        raise _make_refusal(f"{len(schema):,} columns", f"{MAX_COLUMNS:,}", "name some by --columns")
    held, rows = [], 0
    for batch in batches:
        rows += batch.num_rows
        if rows > MAX_ROWS:
            raise _make_refusal("more rows", f"{MAX_ROWS:,}", "give a --filter or --limit, or export CSV or Parquet")
        held.append(batch)
    table = pa.Table.from_batches(held, schema)
    columns = [
        (name, _convert_column(name, column.combine_chunks()))
        for name, column in zip(schema.names, table.columns, strict=True)
    ]
    frame = pl.DataFrame([column.alias(str(at)) for at, (_, column) in enumerate(columns)])
    with Workbook(out, OPTIONS) as workbook:
        sheet = workbook.add_worksheet("rows")
        frame.write_excel(
            workbook,
            "rows",
            include_header=False,
            position=(1, 0),
            dtype_formats={pl.Date: "yyyy-mm-dd", pl.Datetime: "yyyy-mm-dd hh:mm:ss.000", pl.Int64: "0"},
        )
        sheet.write_row(0, 0, [name for name, _ in columns])


def _convert_column(name: str, column: pa.Array) -> pl.Series:
    if not _is_exact(column):
        column = format_texts(column)
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        longest = pc.max(pc.utf8_length(column)).as_py() or 0
        if longest > MAX_TEXT:
            raise _make_refusal(f"{longest:,} characters of column {name!r} in a cell", f"{MAX_TEXT:,}", "export CSV")
    return import_array(column)


def _is_exact(column: pa.Array) -> bool:
    """Return whether Excel keeps all values of a column as they are."""
    kind = column.type
    if pa.types.is_boolean(kind) or pa.types.is_string(kind) or pa.types.is_null(kind):
        return True
    if pa.types.is_floating(kind):  # 16 digits are written, more than Excel shows
        return bool(pc.all(pc.is_finite(column), min_count=0).as_py())
    if pa.types.is_integer(kind) or pa.types.is_decimal(kind):
        bounds = pc.min_max(column)
        greatest = 10**EXACT_DIGITS / 10 ** (kind.scale if pa.types.is_decimal(kind) else 0)
        return all(each.as_py() is None or abs(each.as_py()) < greatest for each in bounds.values())
    if pa.types.is_date(kind):
        return _is_from(column, kind)
    if pa.types.is_timestamp(kind) and kind.tz is None:
        whole = column.cast(pa.timestamp("ms"), safe=False).cast(kind, safe=False)
        return bool(pc.all(pc.equal(whole, column), min_count=0).as_py()) and _is_from(column, kind)
    return False


def _is_from(column: pa.Array, kind: pa.DataType) -> bool:
    first = pa.scalar(FIRST_DAY).cast(pa.date32()).cast(kind)
    return bool(pc.all(pc.greater_equal(column, first), min_count=0).as_py())


def _make_refusal(what: str, limit: str, hint: str) -> Unsupported:
    return Unsupported(f"xlsx with {what}, where a worksheet holds {limit},", hint=hint)
