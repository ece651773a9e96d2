"""Random histories: tables, steps, the model of their rows, and comparisons after each step."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

import morrow
from morrow.engine.errors import CommitConflict, MorrowError, Unsupported
from tests.campaigns.turns.player import NAME, ROW_ID, SEQUENCE, Player

Row = dict[str, Any]
PEER = "pypaimon"
FACADE = "morrow.compat.pypaimon"
OWN = "morrow"
PLAYERS = (PEER, FACADE, OWN)
EXTRAS = ("a", "s", "d", "l", "r", "b", "v")
TYPES = {
    "i": pa.int32(),
    "p": pa.int32(),
    "a": pa.int64(),
    "s": pa.string(),
    "d": pa.float64(),
    "l": pa.list_(pa.int32()),
    "r": pa.struct([("x", pa.int32()), ("y", pa.string())]),
    "b": pa.large_binary(),
    "v": pa.list_(pa.float32(), 2),
}
"""The columns, by the first letter of their name: later names are like ``a7``."""
UNSAFE = ("l", "r", "v")
"""Types that pypaimon writes wrongly to ORC, or not at all to Avro, if values are null."""
Ask = Callable[..., Any]
"""A function that calls a method of pypaimon's player. Raises `PeerError`."""


class PeerError(Exception):
    """Raised for an error of pypaimon."""


class Wrong(AssertionError):
    """Raised if rows differ from the model, or an error has no type."""


@dataclass
class History:
    """One table and the rows that it should have, by ``id``: each has its row id."""

    seed: int
    warehouse: str
    ask: Ask
    peer: str = PEER
    """The module that `ask` calls. `FACADE` in tests, which have no pypaimon."""
    rng: random.Random = field(init=False)
    rows: dict[int, Row] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)
    options: dict[str, str] = field(default_factory=dict)
    partitioned: bool = False
    evolution: bool = False
    steps: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    next_id: int = 0
    renumbered: bool = False
    renamed: bool = False
    """pypaimon 2.1 reads null from files of columns written before a rename; then it takes no part."""
    last: str = ""
    """The player that committed last."""

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.facade = Player(FACADE, self.warehouse)

    @property
    def vectors(self) -> bool:
        return self.options.get("deletion-vectors.enabled") == "true"

    @property
    def players(self) -> tuple[str, ...]:
        return (FACADE, OWN) if self.renamed else PLAYERS

    def table(self) -> morrow.Table:
        found = morrow.Catalog(self.warehouse).table(NAME)
        assert isinstance(found, morrow.Table)
        return found

    def call(self, player: str, method: str, *arguments: Any) -> Any:
        return self.ask(method, *arguments) if player == PEER else getattr(self.facade, method)(*arguments)

    def create(self) -> None:
        """Create the table, by a random player."""
        rng = self.rng
        self.evolution, self.partitioned = rng.random() < 0.8, rng.random() < 0.4
        format_ = rng.choice(["parquet"] * 4 + ["orc", "avro"])
        extras = [name for name in EXTRAS if name in ("a", "s") or rng.random() < 0.3]
        if not self.evolution:
            extras = [name for name in extras if name not in ("b", "v")]
        if format_ != "parquet":
            extras = [name for name in extras if name not in UNSAFE]
        self.names = ["id", "p", *extras]
        self.options = {"row-tracking.enabled": "true", "bucket": "-1", "file.format": format_}
        if self.evolution:
            self.options["data-evolution.enabled"] = "true"
        if rng.random() < 0.6:
            self.options["deletion-vectors.enabled"] = "true"
        if "v" in extras and rng.random() < 0.6:
            self.options["vector.file.format"] = "parquet"
        if rng.random() < 0.4:
            self.options["target-file-size"] = rng.choice(["1 kb", "3 kb", "20 kb"])
        if rng.random() < 0.3:
            self.options["metadata.stats-mode"] = rng.choice(["none", "counts", "full"])
        schema = pa.schema([pa.field(name, TYPES[name[0]], nullable=name not in ("id", "p")) for name in self.names])
        player = rng.choice([PEER, FACADE])
        self.say(f"create by {player}: {self.names} partitioned={self.partitioned} {self.options}")
        partitions = ["p"] if self.partitioned else []
        self.call(player, "create", schema.serialize().to_pybytes(), partitions, self.options)

    def say(self, text: str) -> None:
        self.steps.append(text)

    # --- random rows ---

    def value(self, name: str) -> Any:
        rng = self.rng
        if rng.random() < 0.15 and name[0] != "v":  # pypaimon's pyarrow writes no null vectors to Parquet
            return None
        match name[0]:
            case "a":
                return rng.randrange(-50, 50)
            case "s":
                return rng.choice(["", "x", "é" * rng.randrange(1, 30), f"t{rng.randrange(1000)}"])
            case "d":
                return rng.choice([0.5, -1.25, 1e300, 3.0])
            case "l":
                return [rng.choice([None, rng.randrange(9)]) for _ in range(rng.randrange(3))]
            case "r":
                return {"x": rng.randrange(9), "y": rng.choice([None, "y"])}
            case "b":
                return bytes(rng.randrange(256) for _ in range(rng.randrange(40)))
            case "v":
                return [rng.randrange(4) / 2, rng.randrange(4) / 4]
        raise AssertionError(name)

    def new_rows(self, count: int) -> list[Row]:
        made = []
        for _ in range(count):
            self.next_id += 1
            row = {"id": self.next_id, "p": self.next_id % 2}
            made.append(row | {name: self.value(name) for name in self.names[2:]})
        return made

    def some_ids(self, most: int = 6) -> list[int]:
        return self.rng.sample(sorted(self.rows), min(len(self.rows), self.rng.randrange(1, most)))

    def some_names(self) -> list[str]:
        """Choose columns that an update may set: VECTOR and BLOB columns as well."""
        left = self.names[2:]
        return self.rng.sample(left, self.rng.randrange(1, min(3, len(left)) + 1))

    # --- steps ---

    def step(self) -> None:
        """Take a random step, or two that overlap; then compare."""
        rng = self.rng
        if self.rows and rng.random() < 0.2:
            self._overlap()
        else:
            player = rng.choice(self.players)
            effect = self._act(player)
            if effect is not None:
                effect()
        self.compare()

    def _overlap(self) -> None:
        """Prepare a step, let another player take one, and commit the first one."""
        holder = self.rng.choice([player for player in self.players if player != OWN])
        self.facade.held = None
        method, arguments, effect = self._pick(holder)
        self.say(f"{holder} prepares {method}{arguments}")
        if not self._try(holder, method, *arguments):
            return
        between = self._act(self.rng.choice(self.players), alter=False)
        if between is not None:
            between()
        self.say(f"{holder} commits it")
        if self._try(holder, "commit", may_conflict=True):
            effect()

    def _act(self, player: str, *, alter: bool = True) -> Callable[[], None] | None:
        """Take a step; return its effect on the model if it was done."""
        own = self.rng.random() < 0.7
        if player == OWN and own:
            return self._act_own()
        player = FACADE if player == OWN else player
        if alter and self.rng.random() < 0.08:
            return self._alter(player)
        method, arguments, effect = self._pick(player)
        self.say(f"{player} {method}{arguments}")
        return effect if self._try(player, "at_once", method, *arguments) else None

    def _try(self, player: str, method: str, *arguments: Any, may_conflict: bool = False) -> bool:
        """Call a player; return whether it was done. Raises `Wrong` for an unexpected error."""
        self.last = player
        try:
            self.call(player, method, *arguments)
        except Unsupported as error:
            self.say(f"  refused: {error}")
            self.counts[f"refused: {str(error)[:100]}"] += 1
            return False
        except (PeerError, CommitConflict) as error:
            self.say(f"  {error}")
            if isinstance(error, CommitConflict) and not may_conflict:
                raise Wrong(f"a conflict without another writer: {error}") from error
            conflict = "conflict" in str(error).lower()
            kind = "conflicts" if may_conflict and conflict else f"{player} failed: {str(error)[:140]}"
            self.counts[kind] += 1
            return False
        except MorrowError as error:
            raise Wrong(f"{method}: {type(error).__name__}: {error}") from error
        return True

    def _pick(self, player: str) -> tuple[str, tuple[Any, ...], Callable[[], None]]:
        """Choose a step of pypaimon's interface: its method, arguments and effect."""
        rng = self.rng
        chosen = rng.choice(["append"] * 3 + ["overwrite"])
        if self.evolution and self.rows:
            kinds = ["append"] * 4 + ["ids", "ids", "ids", "where", "where", "upsert", "upsert", "shard", "overwrite"]
            kinds += ["merge", "merge"]
            kinds += ["delete", "delete ids"] if self.vectors else []
            chosen = rng.choice(kinds)
        if chosen == "append":
            rows = self.new_rows(rng.randrange(1, 25))
            return "append", (rows,), lambda: self._add(rows)
        if chosen == "overwrite":
            rows = self.new_rows(rng.randrange(1, 6))
            partition: Row = {}
            if self.partitioned and rng.random() < 0.7:
                partition = {"p": rng.randrange(2)}
                rows = [row | partition for row in rows]
            return "overwrite", (rows, partition), lambda: self._replace(rows, partition)
        if chosen == "shard":
            left = [name for name in self.names[2:] if player != PEER or name not in ("b", "v")]
            name = rng.choice(left)  # pypaimon writes BLOBs and vectors of shards into data files
            value, present = self.value(name), list(self.rows)
            return "shard", (name, value), lambda: self._set({key: {name: value} for key in present})
        if chosen in ("upsert", "merge"):
            old = self.some_ids()
            added = self.new_rows(rng.randrange(0, 3))
            changed = [self.rows[key] | {name: self.value(name) for name in self.names[2:]} for key in old]
            rows = [{name: row[name] for name in self.names} for row in (*changed, *added)]
            names = self.names[2:] if chosen == "upsert" else self.some_names()
            values = {row["id"]: {name: row[name] for name in names} for row in changed}

            def effect() -> None:
                self._set(values)
                self._add(added)

            return chosen, (rows,) if chosen == "upsert" else (rows, names), effect
        ids = self.some_ids()
        if chosen == "delete":
            return "delete_where", (ids,), lambda: self._remove(ids)
        if chosen == "delete ids":
            return "delete_ids", ([self.rows[key][ROW_ID] for key in ids],), lambda: self._remove(ids)
        names = self.some_names()
        if chosen == "where":
            same = {name: self.value(name) for name in names}
            return "update_where", (ids, same), lambda: self._set(dict.fromkeys(ids, same))
        values = {key: {name: self.value(name) for name in names} for key in ids}
        given = [value | {ROW_ID: self.rows[key][ROW_ID]} for key, value in values.items()]
        rng.shuffle(given)
        return "update_ids", (given, names), lambda: self._set(values)

    def _act_own(self) -> Callable[[], None] | None:
        """Take a step of Morrow's own methods."""
        self.last = OWN
        rng, table = self.rng, self.table()
        kinds: list[str] = ["compact"] * 4 + ["compact all", "manifests", "expire", "analyze"]
        kinds += ["materialize"] if self.vectors else []
        if self.rows:
            kinds += ["update", "update", "merge", "merge", "rows"]
            kinds += ["delete", "delete"] if self.vectors or not self.evolution else []
        chosen = rng.choice(kinds)
        ids = self.some_ids() if self.rows else []
        names = self.some_names()
        condition = f"id in ({', '.join(map(str, ids))})" if ids else "false"
        values = {key: {name: self.value(name) for name in names} for key in ids}
        schema = table.schema
        added = self.new_rows(rng.randrange(0, 4))
        merged = [{name: (self.rows[key] | values[key])[name] for name in self.names} for key in ids] + added

        def merge() -> None:
            source = pa.Table.from_pylist(merged, pa.schema([schema.field(name) for name in self.names]))
            build = table.merge(source, on="id").when_matched_update({name: f"source.{name}" for name in names})
            build.when_not_matched_insert().execute()

        def set_rows() -> None:
            rows = [value | {ROW_ID: self.rows[key][ROW_ID]} for key, value in values.items()]
            fields = [*(schema.field(name) for name in names), pa.field(ROW_ID, pa.int64())]
            table.update_rows(pa.Table.from_pylist(rows, pa.schema(fields)))

        def effect_of_merge() -> None:
            self._set(values)
            self._add(added)

        known: dict[str, tuple[Callable[[], Any], Callable[[], None]]] = {
            "compact": (table.compact, lambda: None),
            "compact all": (lambda: table.compact(full=True), lambda: None),
            "manifests": (table.compact_manifests, lambda: None),
            "expire": (lambda: table.expire_snapshots(retain_max=1, retain_min=1, older_than="0 s"), lambda: None),
            "analyze": (table.analyze, lambda: None),
            "materialize": (table.materialize_deletion_vectors, self._renumber),
            "update": (
                lambda: table.update({"a" if "a" in self.names else names[0]: "NULL"}, condition),
                lambda: self._set({key: {"a" if "a" in self.names else names[0]: None} for key in ids}),
            ),
            "merge": (merge, effect_of_merge),
            "rows": (set_rows, lambda: self._set(values)),
            "delete": (lambda: table.delete(condition), lambda: self._remove(ids)),
        }
        run, effect = known[chosen]
        self.say(f"morrow {chosen} ids={ids} names={names} values={values} added={added}")
        try:
            run()
        except Unsupported as error:
            self.say(f"  refused: {error}")
            self.counts[f"refused: {str(error)[:100]}"] += 1
            return None
        except MorrowError as error:
            raise Wrong(f"{chosen}: {type(error).__name__}: {error}") from error
        return effect

    def _alter(self, player: str) -> Callable[[], None] | None:
        """Add, rename or drop a column."""
        rng = self.rng
        self.next_id += 1
        change = rng.choice(["add_column", "rename_column", "drop_column"])
        if change == "add_column":
            name, kind = rng.choice([(f"a{self.next_id}", "BIGINT"), (f"s{self.next_id}", "STRING")])
            arguments: tuple[str, ...] = (name, kind)
        else:
            name = rng.choice(self.names[2:])
            if name == "b":
                return None
            arguments = (name,) if change == "drop_column" else (name, f"{name[0]}{self.next_id}")
            if change == "drop_column" and len(self.names) < 5:
                return None
        self.say(f"{player} {change}{arguments}")
        if not self._try(player, "alter", change, *arguments):
            return None
        if change == "add_column":
            self.names.append(name)
        elif change == "drop_column":
            self.names.remove(name)
        else:
            self.names[self.names.index(name)] = arguments[1]
            self.renamed = True
        for row in self.rows.values():
            old = None if change == "add_column" else row.pop(name)
            if change != "drop_column":
                row[arguments[0] if change == "add_column" else arguments[1]] = old
        return lambda: None

    # --- effects ---

    def _add(self, rows: list[Row]) -> None:
        for row in rows:
            assert row["id"] not in self.rows
            self.rows[row["id"]] = {name: row.get(name) for name in self.names}

    def _replace(self, rows: list[Row], partition: Row) -> None:
        """Replace a partition, the partitions of the rows (dynamic overwrite), or all rows."""
        gone = {row["p"] for row in rows} if self.partitioned else set()
        if partition:
            gone = {partition["p"]}
        self.rows = {key: row for key, row in self.rows.items() if gone and row["p"] not in gone}
        self._add(rows)

    def _set(self, values: Mapping[int, Row]) -> None:
        for key, changes in values.items():
            if key in self.rows:
                self.rows[key] |= {name: value for name, value in changes.items() if name in self.names}

    def _remove(self, ids: list[int]) -> None:
        for key in ids:
            self.rows.pop(key, None)

    def _renumber(self) -> None:
        self.renumbered = True

    # --- comparisons ---

    def compare(self) -> None:
        """Compare what both read with the model; learn the ids of new rows."""
        columns = [*self.names, ROW_ID, SEQUENCE]
        table = self.table()
        mine = table.scan(columns).to_arrow().to_pylist()
        try:
            self._check("morrow", mine)
        except Wrong as error:
            if self.evolution and self.last == PEER and _normalize(self.ask("read", columns)) == _normalize(mine):
                raise PeerError(f"wrote other rows: {error}") from error
            raise
        if table.count() != len(self.rows):
            raise Wrong(f"count {table.count()}, not {len(self.rows)}")
        self._check_part(table)
        if self.renamed:
            return
        try:
            theirs = self.ask("read", columns if self.evolution else self.names)
        except PeerError as error:
            if not self.evolution:
                raise PeerError(f"does not read row ids in files: {error}") from error
            raise Wrong(f"pypaimon cannot read: {error}") from error
        if not self.evolution:  # pypaimon fails to read row ids that files hold
            for row in theirs:
                row[ROW_ID] = self.rows[row["id"]][ROW_ID] if row["id"] in self.rows else None
        self._check("pypaimon", theirs)
        numbers = {row["id"]: row.get(SEQUENCE) for row in theirs}
        for row in mine:
            if self.evolution and numbers[row["id"]] != row[SEQUENCE]:
                raise Wrong(f"sequence of {row}: pypaimon has {numbers[row['id']]}")

    def _check(self, who: str, found: list[Row]) -> None:
        twice = [key for key, count in Counter(row["id"] for row in found).items() if count > 1]
        if twice:
            raise Wrong(f"{who} reads the ids {twice} twice: {[row for row in found if row['id'] in twice]}")
        by_id = {row["id"]: row for row in found}
        lost, extra = sorted(set(self.rows) - set(by_id)), sorted(set(by_id) - set(self.rows))
        if lost or extra:
            raise Wrong(f"{who}: lost {lost}, extra {extra}")
        if len({row[ROW_ID] for row in found}) != len(found):
            raise Wrong(f"{who}: a row id twice: {sorted((row[ROW_ID] or 0, row['id']) for row in found)}")
        for key, row in by_id.items():
            wanted = self.rows[key]
            for name in self.names:
                if not _is_same(row[name], wanted[name]):
                    raise Wrong(f"{who}: id {key} has {name} = {row[name]!r}, not {wanted[name]!r}")
            if not self.renumbered and wanted.get(ROW_ID, row[ROW_ID]) != row[ROW_ID]:
                raise Wrong(f"{who}: id {key} has the row id {row[ROW_ID]}, not {wanted[ROW_ID]}")
        for key, row in by_id.items():
            self.rows[key][ROW_ID] = row[ROW_ID]
        self.renumbered = False

    def _check_part(self, table: morrow.Table) -> None:
        """Compare reads of some columns of some rows, in three ways."""
        if not self.rows:
            return
        names, ids = self.some_names(), self.some_ids(9)
        numbers = [self.rows[key][ROW_ID] for key in ids]
        bound, column = self.rng.randrange(-50, 50), next((name for name in self.names if name[0] == "a"), None)
        looks = {f"id IN ({', '.join(map(str, ids))})": set(ids)}
        looks[f"_ROW_ID IN ({', '.join(map(str, numbers))})"] = set(ids)
        looks[f"id > {ids[0]}"] = {key for key in self.rows if key > ids[0]}
        if column is not None:
            above = {key for key, row in self.rows.items() if row[column] is not None and row[column] > bound}
            looks[f"{column} > {bound}"] = above
            looks[f"{column} IS NULL"] = {key for key, row in self.rows.items() if row[column] is None}
        for condition, wanted in looks.items():
            found = table.scan([*names, "id"], filter=condition).to_arrow().to_pylist()
            if sorted(row["id"] for row in found) != sorted(wanted):
                raise Wrong(f"{condition}: {sorted(row['id'] for row in found)}, not {sorted(wanted)}")
            for row in found:
                if any(not _is_same(row[name], self.rows[row["id"]][name]) for name in names):
                    raise Wrong(f"{condition}: {row}, not {self.rows[row['id']]}")
            if table.count(condition) != len(wanted):
                raise Wrong(f"count of {condition}: {table.count(condition)}, not {len(wanted)}")


def _normalize(rows: list[Row]) -> list[str]:
    return sorted(map(repr, rows))


def _is_same(one: Any, other: Any) -> bool:
    return bool(one == other)
