"""The documents are right: blocks of guides run, `make` targets exist, and links have targets.

The ```python blocks of a guide and the `morrow ...` lines of its ```sh blocks run in order, the Python ones in one
namespace, in a folder that holds `warehouse/` with the tables of TABLES. A block that cannot run (an installation,
or one that needs a server) is exempted by a line above it: `<!-- no-test: reason -->`. A block that needs a library of
an extra says so: `<!-- needs: deltalake -->`.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from morrow.cli.app import app
from tests.support.command_line import CliRunner

ROOT = Path(__file__).parent.parent
README = "README.md"
"""Run by `tests/test_packaging.py` in an empty folder with the wheel."""
GUIDES = (
    "docs/writing.md",
    "docs/system-tables.md",
    "docs/tags.md",
    "docs/branches.md",
    "docs/maintenance.md",
    "docs/sql.md",
    "docs/implementing.md",
    "docs/caches.md",
    "docs/multimodal.md",
)
LAKE_GUIDES = (
    "docs/tutorial.md",
    *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs" / "guides").glob("*.md") if path.stem != "s3"),
)
"""Guides that run in an empty folder, since they begin with `morrow demo lake`."""
SPARK_GUIDE = "docs/spark.md"
SPARK_SQL = "docs/spark-sql.md"
"""Run by `tests/spark` with the other tests of Spark."""

OF_THE_SHELL = frozenset("|<>&;$*?~`()\n")
"""Characters with a special meaning in a shell."""

DECISIONS = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs" / "decisions").glob("*.md"))

DOCUMENTS = (
    README,
    *GUIDES,
    *LAKE_GUIDES,
    "docs/concepts.md",
    "docs/ten-tasks.md",
    "docs/guides/s3.md",
    "docs/catalogs.md",
    "docs/stores.md",
    SPARK_GUIDE,
    SPARK_SQL,
    "CONTRIBUTING.md",
    "ARCHITECTURE.md",
    "docs/java.md",
    "docs/guarantees.md",
    "docs/glossary.md",
    *DECISIONS,
)

TABLES = {
    "warehouse/db.db/people": "pk_big",
    "warehouse/db.db/events": "append_partitioned",
    "warehouse/db.db/tagged": "tags_expired_snapshots",
}
"""Table of the guides -> the golden case that is copied.

people: id BIGINT primary key, name STRING, x DOUBLE, n INT; merge-on-read, snapshots 1 to 7.
events: id BIGINT, v STRING, w INT, partitioned by dt DATE and region STRING; no primary key.
tagged: k0 BIGINT primary key, v0 to v4; tags t1 and t2, whose snapshots have expired.
"""

FENCE = re.compile(r"^```(?P<language>\w*)[^\n]*\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
NEEDS = re.compile(r"<!-- needs: (\w+) -->\n+\Z")
EXEMPT = re.compile(r"<!-- no-test: \S.*-->\n+\Z")
SHELLS = {"sh", "bash", "shell", "console"}


@dataclass(frozen=True)
class Block:
    document: str
    line: int
    """The number of its first line of text, counted from 1."""
    language: str
    text: str
    exempt: bool
    needs: str | None = None
    """The library of an extra without which the block is skipped."""

    def commands(self) -> Iterator[str]:
        """Yield the shell lines without prompts and comments; lines that end in a backslash are joined."""
        for line in self.text.replace("\\\n", " ").splitlines():
            command = line.strip().removeprefix("$ ")
            if command and not command.startswith("#"):
                yield command


def blocks(document: str) -> list[Block]:
    text = (ROOT / document).read_text()
    return [
        Block(
            document,
            text.count("\n", 0, fence.start("text")) + 1,
            fence["language"],
            fence["text"],
            EXEMPT.search(text, 0, fence.start()) is not None,
            needs[1] if (needs := NEEDS.search(text, 0, fence.start())) else None,
        )
        for fence in FENCE.finditer(text)
    ]


def run_python(block: Block, namespace: dict[str, Any]) -> None:
    """Execute a block at its own line number, so that a traceback points into the document."""
    exec(compile("\n" * (block.line - 1) + block.text, block.document, "exec"), namespace)


def run_command(block: Block, command: str) -> None:
    """Run a command, in this process if it needs no shell, since a new process would mostly import."""
    if OF_THE_SHELL.isdisjoint(command):
        done_here = CliRunner().invoke(
            app, shlex.split(command, comments=True)[1:], prog_name="morrow", catch_exceptions=False
        )
        assert done_here.exit_code == 0, f"{block.document}:{block.line}: {command}\n{done_here.output}"
        return
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        command, shell=True, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{block.document}:{block.line}: {command}\n{done.stdout}{done.stderr}"


def run_guide(guide: str, golden_root: Path) -> None:
    """Run the blocks of a guide in this process and its working folder, to which the tables are copied."""
    if guide not in LAKE_GUIDES:
        for table, case in TABLES.items():
            shutil.copytree(golden_root / "public" / case / "warehouse" / "db.db" / "t", table)
    lacking = {block.needs for block in blocks(guide) if block.needs and find_spec(block.needs) is None}
    runnable = [block for block in blocks(guide) if not block.exempt and block.needs not in lacking]
    namespace: dict[str, Any] = {"__name__": "guide"}

    for block in runnable:
        if block.language == "python":
            run_python(block, namespace)
        elif block.language in SHELLS:
            for command in block.commands():
                if command.startswith("morrow "):
                    run_command(block, command)

    assert "python" in {block.language for block in runnable}, f"{guide} shows no Python"
    if lacking:
        pytest.skip(f"blocks of {guide} need {', '.join(sorted(lacking))}, which an extra installs; the others ran")


@pytest.mark.parametrize("guide", [*GUIDES, *LAKE_GUIDES])
def test_guides_run(guide: str, golden_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_guide(guide, golden_root)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_make_target_that_a_document_names_exists(document: str) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    commands = [command for block in blocks(document) if block.language in SHELLS for command in block.commands()]
    named = {
        word
        for command in commands
        if command.startswith("make ")
        for word in command.split("#")[0].split()[1:]
        if re.fullmatch(r"[a-z-]+", word)
    }

    assert named <= targets


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_relative_link_of_a_document_leads_to_a_file(document: str) -> None:
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", (ROOT / document).read_text())

    folder = (ROOT / document).parent
    assert [link for link in links if "://" not in link and not (folder / link).exists()] == []


@pytest.mark.parametrize(
    ("text", "exempt"),
    [
        ("<!-- no-test: installs -->\n```sh\npip install morrow\n```\n", True),
        ("<!-- no-test: installs -->\n\n```sh\npip install morrow\n```\n", True),
        ("<!-- no-test: -->\n```sh\npip install morrow\n```\n", False),  # a reason is required
        ("<!-- no-test: installs -->\ntext\n```sh\npip install morrow\n```\n", False),
    ],
)
def test_an_exemption_gives_its_reason_and_stands_above_its_block(text: str, exempt: bool) -> None:
    (fence,) = FENCE.finditer(text)

    assert (EXEMPT.search(text, 0, fence.start()) is not None) is exempt
