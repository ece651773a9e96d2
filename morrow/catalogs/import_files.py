"""The files that a path, a pattern or a list names for an import, and the values in the names of their folders.

Folders of tables of other formats (Delta Lake, Iceberg, Hudi, ...) also hold files with removed rows, so they are
refused here; `morrow.catalogs.import_sources` opens some by their libraries.
"""

from __future__ import annotations

import datetime as dt
import glob
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from morrow.engine.errors import FileMissing, InvalidArgument, MorrowError, StorageError, Unsupported
from morrow.engine.structs import replace
from morrow.writers.ingest.row_files import (
    CSV,
    TAB_ENDING,
    TEXTS,
    Open,
    add_columns,
    check_same_names,
    detect_format,
    get_ending,
    infer_text_schema,
    make_difference_error,
    merge_schemas,
    open_dataset,
    read_fragment,
    read_text,
)
from morrow.writers.ingest.sources import Piece, Source, open_source
from morrow.writers.ingest.store_paths import Place, StorePath, find_common_folder, is_match, open_place
from morrow.writers.ingest.text_files import CsvOptions

if TYPE_CHECKING:
    import pyarrow.dataset as ds

HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
DAY = re.compile(r"\d{4}-\d\d-\d\d")
WHOLE_NUMBER = re.compile(r"0|-?[1-9]\d{0,17}")
"""Texts that are unchanged by parsing as an integer. ``007`` is not one: its zeros would be lost."""
DELTA_VERSION = re.compile(r"\d{20}\.(checkpoint\..*|json)|_last_checkpoint")
HIVE_TRANSACTION = re.compile(r"(base|delta|delete_delta)_\d{7,}(_\d+)*|_orc_acid_version")
ICEBERG_METADATA = (".metadata.json", "version-hint.text")
DUCKLAKE_FILE = "ducklake-"
PAIMON_SCHEMA = re.compile(r"schema-\d+")


class _Writer(NamedTuple):
    """A table format whose Parquet files also contain deleted rows, and how to export its live rows."""

    name: str
    line: str


IMPORT = "catalog.import_table('{path}', '{name}')"
APPEND = "rows = {rows}; catalog.create_table('{{name}}', rows).append(rows)"
DELTA = _Writer("Delta Lake", IMPORT)
ICEBERG = _Writer("Iceberg", IMPORT)
ICEBERG_FILE = _Writer("Iceberg", "catalog.import_table('<table>/metadata/<newest>.metadata.json', '{name}')")
HUDI = _Writer("Hudi", APPEND.format(rows="spark.read.format('hudi').load('{path}').toArrow()"))
STREAM = _Writer("Spark's streaming sink", APPEND.format(rows="spark.read.parquet('{path}').toArrow()"))
DUCKLAKE = _Writer(
    "DuckLake", APPEND.format(rows="""duckdb.sql("ATTACH 'ducklake:<catalog>' AS lake; FROM lake.<table>")""")
)
HIVE = _Writer(
    "Hive with transactions",
    "INSERT OVERWRITE DIRECTORY '<folder>' STORED AS PARQUET SELECT * FROM <table>, in Hive, and import that folder",
)
PAIMON = _Writer("Paimon", "catalog.copy_table(morrow.open('{path}'), '{name}')")
FOOTER_KEYS: Mapping[bytes, _Writer] = {b"iceberg.schema": ICEBERG_FILE, b"org.apache.hudi.bloomfilter": HUDI}
OWN_COLUMNS: Mapping[str, _Writer] = {
    "_hoodie_commit_time": HUDI,
    "_VALUE_KIND": PAIMON,
    "_SEQUENCE_NUMBER": PAIMON,
    "_ducklake_internal_row_id": DUCKLAKE,
}


@dataclass(frozen=True)
class RowFile:
    """A file with the values that its folders ``<column>=<value>`` name, None for null."""

    path: Place
    values: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True)
class Part:
    """Rows that are imported as a whole or not at all: a file, or all rows of another source."""

    open: Open
    name: str = ""
    """The whole path of a file; empty for rows that are not recorded."""
    state: str = ""
    """Size and time of a file, or the version of a table: another state of the same name is not imported again."""
    size: int = 0
    rows: int = 0
    """The number of rows; 0 if it is unknown."""
    is_stream: bool = False
    """Whether the rows can be read only once."""
    is_partition: bool = False
    """Whether the file lies in a folder that names the values of all partition columns."""


@dataclass(frozen=True)
class RowSource:
    """Rows to import: their title, parts and columns."""

    title: str
    parts: tuple[Part, ...]
    schema: pa.Schema | None
    """The columns; None for text files whose types are not needed, since the table exists."""
    partition_keys: tuple[str, ...] = ()
    version: str | None = None
    """The version of a table of another format; all parts belong to it."""


def find_files(
    sources: Sequence[str], name: str, target: str, storage_options: Mapping[str, str] | None = None
) -> list[RowFile]:
    """Return the files that paths and patterns name, sorted within each of them.

    Hidden files (``_`` or ``.`` begins their names or folders) are left out, unless a path names them.

    Args:
        name: the table to be written, for messages.
        target: its location; it must not contain the files, nor a folder of files contain it.
        storage_options: the options of remote stores.

    Raises:
        InvalidArgument: a path without files, or folders of two files that name different columns.
        Unsupported: files that belong to a table of another format.
    """
    found: dict[Place, RowFile] = {}
    named: list[Place] = []
    for location in sources:
        root, pattern = _split_pattern(location, storage_options)
        if pattern is None and root.is_file():
            named.append(root)
            continue
        if not root.is_dir():
            raise InvalidArgument(f"{location}: there is no such file or folder")
        paths = list(_walk(root, name, target) if pattern is None else _match_pattern(root, pattern, name, target))
        if not paths:
            raise InvalidArgument(
                f"{location}: there is no file to import; files whose names begin with '_' or '.' are left out"
            )
        found.update((path, RowFile(path, _parse_folder_values(root, path))) for path in paths)
    if named:
        _check_files(named, name, target)
        root = find_common_folder(named)
        found.update((path, RowFile(path, _parse_folder_values(root, path))) for path in named)
    return [*found.values()]


def _split_pattern(location: str, storage_options: Mapping[str, str] | None) -> tuple[Place, str | None]:
    """Return a path, or the folder before the first part with a wildcard and the pattern below it."""
    whole = open_place(location, storage_options)
    if not glob.has_magic(str(whole)) or whole.is_file() or (isinstance(whole, Path) and whole.exists()):
        return whole, None
    parts = whole.parts if isinstance(whole, Path) else tuple(whole.key.split("/"))
    at = next((at for at, part in enumerate(parts) if glob.has_magic(part)), None)
    if at is None:
        return whole, None
    root = Path(*parts[:at]) if isinstance(whole, Path) else StorePath(whole.store, "/".join(parts[:at]))
    return root, "/".join(parts[at:])


def _match_pattern(root: Place, pattern: str, name: str, target: str) -> Iterator[Place]:
    """Yield the files that match, and those below the folders that do."""
    above = pattern.removesuffix("**").rstrip("/")  # a folder is walked with all that is in it
    if isinstance(root, StorePath):
        patterns = above.split("/") if above else []
        yield from (each for each in _walk(root, name, target) if is_match(each.relative_to(root).parts, patterns))
        return
    for path in sorted(root.glob(above)) if above else [root]:
        if any(map(_is_hidden, path.relative_to(root).parts)):
            continue
        if path.is_dir():
            yield from _walk(path, name, target)
        else:
            _check_files([path], name, target)
            yield path


def _walk(root: Place, name: str, target: str) -> Iterator[Any]:
    """Yield the paths of data files, sorted. Raises `Unsupported` if the folder is part of another kind of table."""
    _check_apart(root, target)
    for parent in root.resolve().parents:
        _check_folder(parent, name)
    if isinstance(root, StorePath):
        yield from _walk_store(root, name)
        return
    walked: set[str] = set()
    for folder, folders, files in os.walk(root, followlinks=True):
        _check_folder(Path(folder), name)
        real = os.path.realpath(folder)
        folders[:] = [] if real in walked else sorted(each for each in folders if not _is_hidden(each))
        if real not in walked:
            yield from (Path(folder, each) for each in sorted(files) if not _is_hidden(each))
        walked.add(real)


def _walk_store(root: StorePath, name: str) -> Iterator[StorePath]:
    """Yield the files of a remote folder, from one listing."""
    files, entries = sorted(root.walk()), dict[str, set[str]]()
    for file in files:
        parts = file.relative_to(root).parts
        for at, part in enumerate(parts):
            entries.setdefault("/".join(parts[:at]), set()).add(part)
    for folder in entries:
        place = root / folder if folder else root
        if not any(map(_is_hidden, folder.split("/"))):
            _check_folder(place, name, lambda *inner, at=folder: entries.get("/".join(filter(None, (at, *inner))), ()))
    yield from (file for file in files if not any(map(_is_hidden, file.relative_to(root).parts)))


def _check_files(paths: Sequence[Place], name: str, target: str) -> None:
    for parent in dict.fromkeys(parent for path in paths for parent in path.resolve().parents):
        _check_folder(parent, name)
    for path in paths:
        goal = _find_target(path, target)
        if goal is not None and goal in path.resolve().parents:
            raise InvalidArgument(f"{path}: the file lies in the folder of the table, {target}; move it elsewhere")


def open_files(
    files: Sequence[RowFile], *, form: str | None, csv: CsvOptions, merge: bool, table: pa.Schema | None, name: str
) -> RowSource:
    """Return the rows of files.

    Args:
        form: the format of text files whose names do not show it.
        csv: the form of CSV files.
        merge: take columns that only some files have. False: refuse files that differ.
        table: the columns of the table, if it exists.
        name: the table to be written, for messages.

    Raises:
        InvalidArgument: files of several formats, with different columns, or that contradict their folders.
        Unsupported: files of a table of another format, or dates that no reader reads rightly.
    """
    forms = {file.path: detect_format(file.path, form) for file in files}
    first = files[0].path
    other = next((path for path in forms if forms[path] != forms[first]), None)
    if other is not None:
        raise InvalidArgument(
            f"{other} is a file of the format {forms[other]}, {first} of {forms[first]}; "
            "import one format at a time, by a pattern such as '*.parquet'"
        )
    if csv != CsvOptions() and forms[first] != CSV:
        raise InvalidArgument(f"{first} is a file of the format {forms[first]}; options of CSV files are for CSV alone")
    if csv.delimiter is None and get_ending(first) == TAB_ENDING:
        csv = replace(csv, delimiter="\t")
    keys = tuple(files[0].values)
    if forms[first] in TEXTS:
        schema, opened = _open_texts(files, forms[first], csv, merge, table)
    else:
        schema, opened = _open_dataset(files, forms[first], merge, name)
    _check_common_keys(files)
    fields = [_make_partition_field(key, [one.values[key] for one in files], schema) for key in keys]
    parts = tuple(_make_part(file, each, fields) for file, each in zip(files, opened, strict=True))
    if schema is not None:
        schema = pa.unify_schemas([schema, pa.schema(fields)])
        _check_distinct(schema, str(first.parent))
    return RowSource(describe_files(files), parts, schema, keys)


def describe_files(files: Sequence[RowFile]) -> str:
    """Return one path, or the number of files and their common folder."""
    if len(files) == 1:
        return str(files[0].path)
    return f"{len(files)} files of {find_common_folder([file.path for file in files])}"


class _Opened(NamedTuple):
    """The columns of a file, as far as they are known, and a function that opens its rows, or some of its columns."""

    names: tuple[str, ...]
    open: Callable[..., Source]
    rows: int = 0


def _open_dataset(files: Sequence[RowFile], form: str, merge: bool, name: str) -> tuple[pa.Schema, list[_Opened]]:
    fragments = list(open_dataset([file.path for file in files], form, merge).get_fragments())
    for file, fragment in zip(files, fragments, strict=True):
        _check_footer(fragment, str(file.path), name)
    schema = merge_schemas({fragment.path: fragment.physical_schema for fragment in fragments}, merge)
    return schema, [
        _Opened(tuple(each.physical_schema.names), partial(_open_fragment, each), _count_rows(each))
        for each in fragments
    ]


def _count_rows(fragment: ds.FileFragment) -> int:
    return int(getattr(getattr(fragment, "metadata", None), "num_rows", 0))


def _open_fragment(fragment: ds.FileFragment, schema: pa.Schema, columns: Sequence[str] | None = None) -> Source:  # noqa: ARG001  # files have types of their own
    return read_fragment(fragment, columns)


def _open_texts(
    files: Sequence[RowFile], form: str, csv: CsvOptions, merge: bool, table: pa.Schema | None
) -> tuple[pa.Schema | None, list[_Opened]]:
    paths, keys = [file.path for file in files], files[0].values
    given = () if table is None else tuple(each for each in table.names if each not in keys)
    names = dict.fromkeys(paths, given)
    if form == CSV:
        names = {path: tuple(csv.read_names(path, given)) for path in paths}
        for path in () if merge else paths:
            if problem := check_same_names(names[paths[0]], names[path]):
                raise make_difference_error(str(path), str(paths[0]), problem)
        alien = next((path for path in paths if not set(names[path]) & set(names[paths[0]])), None)
        if alien is not None:
            raise InvalidArgument(
                f"{alien}: it shares no column with {paths[0]}; "
                "give header=False (--no-header) if the files lack a header"
            )
    schema = None
    if table is None or merge or keys:
        schema = infer_text_schema(paths, form, csv, given)
        names = names if form == CSV else dict.fromkeys(paths, tuple(schema.names))
    return schema, [_Opened(names[path], partial(_open_text, path, form, csv, given)) for path in paths]


def _open_text(
    path: Place,
    form: str,
    csv: CsvOptions,
    given: Sequence[str],
    schema: pa.Schema,
    columns: Sequence[str] | None = None,
) -> Source:
    source = read_text(path, form, schema, csv, given)
    if columns is None:
        return source
    return Source(
        tuple(columns), (piece.select(list(columns)) for piece in source.pieces if isinstance(piece, pa.Table))
    )


def _make_part(file: RowFile, opened: _Opened, fields: Sequence[pa.Field]) -> Part:
    """Return the part of a file; its partition columns are checked, or added to its rows."""
    _check_values(file, opened, [each for each in fields if each.name in opened.names])

    def open_rows(schema: pa.Schema) -> Source:
        places = [schema.field(each.name) if each.name in schema.names else each for each in fields]
        values = {each.name: _parse_value(each, file.values[each.name], str(file.path)) for each in places}
        return add_columns(opened.open(schema), values)

    status = file.path.stat()
    return Part(
        open_rows,
        str(file.path.resolve()),
        f"{status.st_size} {status.st_mtime_ns}",
        status.st_size,
        opened.rows,
        is_partition=bool(fields),
    )


def _make_missing_error(where: str, error: Exception) -> FileMissing:
    first = str(error).splitlines()[0]
    hint = f"it was there when the import was planned; see who removed it: {first}"
    return FileMissing(where or "the source", hint=hint)


@contextmanager
def translate_file_errors(where: str) -> Iterator[None]:
    """Raise `FileMissing` or `StorageError` if a file cannot be read; nothing that reads the rows is inside."""
    try:
        yield
    except MorrowError as error:
        if not where or not isinstance(error.__cause__, FileNotFoundError):
            raise
        raise _make_missing_error(where, error.__cause__) from error
    except FileNotFoundError as error:
        raise _make_missing_error(where, error) from error
    except OSError as error:
        raise StorageError(f"{where or 'the source'}: the rows cannot be read: {str(error).splitlines()[0]}") from error


def join_rows(rows: RowSource, schema: pa.Schema) -> Source:
    """Return the rows of all parts as one source; `schema` has the columns of the table.

    Raises `InvalidArgument`: while it is read, parts with different columns.
    """
    first = open_source(rows.parts[0].open(schema))

    def read() -> Iterator[Piece]:
        yield from first.pieces
        for part in rows.parts[1:]:
            source = open_source(part.open(schema))
            if problem := check_same_names(first.names, source.names):
                raise make_difference_error(part.name, rows.parts[0].name, problem)
            yield from (pa.table(piece).select(list(first.names)) for piece in source.pieces)

    return Source(first.names, read())


# Folders


def _find_target(source: Place, target: str) -> Place | None:
    """Return the folder of the table if it is in the store of the source, None for others and for a title."""
    if isinstance(source, StorePath):
        base = source.store.url("")
        return StorePath(source.store, target.removeprefix(base).strip("/")) if target.startswith(base) else None
    return Path(os.path.realpath(target)) if Path(target).is_absolute() else None


def _check_apart(root: Place, target: str) -> None:
    """Raise `InvalidArgument` if the files would lie in the new table: its maintenance or drop would remove them."""
    source, goal = root.resolve(), _find_target(root, target)
    if goal is not None and (source == goal or source in goal.parents or goal in source.parents):
        raise InvalidArgument(
            f"{target}: the table would lie in the folder that it is made of, {root}, or around it; "
            "give it another name, or a warehouse elsewhere"
        )


def _is_hidden(name: str) -> bool:
    """Return whether Spark skips a file or folder. It does not skip ``_day=1``, the folder of a column."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name) or name.endswith("._COPYING_")


def _check_folder(folder: Place, name: str, list_names: Callable[..., Collection[str]] | None = None) -> None:
    """Raise `Unsupported` if the folder belongs to a table of another format; `list_names` lists a folder in it."""
    names = list_names or partial(_list_names, folder)
    entries = names()
    if any(DELTA_VERSION.fullmatch(each) for each in names("_delta_log")):
        raise _make_refusal(DELTA, folder, name)
    metadata = [each for each in names("metadata") if each.endswith(ICEBERG_METADATA)]
    if metadata:
        newest = max((folder / "metadata" / each for each in metadata), key=lambda each: each.stat().st_mtime_ns)
        raise _make_refusal(ICEBERG, folder, name, str(newest))
    if ".hoodie" in entries:
        raise _make_refusal(HUDI, folder, name)
    if any(PAIMON_SCHEMA.fullmatch(each) for each in names("schema")):
        raise _make_refusal(PAIMON, folder, name)
    if "_spark_metadata" in entries:
        raise _make_refusal(STREAM, folder, name)
    if any(each.startswith(DUCKLAKE_FILE) for each in entries):
        raise _make_refusal(DUCKLAKE, folder, name)
    if any(HIVE_TRANSACTION.fullmatch(each) for each in entries):
        raise _make_refusal(HIVE, folder, name)


def holds_delta_log(folder: Place) -> bool:
    """Return whether a folder is a table of Delta Lake."""
    return any(DELTA_VERSION.fullmatch(each) for each in _list_names(folder, "_delta_log"))


def _list_names(folder: Place, *parts: str) -> list[str]:
    place: Place = folder
    for part in parts:
        place = place / part
    try:
        return [each.name for each in place.iterdir()]
    except (OSError, StorageError):  # missing, not a folder, or not readable
        return []


def _make_refusal(writer: _Writer, folder: Place | str, name: str, path: str | None = None) -> Unsupported:
    quoted = (path or str(folder)).replace("\\", "\\\\").replace("'", "\\'")
    return Unsupported(
        f"an import of the files of a table of {writer.name}, some of which may hold removed rows,",
        where=str(folder),
        hint=f"write instead: {writer.line.format(path=quoted, name=name)}",
    )


def _parse_folder_values(root: Any, path: Any) -> dict[str, str | None]:
    """Return the values that the folders ``<column>=<value>`` between `root` and a file name, None for null.

    Raises `InvalidArgument`: a column is named twice.
    """
    found: dict[str, str | None] = {}
    for part in path.relative_to(root).parts[:-1]:
        key, is_value, value = part.partition("=")
        if is_value:
            column = _decode(key, path)
            if column in found:
                raise InvalidArgument(f"{path}: two of its folders name the column {column!r}")
            found[column] = None if value == HIVE_NULL else _decode(value, path)
    return found


def _decode(text: str, path: Place) -> str:
    try:
        return unquote(text, errors="strict")
    except UnicodeError as error:
        raise InvalidArgument(f"{path}: {error}") from error


def _check_common_keys(files: Sequence[RowFile]) -> None:
    """Check that the folders of all files name the same columns in the same order. Raises `InvalidArgument`."""
    first = files[0]
    for file in files:
        if list(file.values) != list(first.values):
            raise InvalidArgument(
                f"{file.path}: its folders name {', '.join(file.values) or 'no column'}, those of {first.path} name "
                f"{', '.join(first.values) or 'no column'}; import folders of one kind at a time"
            )


# Columns


def _check_footer(fragment: ds.FileFragment, root: str, name: str) -> None:
    """Raise `Unsupported` if the file was written for a table of another format."""
    notes = fragment.physical_schema.metadata or {}
    notes |= getattr(getattr(fragment, "metadata", None), "metadata", None) or {}
    found = [writer for key, writer in FOOTER_KEYS.items() if key in notes]
    found += [writer for column, writer in OWN_COLUMNS.items() if column in fragment.physical_schema.names]
    if found:
        raise _make_refusal(found[0], root, name)


def _make_partition_field(key: str, values: Sequence[str | None], schema: pa.Schema | None) -> pa.Field:
    """Return the field of a partition column: its type in the files, else a number, a date or text by its values."""
    if schema is not None and key in schema.names and not pa.types.is_null(schema.field(key).type):
        return schema.field(key).with_nullable(True)
    given = [value for value in values if value is not None]
    if given and all(map(_is_day, given)):
        return pa.field(key, pa.date32())
    if not given or not all(WHOLE_NUMBER.fullmatch(value) for value in given):
        return pa.field(key, pa.string())
    is_small = all(-(2**31) <= int(value) < 2**31 for value in given)
    return pa.field(key, pa.int32() if is_small else pa.int64())


def _is_day(text: str) -> bool:
    try:
        return DAY.fullmatch(text) is not None and bool(dt.date.fromisoformat(text))
    except ValueError:
        return False


def _parse_value(field: pa.Field, text: str | None, path: str) -> pa.Scalar:
    try:
        return pa.scalar(text, pa.string()).cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidArgument(f"{path}: {field.name}={text} names no {field.type}, the type of the column") from error


def _check_values(file: RowFile, opened: _Opened, held: Sequence[pa.Field]) -> None:
    """Raise `InvalidArgument` if a partition column in the file contradicts its folder."""
    if not held:
        return
    names = [each.name for each in held]
    for piece in opened.open(pa.schema(held), names).pieces:
        for each in held:
            found = pa.table(piece).column(each.name)
            expected = _parse_value(each.with_type(found.type), file.values[each.name], str(file.path))
            equal = found.is_null() if not expected.is_valid else pc.fill_null(pc.equal(found, expected), False)
            if not pc.all(equal).as_py():
                other = found.filter(pc.invert(equal))[0].as_py()
                raise InvalidArgument(
                    f"{file.path}: a row has {each.name} = {other!r}, but lies in the folder of "
                    f"{file.values[each.name]!r}"
                )


def _check_distinct(schema: pa.Schema, location: str) -> None:
    """Raise `InvalidArgument` if two column names differ only in case."""
    known: dict[str, str] = {}
    for column in schema.names:
        other = known.setdefault(column.casefold(), column)
        if other != column or schema.names.count(column) > 1:
            raise InvalidArgument(f"{location}: columns {other!r} and {column!r} differ in case alone; rename one")
