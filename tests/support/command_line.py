"""Typer's runner for commands in this process.

Typer's own runner builds the whole command line for each command, which takes longer than most commands do. Here it
is built once per process, as for users.
"""

from __future__ import annotations

import functools

from typer import testing
from typer.main import get_command
from typer.testing import CliRunner

testing._get_command = functools.cache(get_command)  # type: ignore[attr-defined]  # imported under a private name

__all__ = ["CliRunner"]
