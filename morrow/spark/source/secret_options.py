"""Secrets among the options of a table, where everyone who reads the table finds them."""

from __future__ import annotations

from collections.abc import Iterable

from morrow.engine.errors import Unsupported
from morrow.engine.telling import is_secret


def check_no_secrets(options: Iterable[str], where: str = "") -> None:
    """Raises `Unsupported` for an option that tables do not have, and whose name is that of a secret."""
    for key in options:
        if is_secret(key):
            raise Unsupported(
                f"the option {key!r} of a table, which keeps no secrets,",
                where=where,
                hint="a catalog is given them by storage_options or options, format('morrow') by storage.<name>",
            )
