"""Runs commands in this process.

The runner of Typer builds the whole command line anew for each command, which takes longer than most commands do. Here
it is built once a process, as it is for users.
"""

from __future__ import annotations

import functools

from typer import testing
from typer.main import get_command
from typer.testing import CliRunner

testing._get_command = functools.cache(get_command)  # type: ignore[attr-defined]  # it names it for itself

__all__ = ["CliRunner"]
