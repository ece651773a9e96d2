"""The sample warehouse can be made anywhere, and every command that it suggests runs."""

from __future__ import annotations

import shlex
from pathlib import Path

import morrow
from tests.cli.conftest import Run


def test_what_the_demo_proposes_runs(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "it's a demo"

    made = run("demo", folder)

    assert made.code == 0, made.err
    commands = [shlex.split(line)[1:] for line in made.lines if line.startswith("  morrow ")]
    done = [run(*command) for command in commands]
    assert len(done) == 11
    assert [(each.code, each.err) for each in done if each.code] == []
    assert [each.out for each in done[5:7]] == ["1200\n", "1200\n"]
    shop = morrow.Catalog(folder)
    assert shop.table("shop.orders").scan().count() == 1200 - 24
    assert shop.table("shop.customers").scan(filter="name IS NOT NULL AND city IS NOT NULL").count() == 400
    assert "3 deletion vectors" in shop.table("shop.orders").scan().explain()
    again = run("demo", folder)
    assert again.code == 1 and "has something in it" in again.err
