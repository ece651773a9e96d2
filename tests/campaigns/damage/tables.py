"""The intact tables of a campaign, by name. Their folders are only read and copied."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.campaigns.damage.made import made
from tests.support import golden


def tables(golden_root: Path) -> Mapping[str, Path]:
    """List the golden tables that Java can read (``public/dv_pk`` -> its folder), and the tables of `made`."""
    unreadable = {read.case for read in golden.reads() if read.id == "latest" and read.error is not None}
    names = [case.name for case in golden.cases() if case.name not in unreadable]
    java = {name: golden_root / name / "warehouse" / "db.db" / "t" for name in names}
    return {**java, **made(golden_root.parent)}
