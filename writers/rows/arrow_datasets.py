"""Arrow datasets of Parquet files from other writers, without the timestamps that Arrow reads as other moments.

Arrow makes nanoseconds of INT96, and those wrap around outside of 1677 to 2262: 9999-12-31 becomes a day of 1816.
Spark 2 and Hive count days before 1582-10-15 in the Julian calendar, which only a note in the footer says.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from morrow.engine.errors import Unsupported
from morrow.engine.units import NANOS_PER_MICRO, NANOS_PER_MILLI

if TYPE_CHECKING:
    import pyarrow.dataset as ds

INT96 = "INT96"
GREGORIAN_MILLIS = (dt.date(1582, 10, 15) - dt.date(1970, 1, 1)).days * 86_400_000
"""The first moment of the Gregorian calendar, in epoch milliseconds."""
MAX_NANOS_MILLIS = (2**63 - 1) // NANOS_PER_MILLI - 1
"""The last millisecond, and negated the first, that int64 nanoseconds hold."""
JULIAN_KEYS = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")
SPARK_VERSION = b"org.apache.spark.version"
LAST_JULIAN_SPARK = 2
HIVE_PROLEPTIC = b"writer.date.proleptic"


def exact_dataset(data: Any) -> Any:
    """Return a dataset whose timestamps are those of its files: `data`, or one that reads INT96 as microseconds.

    Other objects than datasets of Parquet files are returned as they are. The footers of all files are read, and their
    INT96 columns.

    Raises:
        Unsupported: INT96 outside of 1677 to 2262 beside nanoseconds, or dates of the Julian calendar.
    """
    import pyarrow.dataset as ds

    if isinstance(data, ds.UnionDataset):
        for child in data.children:
            if exact_dataset(child) is not child:
                raise Unsupported(
                    "INT96 outside of 1677 to 2262 in a union of datasets", hint="append one dataset after the other"
                )
        return data
    is_parquet = isinstance(data, ds.FileSystemDataset) and isinstance(data.format, ds.ParquetFileFormat)
    if not is_parquet or data.format.read_options.coerce_int96_timestamp_unit not in (None, "ns"):
        return data
    given: dict[str, Any] = getattr(data, "_scan_options", {})
    whole = data
    if given:  # of a filtered dataset, whose fragments Arrow does not hand out
        whole = data.replace_schema(data.schema)
        whole._scan_options = {}
    fragments = list(whole.get_fragments())
    wide = [_is_wide(fragment) for fragment in fragments]
    if not any(wide):
        return data
    exact = [_read_in(fragment, "us") for fragment in fragments]
    types = {field.name: field.type for fragment in exact for field in fragment.physical_schema}
    columns = {name for fragment in fragments if _has_int96(fragment) for name in _int96_columns(fragment)}
    schema = pa.schema([f.with_type(types[f.name]) if f.name in columns else f for f in data.schema])
    made = ds.FileSystemDataset(exact, schema, exact[0].format, data.filesystem)
    return made.filter(given["filter"]) if "filter" in given else made


def _is_wide(fragment: ds.ParquetFileFragment) -> bool:
    """Return whether INT96 of this file do not fit nanoseconds. Raises as `exact_dataset`."""
    has_int96, is_julian = _has_int96(fragment), _is_julian(fragment.metadata.metadata or {})
    if not (has_int96 or is_julian):
        return False
    coarse = _read_in(fragment, "ms")
    int96 = _int96_columns(fragment) if has_int96 else []
    if is_julian:
        columns = [f.name for f in coarse.physical_schema if _has_time(f.type)]
        if _bounds(coarse, columns)[0] < GREGORIAN_MILLIS:
            raise Unsupported(
                "a date before 1582-10-15 in the Julian calendar, as Spark 2 and Hive write them,",
                where=fragment.path,
                hint="let Spark write the file anew, with spark.sql.parquet.datetimeRebaseModeInWrite=CORRECTED and "
                "spark.sql.parquet.int96RebaseModeInWrite=CORRECTED",
            )
    low, high = _bounds(coarse, int96)
    if max(-low, high) <= MAX_NANOS_MILLIS:
        return False
    if _has_nanos(fragment, int96):
        raise Unsupported(
            "INT96 with timestamps outside of 1677 to 2262 beside others with nanoseconds",
            where=fragment.path,
            hint="let DuckDB read it, which cuts them to microseconds: "
            f"""table.append(duckdb.sql("FROM read_parquet('{fragment.path}')"))""",
        )
    return True


def _has_int96(fragment: ds.ParquetFileFragment) -> bool:
    schema = fragment.metadata.schema
    return any(schema.column(at).physical_type == INT96 for at in range(fragment.metadata.num_columns))


def _int96_columns(fragment: ds.ParquetFileFragment) -> list[str]:
    """Return the columns whose type follows the unit that INT96 are read in."""
    coarse = _read_in(fragment, "ms").physical_schema
    return [field.name for at, field in enumerate(fragment.physical_schema) if field.type != coarse.field(at).type]


def _is_julian(notes: Mapping[bytes, bytes]) -> bool:
    if any(key in notes for key in JULIAN_KEYS) or notes.get(HIVE_PROLEPTIC) == b"false":
        return True
    major = notes.get(SPARK_VERSION, b"").partition(b".")[0]
    return major.isdigit() and int(major) <= LAST_JULIAN_SPARK


def _read_in(fragment: ds.ParquetFileFragment, unit: str) -> ds.ParquetFileFragment:
    """Return the same rows of a file, with INT96 read in this unit."""
    import pyarrow.dataset as ds

    dictionaries = fragment.format.read_options.dictionary_columns
    options = ds.ParquetReadOptions(dictionary_columns=dictionaries, coerce_int96_timestamp_unit=unit)
    return ds.ParquetFileFormat(read_options=options).make_fragment(
        fragment.path or fragment.buffer,
        fragment.filesystem,
        fragment.partition_expression,
        row_groups=[group.id for group in fragment.row_groups],
    )


def _bounds(fragment: ds.ParquetFileFragment, columns: Sequence[str]) -> tuple[int, int]:
    """Return the least and the greatest moment in these columns in epoch milliseconds, 0 if there are none."""
    low = high = 0
    for moments in _moments(fragment, columns):
        found = pc.min_max(moments.cast(pa.timestamp("ms"), safe=False).cast(pa.int64()))
        if found["min"].is_valid:
            low, high = min(low, found["min"].as_py()), max(high, found["max"].as_py())
    return low, high


def _has_nanos(fragment: ds.ParquetFileFragment, columns: Sequence[str]) -> bool:
    """Return whether a moment is no whole microsecond. Both products wrap around, their difference does not."""
    micros = _moments(_read_in(fragment, "us"), columns)
    for nanos, whole in zip(_moments(fragment, columns), micros, strict=True):
        wrapped = pc.multiply(whole.cast(pa.int64()), NANOS_PER_MICRO)
        if pc.any(pc.not_equal(nanos.cast(pa.int64()), wrapped)).as_py():
            return True
    return False


def _moments(fragment: ds.ParquetFileFragment, columns: Sequence[str]) -> Iterator[pa.Array]:
    if columns:
        for batch in fragment.to_batches(columns=list(columns)):
            yield from _leaves(batch.columns)


def _leaves(arrays: Iterable[pa.Array]) -> Iterator[pa.Array]:
    """Yield the dates and timestamps in arrays, those of members and items too."""
    for array in arrays:
        if pa.types.is_timestamp(array.type) or pa.types.is_date(array.type):
            yield array
        elif pa.types.is_map(array.type):
            yield from _leaves([array.keys, array.items])
        elif pa.types.is_struct(array.type):
            yield from _leaves(array.flatten())
        elif pa.types.is_nested(array.type):
            yield from _leaves([array.flatten()])


def _has_time(kind: pa.DataType) -> bool:
    if pa.types.is_nested(kind):
        return any(_has_time(kind.field(at).type) for at in range(kind.num_fields))
    return bool(pa.types.is_timestamp(kind) or pa.types.is_date(kind))
