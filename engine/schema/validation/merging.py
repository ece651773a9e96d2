"""Rules about merging: the options of columns, sequence fields, merge engines, changelogs and deletion vectors."""

from __future__ import annotations

from morrow.engine.errors import Unsupported
from morrow.engine.format.types import BigIntType, CharType, IntType, SmallIntType, TinyIntType, VarCharType
from morrow.engine.merge.field_options import check_new_field_names
from morrow.engine.merge.registry import check_merge
from morrow.engine.options.declared.columns import AGGREGATE_FUNCTION
from morrow.engine.options.declared.merging import (
    CHANGELOG_PRODUCER,
    DELETION_VECTORS_ENABLED,
    LOOKUP_WAIT,
    ROWKIND_FIELD,
    SEQUENCE_FIELD,
)
from morrow.engine.options.declaring import FIELDS
from morrow.engine.options.words import ChangelogProducer
from morrow.engine.schema.validation.proposal import Proposal

KIND_TYPES = (CharType, VarCharType, TinyIntType, SmallIntType, IntType, BigIntType)
GONE_FUNCTION = "count"
"""Paimon 0.7 and 0.8 had this function; later versions do not open such tables."""


def field_options(proposal: Proposal) -> None:
    """Checks that ``fields.<columns>.*`` names columns."""
    check_new_field_names(proposal.schema, proposal.given.raw, proposal.where)


def sequence_field(proposal: Proposal) -> None:
    """Checks for distinct columns without a function of their own, and no keys that move between partitions."""
    names = proposal.given.get(SEQUENCE_FIELD)
    proposal.require_columns(names, "sequence field")
    for name in names:
        proposal.require(names.count(name) == 1, f"{SEQUENCE_FIELD} names {name!r} twice")
        function = AGGREGATE_FUNCTION.of(name)
        proposal.require(
            not proposal.given.has(function),
            f"the sequence field {name!r} takes no aggregate function: remove {function}",
        )
    if names:
        proposal.require(
            not proposal.schema.cross_partition,
            f"{SEQUENCE_FIELD} does not go with keys that may move between partitions; add the partition keys "
            f"{', '.join(proposal.schema.partition_keys)} to the primary key",
        )


def merge_engine(proposal: Proposal) -> None:
    """Checks the engine's own rules; no engine accepts a function that Paimon has removed."""
    for key, value in proposal.given.raw.items():
        is_function = key.startswith(FIELDS) and key.endswith(AGGREGATE_FUNCTION.suffix)
        if proposal.keyed and is_function and value == GONE_FUNCTION:
            raise Unsupported(
                f"the aggregate function {value!r} of {key!r}", where=proposal.where, hint="Paimon has it no more"
            )
    check_merge(proposal.schema, proposal.options, where=proposal.where)


def changelog(proposal: Proposal) -> None:
    """Checks that only tables with a primary key produce changelogs."""
    producer = proposal.options.changelog_producer
    proposal.require(
        proposal.keyed or producer == "none", f"{CHANGELOG_PRODUCER} = {producer} needs a table with a primary key"
    )


def deletion_vectors(proposal: Proposal) -> None:
    """Refuses full-compaction changelogs with deletion vectors, and commits that do not wait for lookups.

    The latter is required by Paimon's documentation, not by its validation: such a commit would be invisible.
    """
    if not proposal.options.deletion_vectors:
        return
    proposal.require(
        not proposal.keyed or proposal.given.get(LOOKUP_WAIT),
        f"{DELETION_VECTORS_ENABLED} does not go with {LOOKUP_WAIT} = false: rows are read once they were compacted, "
        "so a commit has to wait for that",
    )
    proposal.require(
        proposal.options.changelog_producer is not ChangelogProducer.FULL_COMPACTION,
        f"{DELETION_VECTORS_ENABLED} does not go with {CHANGELOG_PRODUCER} = full-compaction; use none, input or "
        "lookup",
    )


def row_kind(proposal: Proposal) -> None:
    """Checks that ``rowkind.field`` names a column of text, or of the codes of kinds."""
    name = proposal.given.get(ROWKIND_FIELD)
    if name is not None:
        proposal.require_columns([name], "rowkind field")
        kind = proposal.schema.by_name[name].type
        proposal.require(isinstance(kind, KIND_TYPES), f"{ROWKIND_FIELD} {name!r} is {kind}, no STRING and no number")


RULES = (field_options, sequence_field, merge_engine, changelog, deletion_vectors, row_kind)
