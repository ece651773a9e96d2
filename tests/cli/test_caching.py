"""``morrow cache``: what the cache folder holds, and how it is emptied."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from morrow.engine.io.cache_folder import FOLDER, SWITCH, CacheFolder, digest
from tests.cli.conftest import Run


def test_the_folder_is_shown_and_emptied(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def shown(*more: str) -> dict[str, object]:
        return json.loads(run("cache", "--format", "json", *more).out)  # type: ignore[no-any-return]  # one line

    assert (shown()["path"], shown()["state"]) == (None, "off (MORROW_CACHE)")
    monkeypatch.setenv(SWITCH, "on")
    monkeypatch.setenv(FOLDER, str(tmp_path / "c"))
    folder = CacheFolder(tmp_path / "c", 1 << 30)
    folder.put(digest(1), b"value")
    folder.get(digest(1))
    found = shown()
    assert (found["path"], found["entries"], found["hits"], found["state"]) == (str(tmp_path / "c"), 1, 1, "in use")
    assert shown("--clear")["entries"] == 0
    (tmp_path / "c").chmod(0o777)
    assert str(shown()["state"]).startswith("not usable")
