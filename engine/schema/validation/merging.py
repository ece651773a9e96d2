"""Rules about merging: the options of columns, sequence fields, merge engines, changelogs and deletion vectors."""

from __future__ import annotations

from morrow.engine.errors import Unsupported
from morrow.engine.merge.field_options import AGGREGATE_FUNCTION, PREFIX, check_field_names, split_names
from morrow.engine.merge.partial_update import GROUP_SUFFIX
from morrow.engine.merge.registry import merge_spec
from morrow.engine.schema.validation.proposal import Proposal

GONE_FUNCTION = "count"
"""Paimon 0.7 and 0.8 had it; later ones do not open such tables."""


def field_options(proposal: Proposal) -> None:
    """``fields.<columns>.*`` names columns."""
    check_field_names(proposal.schema, proposal.raw, proposal.where)


def sequence_field(proposal: Proposal) -> None:
    """Columns, each once, without a function of their own, not with first-row or keys that move between partitions."""
    names = (
        [name.strip() for name in proposal.raw["sequence.field"].split(",")] if "sequence.field" in proposal.raw else []
    )
    proposal.require_columns(names, "sequence field")
    for name in names:
        proposal.require(names.count(name) == 1, f"'sequence.field' names {name!r} twice")
        key = f"{PREFIX}{name}.{AGGREGATE_FUNCTION}"
        proposal.require(
            key not in proposal.raw, f"the sequence field {name!r} takes no aggregate function: remove {key!r}"
        )
    if names:
        proposal.require(
            proposal.options.merge_engine != "first-row", "'sequence.field' does not go with 'merge-engine' = first-row"
        )
        proposal.require(
            not proposal.schema.cross_partition,
            f"'sequence.field' does not go with keys that may move between partitions; add the partition keys "
            f"{', '.join(proposal.schema.partition_keys)} to the primary key",
        )


def merge_engine(proposal: Proposal) -> None:
    """The engine's own rules, for tables with a primary key."""
    merge_spec(proposal.schema, proposal.options, where=proposal.where)
    if proposal.keyed and proposal.options.merge_engine in ("partial-update", "aggregation"):
        for key, value in proposal.raw.items():
            if key.startswith(PREFIX) and key.endswith(AGGREGATE_FUNCTION) and value == GONE_FUNCTION:
                raise Unsupported(
                    f"the aggregate function {value!r} of {key!r}", where=proposal.where, hint="Paimon has it no more"
                )


def sequence_groups(proposal: Proposal) -> None:
    """No group of partial-update lists what orders another group: which of the two moved it would be left to chance."""
    if not proposal.keyed or proposal.options.merge_engine != "partial-update":
        return
    groups = {
        split_names(key[len(PREFIX) : -len(GROUP_SUFFIX)]): split_names(value)
        for key, value in proposal.raw.items()
        if key.startswith(PREFIX) and key.endswith(GROUP_SUFFIX)
    }
    for sequence, listed in groups.items():
        for other in groups.keys() - {sequence}:
            both = sorted(set(listed) & set(other))
            proposal.require(
                not both,
                f"the sequence group of ({', '.join(sequence)}) lists {', '.join(both)}, which orders another group",
            )


def changelog(proposal: Proposal) -> None:
    """Only tables with a primary key produce changelogs; first-row by lookup at most."""
    producer = proposal.changelog_producer
    proposal.require(
        proposal.keyed or producer == "none", f"'changelog-producer' = {producer} needs a table with a primary key"
    )
    proposal.require(
        proposal.options.merge_engine != "first-row" or producer in ("none", "lookup"),
        f"'merge-engine' = first-row goes with 'changelog-producer' none or lookup, not {producer}",
    )


def deletion_vectors(proposal: Proposal) -> None:
    """Not with full-compaction changelogs, nor with first-row, which deletes nothing; commits wait for lookups.

    The last one Paimon's documents ask for and its validation does not: a commit that did not wait would be invisible.
    """
    if not proposal.options.deletion_vectors:
        return
    proposal.require(
        not proposal.keyed or proposal.flag("lookup-wait", True),
        "'deletion-vectors.enabled' does not go with 'lookup-wait' = false: rows are read once they were compacted, so "
        "a commit has to wait for that",
    )
    proposal.require(
        proposal.changelog_producer != "full-compaction",
        "'deletion-vectors.enabled' does not go with 'changelog-producer' = full-compaction; use none, input or lookup",
    )
    proposal.require(
        proposal.options.merge_engine != "first-row",
        "'deletion-vectors.enabled' does not go with 'merge-engine' = first-row, which replaces no row",
    )


def row_kind(proposal: Proposal) -> None:
    """``rowkind.field`` names a column."""
    if "rowkind.field" in proposal.raw:
        proposal.require_columns([proposal.raw["rowkind.field"]], "rowkind field")


RULES = (field_options, sequence_field, merge_engine, sequence_groups, changelog, deletion_vectors, row_kind)
