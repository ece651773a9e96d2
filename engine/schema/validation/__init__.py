"""The rules for a schema and its options before it is stored: those of Paimon 1.4.2, and of Morrow's writers.

A rule is a function that takes a `Proposal` and raises if it is broken. They run in order, the cheapest first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from morrow.engine.errors import MorrowError
from morrow.engine.format.schema import TableSchema
from morrow.engine.options import Options
from morrow.engine.options.declared.history import PARTITION_EXPIRATION_TIME
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


def validate_schema(
    schema: TableSchema,
    *,
    where: str,
    options_set: Iterable[str] | None = None,
    before: TableSchema | None = None,
) -> None:
    """Checks a schema before it is stored.

    Args:
        where: the table, for errors.
        before: the schema that it changes; None for a new table. A change may keep what broke a rule before: other
            writers have other rules.
        options_set: the options being set now; None for all of them. Options that another writer has stored are not
            refused again.

    Raises:
        InvalidArgument, Unsupported: for the first rule that the schema breaks.
    """
    given = tuple(schema.options if options_set is None else options_set)
    check_set(schema.options, given, where)
    if Options(schema.options).has(PARTITION_EXPIRATION_TIME) and any(key.startswith("partition.") for key in given):
        parse_partition_expiry(schema.options, where=where)
    proposal = Proposal.of(schema, where)
    for rule in RULES:
        _check(rule, proposal, before)
    columns.check_cases(schema, where, before)
    features.check_indexes(schema, where, before)


def _check(rule: Callable[[Proposal], None], proposal: Proposal, before: TableSchema | None) -> None:
    """Raises for a broken rule, unless the schema before it broke the rule in the same way."""
    try:
        rule(proposal)
    except MorrowError as error:
        if before is None or _problem(rule, Proposal.of(before, proposal.where)) != _without_hint(error):
            raise


def _problem(rule: Callable[[Proposal], None], proposal: Proposal) -> str | None:
    try:
        rule(proposal)
    except MorrowError as error:
        return _without_hint(error)
    return None


def _without_hint(error: MorrowError) -> str:
    return str(error).partition("; ")[0]
