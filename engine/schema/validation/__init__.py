"""The rules that a schema with its options obeys before it is stored: those of Paimon 1.4.2, and what Morrow writes.

A rule is a function of a `Proposal` that raises for what breaks it. They run in order, the cheapest first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from morrow.engine.format.schema import TableSchema
from morrow.engine.options.partition_expiry import parse_partition_expiry
from morrow.engine.options.registry import check_set
from morrow.engine.schema.validation import buckets, columns, features, histories, merging
from morrow.engine.schema.validation.proposal import Proposal

RULES: tuple[Callable[[Proposal], None], ...] = (
    *columns.RULES,
    *buckets.RULES,
    *histories.RULES,
    *merging.RULES,
    *features.RULES,
)


def validate_schema(schema: TableSchema, *, where: str, options_set: Iterable[str] | None = None) -> None:
    """Check a schema before it is stored.

    Args:
        where: the table, for errors.
        options_set: the options that somebody sets now; None for all of them. Those that another writer has stored
            are not refused again.

    Raises:
        InvalidArgument, Unsupported: for the first rule that the schema breaks.
    """
    given = tuple(schema.options if options_set is None else options_set)
    check_set(schema.options, given, where)
    if "partition.expiration-time" in schema.options and any(key.startswith("partition.") for key in given):
        parse_partition_expiry(schema.options, where=where)
    proposal = Proposal.of(schema, where)
    for rule in RULES:
        rule(proposal)
