"""Data file indexes: the container of the indexes of all columns, and its evaluation of comparisons.

The container is embedded in the manifest entry (``_EMBEDDED_FILE_INDEX``), or is an extra file next to the data file
with the extension ``.index``. Integers big-endian, names as ``u16 length`` and modified UTF-8::

    i64  1493475289347502 (magic)
    i32  version, 1
    i32  size of the head, from the magic on
    i32  number of columns
    per column:
        name
        i32  number of indexes
        per index: name of the type, i32 offset from the beginning (-1: no row was indexed), i32 length
    i32  size of a part that later versions may add, and that part
    the indexes
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from morrow.engine.errors import CorruptFile, InvalidArgument, Unsupported
from morrow.engine.format.file_index import bitmap, bloom_filter, bsi, range_bitmap, row_sets
from morrow.engine.format.file_index.data_output import Cursor
from morrow.engine.format.file_index.keys import KINDS, Keys, is_lossy, to_keys
from morrow.engine.format.file_index.row_sets import ALL, NONE, IndexResult
from morrow.engine.format.types import DataType

MAGIC = 1493475289347502
VERSION = 1
NO_ROWS = -1
MIN_NAME_WIDTH = 2
OPERATORS_WITHOUT_LITERALS = frozenset({"IS NULL", "IS NOT NULL"})
LIST_OPERATORS = frozenset({"IN", "NOT IN"})
WITHOUT_ROWS_NONE = frozenset({"=", "IN", "<", "<=", ">", ">=", "IS NOT NULL", "STARTS WITH"})
"""Operators that cannot match if no rows were indexed."""
LOSSY_ALL = frozenset({"!=", "NOT IN", ">"})
"""Operators that an index would answer wrongly if different values share a key."""


@dataclass(frozen=True)
class IndexKind:
    """A type of index: the column types that it supports, and its evaluation of ``column op literals``."""

    supports: Callable[[DataType], bool]
    ask: Callable[[Cursor, DataType, str, Sequence[Keys]], IndexResult]


def _make_evaluator(read: Callable[[Cursor, DataType], row_sets.RowSets]) -> Callable[..., IndexResult]:
    def ask(cursor: Cursor, data_type: DataType, op: str, literals: Sequence[Keys]) -> IndexResult:
        return row_sets.evaluate(read(cursor, data_type), op, literals)

    return ask


def _ask_bloom(cursor: Cursor, data_type: DataType, op: str, literals: Sequence[Keys]) -> IndexResult:
    return bloom_filter.read(cursor, data_type).evaluate(op, literals)


INDEX_KINDS: Mapping[str, IndexKind] = {
    bloom_filter.NAME: IndexKind(bloom_filter.is_supported, _ask_bloom),
    bitmap.NAME: IndexKind(bitmap.is_supported, _make_evaluator(bitmap.read)),
    bsi.NAME: IndexKind(bsi.is_supported, _make_evaluator(bsi.read)),
    range_bitmap.NAME: IndexKind(range_bitmap.is_supported, _make_evaluator(range_bitmap.read)),
}


@dataclass(frozen=True)
class ColumnIndex:
    """One index of a column; `body` is None when no row was indexed."""

    kind: str
    body: bytes | None


@dataclass(frozen=True)
class FileIndex:
    """All indexes of a data file.

    Attributes:
        columns: the indexes of each column, including unknown types. Names are the ones of the schema with which the
            data file was written; a key of a MAP column is a separate column.
        where: the location of the index, for messages.
    """

    columns: Mapping[str, tuple[ColumnIndex, ...]]
    where: str

    def evaluate(
        self,
        column: str,
        data_type: DataType,
        op: str,
        literals: tuple[object, ...] = (),
        *,
        row_count: int | None = None,
    ) -> IndexResult:
        """Evaluate ``column op literals`` with all indexes of the column together.

        Args:
            column, data_type: as in the schema with which the data file was written.
            op: value of a `plan.predicate.Op`.
            literals: Python values of this type; never null.
            row_count: rows of the data file, if known; an index over another number of rows is corrupt.

        Returns:
            The rows that may match: a superset of the matching rows. `ALL` if the index cannot decide: for an unknown
            index, type or operator, or a literal that is not exactly a value of the type.

        Raises:
            CorruptFile, Unsupported: an index is damaged, or of an unknown version.
            InvalidArgument: a comparison without literals.
        """
        indexes = self.columns.get(column, ())
        if op in LIST_OPERATORS and not literals:
            return NONE if op == "IN" else ALL
        if op not in OPERATORS_WITHOUT_LITERALS and not literals:
            raise InvalidArgument(f"{column} {op} is compared with nothing")
        if any(index.body is None for index in indexes) and op in WITHOUT_ROWS_NONE:
            return NONE
        keys = [to_keys(data_type, literal) for literal in literals]
        known = [each for each in keys if each is not None]
        if len(known) < len(keys) or type(data_type) not in KINDS or (is_lossy(data_type) and op in LOSSY_ALL):
            return ALL
        return self._ask(column, data_type, op, known, row_count)

    def _ask(
        self, column: str, data_type: DataType, op: str, literals: Sequence[Keys], row_count: int | None
    ) -> IndexResult:
        result = ALL
        for index in self.columns.get(column, ()):
            kind = INDEX_KINDS.get(index.kind)
            if kind is None or index.body is None or not kind.supports(data_type):
                continue
            where = f"{self.where} ({index.kind} index of column {column})"
            cursor = Cursor(memoryview(index.body), where, expected_rows=row_count)
            result = result & kind.ask(cursor, data_type, op, literals)
            if result.is_none:
                break
        return result


def read_file_index(data: bytes | memoryview, *, where: str) -> FileIndex:
    """Parse the container; the indexes themselves are decoded when they are evaluated.

    Args:
        data: the whole container.
        where: path for messages.

    Raises:
        CorruptFile: not a file index, or its header contradicts its bytes.
        Unsupported: another version of the format.
    """
    cursor = Cursor(memoryview(data), where)
    magic = cursor.i64()
    if magic != MAGIC:
        raise CorruptFile(where, f"a file index begins with {MAGIC}, not with {magic}")
    version = cursor.i32()
    if version != VERSION:
        raise Unsupported(f"version {version} of the file index", where=where, hint=f"only version {VERSION} is known")
    head_start = cursor.at + 4
    head = cursor.part(head_start, cursor.i32() - head_start)
    columns: dict[str, tuple[ColumnIndex, ...]] = {}
    for _ in range(head.count(MIN_NAME_WIDTH + 4)):
        name = head.utf()
        if name in columns:
            raise head.corrupt(f"the column {name!r} appears twice")
        columns[name] = tuple(_read_index(head, cursor) for _ in range(head.count(MIN_NAME_WIDTH + 8)))
    held = head_start + len(head.data) + sum(len(each.body or b"") for parts in columns.values() for each in parts)
    if held != len(cursor.data):
        raise CorruptFile(where, f"a file index of {len(cursor.data)} bytes whose parts have {held}")
    return FileIndex(columns, where)


def _read_index(head: Cursor, container: Cursor) -> ColumnIndex:
    kind, start, size = head.utf(), head.i32(), head.i32()
    return ColumnIndex(kind, None if start == NO_ROWS else bytes(container.part(start, size).data))
