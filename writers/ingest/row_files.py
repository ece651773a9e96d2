"""Files of rows that are not data files of a table: their formats, columns and rows.

Binary formats are known by their first bytes, text formats by the ending of the name. Files of Spark and Hive have
endings such as ``.snappy.parquet`` and ``.csv.gz``, or none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, cast

import pyarrow as pa

from morrow.engine.errors import InvalidArgument
from morrow.engine.schema.columns import to_paimon_type
from morrow.writers.ingest.sources import Source, open_source, to_exact_dataset
from morrow.writers.ingest.store_paths import CODECS, Place, open_filesystem

if TYPE_CHECKING:
    import pyarrow.dataset as ds

    from morrow.writers.ingest.text_files import CsvOptions

PARQUET, ORC, ARROW, CSV, JSON = "parquet", "orc", "arrow", "csv", "json"
FORMATS = (PARQUET, ORC, ARROW, CSV, JSON)
TEXTS = (CSV, JSON)
MAGICS: Mapping[bytes, str] = {b"PAR1": PARQUET, b"ORC": ORC, b"ARROW1": ARROW}
ENDINGS: Mapping[str, str] = {
    ".parquet": PARQUET,
    ".orc": ORC,
    **dict.fromkeys((".arrow", ".feather", ".ipc"), ARROW),
    **dict.fromkeys((".csv", ".tsv"), CSV),
    **dict.fromkeys((".json", ".jsonl", ".ndjson"), JSON),
}
TAB_ENDING = ".tsv"
READ_ERRORS = (pa.ArrowException, OSError, UnicodeError)
"""The errors of Arrow for files that it cannot read."""


def detect_format(file: Place, given: str | None = None) -> str:
    """Return the format of a file, by its first bytes or its ending; `given` is the user's word for text files.

    Raises `InvalidArgument`: an unknown format, or a file that is not of the format that its ending says.
    """
    if given is not None and given not in FORMATS:
        raise InvalidArgument(f"the format {given!r} is not known; choose one of {', '.join(FORMATS)}")
    with file.open("rb") as opened:
        head = opened.read(max(map(len, MAGICS)))
    by_bytes = next((form for magic, form in MAGICS.items() if head.startswith(magic)), None)
    ending = get_ending(file)
    by_name = given or by_bytes or ENDINGS.get(ending) or (JSON if head.startswith(b"{") else None)
    if by_name is None:
        raise InvalidArgument(
            f"{file}: the ending says no format; known are {', '.join(sorted(ENDINGS))}; or give the format"
        )
    if by_name in MAGICS.values() and by_name != by_bytes:
        raise InvalidArgument(f"{file}: it does not begin like a file of the format {by_name}; is it complete?")
    return by_name


def get_ending(file: Place) -> str:
    """Return the ending of a file's name that shows its format, in lower case."""
    endings = [each.lower() for each in file.suffixes]
    if endings and endings[-1] in CODECS:
        endings.pop()
    return endings[-1] if endings else ""


def open_dataset(files: Sequence[Place], form: str, merge: bool) -> ds.FileSystemDataset:
    """Return binary files as one dataset, whose fragments have each file's own columns; timestamps are exact.

    Raises:
        InvalidArgument: a file cannot be read, or as `merge_schemas`.
        Unsupported: as `to_exact_dataset`.
    """
    import pyarrow.dataset as ds

    made = {PARQUET: ds.ParquetFileFormat, ORC: lambda: ds.OrcFileFormat(), ARROW: ds.IpcFileFormat}[form]()
    system, paths = open_filesystem(files)
    fragments = [made.make_fragment(path, system) for path in paths]
    schemas = {str(file): read_columns_of(fragment) for file, fragment in zip(files, fragments, strict=True)}
    whole = ds.FileSystemDataset(fragments, merge_schemas(schemas, merge), made, system)
    return cast("ds.FileSystemDataset", to_exact_dataset(whole))


def read_columns_of(fragment: ds.FileFragment) -> pa.Schema:
    """Return the columns of one file. Raises `InvalidArgument` if it cannot be read."""
    try:
        return fragment.physical_schema
    except READ_ERRORS as error:
        raise InvalidArgument(f"{fragment.path}: {str(error).splitlines()[0]}") from error


def read_fragment(fragment: ds.FileFragment, columns: Sequence[str] | None = None) -> Source:
    """Return the rows of one file of `open_dataset`, with its own columns."""
    import pyarrow.dataset as ds

    schema = fragment.physical_schema
    if columns is not None:
        schema = pa.schema([schema.field(name) for name in columns])
    return open_source(ds.FileSystemDataset([fragment], schema, fragment.format, fragment.filesystem))


def merge_schemas(schemas: Mapping[str, pa.Schema], merge: bool) -> pa.Schema:
    """Return the columns of all files, given by path. Columns that a file lacks become nullable.

    Args:
        merge: take columns that only some files have, and widen types. False: refuse files that differ.

    Raises `InvalidArgument`: columns have types without a common one, or files differ.
    """
    simple = {path: pa.schema([_simplify_field(field) for field in schema]) for path, schema in schemas.items()}
    if not merge:
        _check_equal(simple)
        first = next(iter(simple.values()))
        return pa.schema([_join_fields([schema.field(name) for schema in simple.values()]) for name in first.names])
    try:
        merged = pa.unify_schemas(list(simple.values()), promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise InvalidArgument(f"the files differ: {str(error).splitlines()[0]}") from error
    always = set.intersection(*(set(schema.names) for schema in simple.values()))
    return pa.schema([field if field.name in always else field.with_nullable(True) for field in merged])


def _join_fields(fields: Sequence[pa.Field]) -> pa.Field:
    """Join compatible fields into one: of the first type that has values, nullable if any of the fields is."""
    found = next((field for field in fields if not pa.types.is_null(field.type)), fields[0])
    return found.with_nullable(any(field.nullable for field in fields))


def _simplify_field(field: pa.Field, name: str | None = None) -> pa.Field:
    """Return a column without Arrow's layouts, which footers record: dictionaries, views, 64-bit offsets."""
    return pa.field(name or field.name, _simplify_type(field.type), field.nullable, field.metadata)


def _simplify_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind):
        return _simplify_type(kind.value_type)
    if isinstance(kind, (pa.ListType, pa.LargeListType, pa.ListViewType, pa.LargeListViewType)):
        return pa.list_(_simplify_field(kind.value_field, "element"))
    if pa.types.is_map(kind):
        return pa.map_(_simplify_field(kind.key_field, "key"), _simplify_field(kind.item_field, "value"))
    if pa.types.is_struct(kind):
        return pa.struct([_simplify_field(kind.field(at)) for at in range(kind.num_fields)])
    return PLAIN_TYPES.get(kind, kind)


PLAIN_TYPES: Mapping[pa.DataType, pa.DataType] = {
    **dict.fromkeys((pa.large_string(), pa.string_view()), pa.string()),
    **dict.fromkeys((pa.large_binary(), pa.binary_view()), pa.binary()),
}
"""Types of text and bytes in Parquet, by Arrow's other layouts of them."""


def _check_equal(schemas: Mapping[str, pa.Schema]) -> None:
    """Raise `InvalidArgument` if files have other columns or types than the first one."""
    first_path, first = next(iter(schemas.items()))
    for path, schema in schemas.items():
        problem = check_same_names(first.names, schema.names) or next(
            (
                f"{name!r} is {schema.field(name).type}, there {first.field(name).type}"
                for name in first.names
                if not _is_alike(first.field(name).type, schema.field(name).type)
            ),
            None,
        )
        if problem:
            raise make_difference_error(path, first_path, problem)


def check_same_names(first: Iterable[str], names: Iterable[str]) -> str | None:
    """Return a difference between the columns of two files, None if there is none."""
    there, here = set(first), set(names)
    if more := sorted(here - there):
        return f"{more[0]!r} is not there"
    return f"{min(there - here)!r} is missing here" if there - here else None


def make_difference_error(path: str, first: str, problem: str) -> InvalidArgument:
    """Return the error for files with different columns."""
    return InvalidArgument(
        f"{path}: its columns differ from those of {first}: {problem}; "
        'give schema_mode="merge" (--schema-mode merge) for the columns of both, or import the files one by one'
    )


def _is_alike(one: pa.DataType, other: pa.DataType) -> bool:
    """Return whether two Arrow types become the same table type; the type null matches every type."""
    if one == other or pa.types.is_null(one) or pa.types.is_null(other):
        return True
    try:
        return to_paimon_type(one, "") == to_paimon_type(other, "")
    except InvalidArgument:
        return False


def read_text(file: Place, form: str, schema: pa.Schema, csv: CsvOptions, names: Sequence[str] = ()) -> Source:
    """Return the rows of a text file, in the types of `schema`.

    `names`: the columns of CSV files without a header.

    Raises `InvalidArgument`: the file cannot be read, or a value is not of its column's type.
    """
    from morrow.writers.ingest.text_files import read_csv, read_json

    return open_source(read_json(file, schema) if form == JSON else read_csv(file, schema, csv, names))


def infer_text_schema(files: Sequence[Place], form: str, csv: CsvOptions, names: Sequence[str] = ()) -> pa.Schema:
    """Return the columns of text files, in lossless types of all rows of all files; `names` as for `read_text`.

    Raises `InvalidArgument`: a file cannot be read.
    """
    from morrow.writers.ingest.text_files import infer_csv_schema, infer_json_schema

    return infer_json_schema(files) if form == JSON else infer_csv_schema(files, csv, names)


def add_columns(source: Source, columns: Mapping[str, pa.Scalar]) -> Source:
    """Return the rows with constant columns, except columns that they have."""
    new = {name: value for name, value in columns.items() if name not in source.names}
    return Source((*source.names, *new), map(partial(_append_columns, new), source.pieces)) if new else source


def _append_columns(columns: Mapping[str, pa.Scalar], piece: object) -> pa.Table:
    table = piece if isinstance(piece, pa.Table) else pa.table(piece)
    for name, value in columns.items():
        table = table.append_column(pa.field(name, value.type), pa.repeat(value, table.num_rows))
    return table


Open = Callable[[pa.Schema], object]
"""A function that opens rows; it gets the columns of the table, whose types texts are converted to."""
