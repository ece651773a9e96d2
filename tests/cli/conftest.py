"""The command line in this process, and the golden tables that it is shown at."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from morrow.cli.app import app
from tests.support.command_line import CliRunner


@dataclass(frozen=True)
class Done:
    """What a command left behind."""

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
    """``run("read", path, "--limit", "3")``; errors that are no exit code of the command line are raised."""

    def call(*args: object) -> Done:
        result = CliRunner().invoke(app, [str(arg) for arg in args], prog_name="morrow", catch_exceptions=False)
        return Done(result.exit_code, result.stdout_bytes, result.stderr)

    return call


@pytest.fixture
def table(golden_root: Path) -> Callable[[str], Path]:
    """The folder of a golden table: ``table("pk_big")``."""
    return lambda case: golden_root / "public" / case / "warehouse" / "db.db" / "t"
