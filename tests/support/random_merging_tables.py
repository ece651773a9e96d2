"""Random tables of the engines that combine records: partial-update and aggregation.

They contain retractions only if the table defines their effect. With late records, the result of `nested_update` with
a key and a count limit depends on the order in Java's hash maps, so sequence groups do not use it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from hypothesis import strategies as st

from morrow.engine.format import types as t
from morrow.engine.format.types import parse_atomic
from tests.support.merging_columns import ANY, FUNCTIONS, GENERAL, Column, columns
from tests.support.random_tables import (
    KINDS,
    PARTITION_TYPES,
    SEQUENCE_TYPES,
    Content,
    RandomTable,
    filled,
    with_hostile_names,
)
from tests.support.value_pools import POOLS

INSERTS = ("+I", "+I", "+U")
WITHOUT_UPDATE_BEFORE = ("+I", "+I", "+U", "-D")
MAX_COLUMNS = 4
FEW_KEYS = 3


@dataclass
class Draft:
    """The value columns of a table that is being drawn, and its other options."""

    columns: dict[str, Column] = field(default_factory=dict)
    options: dict[str, str] = field(default_factory=dict)
    kinds: Sequence[str] = INSERTS

    def add(self, column: Column) -> str:
        name = f"v{len(self.columns)}"
        self.columns[name] = column
        return name

    @property
    def all_options(self) -> dict[str, str]:
        own = {f"fields.{name}.{k}": v for name, column in self.columns.items() for k, v in column.options.items()}
        return own | self.options


@st.composite
def random_merging_tables(draw: st.DrawFn) -> RandomTable:
    draft = draw(DRAFTS[draw(st.sampled_from(sorted(DRAFTS)))]())
    keys = draw(st.lists(st.sampled_from(sorted(POOLS)), min_size=1, max_size=2))
    partition = draw(st.sampled_from((None, None, *PARTITION_TYPES)))
    named = [(f"k{i}", parse_atomic(kind).with_nullable(False)) for i, kind in enumerate(keys)]
    named += [("pt", parse_atomic(partition).with_nullable(False))] if partition else []
    named += [(name, column.type) for name, column in draft.columns.items()]
    fields = tuple(t.DataField(i, name, kind) for i, (name, kind) in enumerate(draw(st.permutations(named))))
    partition_keys = ("pt",) if partition else ()
    primary_keys = (*partition_keys, *(f"k{i}" for i in range(len(keys))))
    options = draft.all_options | draw(_storage())
    pools = {name: column.pool for name, column in draft.columns.items() if column.pool is not None}
    pools |= {f"k{i}": POOLS[kind][:FEW_KEYS] for i, kind in enumerate(keys)}
    table = RandomTable(fields, primary_keys, partition_keys, options, ())
    return draw(with_hostile_names(draw(filled(table, Content(pools, draft.kinds, least_runs=2)))))


@st.composite
def _storage(draw: st.DrawFn) -> dict[str, str]:
    options = {"data-file.thin-mode": draw(st.sampled_from(("false", "true")))}
    if draw(st.integers(0, 4)) == 4:
        options["deletion-vectors.enabled"] = "true"
        options["deletion-vectors.bitmap64"] = draw(st.sampled_from(("false", "true")))
        options["deletion-vectors.merge-on-read"] = draw(st.sampled_from(("false", "true")))
    elif draw(st.integers(0, 4)) == 4:
        options["changelog-producer"] = "lookup"
    return options


# --- partial-update ---


@st.composite
def _plain_partial_update(draw: st.DrawFn) -> Draft:
    """Draw options without sequence groups, so that non-null values overwrite."""
    draft = Draft(options={"merge-engine": "partial-update"})
    some = st.sampled_from(ANY) | columns(["last_non_null_value"], retracting=False)
    for column in draw(st.lists(some, min_size=1, max_size=MAX_COLUMNS)):
        draft.add(column)
    policy = draw(st.sampled_from(("", "ignore-delete", "partial-update.remove-record-on-delete")))
    if policy:
        draft.options[policy] = "true"
        draft.kinds = KINDS
    _maybe_default(draw, draft, ["last_non_null_value"])
    _maybe_sequence_field(draw, draft)
    return draft


@st.composite
def _sequence_groups(draw: st.DrawFn) -> Draft:
    """Draw one or two sequence groups with functions, and columns outside of them."""
    draft = Draft(options={"merge-engine": "partial-update"})
    policy = draw(st.sampled_from(("none", "ignore-delete", "retract", "retract", "remove", "remove")))
    retracting = policy in ("retract", "remove")
    guarded = st.sampled_from(ANY) | columns(sorted(FUNCTIONS), retracting=retracting).filter(_is_told)
    groups = []
    for _ in range(draw(st.integers(1, 2))):
        orders = st.lists(st.sampled_from(SEQUENCE_TYPES), min_size=1, max_size=2)
        sequence = [draft.add(Column(parse_atomic(kind))) for kind in draw(orders)]
        protected = [draft.add(column) for column in draw(st.lists(guarded, min_size=1, max_size=3))]
        draft.options[f"fields.{','.join(sequence)}.sequence-group"] = ",".join(protected)
        groups.append(sequence)
    for column in draw(st.lists(st.sampled_from(ANY), max_size=1)):
        draft.add(column)
    if policy != "none":
        draft.kinds = KINDS
    if policy == "ignore-delete":
        draft.options[policy] = "true"
    if policy == "remove":
        chosen = draw(st.lists(st.sampled_from([s for group in groups for s in group]), min_size=1, unique=True))
        draft.options["partial-update.remove-record-on-sequence-group"] = ",".join(chosen)
    _maybe_default(draw, draft, ["last_non_null_value"])
    return draft


def _is_told(column: Column) -> bool:
    return not {"nested-key", "count-limit"} <= column.options.keys()


# --- aggregation ---


@st.composite
def _aggregation(draw: st.DrawFn) -> Draft:
    draft = Draft(options={"merge-engine": "aggregation"})
    policy = draw(st.sampled_from(("none", "retract", "retract", "remove", "ignore-delete")))
    retracting = policy in ("retract", "ignore-delete")
    some = columns(sorted(FUNCTIONS), retracting=retracting, ignoring=policy != "remove")
    for column in draw(st.lists(some | st.sampled_from(ANY), min_size=1, max_size=MAX_COLUMNS)):
        draft.add(column)
    if retracting:
        draft.kinds = KINDS
    if policy == "remove":
        draft.options["aggregation.remove-record-on-delete"] = "true"
        draft.kinds = WITHOUT_UPDATE_BEFORE
    if policy == "ignore-delete":  # applies to writers; retractions in files still count
        draft.options["ignore-delete"] = "true"
    _maybe_default(draw, draft, [f for f in GENERAL if not retracting or FUNCTIONS[f].retracts])
    _maybe_sequence_field(draw, draft)
    return draft


def _maybe_default(draw: st.DrawFn, draft: Draft, functions: Sequence[str]) -> None:
    if draw(st.integers(0, 3)) == 3:
        draft.options["fields.default-aggregate-function"] = draw(st.sampled_from(functions))


def _maybe_sequence_field(draw: st.DrawFn, draft: Draft) -> None:
    if draw(st.booleans()):
        orders = st.lists(st.sampled_from(SEQUENCE_TYPES), min_size=1, max_size=2)
        names = [draft.add(Column(parse_atomic(kind))) for kind in draw(orders)]
        draft.options["sequence.field"] = ",".join(names)
        if draw(st.booleans()):
            draft.options["sequence.field.sort-order"] = "descending"


DRAFTS: Mapping[str, Callable[[], st.SearchStrategy[Draft]]] = {
    "plain": _plain_partial_update,
    "groups": _sequence_groups,
    "aggregation": _aggregation,
}
