"""Figures of the structure of the code, with today's and wanted values.

    python -m tests.support.house [--list]

Prints a table: modules and their sizes, modules with a single importer, modules that typical operations call, names of
functions that begin with a verb, caches in memory. With ``--list``, also prints the modules and functions that miss
the wanted values.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import median

from tests.support.rooms import ROOT, imports, modules

MAX_LINES = 700
"""Maximum number of lines of a module."""

VERBS = frozenset(
    re.findall(
        r"\w+",
        """
    abort accept acquire add adopt advance align allow alter analyze answer append apply arrange ask assert
    assign attach await begin bind bound break build cache call cancel capture cast change check choose clean
    clear clip clone close coerce collect combine commit compact compare compile complete compose compress
    compute concat configure confirm connect consume contain convert copy correct count cover create cut declare
    decode decompress decrypt deduplicate default defer define delegate delete deliver derive describe
    deserialize detach detect determine discard divide do download drop dump emit encode encrypt end ensure
    enter enumerate erase escape estimate evaluate examine exclude execute exit expand expect expire explain
    export expose extend extract fail fetch fill filter find finish fit flag flatten flip flush fold follow
    forget fork format forward from fuse gather generate get give grant group guard guess handle has hash hide
    hold identify ignore import include increment index infer inject insert inspect install intern interpret
    intersect invert invoke is iterate join keep know label launch lay lead leave lend let limit link list load
    locate lock log look lookup lower make map mark mask match measure merge migrate move name narrow need
    negate normalize note notify number obtain offer omit open order overwrite own pack pad page parse partition
    pass patch perform pick place plan point pop prefix prepare present print probe process produce project
    promote prove prune publish pull purge push put qualify query quote raise rank rate reach read rebuild
    receive recognize record recover redact redo reduce refer refill refold refresh refuse register reject
    release reload relocate remember remove rename render reopen repair repeat replace replay report request
    require rescale reserve reset resolve respond restore restrict resume retain retract retry return reuse
    reverse rewind rewrite roll rollback round route run sample save scale scan schedule search seek select send
    serialize serve set settle share shift shorten show shuffle shut sign simplify size skip slice snap solve
    sort specify spell spill split spread stage start stat step stitch stop store stream strip submit subtract
    suggest sum summarize suppress swap switch sync take tell terminate test throw tighten to toggle touch track
    transfer transform translate transpose traverse trim truncate try turn unfold union unlink unlock unpack
    unpickle unquote unregister unset update upgrade upload upsert use vacuum validate verify view visit wait
    walk warn watch widen wrap write yield zip
    """,
    )
)
"""Verbs that begin function names; prefixes of predicates and conversions (``is_``, ``to_`` ...) count, too."""

TABLE = """
import pyarrow as pa, morrow
catalog = morrow.Catalog({folder!r})
table = catalog.create_table("d.t", schema="id BIGINT NOT NULL, v STRING", primary_keys=["id"], options={{"bucket": 1}})
for number in range(3):
    table.upsert(pa.table({{"id": [1, 2, number], "v": ["a", "b", "c"]}}))
"""
UPSERT = "morrow.open({path!r}).upsert(pa.table({{'id': [7], 'v': ['x']}}))"
OPERATIONS: Mapping[str, tuple[str, str, int]] = {
    "a cold read of a merged table": ("", "morrow.open({path!r}).scan().to_polars()", 60),
    "a second upsert": (UPSERT, UPSERT, 65),
    "a DELETE in SQL": ("", "morrow.sql('DELETE FROM d.t WHERE id = 1', {folder!r})", 95),
}
"""The code to run first in a new process, the measured code, and the maximum number of Morrow modules that it calls."""

CALLED = """
import sys, morrow, pyarrow as pa
{before}
called, importing = set(), 0
def note(frame, event, arg):
    global importing
    if frame.f_code.co_name == "<module>":  # declarations that run when a module is imported are not calls
        importing += (event == "call") - (event == "return")
    elif event == "call" and not importing:
        called.add(frame.f_globals.get("__name__", ""))
sys.setprofile(note)
{code}
sys.setprofile(None)
print(*sorted(name for name in called if name.startswith("morrow.")))
"""

Row = tuple[str, str, str]


def read_figures() -> Iterator[Row]:
    """Yield each figure's name, today's value and the wanted value."""
    known = modules()
    sizes = [len(path.read_text().splitlines()) for path in known.values()]
    full = [size for size in sizes if size > 1]
    yield "modules", f"{len(known)}", "480 at most"
    yield "lines of the product", f"{sum(sizes)}", "104,000 at most"
    yield "median lines of a module", f"{median(full):.0f}", "180 to 300"
    yield f"modules above {MAX_LINES} lines", f"{sum(size > MAX_LINES for size in sizes)}", "0"
    yield "modules that one other module imports", f"{len(find_single_imports(known))}", "60 at most"
    functions = list(find_functions(known))
    verbs = sum(map(begins_with_verb, functions))
    yield "functions whose name begins with a verb", f"{verbs / len(functions):.0%} of {len(functions)}", "60% at least"
    yield "caches in memory", f"{len(find_caches(known))}", "6 at most"
    with tempfile.TemporaryDirectory() as folder:
        _run(TABLE.format(folder=folder))
        for name, (before, code, wanted) in OPERATIONS.items():
            called = list_called(
                before.format(path=f"{folder}/d.db/t"), code.format(folder=folder, path=f"{folder}/d.db/t")
            )
            yield f"modules called by {name}", f"{len(called)}", f"{wanted} at most"


def find_single_imports(known: Mapping[str, Path]) -> list[str]:
    """Return the modules that exactly one other module imports."""
    users = Counter(other for others in imports(known).values() for other in others)
    return sorted(name for name in known if users[name] == 1)


def find_functions(known: Mapping[str, Path]) -> Iterator[str]:
    """Yield the names of all module-level functions."""
    for path in known.values():
        yield from (
            node.name
            for node in ast.parse(path.read_text()).body
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("__")
        )


def begins_with_verb(name: str) -> bool:
    return name.strip("_").split("_")[0] in VERBS


def find_caches(known: Mapping[str, Path]) -> list[str]:
    """Return the module-level caches with a limit in bytes."""
    return sorted(
        f"{name}: {found}"
        for name, path in known.items()
        for found in re.findall(
            r"^(\w+)(?:: [^=\n]+)? = (?:\w+\.)?(?:ByteCache|SectionCache)\b", path.read_text(), re.MULTILINE
        )
    )


def list_called(before: str, code: str) -> list[str]:
    """Run code in a new process, and return the modules of Morrow whose functions it calls."""
    return _run(CALLED.format(before=before, code=code)).split()


def _run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout


def main() -> None:
    rows = [("measured", "today", "wanted"), *read_figures()]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())
    if "--list" in sys.argv:
        known = modules()
        print("\nmodules that one other module imports:", *find_single_imports(known), sep="\n  ")
        first = Counter(name.strip("_").split("_")[0] for name in find_functions(known) if not begins_with_verb(name))
        print(
            "\nfirst words of other functions:",
            *(f"{word} {count}" for word, count in first.most_common(60)),
            sep="\n  ",
        )
        print("\ncaches:", *find_caches(known), sep="\n  ")


if __name__ == "__main__":
    main()
