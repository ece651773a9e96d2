"""Rules about buckets: their number, their key columns, and the bucket function."""

from __future__ import annotations

from morrow.engine.format.paths import POSTPONE_BUCKET
from morrow.engine.format.types import ArrayType, BigIntType, IntType, MapType, MultisetType, RowType
from morrow.engine.merge.field_options import split_names
from morrow.engine.options.declared.compaction import FULL_COMPACTION_DELTA_COMMITS
from morrow.engine.options.declared.table import BUCKET, BUCKET_FUNCTION_TYPE, BUCKET_KEY
from morrow.engine.schema.validation.proposal import Proposal

UNAWARE_OR_DYNAMIC = -1
NESTED = (ArrayType, MultisetType, MapType, RowType)


def bucket_key(proposal: Proposal) -> None:
    """Checks that the option names columns, none a partition key, and all in the primary key if there is one."""
    text = proposal.given.text(BUCKET_KEY) or ""
    if not text.strip():
        return
    names = split_names(text)
    proposal.require_columns(names, "bucket key")
    schema = proposal.schema
    in_partition = [name for name in names if name in schema.partition_keys]
    proposal.require(not in_partition, f"the bucket key {', '.join(in_partition)} is a partition key")
    outside = [name for name in names if schema.primary_keys and name not in schema.primary_keys]
    proposal.require(
        not outside,
        f"the bucket key {', '.join(outside)} is not in the primary key ({', '.join(schema.primary_keys)}); rows of "
        "one key would lie in several buckets",
    )


def number(proposal: Proposal) -> None:
    """Checks for -1, a positive number, or -2 with a primary key; a fixed number needs a key to choose buckets by."""
    bucket = proposal.options.bucket
    if bucket == UNAWARE_OR_DYNAMIC:
        proposal.require(
            not proposal.given.has(BUCKET_KEY),
            f"{BUCKET_KEY} does not go with {BUCKET} = -1; remove it, or give a number of buckets",
        )
        proposal.require(
            proposal.keyed or not proposal.given.has(FULL_COMPACTION_DELTA_COMMITS),
            f"{FULL_COMPACTION_DELTA_COMMITS} does not go with {BUCKET} = -1 in a table without a primary key",
        )
        return
    postpone = proposal.keyed and bucket == POSTPONE_BUCKET
    proposal.require(bucket > 0 or postpone, f"{BUCKET} = {bucket}: the number of buckets is 1 or more, or -1")
    chosen_by = proposal.options.bucket_key or (proposal.schema.trimmed_primary_keys if proposal.keyed else ())
    proposal.require(
        bool(chosen_by), f"a table without a primary key needs the option {BUCKET_KEY} to have a number of buckets"
    )
    kinds = [proposal.schema.by_name[name].type for name in chosen_by]
    for name, kind in zip(chosen_by, kinds):
        proposal.require(not isinstance(kind, NESTED), f"the bucket key {name!r} has the nested type {kind}")
    if proposal.options.bucket_function == "mod":
        proposal.require(
            len(kinds) == 1 and isinstance(kinds[0], (IntType, BigIntType)),
            f"{BUCKET_FUNCTION_TYPE} = mod takes one INT or BIGINT column, not ({', '.join(chosen_by)})",
        )


RULES = (bucket_key, number)
