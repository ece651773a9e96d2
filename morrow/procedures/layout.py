"""Procedures for how rows lie in files: buckets, indexes, partitions that are done."""

from __future__ import annotations

from morrow.engine.errors import InvalidArgument
from morrow.procedures.arguments import partitions_of
from morrow.procedures.procedure import DONE, RESULT, Call, Kind, Parameter, Procedure, Rows, condition, required


def _rescale(call: Call, bucket_num: int | None, partitions: str | None, where: str | None) -> Rows:
    if partitions is not None and where is not None:
        raise InvalidArgument("rescale: give partitions or where, not both")
    partition = None if partitions is None else partitions_of(partitions)
    call.table.rescale(bucket_num, partition=partition, where=condition(where))
    return DONE


def _rewrite_file_index(call: Call, where: str | None) -> Rows:
    done = call.table.rewrite_file_index(where=condition(where))
    return [(done.partitions, done.files)]


def _mark_partition_done(call: Call, partitions: str) -> Rows:
    call.table.mark_partition_done(*partitions_of(partitions))
    return DONE


_RESCALE = (Parameter("bucket_num", Kind.INT), Parameter("partitions"), Parameter("where"))
_WRITTEN = "written_partitions INT NOT NULL, written_indexes INT NOT NULL"

PROCEDURES = (
    Procedure("rescale", _RESCALE, RESULT, _rescale),
    Procedure("rewrite_file_index", (Parameter("where"),), _WRITTEN, _rewrite_file_index),
    Procedure("mark_partition_done", (required("partitions"),), RESULT, _mark_partition_done),
)
