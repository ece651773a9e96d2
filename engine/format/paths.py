"""Paths of files under a table's folder, and checks that names from metadata stay inside the folder.

schema/schema-<id>   snapshot/snapshot-<id>, LATEST, EARLIEST   tag/tag-<name>   branch/branch-<name>/...
manifest/...         index/...   statistics/...                 [<data dir>/][k=v/...]bucket-<n>/<data file>

Partition folders are ``k1=v1/k2=v2``; the names have the text of each type::

escaping      %XX, two upper-case hexadecimal digits, for control characters and " # % ' * / : = ? \\ { } [ ] ^ DEL
default name  the option partition.default-name (__DEFAULT_PARTITION__), for null, empty and blank values
legacy names  with partition.legacy-name=true values are written as the internal ones print (DATE as epoch days,
              TIME as milliseconds of the day, TIMESTAMP as 2024-01-31T07:00), otherwise as SQL casts them to text
"""

from __future__ import annotations

import datetime as dt
import posixpath
import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import msgspec
import numpy as np
import polars as pl

from morrow.engine.arguments import is_name
from morrow.engine.errors import UnsafePath, Unsupported
from morrow.engine.format import types as t
from morrow.engine.format.binary_row import EPOCH, Value
from morrow.engine.format.java_floats import format_double, format_float
from morrow.engine.io.store import FileStore
from morrow.engine.polars_threads import MAX_SMALL_ROWS

DATABASE_SUFFIX = ".db"
"""The suffix of database folders in a warehouse."""
MAIN_BRANCH = "main"
POSTPONE_BUCKET = -2
"""The bucket of postponed rows, which are not yet assigned to a bucket; -1 means a dynamic number of buckets."""
LATEST, EARLIEST = "LATEST", "EARLIEST"
"""Hint files with the newest and oldest snapshot or changelog id of their folder."""
CHANGELOG_PREFIX = "changelog-"
INDEX_SUFFIX = ".index"
MAX_ID = 2**63 - 1
MAX_DIGITS = len(str(MAX_ID))
SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")


class TablePaths(msgspec.Struct, frozen=True):
    """Paths of one table; `branch` changes the schema, snapshot and tag folders, not the paths of data files."""

    root: str
    branch: str = MAIN_BRANCH

    @property
    def branch_root(self) -> str:
        return (
            self.root
            if self.branch == MAIN_BRANCH
            else f"{self.root}/branch/branch-{check_segment(self.branch, self.root)}"
        )

    @property
    def schema_dir(self) -> str:
        return f"{self.branch_root}/schema"

    @property
    def snapshot_dir(self) -> str:
        return f"{self.branch_root}/snapshot"

    @property
    def tag_dir(self) -> str:
        return f"{self.branch_root}/tag"

    @property
    def branches_dir(self) -> str:
        return f"{self.root}/branch"

    def schema(self, schema_id: int) -> str:
        return f"{self.schema_dir}/schema-{schema_id}"

    def snapshot(self, snapshot_id: int) -> str:
        return f"{self.snapshot_dir}/snapshot-{snapshot_id}"

    def tag(self, name: str) -> str:
        return f"{self.tag_dir}/tag-{check_segment(name, self.tag_dir)}"

    def manifest(self, name: str) -> str:
        """Return the path of a manifest, manifest list or index manifest."""
        return f"{self.root}/manifest/{check_segment(name, self.root)}"

    def index(self, name: str) -> str:
        return f"{self.root}/index/{check_segment(name, self.root)}"

    def statistics(self, name: str) -> str:
        return f"{self.root}/statistics/{check_segment(name, self.root)}"


def check_segment(name: str, where: str) -> str:
    """Return `name` if it is a single path segment.

    Raises `UnsafePath`: a separator, ``.``, ``..``, an empty name, a NUL byte or half a surrogate pair.
    """
    if not name or name in (".", "..") or any(c in name for c in "/\\") or not is_name(name):
        raise UnsafePath(
            f"{where}: metadata names the file {name!r}, which is not a single path segment; nothing was read"
        )
    return name


def check_segments(names: pl.Series, where: str) -> None:
    """Check a whole column of names as `check_segment` does. Raises `UnsafePath`."""
    if len(names) <= MAX_SMALL_ROWS:
        for name in names.to_list():
            check_segment(name, where)
        return
    bad = names.filter(names.str.contains(r"[/\\\x00]|^\.{0,2}$"))
    if len(bad):
        check_segment(bad[0], where)


def parse_numbered(name: str, prefix: str) -> int | None:
    """Return the id in a file name such as ``snapshot-12``; None for names that Paimon does not use.

    Backups and copies such as ``schema-01``, ``snapshot-1.tmp`` or ``schema-1 (copy)`` are not mistaken for the
    original.
    """
    return parse_file_id(name.removeprefix(prefix)) if name.startswith(prefix) else None


def parse_file_id(text: str | bytes) -> int | None:
    """Parse an id in a file name or hint: digits without a leading zero, within 64 bits."""
    if not text.isascii() or not text.isdigit() or len(text) > MAX_DIGITS:
        return None
    number = int(text)
    return number if number <= MAX_ID and len(str(number)) == len(text) else None


def build_bucket_dir(root: str, partition: str, bucket: int, data_directory: str | None) -> str:
    """Return the folder of a bucket; `partition` is the ``k=v/...`` path, empty for unpartitioned tables."""
    name = "bucket-postpone" if bucket == POSTPONE_BUCKET else f"bucket-{bucket}"
    return "/".join(part for part in (root, data_directory, partition, name) if part)


def check_external_path(path: str, roots: Sequence[str], *, where: str) -> str:
    """Return `path` as a path within the store, if it is below one of the allowed roots.

    Raises `UnsafePath`: the path is outside of all roots, or contains ``..``.
    """
    location = normalize_path(path)
    allowed = [normalize_path(root) for root in roots if root]
    if ".." not in location.split("/") and any(
        location == r or location.startswith(r.rstrip("/") + "/") for r in allowed
    ):
        return location
    listed = ", ".join(allowed) or "none"
    raise UnsafePath(
        f"{where}: metadata points to {path}, outside of the allowed roots ({listed}); if you trust it, name its "
        "folder in the table option 'data-file.external-paths' or in morrow.open(..., allowed_roots=[...])"
    )


def to_store_path(store: FileStore, path: str) -> str | None:
    """Return an external path or root as a path within `store`, without trailing slash; None if it is elsewhere."""
    location, base = normalize_path(path), store.url("")
    if not location.startswith(base) or ".." in location.split("/"):
        return None
    if store.is_local and not location.startswith("/"):
        return None
    return location.removeprefix(base).rstrip("/") or None


def normalize_path(path: str) -> str:
    """Normalize a path: ``file:///a/b`` and ``file:/a/b`` become ``/a/b``, and ``.`` segments are removed.

    Other URLs keep their scheme, in lower case since schemes are case-insensitive.
    """
    scheme = SCHEME.match(path)
    if scheme is not None and scheme[1].lower() != "file":
        return scheme[1].lower() + path[scheme.end(1) :]
    if ".." in path.split("/"):
        return path
    return posixpath.normpath(path if scheme is None else "/" + path[scheme.end() :].lstrip("/"))


DEFAULT_PARTITION_NAME = "__DEFAULT_PARTITION__"

# Patterns as text: `re` compiles each when it is first used.
_ESCAPED = r"""[\x00-\x1f"#%'*/:=?\\\x7f{}\[\]^]"""
_ESCAPE = "%([0-9A-Fa-f]{2})"
_BLANK = "[\t-\r\x1c-\x20\u1680\u2000-\u2006\u2008-\u200a\u2028\u2029\u205f\u3000]*"
"""White space as defined by Java, which excludes non-breaking spaces."""

PLAIN_NOTATION_FROM = 1e-3
PLAIN_NOTATION_BELOW = 1e7

Text = Callable[[Any, t.DataType], str]


def partition_path(
    values: Sequence[Value],
    types: Sequence[t.DataType],
    names: Sequence[str],
    *,
    default_name: str = DEFAULT_PARTITION_NAME,
    legacy_name: bool = True,
    time_zone: dt.tzinfo = dt.UTC,
    shortest_floats: bool = False,
) -> str:
    """Return the folder of a partition, relative to the table; "" for a table without partition keys.

    Args:
        values: partition values as `decode_row` returns them.
        types: their types.
        names: the partition keys.
        default_name: the option ``partition.default-name``.
        legacy_name: the option ``partition.legacy-name``.
        time_zone: for TIMESTAMP_LTZ without legacy names, which Java writes in the time zone of the writing process.
        shortest_floats: write FLOAT and DOUBLE as Java 19 and newer (``2.0E23``), not as Java 8 to 18
            (``1.9999999999999998E23``).

    Raises:
        Unsupported: a type whose names are not defined: BINARY with legacy names (Java writes an object's address),
            bytes that are not UTF-8, nested types.
    """
    folders = []
    for value, kind, name in zip(values, types, names, strict=True):
        text = None if value is None else _to_text(value, kind, legacy_name, time_zone, shortest_floats)
        if text is None or re.fullmatch(_BLANK, text):
            text = default_name
        folders.append(f"{escape_path_name(name)}={escape_path_name(text)}")
    return "/".join(folders)


def escape_path_name(text: str) -> str:
    """Escape characters that folder names may not contain as %XX."""
    return re.sub(_ESCAPED, lambda match: f"%{ord(match[0]):02X}", text)


def unescape_path_name(text: str) -> str:
    """Reverse `escape_path_name`; a lone % stays."""
    return re.sub(_ESCAPE, lambda match: chr(int(match[1], 16)), text)


def _to_text(value: Value, kind: t.DataType, legacy_name: bool, time_zone: dt.tzinfo, shortest_floats: bool) -> str:
    text = (_LEGACY_TEXTS if legacy_name else _TEXTS).get(type(kind))
    if shortest_floats:
        text = _SHORTEST_TEXTS.get(type(kind), text)
    if text is None:
        naming = f"partition.legacy-name={str(legacy_name).lower()}"
        raise Unsupported(f"{kind} as a partition key with {naming}", hint="Paimon has no stable folder name for it")
    if isinstance(kind, t.LocalZonedTimestampType) and not legacy_name and time_zone is not dt.UTC:
        value = _move_to_zone(value, time_zone)
    return text(value, kind)


def _format_boolean(value: bool, _: t.DataType) -> str:
    return "true" if value else "false"


def _format_string(value: str, _: t.DataType) -> str:
    return value


def _format_binary(value: bytes, kind: t.DataType) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise Unsupported(f"a {kind} partition value that is not UTF-8") from error


def _format_int(value: int, _: t.DataType) -> str:
    return str(value)


def _format_decimal(value: Decimal, _: t.DataType) -> str:
    return f"{value:f}"


def _format_float(value: float, _: t.DataType) -> str:
    return format_float(value)


def _format_double(value: float, _: t.DataType) -> str:
    return format_double(value)


def _format_shortest_float(value: float, _: t.DataType) -> str:
    return _format_shortest(np.float32(value))


def _format_shortest_double(value: float, _: t.DataType) -> str:
    return _format_shortest(np.float64(value))


def _format_shortest(value: np.float32 | np.float64) -> str:
    """Print a float like Java 19 and newer: plain from 0.001 to 10 million, else 1.5E10.

    The text has the fewest digits that read back as the same value, but at least two.
    """
    if not np.isfinite(value) or value == 0:
        return format_double(float(value))
    if PLAIN_NOTATION_FROM <= abs(float(value)) < PLAIN_NOTATION_BELOW:
        return np.format_float_positional(value, unique=True, trim="0")
    mantissa, exponent = np.format_float_scientific(value, unique=True, trim="0").split("e")
    if mantissa.endswith(".0"):  # with two digits, Java writes the ones nearest to the value: 4.9E-324, not 5E-324
        two_digits = np.format_float_scientific(value, precision=1, unique=False)
        if type(value)(two_digits) == value:
            mantissa, exponent = two_digits.split("e")
    return f"{mantissa}E{int(exponent)}"


def _format_date(value: dt.date, _: t.DataType) -> str:
    return value.isoformat()


def _format_epoch_days(value: dt.date, _: t.DataType) -> str:
    return str((value - EPOCH.date()).days)


def _format_day_millis(value: dt.time, _: t.DataType) -> str:
    return str(((value.hour * 60 + value.minute) * 60 + value.second) * 1000 + value.microsecond // 1000)


def _format_time(value: dt.time, kind: t.DataType) -> str:
    """Return ``07:25:07``; above precision 0 with a fraction of 1 to `precision` digits, without trailing zeros."""
    assert isinstance(kind, t.TimeType)
    text = value.strftime("%H:%M:%S")
    if kind.precision == 0:
        return text
    fraction = f"{value.microsecond // 1000:03d}".rstrip("0")[: kind.precision]
    return f"{text}.{fraction or '0'}"


def _split_timestamp(value: dt.datetime | np.datetime64) -> tuple[dt.datetime, int]:
    """Split a timestamp into whole seconds (naive; UTC for aware timestamps) and nanoseconds."""
    if isinstance(value, np.datetime64):
        seconds, nanos = divmod(int(value.astype("datetime64[ns]").astype(np.int64)), 1_000_000_000)
        return EPOCH + dt.timedelta(seconds=seconds), nanos
    wall = value.astimezone(dt.UTC).replace(tzinfo=None) if value.tzinfo else value
    return wall.replace(microsecond=0), wall.microsecond * 1000


def _move_to_zone(value: Value, time_zone: dt.tzinfo) -> Value:
    assert isinstance(value, (dt.datetime, np.datetime64))
    seconds, nanos = _split_timestamp(value)
    wall = seconds.replace(tzinfo=dt.UTC).astimezone(time_zone).replace(tzinfo=None)
    if nanos % 1000 == 0:
        return wall.replace(microsecond=nanos // 1000)
    return np.datetime64(wall, "ns") + np.timedelta64(nanos, "ns")


def _format_timestamp(value: dt.datetime | np.datetime64, kind: t.DataType) -> str:
    """Return ``2024-01-31 07:00:00`` and a fraction of at least `precision` digits."""
    assert isinstance(kind, (t.TimestampType, t.LocalZonedTimestampType))
    seconds, nanos = _split_timestamp(value)
    digits = f"{nanos:09d}"
    fraction = digits[: kind.precision] + digits[kind.precision :].rstrip("0")
    text = seconds.isoformat(" ")
    return f"{text}.{fraction}" if fraction else text


def _format_local_date_time(value: dt.datetime | np.datetime64, _: t.DataType) -> str:
    """Return ``2024-01-31T07:00``, then seconds if there are any, then 3, 6 or 9 digits."""
    seconds, nanos = _split_timestamp(value)
    if not nanos:
        return seconds.isoformat(timespec="seconds" if seconds.second else "minutes")
    digits = f"{nanos:09d}"
    while digits.endswith("000"):
        digits = digits[:-3]
    return f"{seconds.isoformat()}.{digits}"


_TEXTS: dict[type[t.DataType], Text] = {
    t.BooleanType: _format_boolean,
    t.TinyIntType: _format_int,
    t.SmallIntType: _format_int,
    t.IntType: _format_int,
    t.BigIntType: _format_int,
    t.FloatType: _format_float,
    t.DoubleType: _format_double,
    t.DecimalType: _format_decimal,
    t.CharType: _format_string,
    t.VarCharType: _format_string,
    t.BinaryType: _format_binary,
    t.VarBinaryType: _format_binary,
    t.DateType: _format_date,
    t.TimeType: _format_time,
    t.TimestampType: _format_timestamp,
    t.LocalZonedTimestampType: _format_timestamp,
}

_LEGACY_TEXTS: dict[type[t.DataType], Text] = {
    **{kind: text for kind, text in _TEXTS.items() if kind not in (t.BinaryType, t.VarBinaryType)},
    t.DateType: _format_epoch_days,
    t.TimeType: _format_day_millis,
    t.TimestampType: _format_local_date_time,
    t.LocalZonedTimestampType: _format_local_date_time,
}

_SHORTEST_TEXTS: dict[type[t.DataType], Text] = {
    t.FloatType: _format_shortest_float,
    t.DoubleType: _format_shortest_double,
}
