"""Secrets among the options of a table, where everyone who reads the table finds them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from morrow.engine.errors import Unsupported
from morrow.engine.options.declaring import FIELDS
from morrow.engine.telling import HIDDEN, is_secret

OF_COLUMNS = (FIELDS, "file-index.")
"""Prefixes of options in whose names columns stand."""


def check_no_secrets(options: Iterable[str], where: str = "") -> None:
    """Raises `Unsupported` for an option that tables do not have, and whose name is that of a secret."""
    for key in options:
        if _is_secret(key):
            raise Unsupported(
                f"the option {key!r} of a table, which keeps no secrets,",
                where=where,
                hint="a catalog is given them by storage_options or options, format('morrow') by storage.<name>",
            )


def without_secrets(options: Mapping[str, str]) -> dict[str, str]:
    """Returns options for display; those of tables that others have made may be secrets."""
    return {key: HIDDEN if _is_secret(key) else value for key, value in options.items()}


def _is_secret(key: str) -> bool:
    return is_secret(key) and not key.startswith(OF_COLUMNS)  # a column may be called token
