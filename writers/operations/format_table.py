"""Writes to format tables: files in partition folders that become visible when all of them are written.

CSV, JSON and text files are written as Java writes them: each value as its text.
"""

from __future__ import annotations

import bz2
import gzip
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import msgspec
import polars as pl
import pyarrow as pa

from morrow.engine.errors import InvalidArgument, StorageError, Unsupported
from morrow.engine.format import types as t
from morrow.engine.format.file_formats import TIMESTAMPS
from morrow.engine.format.paths import partition_path, unescape_path_name
from morrow.engine.io.store import FileStatus
from morrow.engine.names import col
from morrow.engine.options.declarations import Options
from morrow.engine.options.declared import files
from morrow.engine.options.declared.connectors import (
    FORMAT_TABLE_FILE_COMPRESSION,
    FORMAT_TABLE_PARTITION_PATH_ONLY_VALUE,
)
from morrow.engine.options.declared.files import FILE_COMPRESSION
from morrow.engine.options.declared.maintenance import DYNAMIC_PARTITION_OVERWRITE
from morrow.engine.options.declared.table import PARTITION_DEFAULT_NAME
from morrow.engine.options.write_options import parse_write_options
from morrow.engine.plan.filter import NO_FILTER, Filter, FilterLike
from morrow.engine.plan.folder_table import FORMAT_TABLE, FolderFile, FolderTable, PartitionRegistry
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.structs import replace
from morrow.readers.casts.java_strings import format_reals
from morrow.readers.execution.format_tables import Partition, find_partitions, read_parts
from morrow.readers.files.source import list_member_types
from morrow.writers.files.encoders import EncoderOptions, FileLayout, make_encoder
from morrow.writers.ingest.conversion import convert_rows
from morrow.writers.operations.partition_filters import AnyOf, build_partition_filter, parse_partition_spec
from morrow.writers.target import WriteTarget

CODECS = {"parquet": "snappy", "orc": "zstd"}
"""Default codecs of formats, as in Java; text is not compressed by default."""
MAX_FILE_BYTES = 128 << 20
"""Maximum bytes of rows in memory that make one file."""
TIMES_DIFFER = ("parquet",)
STAGING = ".morrow-"
"""Prefix of folders for files that are still being written."""
Encode = Callable[[pl.DataFrame], bytes]


@dataclass(frozen=True)
class Replacement:
    """The partitions that an overwrite replaces: those of the rows (`dynamic`), or all that match `filter`.

    The rows must be in partitions that match the filter.
    """

    filter: Filter = NO_FILTER
    dynamic: bool = False


class NewFile(msgspec.Struct, frozen=True):
    """A written file that is still hidden: the folder of its partition, its name, and its number of rows."""

    folder: str
    name: str
    rows: int


def write_rows(table: FolderTable, data: object, replaced: Replacement | None = None) -> int:
    """Write rows to new files of a format table, and remove the replaced files; return the number of rows.

    Raises:
        InvalidArgument: rows do not fit the columns, the format cannot hold them, or they are outside of the replaced
            partitions. Unsupported: the format.
        StorageError: the store fails; written files are removed or stay hidden.
    """
    with publish_files(table, replaced) as (staging, written):
        written += write_format_files(table, data, staging)
    return sum(each.rows for each in written)


def plan_replace(
    table: FolderTable, partition: AnyOf, condition: FilterLike, *, dynamic: bool | None = None
) -> Replacement:
    """Return the partitions that an overwrite replaces; see `FormatTable.overwrite`.

    Raises `InvalidArgument`: a column is not a partition key, or a value or condition does not fit.
    """
    filter = build_partition_filter(make_target(table, partitioned=True), partition, condition, "overwrite")
    chosen = table.given.get(DYNAMIC_PARTITION_OVERWRITE) if dynamic is None else dynamic
    return Replacement(filter, bool(table.schema.partition_keys) and condition is None and chosen)


def delete_partition_files(table: FolderTable, wanted: AnyOf) -> None:
    """Remove the files of partitions with these values (None: all), which stay as folders or in the catalog.

    Raises `As` `plan_replace`. `StorageError`.
    """
    if wanted != []:
        with publish_files(table, plan_replace(table, wanted, None, dynamic=False)):
            pass


def drop_partitions(table: FolderTable, wanted: Sequence[Mapping[str, object]]) -> None:
    """Remove partitions with their folders, first from the catalog if it keeps them. Raises as `plan_replace`."""
    found = _find_partitions(table, wanted) if wanted else []
    if table.registry is not None:
        table.registry.drop(table.to_specs(each.texts for each in found))
    for each in found:
        if each.files or table.registry is not None:
            table.store.delete_many([file.path for file in each.files])
        table.store.delete_folder(_place(table, table.folder_of(each.texts)))


def _find_partitions(table: FolderTable, wanted: AnyOf) -> list[Partition]:
    """Return partitions with these values, empty ones too."""
    filter = build_partition_filter(make_target(table, partitioned=True), wanted, None, "partition")
    return find_partitions(table, filter, empty=True)


def add_partitions(table: FolderTable, wanted: Sequence[Mapping[str, object]]) -> None:
    """Register partitions in the catalog, and make their folders.

    Raises `AlreadyExists`: a partition is registered already. `Unsupported`: the folders are the partitions.
    """
    registry = _require_registry(table, "ADD PARTITION")
    texts = [_to_texts(table, values) for values in wanted]
    places = [_place(table, table.folder_of(each)) for each in texts]
    registry.create(table.to_specs(texts), ignore_if_exists=False)
    for place in places:
        table.store.make_folder(place)


def ensure_partition(table: FolderTable, values: Mapping[str, object]) -> None:
    """Make a partition's folder, and register it in a catalog that keeps partitions, unless it exists."""
    texts = _to_texts(table, values)
    if table.registry is not None:
        table.registry.create(table.to_specs([texts]))
    table.store.make_folder(_place(table, table.folder_of(texts)))


def _to_texts(table: FolderTable, values: Mapping[str, object]) -> tuple[str | None, ...]:
    """Return the values of a partition as in the names of its folders; None for null."""
    types = [table.schema.by_name[key].type for key in table.schema.partition_keys]
    default, keys = table.given.get(PARTITION_DEFAULT_NAME), table.schema.partition_keys
    given = parse_partition_spec(make_target(table, partitioned=True), values)
    path = partition_path([given[key] for key in keys], types, keys, default_name=default, legacy_name=False)
    texts = [unescape_path_name(folder.partition("=")[2]) for folder in path.split("/")]
    return tuple(None if text == default else text for text in texts)


def repair_partitions(table: FolderTable, *, adds: bool, drops: bool) -> None:
    """Register folders that the catalog lacks (`adds`), and unregister partitions without a folder (`drops`).

    Raises `Unsupported`: the folders are the partitions.
    """
    registry = _require_registry(table, "MSCK REPAIR TABLE")
    found = set(table.list_partitions(registered=False).values())
    known = set(table.list_partitions().values())
    if adds and found - known:
        registry.create(table.to_specs(sorted(found - known, key=str)))
    if drops and known - found:
        registry.drop(table.to_specs(sorted(known - found, key=str)))


def analyze_partitions(table: FolderTable, wanted: Mapping[str, object] | None, *, scans: bool) -> None:
    """Measure partitions, and replace their statistics in the catalog; with `scans` count their rows, too.

    Raises `InvalidArgument`: no partition has these values. `Unsupported`: the folders are the partitions.
    """
    registry = _require_registry(table, "ANALYZE TABLE")
    found = _find_partitions(table, [wanted] if wanted else None)
    if not found and wanted:
        raise InvalidArgument(f"{table.where}: no partition has the values {dict(wanted)}; SHOW PARTITIONS lists them")
    specs = table.to_specs(each.texts for each in found)
    registry.create(specs, [_measure(table, each, spec, scans=scans) for each, spec in zip(found, specs, strict=True)])


UNKNOWN = -1
"""A statistic that the catalog keeps as it is."""


def _measure(table: FolderTable, found: Partition, spec: Mapping[str, str], *, scans: bool) -> dict[str, object]:
    rows = UNKNOWN
    if scans:
        first = table.stored_fields[:1]
        frames = [part.frame(first).select(pl.len()) for part in read_parts(table, NO_FILTER, found.files)]
        rows = sum(int(frame.collect().item()) for frame in frames)
    return {
        "spec": dict(spec),
        "recordCount": rows,
        "fileSizeInBytes": sum(file.status.size for file in found.files),
        "fileCount": len(found.files),
        "lastFileCreationTime": max((file.status.modified_millis for file in found.files), default=0),
        "totalBuckets": UNKNOWN,
    }


def _require_registry(table: FolderTable, what: str) -> PartitionRegistry:
    """Return the partitions in the catalog. Raises `Unsupported` if the folders are the partitions."""
    if table.registry is None:
        hint = "its folders are its partitions; a table in a REST catalog with metastore.partitioned-table has entries"
        raise Unsupported(f"{what} is supported only for partitions in the catalog; for this table it", hint=hint)
    return table.registry


def check_writable(table: FolderTable) -> None:
    """Raise `Unsupported` for a table or columns that Morrow does not write."""
    if table.kind != FORMAT_TABLE:
        raise Unsupported(f"writing a table of the type {table.kind}", where=table.where)
    _check_times(table)
    _make_encoder(table)


def write_format_files(table: FolderTable, data: object, staging: str) -> list[NewFile]:
    """Write rows to files in the folder `staging` of a table, which readers ignore. Raises as `write_rows`."""
    check_writable(table)
    encode, written = _make_encoder(table), []
    extension = TEXT_CODECS[_find_text_codec(table)][0] if table.format in TEXT_ENCODERS else ""
    for folder, frame in _split_by_folder(table, convert_rows(make_target(table), data)):
        new = NewFile(folder, f"data-{uuid.uuid4()}-0.{table.format}{extension}", frame.height)
        place = _place(table, staging, folder)
        table.store.make_folder(place)
        table.store.write(f"{place}/{new.name}", encode(frame))
        written.append(new)
    return written


@contextmanager
def publish_files(table: FolderTable, replaced: Replacement | None) -> Iterator[tuple[str, list[NewFile]]]:
    """Yield the name of a new folder for hidden files, and a list to which the caller adds the written files.

    On exit these become visible, and replaced files are removed. After an error, the hidden files are removed.

    Raises `InvalidArgument`: a file is in a partition that is not replaced. `StorageError`.
    """
    check_writable(table)
    before = [] if replaced is None else table.files()
    staging, written = f"{STAGING}{uuid.uuid4()}", list[NewFile]()
    shown: list[str] = []
    try:
        yield staging, written
        gone = [] if replaced is None else _find_removed_files(table, before, written, replaced)
        for each in written:
            place = _place(table, each.folder)
            table.store.make_folder(place)
            shown.append(f"{place}/{each.name}")
            table.store.move(f"{_place(table, staging, each.folder)}/{each.name}", shown[-1])
        if table.registry is not None and table.schema.partition_keys and written:
            folders = dict.fromkeys(each.folder for each in written)
            table.registry.create(table.to_specs(table.partition_in(each.split("/"), "") for each in folders))
    except BaseException:
        with suppress(StorageError):  # the first of the two errors is more useful
            table.store.discard(shown)
        raise
    finally:
        with suppress(StorageError):  # remaining files are hidden
            table.store.delete_folder(_place(table, staging))
    table.store.delete_many([each.path for each in gone])


def _find_removed_files(
    table: FolderTable, before: Sequence[FolderFile], written: Sequence[NewFile], replaced: Replacement
) -> list[FolderFile]:
    """Return the files that an overwrite removes. Raises `InvalidArgument` for rows outside of replaced partitions."""
    folders = {each.folder: table.partition_in(each.folder.split("/") if each.folder else [], "") for each in written}
    status = FileStatus("", 0, 0, is_dir=False)
    new = [FolderFile("", folder, status, texts) for folder, texts in folders.items()]
    inside = {file.relative for each in find_partitions(table, replaced.filter, new) for file in each.files}
    for outside in folders.keys() - inside:
        raise InvalidArgument(f"{table.where}: the data has rows of {outside!r}, which is not among what it replaces")
    kept = find_partitions(table, replaced.filter, before)
    if not replaced.dynamic:
        return [file for each in kept for file in each.files]
    touched = {_format_values(each) for each in find_partitions(table, NO_FILTER, new)}
    return [file for each in kept if _format_values(each) in touched for file in each.files]


def _format_values(partition: Partition) -> str:
    """Return the values as text, so that NaN equals NaN."""
    return repr(partition.constants.row(0))


def _place(table: FolderTable, *folders: str) -> str:
    return "/".join(each for each in (table.root, *folders) if each)


def _check_times(table: FolderTable) -> None:
    """Raise `Unsupported` for Parquet timestamps in a Hive table, since readers disagree on their unit."""
    if table.is_hives and table.format in TIMES_DIFFER:
        for each in table.stored_fields:
            if any(isinstance(kind, TIMESTAMPS) for kind in _walk_types(each.type)):
                what = f"writing the {table.format} column {each.name!r} of type {each.type} for Hive"
                raise Unsupported(what, where=table.where, hint="its readers differ in the unit; choose ORC, or text")


def _walk_types(kind: t.DataType) -> Iterator[t.DataType]:
    yield kind
    for inner in list_member_types(kind):
        yield from _walk_types(inner)


def make_target(table: FolderTable, *, partitioned: bool = False) -> WriteTarget:
    """Return a target to check rows against, with the table's columns, and its partition keys if `partitioned`."""
    keys = table.schema.partition_keys if partitioned else ()
    schema = replace(table.schema, options={}, partition_keys=keys, primary_keys=())
    metadata = TableMetadata(table.store, table.root)
    options = parse_write_options({}, keyed=False, where=table.where)
    return WriteTarget(metadata, schema, metadata.options(schema), options)


TEXT_CODECS: Mapping[str, tuple[str, Callable[[bytes], bytes] | None]] = {
    "none": ("", None),
    "gzip": (".gz", lambda text: gzip.compress(text, mtime=0)),
    "bzip2": (".bz2", bz2.compress),
    "zstd": (".zst", lambda text: bytes(pa.compress(text, "zstd", asbytes=True))),
}
"""Codecs of text files, with their extensions."""


def _find_text_codec(table: FolderTable) -> str:
    """Return the codec of text files; `file.compression` has the effect that it has in Java. Raises `Unsupported`."""
    given = table.given.get(FORMAT_TABLE_FILE_COMPRESSION) or table.given.text(FILE_COMPRESSION) or "none"
    if given.lower() not in TEXT_CODECS:
        raise Unsupported(
            f"the codec {given!r} in files of {table.format}", where=table.where, hint=f"use {', '.join(TEXT_CODECS)}"
        )
    return given.lower()


def _make_encoder(table: FolderTable) -> Encode:
    given = table.given.get(FORMAT_TABLE_FILE_COMPRESSION) or table.given.text(FILE_COMPRESSION)
    codec = given or CODECS.get(table.format, "none")
    if table.format in TEXT_ENCODERS:
        plain = TEXT_ENCODERS[table.format](table.stored_fields, table.given, table.where)
        compress = TEXT_CODECS[_find_text_codec(table)][1]
        return plain if compress is None else lambda frame: compress(plain(frame))
    write = parse_write_options({}, keyed=False, where=table.where)
    made = make_encoder(table.format, FileLayout(table.stored_fields), EncoderOptions(codec, write, table.where))

    def encoded(frame: pl.DataFrame) -> bytes:
        block = made.block(frame)
        return bytes(made.head + bytes(block.body) + made.foot([block]))

    return encoded


def _split_by_folder(table: FolderTable, frames: Iterable[pl.DataFrame]) -> Iterator[tuple[str, pl.DataFrame]]:
    """Yield the rows of one file each, with the folder of their partition."""
    waiting: dict[str, list[pl.DataFrame]] = {}
    size: dict[str, int] = {}
    for frame in frames:
        for folder, part in _split_by_partition(table, frame):
            waiting.setdefault(folder, []).append(part)
            size[folder] = size.get(folder, 0) + int(part.estimated_size())
            if size[folder] >= MAX_FILE_BYTES:
                yield folder, pl.concat(waiting.pop(folder))
                del size[folder]
    for folder, parts in waiting.items():
        yield folder, pl.concat(parts)


def _split_by_partition(table: FolderTable, frame: pl.DataFrame) -> Iterator[tuple[str, pl.DataFrame]]:
    keys = list(table.schema.partition_keys)
    if not keys:
        if frame.height:
            yield "", frame
        return
    types = [table.schema.by_name[key].type for key in keys]
    default = table.given.get(PARTITION_DEFAULT_NAME)
    only_values = table.given.get(FORMAT_TABLE_PARTITION_PATH_ONLY_VALUE)
    names = [each.name for each in table.stored_fields]
    for part in frame.partition_by(keys, maintain_order=True):
        values = part[keys].row(0)
        folders = partition_path(values, types, keys, default_name=default, legacy_name=False).split("/")
        if only_values:
            folders = [folder.partition("=")[2] for folder in folders]
        yield "/".join(folders), part[names]


TIMESTAMP = "%Y-%m-%d %H:%M:%S%.f"
Fields = Sequence[t.DataField]


def make_csv_encoder(fields: Fields, given: Options, where: str) -> Encode:
    """Return an encoder of CSV files. Raises `Unsupported` for types or options that it does not write."""
    _check(fields, where)
    delimiter, null = given.get(files.CSV_FIELD_DELIMITER), given.get(files.CSV_NULL_LITERAL)
    line, quote = given.get(files.CSV_LINE_DELIMITER), given.get(files.CSV_QUOTE_CHARACTER)
    escape = given.get(files.CSV_ESCAPE_CHARACTER)
    if not line or len(quote) != 1 or len(escape) != 1 or quote == "\0" or escape == "\0" or len(delimiter) != 1:
        raise Unsupported("writing CSV without quotes, escapes or lines", where=where, hint="keep those of Paimon")
    special = [delimiter, quote, escape]
    ends = ["\r", "\n"] if line == "\n" else [line]
    if any(each in null for each in (*special, *ends)):
        raise Unsupported(f"writing CSV with the null literal {null!r}", where=where, hint="set csv.null-literal")

    def encode(frame: pl.DataFrame) -> bytes:
        texts = [_to_text(frame.get_column(each.name), each.type) for each in fields]
        for series in texts:
            _refuse(series, series == null, f"the text {null!r} would be read as null; set csv.null-literal", where)
            _refuse(series, series.str.contains_any(ends), "CSV holds no line breaks; choose JSON or Parquet", where)
        written = []
        for name in map(str, range(len(texts))):
            value = col(name)
            escaped = value.str.replace_all(escape, escape * 2, literal=True)
            escaped = escaped.str.replace_all(quote, escape + quote, literal=True)
            # Java reads a line of blanks as nulls.
            needs = value.str.contains_any(special) | ((value != "") & (value.str.strip_chars() == ""))
            quoted = pl.concat_str([pl.lit(quote), escaped, pl.lit(quote)])
            written.append(pl.when(needs).then(quoted).otherwise(value).fill_null(null).alias(name))
        rows = pl.DataFrame({str(at): series for at, series in enumerate(texts)}).select(
            pl.concat_str(written, separator=delimiter)
        )
        lines = rows.to_series().to_list()
        if given.get(files.CSV_INCLUDE_HEADER):
            lines.insert(0, delimiter.join(each.name for each in fields))
        return "".join(f"{each}{line}" for each in lines).encode()

    return encode


def make_json_encoder(fields: Fields, given: Options, where: str) -> Encode:
    """Return an encoder of JSON files, one object per line. Raises `Unsupported` for types that it does not write."""
    _check(fields, where)
    line = given.get(files.JSON_LINE_DELIMITER)

    def encode(frame: pl.DataFrame) -> bytes:
        texts = {each.name: _to_text(frame.get_column(each.name), each.type) for each in fields}
        rows = pl.DataFrame({"row": pl.DataFrame(texts).to_struct("row")})
        lines = rows.select(col("row").struct.json_encode()).to_series().to_list()
        return "".join(f"{each}{line}" for each in lines).encode()

    return encode


def make_text_encoder(fields: Fields, given: Options, where: str) -> Encode:
    """Return an encoder of text files: the only column as lines. Raises `Unsupported` for other columns.

    As in Spark and Java Paimon, null is an empty line, and a line break in a value makes two values.
    """
    line = given.get(files.TEXT_LINE_DELIMITER)
    if len(fields) != 1 or not isinstance(fields[0].type, t.VarCharType):
        raise Unsupported("a text file of other columns than one STRING", where=where)

    def encode(frame: pl.DataFrame) -> bytes:
        values = frame.get_column(fields[0].name).fill_null("").to_list()
        return "".join(f"{each}{line}" for each in values).encode()

    return encode


TEXT_ENCODERS: Mapping[str, Callable[[Fields, Options, str], Encode]] = {
    "csv": make_csv_encoder,
    "json": make_json_encoder,
    "text": make_text_encoder,
}


def _check(fields: Fields, where: str) -> None:
    for each in fields:
        if type(each.type) not in _TEXTS:
            raise Unsupported(f"the type {each.type} in a text format", where=where, hint="choose Parquet or ORC")


def _to_text(series: pl.Series, kind: t.DataType) -> pl.Series:
    return _TEXTS[type(kind)](series, kind)


def _refuse(series: pl.Series, found: pl.Series, why: str, where: str) -> None:
    if found.any():
        raise InvalidArgument(f"{where}, column {series.name!r}: {why}")


def _to_plain_text(series: pl.Series, _: t.DataType) -> pl.Series:
    return series.cast(pl.String)


_TEXTS: dict[type[t.DataType], Callable[[pl.Series, t.DataType], pl.Series]] = {
    **dict.fromkeys((t.CharType, t.VarCharType, t.BooleanType, t.DecimalType, t.DateType), _to_plain_text),
    **dict.fromkeys((t.TinyIntType, t.SmallIntType, t.IntType, t.BigIntType), _to_plain_text),
    **dict.fromkeys((t.FloatType, t.DoubleType), format_reals),
    **dict.fromkeys((t.BinaryType, t.VarBinaryType), lambda series, _: series.bin.encode("base64")),
    t.TimestampType: lambda series, _: series.dt.strftime(TIMESTAMP),
}
