"""Libraries that come with extras of Morrow: asked for by name, or an error that says how to get them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from morrow.engine.errors import Unsupported


@contextmanager
def needing(what: str, module: str, extra: str) -> Iterator[None]:
    """Runs imports of `module`, which the extra of this name brings.

    Raises:
        Unsupported: `module` is not installed; the hint has the command.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != module:
            raise
        raise Unsupported(f"{what} without {module}", hint=f"run: pip install 'morrow[{extra}]'") from error
