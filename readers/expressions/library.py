"""DuckDB as Morrow needs it."""

from __future__ import annotations

from morrow.engine.errors import Unsupported

LEAST_VERSION = 2


def check_duckdb() -> None:
    """Raises `Unsupported` for a DuckDB that is too old: the first major version would end the process."""
    import duckdb

    if int(duckdb.__version__.split(".")[0]) < LEAST_VERSION:
        raise Unsupported(f"DuckDB {duckdb.__version__}", hint=f"run: pip install 'duckdb>={LEAST_VERSION}'")
