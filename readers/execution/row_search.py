"""Searches for the rows whose vectors are nearest to a query vector, and for the rows whose texts match words.

Batches of rows are scored by numpy, in 64-bit floats and in blocks that stay in the processor's cache. Only the best
rows of each batch are kept, so memory does not grow with the table. Scores are Paimon's; the highest is the best:

================  ================================
metric            score
================  ================================
``l2``            1 / (1 + squared distance)
``cosine``        cosine of the angle; 0 for zeros
``inner_product`` sum of the products
================  ================================

In tables with row ids, a search reads the searched column first, and other columns for the rows that it found.

An index of vectors names candidates. They are read and scored in the same way as the rows that no index covers. An
index of texts has the scores of BM25, whose statistics are those of its file. Texts without an index are indexed in
memory, some at a time. Candidates are rows that the filter keeps and that no deletion vector has removed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from morrow.engine.errors import CorruptFile, InvalidArgument
from morrow.engine.format.arrow_buffers import read_validity
from morrow.engine.format.schema import ROW_ID
from morrow.engine.format.search_indexes import (
    COMPRESSED,
    L_SEARCH,
    NPROBE,
    TEXT_INDEX,
    VECTOR_INDEXES,
    Matches,
    search_text_index,
    search_texts,
    search_vector_index,
)
from morrow.engine.format.types import VECTOR_ELEMENT_TYPES, ArrayType, CharType, DataField, VarCharType, VectorType
from morrow.engine.library_versions import import_array
from morrow.engine.names import SCORE
from morrow.engine.options import TableOptions
from morrow.engine.options.declarations import parse_whole
from morrow.engine.options.declared.features import GLOBAL_INDEX_ROW_COUNT_PER_SHARD
from morrow.engine.options.table_options import choose_text_options
from morrow.engine.plan.filter import NO_FILTER, Filter
from morrow.engine.plan.global_indexes import (
    INDEX_THREADS,
    NOTHING,
    IndexSearch,
    IndexShare,
    Ranges,
    combine_ranges,
    invert_ranges,
    mask_ids,
    share_rows,
    to_ranges,
)
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.predicate import Leaf, Op
from morrow.engine.plan.scan_plan import ScanPlan
from morrow.engine.polars_threads import open_threads
from morrow.engine.structs import replace
from morrow.engine.units import format_count
from morrow.readers.execution import execute

if TYPE_CHECKING:
    from pyroaring import BitMap64

DEFAULT_METRIC = "l2"
MAX_BLOCK_BYTES = 1 << 18
"""Maximum size of a block of vectors in 64-bit floats. Larger blocks do not fit the second cache of a processor."""

Floats: TypeAlias = npt.NDArray[np.float64]


def _score_l2(block: Floats, query: Floats) -> Floats:
    difference = block - query
    return np.asarray(1.0 / (1.0 + np.einsum("ij,ij->i", difference, difference)))


def _score_cosine(block: Floats, query: Floats) -> Floats:
    lengths = np.sqrt(np.einsum("ij,ij->i", block, block)) * np.sqrt(query @ query)
    return np.asarray(np.divide(block @ query, lengths, out=np.zeros(len(block)), where=lengths != 0))


def _score_inner_product(block: Floats, query: Floats) -> Floats:
    return np.asarray(block @ query)


METRICS: Mapping[str, Callable[[Floats, Floats], Floats]] = {
    "l2": _score_l2,
    "cosine": _score_cosine,
    "inner_product": _score_inner_product,
}


def check_metric(metric: str) -> str:
    """Return the metric's name in METRICS. Raises `InvalidArgument` for another one."""
    name = str(metric).lower().replace("-", "_")
    if name not in METRICS:
        raise InvalidArgument(f"the metric {metric!r} is not one of {', '.join(METRICS)}")
    return name


def check_query(query: object, field: DataField) -> Floats:
    """Return the query vector as 64-bit floats.

    Raises `InvalidArgument`: the column has no vectors, or the query has other elements or another length.
    """
    kind = field.type
    if not isinstance(kind, (VectorType, ArrayType)) or not isinstance(kind.element, VECTOR_ELEMENT_TYPES):
        raise InvalidArgument(f"the column {field.name!r} is {kind}; search a VECTOR, or an ARRAY of numbers")
    try:
        vector = np.asarray(query, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidArgument(f"the query vector {query!r} is not a list of numbers") from error
    if vector.ndim != 1 or not len(vector) or not np.isfinite(vector).all():
        raise InvalidArgument(f"the query vector {query!r} is not a list of finite numbers")
    if isinstance(kind, VectorType) and len(vector) != kind.length:
        count = format_count(len(vector), "element")
        raise InvalidArgument(f"the query vector has {count}; the column {field.name!r} is {kind}")
    return vector


def find_nearest(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema, field: DataField, query: Floats, k: int, metric: str
) -> pa.Table:
    """Return the `k` rows with the highest scores, best first, with the column `SCORE` (DOUBLE) at the end.

    Rows whose vector is null are left out. Rows with NaN in their vector come last. Among equal scores, the rows that
    come first in `batches` win.

    `schema`: the columns of the batches, among them `field`.

    Raises `InvalidArgument`: an ARRAY has another length than the query.
    """
    best = schema.append(pa.field(SCORE, pa.float64())).empty_table()
    for batch in batches:
        rows, scores = _score_batch(batch.column(field.name), field, query, metric)
        chosen = _choose_best(scores, k)
        if best.num_rows == k and len(chosen):
            chosen = chosen[_is_better(scores[chosen], float(best[SCORE][-1].as_py()))]
        if not len(chosen):
            continue
        found = pa.Table.from_batches([batch], schema).take(pa.array(rows[chosen]))
        both = pa.concat_tables([best, found.append_column(SCORE, pa.array(scores[chosen]))])
        best = both.take(pa.array(_choose_best(both[SCORE].to_numpy(), k)))
    return best


def _is_better(scores: Floats, least: float) -> npt.NDArray[np.bool_]:
    return ~np.isnan(scores) if np.isnan(least) else scores > least


def _choose_best(scores: Floats, k: int) -> npt.NDArray[np.intp]:
    """Return the indices of the `k` highest scores, highest first; NaN is the lowest."""
    keys = np.where(np.isnan(scores), np.inf, -scores)
    candidates = np.arange(len(keys))
    if len(keys) > k:
        candidates = np.flatnonzero(keys <= np.partition(keys, k - 1)[k - 1])
    return candidates[np.argsort(keys[candidates], kind="stable")[:k]]


def _score_batch(column: pa.Array, field: DataField, query: Floats, metric: str) -> tuple[npt.NDArray[np.intp], Floats]:
    """Return the rows of a batch that have vectors, and their scores."""
    width, rows = len(query), np.flatnonzero(read_validity(column))
    if isinstance(field.type, VectorType):
        values = column.values[column.offset * width : (column.offset + len(column)) * width]
    else:
        lengths = column.drop_null().value_lengths().to_numpy(zero_copy_only=False)
        if (wrong := lengths != width).any():
            count = format_count(int(lengths[wrong.argmax()]), "element")
            raise InvalidArgument(f"the column {field.name!r} has a list of {count}, the query vector {width}")
        values = column.flatten()
    matrix = values.to_numpy(zero_copy_only=False).reshape(-1, width)
    if len(matrix) != len(rows):
        matrix = matrix[rows]
    scores, score = np.empty(len(rows)), METRICS[metric]
    step = max(MAX_BLOCK_BYTES // (8 * width), 1)
    for start in range(0, len(rows), step):
        block = matrix[start : start + step].astype(np.float64, copy=False)
        scores[start : start + step] = score(block, query)
    return rows, scores


def parse_search_options(text: str) -> tuple[str, bool, dict[str, str]]:
    """Return the metric, whether the search is exact, and the other options of a text such as ``metric=cosine``.

    A search with options of indexes is not exact.

    Raises `InvalidArgument`: a part without a value, or ``exact`` that is not true or false.
    """
    metric, exact, others = DEFAULT_METRIC, None, dict[str, str]()
    for part in filter(None, map(str.strip, text.split(","))):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not value:
            raise InvalidArgument(f"{part!r} is not an option of a search; write metric=l2")
        if key.rpartition(".")[2] == "metric":
            metric = value
        elif key == "exact":
            if value.lower() not in ("true", "false"):
                raise InvalidArgument(f"{part!r} is not an option of a search; write exact=true or exact=false")
            exact = value.lower() == "true"
        else:
            others[key] = value
    return metric, not others if exact is None else exact, others


# --- indexes of vectors ---

REFINE_FACTOR = "ivf.refine_factor"
REFINE_NAMES = ("refine_factor", "rerank_factor")
COMPRESSED_FACTOR = 4
"""Default number of candidates per row of the result, for indexes of compressed vectors: their order is not exact."""


def parse_index_options(options: Mapping[str, object]) -> dict[str, int]:
    """Return the options of a search in an index, by their keys in Paimon.

    Raises:
        InvalidArgument: an unknown option, a value that is not a whole number of 1 or more, or `NPROBE` and `L_SEARCH`.
    """
    found: dict[str, int] = {}
    for key, value in options.items():
        plain = str(key).replace("-", "_")
        name = REFINE_FACTOR if plain.rpartition(".")[2] in REFINE_NAMES else plain
        if name not in (NPROBE, L_SEARCH, REFINE_FACTOR):
            raise InvalidArgument(
                f"there is no option {key!r} of searches; choose {NPROBE}, {L_SEARCH}, {REFINE_FACTOR}"
            )
        number = parse_whole(str(value))
        if number is None or number < 1:
            raise InvalidArgument(f"the option {key!r} of a search must be a whole number of 1 or more, not {value!r}")
        found[name] = number
    if NPROBE in found and L_SEARCH in found:
        raise InvalidArgument(f"a search has {NPROBE} or {L_SEARCH}, not both")
    return found


def narrow_to_candidates(
    metadata: TableMetadata,
    options: TableOptions,
    plan: ScanPlan,
    field: DataField,
    query: Floats,
    k: int,
    metric: str,
    asked: Mapping[str, int],
) -> ScanPlan:
    """Return the plan of the rows that may be nearest: candidates of indexes, and rows that no index covers.

    Args:
        plan: a plan of the column `ROW_ID` at least, if the table has row ids.
        asked: as of `parse_index_options`.

    Raises: as `search_vector_index`.
    """
    shares = _share_rows(metadata, options, plan, field, VECTOR_INDEXES)
    if not shares or np.abs(query).max() > np.finfo(np.float32).max:  # indexes have 32-bit numbers
        return plan
    allowed = _find_allowed(plan, metadata, shares)

    def search(number: int) -> Matches:
        part = shares[number][1].part
        most = k * asked.get(REFINE_FACTOR, COMPRESSED_FACTOR if part.index_type in COMPRESSED else 1)
        rows = part.stop - part.first
        return search_vector_index(
            part.index_type, metadata.store, part.path, rows, query, most, metric, allowed[number], asked
        )

    with open_threads(INDEX_THREADS) as pool:
        matches = list(pool.map(search, range(len(shares))))
    chosen: list[npt.NDArray[np.int64]] = []
    kinds = dict.fromkeys(share.part.index_type for _, share in shares)
    for kind in kinds:  # distances of several types are not alike
        own = [(s.part, found) for (_, s), found in zip(shares, matches) if s.part.index_type == kind]
        ids = np.concatenate([found.rows + part.first for part, found in own])
        scores = np.concatenate([found.scores for _, found in own])
        most = k * asked.get(REFINE_FACTOR, COMPRESSED_FACTOR if kind in COMPRESSED else 1)
        chosen.append(ids[_choose_best(scores, most)])
    wanted = to_ranges(np.concatenate(chosen))
    ranges = {
        partition: combine_ranges([wanted, invert_ranges(covered)], 1)
        for partition, covered in _list_covered(shares).items()
    }
    used = tuple(f"{kind} of {field.name}" for kind in kinds)
    return IndexSearch(ranges, used).narrow_plan(plan, f"{', '.join(used)}, approximately")


Shares: TypeAlias = Sequence[tuple[bytes, IndexShare]]
"""Parts of indexes, each with its partition."""


def _share_rows(
    metadata: TableMetadata, options: TableOptions, plan: ScanPlan, field: DataField, types: Sequence[str]
) -> Shares:
    """Return the index files of the partitions that a plan reads; none if it reads a fallback branch, too."""
    if plan.snapshot is None or plan.fallback is not None:
        return []
    found = share_rows(metadata, plan.schema, options, plan.snapshot, field, types)
    read = {section.partition_row for section in plan.sections}
    return [(partition, share) for partition, own in found.items() if partition in read for share in own]


def _list_covered(shares: Shares) -> dict[bytes, Ranges]:
    found: dict[bytes, list[Ranges]] = {}
    for partition, share in shares:
        found.setdefault(partition, []).append(share.ranges)
    return {partition: combine_ranges(own, 1) for partition, own in found.items()}


def _find_allowed(plan: ScanPlan, metadata: TableMetadata, shares: Shares) -> list[BitMap64 | None]:
    """Return the local row ids of each index file that a search may find; None for all."""
    from pyroaring import BitMap64

    live = None
    if plan.filter != NO_FILTER or any(file.deletion is not None for file in plan.files):
        live = BitMap64()
        for batch in execute.to_batches(plan.with_columns((ROW_ID,)), metadata.store):
            live.update(batch.column(0).drop_null().to_numpy(zero_copy_only=False))
    found: list[BitMap64 | None] = []
    for _, share in shares:
        if live is None and share.is_whole:
            found.append(None)
            continue
        own = BitMap64()
        for first, stop in share.ranges.tolist():
            own.add_range(first, stop)
        if live is not None:
            own &= live
        found.append(own.shift(-share.part.first))
    return found


# --- texts ---

MAX_TEXT_BYTES = 64 << 20
"""Maximum bytes of rows that are indexed in memory together. More rows are indexed in several parts."""


def check_text(field: DataField) -> None:
    """Raise `InvalidArgument` if a column has no texts."""
    if not isinstance(field.type, (CharType, VarCharType)):
        raise InvalidArgument(f"the column {field.name!r} is {field.type}; search a column of STRING, CHAR or VARCHAR")


def find_texts(
    metadata: TableMetadata,
    options: TableOptions,
    plan: ScanPlan,
    schema: pa.Schema,
    field: DataField,
    query: str,
    k: int,
) -> pa.Table:
    """Return the `k` rows whose texts match best, best first, with the column `SCORE` (DOUBLE) at the end.

    Args:
        plan: a plan of the column `ROW_ID` and of others, if the table has row ids.
        schema: the columns of the plan, in Arrow types.
        query: as of `parse_text_query`.

    Raises: as `search_text_index`.
    """
    has_ids = ROW_ID in plan.columns
    shares = _share_rows(metadata, options, plan, field, (TEXT_INDEX,))
    native = choose_text_options(options.given)
    kept = pa.schema([schema.field(ROW_ID)]) if has_ids else schema
    best = kept.append(pa.field(SCORE, pa.float64())).empty_table()
    read, everywhere = plan.with_columns((field.name, ROW_ID)) if has_ids else plan, NOTHING
    if shares:
        allowed = _find_allowed(plan, metadata, shares)

        def search(number: int) -> Matches:
            part = shares[number][1].part
            return search_text_index(metadata.store, part.path, part.stop - part.first, query, k, allowed[number])

        with open_threads(INDEX_THREADS) as pool:
            matches = list(pool.map(search, range(len(shares))))
        ids = np.concatenate([found.rows + share.part.first for (_, share), found in zip(shares, matches)])
        scores = np.concatenate([found.scores for found in matches])
        chosen = _choose_best(scores, k)
        best = pa.Table.from_arrays([pa.array(ids[chosen]), pa.array(scores[chosen])], schema=best.schema)
        native = json.loads(shares[0][1].part.meta or b"{}")
        covered = _list_covered(shares)
        read = IndexSearch({partition: invert_ranges(own) for partition, own in covered.items()}, ()).narrow_plan(read)
        everywhere = combine_ranges(list(covered.values()), 1)
    most = options.given.get(GLOBAL_INDEX_ROW_COUNT_PER_SHARD)
    for rows in _gather_rows(execute.to_batches(read, metadata.store, min(most, execute.DEFAULT_BATCH_ROWS)), most):
        if len(everywhere):
            rows = rows.filter(pa.array(~mask_ids(rows[ROW_ID].fill_null(-1).to_numpy(), everywhere)))
        texts = import_array(rows[field.name])
        found = search_texts(texts, query, k, native, metadata.where)
        own = (
            rows.select([each.name for each in kept])
            .take(pa.array(found.rows))
            .append_column(SCORE, pa.array(found.scores))
        )
        both = pa.concat_tables([best, own])
        best = both.take(pa.array(_choose_best(both[SCORE].to_numpy(), k)))
    return fetch_columns(metadata, plan, schema, best) if has_ids else best


def _gather_rows(batches: Iterator[pa.RecordBatch], most: int) -> Iterator[pa.Table]:
    """Yield batches together, up to about this number of rows and `MAX_TEXT_BYTES`."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        rows, size = sum(each.num_rows for each in waiting), sum(each.nbytes for each in waiting)
        if waiting and (rows + batch.num_rows > most or size + batch.nbytes > MAX_TEXT_BYTES):
            yield pa.Table.from_batches(waiting)
            waiting = []
        waiting.append(batch)
    if waiting:
        yield pa.Table.from_batches(waiting)


# --- other columns of rows that were found ---


def fetch_columns(metadata: TableMetadata, plan: ScanPlan, schema: pa.Schema, found: pa.Table) -> pa.Table:
    """Return the columns of a plan for rows that a search found, in their order, and their scores.

    Args:
        plan: a plan of the same rows, with the column `ROW_ID` and others.
        schema: the columns of the plan, in Arrow types.
        found: the columns `ROW_ID` and `SCORE`.

    Raises `CorruptFile`: a row id is null, or the id of several rows.
    """
    ids = found[ROW_ID].fill_null(-1).to_numpy()
    ranges = dict.fromkeys((section.partition_row for section in plan.sections), to_ranges(ids))
    among = Leaf(ROW_ID, Op.IN, tuple(ids.tolist()))
    narrow = IndexSearch(ranges, ()).narrow_plan(plan, "search")
    # The rows fulfil the filter of the plan. This filter keeps values of other rows, such as blobs, from being read.
    narrow = replace(narrow, filter=Filter(among, (), frozenset((ROW_ID,)), "rows that were found"))
    batches = execute.to_batches(narrow, metadata.store) if len(ids) else []
    rows = pa.Table.from_batches(batches, schema)
    order = np.argsort(rows[ROW_ID].to_numpy())
    known = rows[ROW_ID].to_numpy()[order]
    if not np.array_equal(np.sort(ids), known):
        raise CorruptFile(metadata.where, "row ids are null, or of several rows")
    return rows.take(pa.array(order[np.searchsorted(known, ids)])).append_column(SCORE, found[SCORE])
