"""Imports of test processes, made once in the server that forks them (`tests.support.processes`)."""

from __future__ import annotations

import importlib
import pkgutil

import pandas  # noqa: F401  # pyarrow imports pandas when it writes
import pyarrow.dataset
import pyarrow.fs
import pyarrow.parquet  # noqa: F401
import pytest  # noqa: F401

import morrow
import morrow.cli.app
import morrow.engine
import morrow.readers
import morrow.writers
import tests.durability.operations
import tests.isolation.racing
import tests.lifecycle.operations
import tests.lifecycle.players  # noqa: F401

for house in (morrow.engine, morrow.readers, morrow.writers):
    for module in pkgutil.walk_packages(house.__path__, f"{house.__name__}."):
        importlib.import_module(module.name)
for module in pkgutil.iter_modules(morrow.__path__):
    if not module.ispkg:
        importlib.import_module(f"morrow.{module.name}")
