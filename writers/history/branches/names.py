"""Checks of branch names, and of branches that options refer to."""

from __future__ import annotations

from morrow.engine.arguments import is_name
from morrow.engine.errors import BranchNotFound, InvalidArgument
from morrow.engine.format.paths import MAIN_BRANCH, TablePaths
from morrow.engine.options import Options
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.schema.committing import OTHER_BRANCHES
from morrow.engine.telling import did_you_mean


def check_new_name(name: str) -> None:
    """Checks the name of a new branch: refuses names that Java refuses, and those that are no name of one folder.

    Raises:
        InvalidArgument
    """
    _check_segment(name)
    if name == MAIN_BRANCH:
        raise InvalidArgument(f"{MAIN_BRANCH!r} is the name of the default branch; take another one")
    if name.isdecimal():
        raise InvalidArgument(f"{name!r} is no name of a branch: one of digits only would be taken for a snapshot id")


def branch_folder(metadata: TableMetadata, name: str) -> str:
    """Returns the folder of the branch `name`, whether it exists or not.

    Raises:
        InvalidArgument: the main branch, or an invalid name of a branch.
    """
    _check_segment(name)
    if name == MAIN_BRANCH:
        raise InvalidArgument(
            f"the branch {MAIN_BRANCH!r} is the table itself: it cannot be made, removed, renamed or merged"
        )
    return TablePaths(metadata.root, name).branch_root


def existing_folder(metadata: TableMetadata, name: str) -> str:
    """Returns the folder of an existing branch. Raises `BranchNotFound`, `InvalidArgument`."""
    folder = branch_folder(metadata, name)
    if not metadata.store.is_dir(folder):
        names = metadata.branch_names()
        known, hint = ", ".join([MAIN_BRANCH, *names]), did_you_mean(name, names)
        raise BranchNotFound(f"{metadata.where}: there is no branch {name!r}; {hint}the branches are {known}")
    return folder


def check_unused(metadata: TableMetadata, name: str, verb: str) -> None:
    """Raises `InvalidArgument` for a branch that options of this table refer to."""
    main = metadata.on_branch(MAIN_BRANCH)
    for options in (main.latest_schema().options, metadata.latest_schema().options):
        for key in OTHER_BRANCHES:
            if Options(options).text(key) == name:
                raise InvalidArgument(
                    f"{metadata.where}: the branch {name!r} cannot be {verb}, since the option {key} names it; "
                    "remove the option first"
                )


def _check_segment(name: str) -> None:
    if not is_name(name) or not name.strip() or name in (".", "..") or any(c in name for c in "/\\"):
        raise InvalidArgument(f"{name!r} is no name of a branch: give a text without / and \\ that is not blank")
