"""The steps before the aggregation: versions numbered by age, and the effect of each on the sequence groups.

Helper columns are made in up to four common table expressions, each only where it is needed:

==========  =====================================================================================
ordered     the versions of a key are numbered by age, and ranked by each sequence group
led         the ``-D`` that remove the row: those not older than the versions their group has seen
current     the versions that a removal, or the option to ignore retractions, leaves
stepped     the effect of each version on the columns of a group
==========  =====================================================================================
"""

from __future__ import annotations

from functools import cached_property

from morrow.engine.merge.spec import OnDelete
from morrow.readers.merges.sql.groups import GroupColumns, Helpers
from morrow.readers.merges.sql.statement import Item, Names, Select
from morrow.readers.merges.sql.table import DELETES, INSERTS, RETRACTIONS, UPDATE_BEFORE, Table

EVERYTHING = Item("*")
LAMBDA_NAMES = ("state", "row", "value", "total", "merged", "newer", "a", "x", "y", "i", "part", "entry")
BY_VERSION = "by_version"


class Layout:
    """The common table expressions of a merge that folds, and the names of their helper columns.

    Args:
        reversing: numbers of the sequence groups with a function that depends on the place of older versions.
        update_before: ``-U`` retracts also where ``-D`` removes the row, as in aggregation.
    """

    def __init__(self, table: Table, reversing: frozenset[int] = frozenset(), *, update_before: bool = False) -> None:
        self.table = table
        self.on_delete = table.spec.on_delete if table.retractions else None
        self._update_before = update_before
        names = Names([*(field.name for field in table.fields), *table.reserved, *LAMBDA_NAMES])
        self.helpers = Helpers.named(names)
        self.groups = tuple(
            GroupColumns.named(names, group, self.helpers, reverses=number in reversing, on_delete=self.on_delete)
            for number, group in enumerate(table.spec.groups)
        )
        self._names = {name: names.fresh(name) for name in ("ordered", "led", "current", "stepped")}

    @property
    def version(self) -> str:
        return self.helpers.version

    @cached_property
    def removing(self) -> tuple[GroupColumns, ...]:
        """Groups whose ``-D`` removes the row."""
        return tuple(g for g in self.groups if g.group.removes_record and self.on_delete is OnDelete.RETRACT)

    @property
    def cuts(self) -> bool:
        """Whether a removal hides the versions before it."""
        return bool(self.removing) or self.on_delete is OnDelete.REMOVE_RECORD

    @property
    def removal(self) -> str | None:
        """The condition that a version has removed the row."""
        if self.removing:
            return self.helpers.removes
        return DELETES if self.cuts else None

    @cached_property
    def steps(self) -> tuple[tuple[str, Select], ...]:
        """The common table expressions by name; the last one is aggregated."""
        selects = (
            ("ordered", self._ordered),
            ("led", self._led),
            ("current", self._current),
            ("stepped", self._stepped),
        )
        made: list[tuple[str, Select]] = []
        for name, make in selects:
            select = make(made[-1][0] if made else self.table.relation)
            if select is not None:
                made.append((self._names[name], select))
        return tuple(made)

    def _over_key(self, order: str = "") -> str:
        return f"(PARTITION BY {self.table.key}{order and f' ORDER BY {order}'})"

    def _ordered(self, source: str) -> Select:
        age = self.table.age()
        items = [EVERYTHING, Item("row_number() OVER by_age", self.version)]
        if self.groups:
            items.append(Item(f"count(*) OVER {self._over_key()}", self.helpers.version_count))
        if self.on_delete is not None:
            retracts = UPDATE_BEFORE if self._update_before and self.cuts else RETRACTIONS
            items.append(Item(retracts, self.helpers.retracts))
        items.extend(group.ranked(self.table.key, age) for group in self.groups)
        return Select(items, source, [f"WINDOW by_age AS {self._over_key(age)}"])

    def _led(self, source: str) -> Select | None:
        if not self.removing:
            return None
        if len(self.removing) > 1:  # each removal changes the values that the other groups compare with
            removes = f"morrow_removes_record({self.version})"
            return Select([EVERYTHING, Item(removes, self.helpers.removes)], source)
        (group,) = self.removing
        leads = group.leads(self._over_key(self.version))
        return Select([EVERYTHING, Item(f"{DELETES} AND {group.touched} AND {leads}", self.helpers.removes)], source)

    def _current(self, source: str) -> Select | None:
        h = self.helpers
        if self.on_delete is OnDelete.IGNORE:
            return Select([EVERYTHING], source, [f"WHERE NOT {h.retracts} OR {h.version} = 1"])
        if not self.cuts:
            return None
        items = [EVERYTHING, Item(f"bool_or({INSERTS}) OVER {self._over_key()}", h.inserted)]
        last_removal = f"max({h.version}) FILTER (WHERE {self.removal}) OVER {self._over_key()}"
        return Select(items, source, [f"QUALIFY {h.version} >= coalesce({last_removal}, 1)"])

    def _stepped(self, source: str) -> Select | None:
        stepped = [group for group in self.groups if group.stepped]
        items = [item for group in stepped for item in group.step_items(self.removal, BY_VERSION)]
        if not items:
            return None
        window = [f"WINDOW {BY_VERSION} AS {self._over_key(self.version)}"] if any(g.reverses for g in stepped) else []
        return Select([EVERYTHING, *items], source, window)
