"""`make bench-compare` detects slowdowns and ignores the machine's noise."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bench.revisions import ROUNDS, Verdict, Worker, unpacked, works

RANDOM = np.random.default_rng(7)
NOISE = RANDOM.normal(1, 0.04, ROUNDS), RANDOM.normal(1, 0.04, ROUNDS)


@pytest.mark.parametrize(("factor", "slower", "faster"), [(1.0, False, False), (1.3, True, False), (0.7, False, True)])
def test_a_factor_beyond_the_noise_is_found(factor: float, slower: bool, faster: bool) -> None:
    verdict = Verdict.of(factor * NOISE[0], NOISE[1])

    assert (verdict.is_slower, verdict.is_faster) == (slower, faster)
    assert verdict.low <= verdict.ratio <= verdict.high


def test_one_slow_round_is_noise() -> None:
    seconds = np.ones(ROUNDS)
    seconds[3] = 9

    assert not Verdict.of(seconds, np.ones(ROUNDS)).is_slower


def test_work_is_chosen_by_words() -> None:
    assert [str(work) for work in works("dv10 sum")] == ["dv10: count and sum, first", "dv10: count and sum, again"]


def test_an_unknown_revision_is_told() -> None:
    with pytest.raises(SystemExit, match="git knows no revision 'no-such'"):
        unpacked("no-such")


def test_a_worker_runs_the_revision_it_was_started_for() -> None:
    root = Path(__file__).parent.parent

    worker = Worker(root)  # raises an error if another Morrow was imported
    worker.close()
