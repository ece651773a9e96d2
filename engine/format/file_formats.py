"""The formats of data files: the types that they support, and the statistics in their metadata.

Each format is declared once. Its reader and writer are registered under its name in `morrow.readers.files.registry`
and `morrow.writers.files.encoders`. Manifests have separate codecs, in `manifest` and `manifest_encoder`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from morrow.engine.errors import Unsupported
from morrow.engine.format import types as t
from morrow.engine.plugins import FILE_FORMATS, load_plugin_of

TIMESTAMPS = (t.TimestampType, t.LocalZonedTimestampType)
VECTOR_INFIX = ".vector."
"""Infix in the names of files that contain only vectors."""
PARQUET = "parquet"
BLOB = "blob"
"""The format of files with a single blob column, whose rows are aligned with other files."""


def is_dedicated_file(name: str) -> bool:
    """Return whether a file holds a single BLOB column, or only vectors, of the rows of another file."""
    return name.endswith(f".{BLOB}") or VECTOR_INFIX in name


Lacks = Callable[[t.DataType], str | None]
"""A function that returns why files cannot have columns of a type; None if they can."""


def _return_false(_: t.DataType) -> bool:
    return False


class FileFormat(msgspec.Struct, frozen=True):
    """A format of data files. `name` is the value of ``file.format`` and the file extension: letters and digits.

    Column metadata is the same as in Java, which takes it from footers or rows, so it differs between formats.
    """

    name: str
    lacks: Lacks | None = None
    """A function that returns why files cannot have columns of a type; None for formats that Morrow does not write."""
    stores_names: bool = True
    """Files contain their column names; otherwise readers get all names as an argument."""
    is_exact: bool = True
    """Values are stored unchanged: CHAR with trailing blanks, and timestamps with bounds of full precision."""
    unbounded: Callable[[t.DataType], bool] = _return_false
    """Types without bounds, in addition to the types that lack bounds in all formats."""
    counts_nested: bool = True
    """Nulls of nested columns are counted."""
    orders_nan: bool = True
    """Bounds of floats count NaN as the greatest value, and -0.0 below 0.0; otherwise NaN is left out."""
    longest_bound: int | None = None
    """Maximum size in bytes of text for which bounds are written."""
    cuts_system_columns: bool = True
    """Bounds of keys and system columns are truncated to a separate length."""


def _return_none(_: t.DataType) -> None:
    return None


def _suggest_for_orc(kind: t.DataType) -> str | None:
    return "choose another file.format" if isinstance(kind, (t.VectorType, t.VariantType)) else None


def _suggest_for_avro(kind: t.DataType) -> str | None:
    if isinstance(kind, TIMESTAMPS) and kind.precision > t.ARROW_MICROS_PRECISION:
        return f"Avro's timestamps have {t.ARROW_MICROS_PRECISION} digits at most"
    if isinstance(kind, t.TimeType) and kind.precision > t.ARROW_MILLIS_PRECISION:
        return f"Avro's times have {t.ARROW_MILLIS_PRECISION} digits at most"
    return "choose another file.format" if isinstance(kind, t.VariantType) else None


def _suggest_for_lance(kind: t.DataType) -> str | None:
    return "add a member" if isinstance(kind, t.RowType) and not kind.fields else None


def _suggest_for_mosaic(kind: t.DataType) -> str | None:
    return "choose another file.format" if isinstance(kind, (t.RowType, t.VectorType, t.VariantType)) else None


def _is_int96(kind: t.DataType) -> bool:
    return isinstance(kind, TIMESTAMPS) and kind.precision > t.ARROW_MICROS_PRECISION


WHEELS = ("lance", "vortex", "mosaic")
"""Formats of libraries, whose readers and writers are in modules `formats.wheel_files`."""
BUILT_IN: Mapping[str, FileFormat] = {
    each.name: each
    for each in (
        FileFormat("parquet", _return_none, unbounded=_is_int96, counts_nested=False),
        FileFormat("orc", _suggest_for_orc, is_exact=False, orders_nan=False, longest_bound=1024),
        FileFormat("avro", _suggest_for_avro, cuts_system_columns=False),
        FileFormat("json"),
        FileFormat("csv", stores_names=False),
        FileFormat("text"),
        FileFormat(BLOB),
        FileFormat("lance", _suggest_for_lance),
        FileFormat("vortex", _return_none),
        FileFormat("mosaic", _suggest_for_mosaic),
        FileFormat("row", _return_none, stores_names=False, cuts_system_columns=False),
    )
}


def find_format(name: str) -> FileFormat | None:
    """Return the format of this name, built in or from another package; None if it is unknown.

    Raises `Unsupported`: a package registers another object under the name.
    """
    found = BUILT_IN.get(name) or load_plugin_of(FILE_FORMATS, name, FileFormat)
    if found is not None and found.name != name:
        raise Unsupported(f"the file format {name!r}", hint=f"its entry point has one of the name {found.name!r}")
    return found


def get_format(name: str, where: str) -> FileFormat:
    """Return the format of this name. Raises `Unsupported` for an unknown format."""
    found = find_format(name)
    if found is None:
        raise Unsupported(f"the file format {name!r}", where=where, hint=f"known are {', '.join(BUILT_IN)}")
    return found


def get_written_format(name: str, where: str) -> FileFormat:
    """Return the format of this name. Raises `Unsupported` unless Morrow can write tables in the format."""
    found = find_format(name)
    if found is None or found.lacks is None:
        written = ", ".join(each.name for each in BUILT_IN.values() if each.lacks is not None)
        raise Unsupported(f"the file format {name!r}", where=where, hint=f"Morrow writes {written}")
    return found
