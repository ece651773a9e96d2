"""Index files of vectors and of texts, which the packages paimon-vindex and paimon-ftindex read and write.

These packages have the native code that Java Paimon and pypaimon use, so all three read each other's files. A file has
local row ids: the id of a row minus the first id of the file. Rows with null are left out.

======================================  ================  ================================
type                                    package           metadata
======================================  ================  ================================
ivf-flat, ivf-pq, ivf-sq, ivf-rq        paimon-vindex     ``{}``
diskann                                 paimon-vindex     ``{}``
full-text                               paimon-ftindex    options of the tokenizer as JSON
======================================  ================  ================================

Files of compressed vectors (``ivf-pq``, ``ivf-sq``, ``ivf-rq``) have approximate distances.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from morrow.engine.errors import CorruptFile, InvalidArgument, MorrowError
from morrow.engine.format.types import ArrayType, CharType, DataField, FloatType, VarCharType, VectorType
from morrow.engine.io.store import FileStore
from morrow.engine.plugins import require_extra
from morrow.engine.units import format_count

if TYPE_CHECKING:
    from pyroaring import BitMap64

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]

FLAT, DISKANN = "ivf-flat", "diskann"
COMPRESSED = ("ivf-pq", "ivf-sq", "ivf-rq")
VECTOR_INDEXES = (FLAT, *COMPRESSED, DISKANN)
TEXT_INDEX = "full-text"
SEARCH_INDEXES = (*VECTOR_INDEXES, TEXT_INDEX)
NPROBE, L_SEARCH = "ivf.nprobe", "diskann.l_search"
MAX_INDEX_MEMORY_BYTES = 1 << 30
"""Maximum memory of the caches of an open vector index. Beyond it, parts of the file are read again."""
ADDED_VECTORS = 10_000
"""Number of vectors that are copied at once into the native code."""


# --- building ---


def is_search_indexable(index_type: str, field: DataField) -> bool:
    """Return whether a column may have an index of this type: FLOAT vectors, FLOAT arrays, or texts."""
    if index_type == TEXT_INDEX:
        return isinstance(field.type, (CharType, VarCharType))
    return isinstance(field.type, (VectorType, ArrayType)) and isinstance(field.type.element, FloatType)


def write_vector_index(
    index_type: str,
    values: pl.Series,
    rows: Ints,
    field: DataField,
    options: Mapping[str, str],
    ratio: float,
    where: str,
) -> bytes | None:
    """Return an index file of vectors; None if all are null.

    Args:
        values: the vectors, of the Polars dtype of the column.
        rows: the local row id of each value.
        options: options of paimon-vindex, without type and dimension of a VECTOR.
        ratio: the share of the vectors to train with.

    Raises:
        InvalidArgument: an option, or a vector of another length or with values that are not finite.
        Unsupported: paimon-vindex is not installed.
    """
    with require_extra(f"an index of the type {index_type}", "paimon_vindex", "vindex"):
        from paimon_vindex import VectorIndexTrainer, VectorIndexWriter
    rows, values = rows[values.is_not_null().to_numpy()], values.drop_nulls()
    if not len(values):
        return None
    native = {**options, "index.type": index_type.replace("-", "_")}
    if isinstance(field.type, VectorType):
        native["dimension"] = str(field.type.length)
    matrix = _to_matrix(values, native, field, where)
    if index_type != DISKANN and native.get("nlist") in (None, "auto"):
        native.setdefault("expected-vector-count", str(len(matrix)))
    count = max(1, min(len(matrix), int(np.ceil(len(matrix) * ratio))))
    sample = np.arange(count) * len(matrix) // count
    with _translate_options(f"{where}: the {index_type} index of {field.name!r}"):
        with VectorIndexTrainer.create(native) as trainer:
            for start in range(0, count, ADDED_VECTORS):
                trainer.add_training_vectors(matrix[sample[start : start + ADDED_VECTORS]])
            training = trainer.finish_training()
        output = io.BytesIO()
        with VectorIndexWriter(training) as writer:
            for start in range(0, len(matrix), ADDED_VECTORS):
                stop = start + ADDED_VECTORS
                writer.add_vectors(rows[start:stop], matrix[start:stop])
            writer.write(output)
    return output.getvalue()


def _to_matrix(values: pl.Series, native: dict[str, str], field: DataField, where: str) -> Floats:
    """Return vectors as a matrix. The option ``dimension`` is set to their length if it is not given."""
    lists = values.arr.to_list() if isinstance(values.dtype, pl.Array) else values
    lengths = lists.list.len()
    width = native.setdefault("dimension", str(lengths[0]))
    if not width.isdigit() or not int(width):
        raise InvalidArgument(f"{where}: the dimension of an index is a number of 1 or more, not {width!r}")
    wrong = lengths.filter(lengths != int(width))
    if len(wrong):
        raise InvalidArgument(
            f"{where}: the column {field.name!r} has a vector of {format_count(wrong[0], 'element')}, and the index "
            f"has {width}; write vectors of one length, or name another dimension"
        )
    flat = lists.explode()
    if flat.has_nulls() or not flat.is_finite().all():
        raise InvalidArgument(
            f"{where}: the column {field.name!r} has vectors with null, NaN or infinite elements, which no index "
            "has; set these vectors to null"
        )
    return flat.to_numpy().astype(np.float32, copy=False).reshape(-1, int(width))


def write_text_index(values: pl.Series, rows: Ints, options: Mapping[str, str], where: str) -> tuple[bytes, bytes]:
    """Return an index file of texts, and its metadata.

    Args:
        rows: the local row id of each text.
        options: options of paimon-ftindex.

    Raises `InvalidArgument`: an option. `Unsupported`: paimon-ftindex is not installed.
    """
    with require_extra(f"an index of the type {TEXT_INDEX}", "paimon_ftindex", "full-text"):
        from paimon_ftindex import FullTextIndexWriter
    rows = rows[values.is_not_null().to_numpy()]
    # The package reads texts up to the first NUL, and separates words at any other control character.
    texts = values.drop_nulls().str.replace_all("\0", " ", literal=True)
    output = io.BytesIO()
    with _translate_options(f"{where}: the {TEXT_INDEX} index"):
        writer = _open(FullTextIndexWriter, dict(options))
        try:
            for row, text in zip(rows.tolist(), texts):  # the package takes one text at a time
                writer.add_document(row, text)
            writer.write(output)
        finally:
            writer.close()
    return output.getvalue(), json.dumps(dict(options), separators=(",", ":")).encode()


@contextmanager
def _translate_options(what: str) -> Iterator[None]:
    """Turn the errors of native code about options into `InvalidArgument`."""
    try:
        yield
    except (RuntimeError, ValueError) as error:
        raise InvalidArgument(f"{what}: {error}; change the option") from error


# --- searching ---


class _IndexInput:
    """The bytes of an index file for native code. Native code drops errors; `error` has the first one."""

    def __init__(self, store: FileStore, path: str) -> None:
        self.store, self.path = store, path
        self.error: MorrowError | None = None

    def pread(self, start: int, length: int) -> bytes:
        """Return a range of the file."""
        try:
            return self.store.read_range(self.path, start, length)
        except MorrowError as error:
            self.error = self.error or error
            raise

    def pread_many(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Return several ranges of the file."""
        return [self.pread(start, length) for start, length in ranges]

    @contextmanager
    def translate_errors(self) -> Iterator[None]:
        """Raise the store's error for an error of native code, or else `CorruptFile`."""
        try:
            yield
        except RuntimeError as error:
            raise self.error or CorruptFile(self.path, f"the index cannot be searched: {error}") from error


class Matches(msgspec.Struct, frozen=True, eq=False):
    """The local row ids that a search of an index found, with their scores; the highest is the best."""

    rows: Ints
    scores: npt.NDArray[np.float64]


def search_vector_index(
    index_type: str,
    store: FileStore,
    path: str,
    row_count: int,
    query: npt.NDArray[np.float64],
    k: int,
    metric: str,
    allowed: BitMap64 | None,
    options: Mapping[str, int],
) -> Matches:
    """Return approximately the `k` rows with the nearest vectors; their scores are negative distances.

    Args:
        row_count: the number of local row ids.
        allowed: local row ids that may be found; None for all.
        options: `NPROBE` or `L_SEARCH`.

    Raises:
        InvalidArgument: the index has another metric or dimension. CorruptFile, FileMissing, StorageError.
        Unsupported: paimon-vindex is not installed.
    """
    with require_extra(f"a search in an index of the type {index_type}", "paimon_vindex", "vindex"):
        from paimon_vindex import SearchParams, VectorIndexReader
    source = _IndexInput(store, path)
    with source.translate_errors(), VectorIndexReader(source, memory_budget_bytes=MAX_INDEX_MEMORY_BYTES) as reader:
        about = reader.metadata()
        if about.metric != metric:
            raise InvalidArgument(f"{path}: the index has the metric {about.metric}; pass metric={about.metric!r}")
        if about.dimension != len(query):
            raise InvalidArgument(
                f"{path}: the index has vectors of {about.dimension} elements, the query vector {len(query)}"
            )
        most = min(k, about.total_vectors, row_count if allowed is None else len(allowed))
        if most <= 0:
            return Matches(np.zeros(0, np.int64), np.zeros(0))
        if index_type == DISKANN:
            width = options.get(L_SEARCH)
            asked = SearchParams.automatic(most) if width is None else SearchParams.diskann(most, width)
        else:
            width = options.get(NPROBE)
            asked = SearchParams.automatic(most) if width is None else SearchParams.ivf(most, width)
        # A search of one query is an error if fewer rows are found.
        found, distances = reader.search_batch(
            query.astype(np.float32)[np.newaxis], asked, None if allowed is None else allowed.serialize()
        )
    is_row = found[0] >= 0
    return Matches(_check_rows(found[0][is_row], row_count, path), -distances[0][is_row].astype(np.float64))


def search_text_index(
    store: FileStore, path: str, row_count: int, query: str, k: int, allowed: BitMap64 | None
) -> Matches:
    """Return the `k` rows whose texts match a query in Paimon's JSON best, with their BM25 scores.

    Raises:
        InvalidArgument: the query. CorruptFile, FileMissing, StorageError.
        Unsupported: paimon-ftindex is not installed.
    """
    source = _IndexInput(store, path)
    with source.translate_errors(), _open_text_reader(source) as reader:
        return _search_text(reader, row_count, query, k, allowed, path)


def search_texts(values: pl.Series, query: str, k: int, options: Mapping[str, str], where: str) -> Matches:
    """Return the `k` texts that match best, by their positions, from an index that is built in memory."""
    data, _ = write_text_index(values, np.arange(len(values)), options, where)
    with _open_text_reader(_MemoryInput(data)) as reader:
        return _search_text(reader, len(values), query, k, None, where)


class _MemoryInput:
    """The bytes of an index in memory, for native code."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def pread(self, start: int, length: int) -> bytes:
        """Return a range of the bytes."""
        return self._data[start : start + length]


def _open_text_reader(source: Any) -> Any:
    with require_extra("a search in texts", "paimon_ftindex", "full-text"):
        from paimon_ftindex import FullTextIndexReader
    return _open(FullTextIndexReader, source)


def _open(kind: Any, *arguments: object) -> Any:
    """Return an object of paimon-ftindex. Its destructor needs a handle even if opening it fails."""
    made = kind.__new__(kind)
    made._ptr = None
    made.__init__(*arguments)
    return made


def _search_text(reader: Any, row_count: int, query: str, k: int, allowed: BitMap64 | None, where: str) -> Matches:
    most = min(k, row_count if allowed is None else len(allowed))
    if most <= 0:
        return Matches(np.zeros(0, np.int64), np.zeros(0))
    try:
        found, scores = reader.search(query, most, None if allowed is None else allowed.serialize())
    except RuntimeError as error:
        if "json error" in str(error) or "query" in str(error):
            raise InvalidArgument(f"the query {query!r} is not valid: {error}") from error
        raise
    return Matches(_check_rows(np.array(found, np.int64), row_count, where), np.array(scores, np.float64))


def _check_rows(rows: Ints, row_count: int, path: str) -> Ints:
    if len(rows) and int(rows.max()) >= row_count:
        raise CorruptFile(path, f"the index has the row {int(rows.max())} of {row_count}")
    return rows


def parse_text_query(query: object) -> str:
    """Return a query in Paimon's JSON. Text that is not a JSON object is a query for its words.

    Raises `InvalidArgument`: another kind of object, or a query without words.
    """
    if isinstance(query, Mapping):
        try:
            return json.dumps(query)
        except (TypeError, ValueError) as error:
            raise InvalidArgument(f"the query {query!r} is not JSON: {error}") from error
    if not isinstance(query, str) or not query.strip():
        raise InvalidArgument(f"a query is words, or Paimon's query in JSON, not {query!r}")
    return query if query.lstrip().startswith("{") else json.dumps({"match": {"query": query}})
