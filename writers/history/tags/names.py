"""Checks of names for new tags."""

from __future__ import annotations

from morrow.engine.errors import InvalidArgument

SUCCESS_FOLDER = "success-file"
"""The folder of success files, which lies beside the tags under the file name of a tag of this name."""
SEPARATORS = "/\\\0"


def check_new_name(name: str, where: str) -> None:
    """Raises `InvalidArgument` for an invalid name of a new tag of the table at `where`."""
    problem = _problem(name)
    if problem is not None:
        raise InvalidArgument(f"{where}: a tag cannot be called {name!r}: {problem}")


def _problem(name: str) -> str | None:
    if not isinstance(name, str) or not name.strip():
        return "give it a name"
    if name.strip().removeprefix("-").isdecimal():
        return "a number means a snapshot; put letters into the name"
    if any(character in name for character in SEPARATORS) or name.strip() in (".", ".."):
        return "it would be a path; leave out / and \\"
    if name == SUCCESS_FOLDER:
        return "its file would stand where success files are kept; choose another name"
    return None
