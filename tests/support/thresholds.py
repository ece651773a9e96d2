"""Sizes from which on rows and metadata take another way, lowered so that small random tables take all of them.

What is only reached by large tables is else reached by no test. `LOWERED` names each size and values that are possible;
who adds a size adds it here, or to `UNTOUCHED` with the reason.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import random
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType

import pytest

Value = int | float
ROOT = Path(__file__).parents[2]

PLANS: Mapping[str, Mapping[str, Sequence[Value]]] = {
    "engine.frames": {"FEW": (0, 1)},
    "engine.format.avro_rows": {"FEW": (0, 1)},
    "engine.plan.data_files": {"PIECE": (1, 2)},
    "engine.plan.deletions": {"MOST_COMPARED": (0, 1)},
    "engine.plan.entries": {"MANY": (0,), "WORTH_OUTLINES": (0,), "DECODED_AT_ONCE": (1,)},
    "engine.plan.filter.terms": {"FOLDED": (1,)},
    "engine.plan.known_entries": {"MOST": (0, 1), "STEPS": (0, 1)},
    "engine.plan.manifest_folder": {"WORTH_BYTES": (0,)},
    "engine.plan.manifests": {"WORTH_THREADS": (0,)},
    "engine.plan.packed_files": {"AT_ONCE": (1, 2)},
    "engine.plan.planner": {"MOST_OBJECTS": (0,)},
    "engine.plan.pruning": {"MOST_BUCKET_KEYS": (0, 1)},
}
READS: Mapping[str, Mapping[str, Sequence[Value]]] = {
    "readers.casts.dtypes": {"FEW_VALUES": (0, 2), "MAX_CHUNK_BYTES": (1, 7, 100), "THREADED_ROWS": (0,)},
    "readers.execution.duckdb_own": {"MOST_FILES": (1,), "MOST_PARTITIONS": (1,)},
    "readers.execution.duckdb_relation": {"MOST_HANDOFFS": (1,), "TEXT_BYTES": (1,)},
    "readers.execution.duckdb_stream": {"BATCH_VALUES": (1, 3)},
    "readers.execution.execute": {
        "AT_ONCE": (0,),
        "BATCH_ROWS": (1, 3),
        "GROUP_ROWS": (0, 1, 3),
        "LEAST_SHOWN_ROWS": (0,),
        "MOST_GROUPED": (1, 2),
        "PIECEWISE_ROWS": (0,),
        "STREAM_HELD": (0,),
    },
    "readers.execution.joined_reads": {"GROUP_ROWS": (0, 1, 4), "LEAST_SECTIONS": (1, 2), "MOST_ROWS": (0,)},
    "readers.execution.joined_sections": {"LEAST_SECTIONS": (1, 2), "MOST_ROWS": (0,)},
    "readers.execution.measuring": {"EXACT_ROWS": (0,)},
    "readers.execution.one_pass": {"MOST_ROWS": (0,), "THREADED_ROWS": (0,)},
    "readers.execution.plain_sql": {"MOST_LISTED": (0,)},
    "readers.execution.section_frames": {"PIECE_ROWS": (1, 2), "POSITIONED_ROWS": (1, 3), "SMALL_ROWS": (0,)},
    "readers.execution.verification.files": {"BATCH_ROWS": (1, 2)},
    "readers.execution.verification.retyped": {"BATCH_ROWS": (1, 2)},
    "readers.expressions.polars": {"AT_ONCE": (1, 2), "MOST_PUSHED": (0, 1)},
    "readers.files.formats.avro": {"BATCH_BYTES": (1, 100)},
    "readers.files.formats.orc_kinds": {"FREE_RUNS": (0, 1)},
    "readers.files.page_checks": {"WORTH_THREADS": (0,)},
    "readers.files.streaming": {"FRAMES_AT_ONCE": (1, 2)},
    "readers.masks.apart": {"WORTH_ROWS": (0,)},
    "readers.masks.cutting": {"SAMPLED": (1, 2), "WORTH_CUTTING": (0, 1)},
    "readers.masks.file_keys": {"LEAST_EVEN": (2,)},
    "readers.masks.folder": {"WORTH_ROWS": (0,)},
    "readers.masks.hashed_keys": {"BLOCK": (1, 2), "LEAST_BITS": (1,), "SLOTS": (1,)},
    "readers.masks.key_ranges": {
        "FEW_ROWS": (0,),
        "OF_NUMBERS": (1,),
        "RANGE_ROWS": (1, 2, 5),
        "WHOLE_ROWS": (0, 3),
        "WORTHWHILE": (0.1, 5),
    },
    "readers.masks.ordering": {"BLOCK": (1, 2), "DENSE": (0, 10**6)},
    "readers.masks.packing": {"BLOCK": (1, 2)},
    "readers.masks.refresh": {"OFTEN": (1, 10**6), "REMEMBERED": (1, 2), "WORTHWHILE": (0, 1)},
    "readers.masks.sorted_runs": {
        "BLOCK": (1, 2),
        "CLOSE": (1, 2),
        "EVEN": (1,),
        "FEW": (0, 1),
        "LONG": (1,),
        "SAMPLED": (2, 3),
    },
    "readers.masks.text_words": {"BLOCK": (1, 2), "REPEATED": (1,)},
    "readers.masks.told_keys": {"WORTH_ROWS": (0,)},
    "readers.merges.kept": {"OFTEN": (1, 10**6)},
    "readers.merges.merged": {"MOST_BLOCKS": (1, 2), "MOST_DEAD": (1, 10**6)},
    "readers.merges.section_merge": {"MERGED_RANGE_ROWS": (1, 2)},
    "readers.merges.sections": {"CACHED_BYTES": (0,), "CACHED_ROWS": (0,)},
    "readers.merges.versions": {"MOST_COUNTED": (1,)},
    "readers.merges.whole": {"PART_ROWS": (1, 3)},
}
WRITES: Mapping[str, Mapping[str, Sequence[Value]]] = {
    "writers.append.buffer": {"STREAM_BYTES": (1,)},
    "writers.append.matching": {"AT_ONCE_FILES": (1,), "AT_ONCE_ROWS": (1,)},
    "writers.append.stored": {"BATCH_ROWS": (1,)},
    "writers.buckets.key_places": {"REBUILT_SHARE": (1,)},
    "writers.commit.base_entries": {
        "MOST_CHUNKS": (1,),
        "MOST_PARTITIONS": (1,),
        "MOST_STEPS": (1,),
        "SMALL_MANIFEST": (0,),
    },
    "writers.commit.manifests": {"ROLLING_CHECK_ROWS": (1,)},
    "writers.commit.numbering": {"GAP": (1,), "SMALL_BYTES": (0,)},
    "writers.files.blocks": {"LEAST_BLOCK_ROWS": (1,), "MOST_BLOCK_BYTES": (1,), "MOST_BLOCK_ROWS": (1, 2)},
    "writers.files.formats.orc": {"BATCH_ROWS": (1, 2)},
    "writers.files.formats.parquet": {"NEVER_CUT": (0, 1)},
    "writers.files.formats.parquet_encodings": {
        "FEW_ROWS": (0, 1, 2),
        "LEAST_ROWS": (0,),
        "REPEATING": (0.0, 2.0),
        "SAMPLE_ROWS": (1, 2),
    },
    "writers.files.write": {"FEW_ROWS": (0,)},
    "writers.keyed.buffer": {
        "AHEAD_BYTES": (1, 100),
        "BATCH_BYTES": (1, 100),
        "RUN_BYTES": (1, 200),
        "SLICE_ROWS": (1, 2, 3),
    },
    "writers.keyed.keys": {"FEW_KEYS": (0,), "KEPT_KEYS": (1,), "RUN_KEYS": (0, 1, 2)},
    "writers.keyed.lookup.keys": {"MOST_OF_A_FILE": (0.0, 0.5, 3.0)},
    "writers.keyed.merging": {"MOST_CHUNKS": (0, 1, 2), "SPREAD": (0, 1, 1000)},
    "writers.keyed.postpone": {"REPLAYED_ROWS": (1, 2)},
    "writers.keyed.sorted_merge": {
        "LEAST_BATCH": (1,),
        "MOST_BATCH": (1, 2),
        "RANGE_BYTES": (1,),
        "REFILLED": (1,),
        "SLICE_ROWS": (1, 2),
        "WHOLE_BYTES": (0,),
    },
    "writers.keyed.writer": {"SMALL_BYTES": (0,)},
    "writers.operations.delete": {"MOST_LISTED": (0, 1)},
    "writers.operations.finishing": {"MOST_BYTES": (0,), "MOST_WRITERS": (1,)},
    "writers.operations.overwrite": {"KEY_ROWS": (1, 2)},
    "writers.operations.replaying": {"ROWS": (1,)},
    "writers.rows.sources": {"GATHERED_ROWS": (1,), "PIECE_BYTES": (1,), "PIECE_ROWS": (1, 2)},
}
LOWERED: Mapping[str, Mapping[str, Sequence[Value]]] = {**PLANS, **READS, **WRITES}

UNTOUCHED: Mapping[str, Mapping[str, str]] = {
    "memory that a cache, or a copy of it on disk, may take": {
        "engine.plan.fallback": "PLAN_BYTES",
        "engine.plan.filter": "MOST_KEPT",
        "engine.plan.metadata_files": "COLUMN_BYTES",
        "engine.plan.manifest_folder": "MOST_FRAME_BYTES",
        "readers.masks.folder": "MOST_FRAME_BYTES",
        "readers.merges.sections": "MOST_CACHED_ROWS",
    },
    "stores far away, which their own tests serve": {
        "engine.plan.manifests_ahead": "MOST_BYTES",
        "readers.execution.fetched_reads": "GROUP_BYTES SMALL",
        "writers.operations.format_table": "MOST_BYTES",
    },
    "formats that these tables are not in": {
        "readers.files.formats.blob": "CHUNK_BYTES",
        "readers.files.formats.text_lines": "CHUNK_BYTES",
    },
    "removing files, and rows in the order of a curve": {
        "engine.plan.live_names": "MOST_PARTITIONS",
        "writers.append.curves": "CHUNK_ROWS",
        "writers.append.sort_compaction": "SAMPLE_ROWS",
        "writers.history.cleaning.orphans": "DELETED_AT_ONCE",
        "writers.history.cleaning.used": "MANIFEST_BYTES_AT_ONCE",
    },
    "limits of others": {
        "engine.plan.filter.deep": "STACK_BYTES",
        "readers.merges.functions.roaring_containers": "BITMAP_BYTES",
        "writers.buckets.hash_codes": "MOST_BUCKETS",
        "writers.commit.numbering": "MOST_GAP",
        "writers.files.formats.orc": "STRIPE_BYTES",
    },
}
"""Large numbers with names of sizes that are not lowered here: why -> module -> names."""

for room in LOWERED:
    importlib.import_module(f"morrow.{room}")


def lowered(patch: pytest.MonkeyPatch, chance: random.Random, share: float) -> dict[str, Value]:
    """Lowers a share of all sizes, and returns those with their values."""
    chosen = {
        f"{room}.{name}": chance.choice(values)
        for room, sizes in LOWERED.items()
        for name, values in sizes.items()
        if chance.random() < share
    }
    for place, value in chosen.items():
        room, name = place.rsplit(".", 1)
        for module in _holders(f"morrow.{room}", name):
            patch.setattr(module, name, value)
    return chosen


def _holders(home: str, name: str) -> list[ModuleType]:
    """Returns the modules that have a size: its own, and those that import it by its name."""
    users = [module for module, imported in _imports().items() if (home, name) in imported]
    return [sys.modules[home], *users]


def _imports() -> Mapping[ModuleType, frozenset[tuple[str, str]]]:
    for name, module in list(sys.modules.items()):
        if name.startswith("morrow.") and module not in _READ and getattr(module, "__file__", None):
            tree = ast.parse(inspect.getsource(module))
            found = (each for each in ast.walk(tree) if isinstance(each, ast.ImportFrom) and each.module)
            _READ[module] = frozenset((str(each.module), alias.name) for each in found for alias in each.names)
    return _READ


_READ: dict[ModuleType, frozenset[tuple[str, str]]] = {}

WORDS = re.compile(
    r"ROWS|BYTES|FEW|MOST|LEAST|WORTH|SMALL|MANY|BLOCK|PIECE|OFTEN|SLICE|AT_ONCE|DENSE|SAMPLE|RUNS|SPREAD|STEPS|COUNTED"
)
"""What names of sizes have in them."""
LARGE = 1000
"""What is less, small tables have on either side, or tests of the module."""
ROOMS = ("engine/frames.py", "engine/plan", "readers", "writers")


def sizes() -> Iterator[str]:
    """Yields the large numbers of modules that have names of sizes."""
    for place in ROOMS:
        for path in sorted((ROOT / place).rglob("*.py")) if not place.endswith(".py") else [ROOT / place]:
            room = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
            names = [*filter(WORDS.search, _assigned(ast.parse(path.read_text())))]
            known = vars(importlib.import_module(f"morrow.{room}")) if names else {}
            yield from (
                f"{room}.{name}" for name in names if type(size := known[name]) in (int, float) and size >= LARGE
            )


def _assigned(tree: ast.Module) -> Iterator[str]:
    """Yields the names of constants of a module."""
    for each in (each for each in tree.body if isinstance(each, ast.Assign)):
        names = [name for target in each.targets for name in ast.walk(target) if isinstance(name, ast.Name)]
        yield from (name.id for name in names if name.id.isupper())
