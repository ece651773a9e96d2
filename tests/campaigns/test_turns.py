"""Histories of one player: all steps through Morrow's own methods and `morrow.compat.pypaimon`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from morrow.engine.errors import MorrowError
from tests.campaigns.turns.__main__ import play
from tests.campaigns.turns.histories import FACADE, PeerError
from tests.campaigns.turns.player import Player


@pytest.mark.parametrize("seed", [1, 8, 15])
def test_histories(seed: int, tmp_path: Path) -> None:
    warehouse = tmp_path / str(seed)
    player = Player(FACADE, str(warehouse))

    def ask(method: str, *arguments: Any) -> Any:
        if method == "begin":
            return None
        try:
            return getattr(player, method)(*arguments)
        except MorrowError as error:
            raise PeerError(f"{type(error).__name__}: {error}") from error

    history = play(seed, str(warehouse), 8, ask, peer=FACADE)
    assert history.counts["wrong"] == 0
    assert history.counts["steps"] == 8
