"""The history checker finds every kind of violation: each history here has exactly one."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from morrow.engine.structs import replace
from tests.isolation.history import COMMITTED, NOTHING, REFUSED, Committed, Did, History, Saw, anomalies
from tests.isolation.kinds import FIRST_ROWS, KINDS, Row
from tests.isolation.operations import Operation

UPSERT = Operation("upsert", "a-0", ids=(0, 1))
UPDATE = Operation("update", "b-0", remainder=1)
FIRST = {row[0]: row for row in FIRST_ROWS}
UPSERTED = {**FIRST, 0: (0, 0, 1, "a-0"), 1: (1, 1, 1, "a-0")}
BOTH = {**UPSERTED, 1: (1, 1, 2, "a-0,b-0"), 4: (4, 0, 2, "0,b-0"), 7: (7, 1, 2, "0,b-0")}


def saw(rows: dict[int, Row], snapshot: int, began: float, ended: float) -> Saw:
    return Saw("c", began, ended, snapshot, tuple(rows.values()))


def history(did: Sequence[Did], saw: Sequence[Saw], users: Sequence[str], kind: str = "keyed") -> History:
    snapshots = tuple(Committed(number, user, "APPEND") for number, user in enumerate(users, 2))
    return History(KINDS[kind], 1, (Committed(1, "nobody", "APPEND"), *snapshots), tuple(did), tuple(saw))


GOOD = history(
    [Did(UPSERT, 1, 5, COMMITTED), Did(UPDATE, 4, 8, COMMITTED)],
    [saw(FIRST, 1, 0, 2), saw(UPSERTED, 2, 4, 6), saw(BOTH, 3, 9, 10)],
    ["a-0", "b-0"],
)


def test_a_serializable_history() -> None:
    assert anomalies(GOOD) == []


def test_a_read_of_rows_that_wait_for_their_compaction() -> None:
    early = saw(FIRST, 3, 2, 3)  # during both commits
    assert anomalies(replace(GOOD, kind=KINDS["vectors"], saw=(early,))) == []


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        pytest.param(
            replace(GOOD, saw=(saw({**BOTH, 1: (1, 1, 2, "0,b-0")}, 3, 9, 10),)), "no number of them", id="lost update"
        ),
        pytest.param(replace(GOOD, saw=(saw({**UPSERTED, 1: FIRST[1]}, 2, 5, 6),)), "no number", id="torn commit"),
        pytest.param(replace(GOOD, saw=(saw(FIRST, 1, 6, 7),)), "older than", id="stale read"),
        pytest.param(replace(GOOD, saw=(saw(UPSERTED, 3, 9, 10),)), "it is the state after [1]", id="superseded"),
        pytest.param(
            replace(GOOD, snapshots=GOOD.snapshots[:2], saw=()), "was acknowledged and has no snapshot", id="vanished"
        ),
        pytest.param(
            replace(GOOD, did=(GOOD.did[0], Did(UPDATE, 4, 8, REFUSED)), saw=()), "was not acknowledged", id="refused"
        ),
        pytest.param(
            replace(GOOD, snapshots=(*GOOD.snapshots, Committed(4, "b-0", "APPEND")), saw=()), "2 times", id="twice"
        ),
        pytest.param(
            replace(GOOD, did=(Did(UPSERT, 5, 6, COMMITTED), Did(UPDATE, 1, 2, COMMITTED)), saw=()),
            "committed before it",
            id="against the clock",
        ),
        pytest.param(
            replace(GOOD, did=(GOOD.did[0], Did(UPDATE, 6, 7, NOTHING)), snapshots=GOOD.snapshots[:2], saw=()),
            "did nothing, and there was something to do",
            id="did nothing",
        ),
        pytest.param(
            replace(GOOD, kind=KINDS["vectors"], saw=(saw(UPSERTED, 3, 9, 10),)), "not after 2 to 2", id="never shown"
        ),
    ],
)
def test_anomalies(wrong: History, told: str) -> None:
    found = anomalies(wrong)
    assert len(found) == 1
    assert told in found[0]
