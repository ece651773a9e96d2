"""The commands for the life of a table: tags, branches, rollback, and what removes files. `app` takes them in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from morrow.cli import arguments as arg
from morrow.cli.arguments import Format


def tags(
    path: arg.TablePath, branch: arg.Branch = None, form: arg.ResultFormat = Format.TABLE, output: arg.Output = None
) -> None:
    """List the tags, by the ids of their snapshots."""
    from morrow.cli import names

    names.tags(path, branch, form, output)


def tag(
    path: arg.TablePath,
    name: arg.TagName,
    snapshot: arg.Snapshot = None,
    timestamp: arg.Timestamp = None,
    branch: arg.Branch = None,
    time_retained: arg.Retained = None,
    rename: arg.Rename = None,
    delete: arg.Delete = False,
    yes: arg.Yes = False,
    dry_run: arg.DryRun = False,
) -> None:
    """Name a snapshot, the newest if none is given, so that it stays when others expire; or rename or delete a tag."""
    from morrow.cli import names

    names.tag(path, name, snapshot, timestamp, branch, time_retained, rename, delete, yes=yes, dry_run=dry_run)


def branches(path: arg.TablePath, form: arg.ResultFormat = Format.TABLE, output: arg.Output = None) -> None:
    """List the branches besides main, with the newest snapshot of each."""
    from morrow.cli import names

    names.branches(path, form, output)


def branch(
    path: arg.TablePath,
    name: arg.BranchName,
    snapshot: arg.Snapshot = None,
    tag: arg.Tag = None,
    rename: arg.Rename = None,
    fast_forward: arg.FastForward = False,
    merge: arg.Merge = False,
    delete: arg.Delete = False,
    yes: arg.Yes = False,
    dry_run: arg.DryRun = False,
) -> None:
    """Make a branch of main, empty or of a snapshot or tag; rename, delete, merge one, or fast-forward main to it."""
    from morrow.cli import names

    names.branch(path, name, snapshot, tag, rename, fast_forward, merge, delete, yes=yes, dry_run=dry_run)


def rollback(
    path: arg.TablePath,
    snapshot: arg.Snapshot = None,
    tag: arg.Tag = None,
    timestamp: arg.Timestamp = None,
    branch: arg.Branch = None,
    yes: arg.Yes = False,
    dry_run: arg.DryRun = False,
) -> None:
    """Make an earlier state the newest one. Later snapshots and tags are removed, with the files only they need."""
    from morrow.cli import maintenance

    maintenance.rollback(path, snapshot, tag, timestamp, branch, yes=yes, dry_run=dry_run)


def expire(
    path: arg.TablePath,
    retain_max: arg.RetainMax = None,
    retain_min: arg.RetainMin = None,
    older_than: arg.OlderThan = None,
    max_deletes: arg.MaxDeletes = None,
    branch: arg.Branch = None,
    yes: arg.Yes = False,
    dry_run: arg.DryRun = False,
) -> None:
    """Remove old snapshots, with the files that only they need. What is not given is as the table's options say."""
    from morrow.cli import maintenance

    maintenance.expire(path, retain_max, retain_min, older_than, max_deletes, branch, yes=yes, dry_run=dry_run)


def orphans(
    path: arg.TablePath,
    older_than: arg.OlderThan = None,
    delete: arg.Remove = False,
    yes: arg.Yes = False,
    dry_run: arg.DryRun = False,
    form: arg.ResultFormat = Format.TABLE,
    output: arg.Output = None,
) -> None:
    """List the files that no snapshot, changelog, tag or branch names, older than a day if not said otherwise."""
    from morrow.cli import maintenance

    maintenance.orphans(path, older_than, delete, yes, dry_run, form, output)


def repair(path: arg.TablePath, form: arg.ResultFormat = Format.TABLE, output: arg.Output = None) -> None:
    """Write the hints LATEST and EARLIEST anew where they are wrong, in all branches; shows what was changed."""
    from morrow.cli import maintenance

    maintenance.repair(path, form, output)


def purge(
    path: arg.TablePath, older_than: arg.OlderThan = None, yes: arg.Yes = False, dry_run: arg.DryRun = False
) -> None:
    """Empty a table for good: its rows, branches, tags and snapshots, with their files."""
    from morrow.cli import maintenance

    maintenance.purge(path, older_than, yes=yes, dry_run=dry_run)


def cache(
    clear: Annotated[bool, typer.Option("--clear", help="Remove all that it holds.")] = False,
    form: arg.ResultFormat = Format.TABLE,
    output: arg.Output = None,
) -> None:
    """Show what the cache folder of this machine's reads holds, or empty it."""
    from morrow.cli import caching

    caching.cache(clear, form, output)


COMMANDS: tuple[Callable[..., None], ...] = (
    *(tags, tag, branches, branch, rollback, expire, orphans, repair, purge),
    cache,
)
