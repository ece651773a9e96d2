"""The command line in this process, and golden tables to run it on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from morrow.cli.app import app
from tests.support.command_line import CliRunner
from tests.support.old_libraries import find_refusal


@dataclass(frozen=True)
class Done:
    """The result of a command."""

    code: int
    data: bytes
    err: str

    @property
    def out(self) -> str:
        return self.data.decode()

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


Run = Callable[..., Done]


@pytest.fixture
def run() -> Run:
    """Run a command: ``run("read", path, "--limit", "3")``; exceptions other than an exit are raised."""

    def call(*args: object) -> Done:
        result = CliRunner().invoke(app, [str(arg) for arg in args], prog_name="morrow", catch_exceptions=False)
        if (refusal := find_refusal(result.stderr)) is not None:
            pytest.skip(f"refused: {refusal}")
        return Done(result.exit_code, result.stdout_bytes, result.stderr)

    return call


@pytest.fixture
def table(golden_root: Path) -> Callable[[str], Path]:
    """Return a function that finds the folder of a golden table: ``table("pk_big")``."""
    return lambda case: golden_root / "public" / case / "warehouse" / "db.db" / "t"
