"""Exact search for the rows whose vectors are nearest to a query vector.

Batches of rows are scored by numpy, in 64-bit floats and in blocks that stay in the processor's cache. Only the best
rows of each batch are kept, so memory does not grow with the table. Scores are Paimon's; the highest is the best:

================  ================================
metric            score
================  ================================
``l2``            1 / (1 + squared distance)
``cosine``        cosine of the angle; 0 for zeros
``inner_product`` sum of the products
================  ================================
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from morrow.engine.errors import InvalidArgument
from morrow.engine.format.arrow_buffers import read_validity
from morrow.engine.format.types import VECTOR_ELEMENT_TYPES, ArrayType, DataField, VectorType
from morrow.engine.names import SCORE
from morrow.engine.units import format_count

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

    Raises:
        InvalidArgument: the column has no vectors, or the query has other elements or another length.
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

    Args:
        schema: the columns of the batches, among them `field`.

    Raises:
        InvalidArgument: an ARRAY has another length than the query.
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
