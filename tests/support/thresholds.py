"""Thresholds from which on other code handles rows and metadata, lowered so that small random tables reach all of it.

Code that only large tables reach is not tested otherwise. `LOWERED` maps each threshold to possible values. When you
add a threshold, add it here, or to `UNTOUCHED` with the reason.
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
    "engine.format.manifest_encoder": {"MAX_SINGLE_ROWS": (0, 1)},
    "engine.plan.data_files": {"MAX_PIECE_FILES": (1, 2), "MAX_COMPARED_NAMES": (0, 1)},
    "engine.plan.entries": {
        "MAX_CACHED_ENTRIES": (0,),
        "MIN_OUTLINE_BYTES": (0,),
        "MAX_DECODED_ENTRIES": (1,),
        "MAX_KNOWN_ENTRIES": (0, 1),
        "MAX_NEW_MANIFESTS": (0, 1),
    },
    "engine.plan.key_directory": {"MAX_DIRECTORY_FILES": (0, 2)},
    "engine.plan.manifests": {"MIN_STORED_BYTES": (0,), "MIN_THREADED_BYTES": (0,)},
    "engine.plan.planner": {"MAX_OBJECT_FILES": (0,)},
    "engine.plan.predicate": {"MIN_FOLDED_COMPARISONS": (1,)},
    "engine.plan.pruning": {"MAX_BUCKET_KEYS": (0, 1), "MAX_HASHED_FILES": (1, 2)},
    "engine.plan.scan_plan": {"MAX_UNPACKED_FILES": (1, 2)},
    "engine.polars_threads": {"MAX_SMALL_ROWS": (0, 1)},
}
READS: Mapping[str, Mapping[str, Sequence[Value]]] = {
    "readers.casts.dtypes": {"MAX_FEW_VALUES": (0, 2), "MAX_CHUNK_BYTES": (1, 7, 100), "MIN_THREADED_ROWS": (0,)},
    "readers.execution.duckdb_relation": {
        "MAX_PARTITIONS": (1,),
        "MAX_HANDOFFS": (1,),
        "MAX_STATEMENT_BYTES": (1,),
        "MAX_BATCH_VALUES": (1, 3),
    },
    "readers.execution.execute": {
        "MAX_SINGLE_BATCH_BYTES": (0,),
        "DEFAULT_BATCH_ROWS": (1, 3),
        "MAX_GROUP_ROWS": (0, 1, 3),
        "MIN_SHOWN_ROWS": (0,),
        "MAX_GROUP_SECTIONS": (1, 2),
        "MIN_PIECEWISE_ROWS": (0,),
        "MAX_STREAM_BYTES": (0,),
    },
    "readers.execution.lookups": {
        "MAX_PAGE_BYTES": (0, 100),
        "MAX_FOUND_ROWS": (0, 2),
        "MAX_SLICES": (0, 1),
        "PAGE_ROWS": (1, 2),
        "MIN_ROWS_PER_PAGE_ROW": (0, 1),
    },
    "readers.execution.plain_sql": {"MAX_LISTED_POSITIONS": (0,), "MAX_FILTERED_BATCH_ROWS": (1, 2)},
    "readers.execution.section_frames": {
        "MAX_POSITIONED_ROWS": (1, 3),
        "MIN_SEARCHED_ROWS": (0, 1),
        "MAX_PASS_ROWS": (1, 3),
        "MAX_PASS_BYTES": (1, 1000),
    },
    "readers.execution.section_pieces": {"MIN_CUT_ROWS": (1, 2), "MAX_PIECES_PER_KEY": (1, 4), "OPENING_BYTES": (1,)},
    "readers.execution.section_reads": {"MAX_READ_GROUP_ROWS": (0, 1, 4), "MIN_THREADED_ROWS": (0,)},
    "readers.execution.statistics": {"MAX_EXACT_ROWS": (0,)},
    "readers.execution.strategy": {
        "MAX_FEW_KEYS": (0, 1),
        "MAX_LOOKED_UP_KEYS": (0, 1),
        "MIN_ROWS_PER_KEY": (0,),
        "MAX_WHOLE_ROWS": (0,),
        "MIN_READ_SECTIONS": (1, 2),
        "MAX_READ_SECTION_ROWS": (0,),
        "MIN_SCANNED_SECTIONS": (1, 2),
        "MAX_SCANNED_SECTION_ROWS": (0,),
        "MAX_SMALL_ROWS": (0,),
        "MIN_FILTERED_ROWS": (0,),
        "MAX_DUCKDB_FILES": (1,),
        "PIECE_ROWS": (1, 2),
    },
    "readers.execution.type_changes": {"BATCH_ROWS": (1, 2)},
    "readers.execution.verification": {"BATCH_ROWS": (1, 2)},
    "readers.expressions.polars": {"MAX_CONDITIONS_AT_ONCE": (1, 2), "MAX_PUSHED_CONDITIONS": (0, 1)},
    "readers.files.excerpts": {
        "MAX_FOOTER_BYTES": (0,),
        "MAX_EXCERPT_BYTES": (0, 1000),
        "MAX_LOCAL_BYTES": (0, 1000),
        "HEADER_BYTES": (1, 20),
    },
    "readers.files.file_frames": {"MAX_FRAMES_AT_ONCE": (1, 2)},
    "readers.files.formats.avro": {"BATCH_BYTES": (1, 100)},
    "readers.files.formats.orc": {"MAX_FREE_RUNS": (0, 1)},
    "readers.files.formats.row": {"CHUNK_BYTES": (1, 100)},
    "readers.files.page_checksums": {"MIN_THREADED_BYTES": (0,)},
    "readers.masks.incremental": {"MIN_STEPPED_ROWS": (2,), "MAX_KEY_BYTES": (0, 100)},
    "readers.masks.live_rows": {"MIN_SPLIT_ROWS": (0,), "ROWS_PER_SAVED_CHANGE": (1, 10**6)},
    "readers.masks.ordering": {
        "HASH_BLOCK_ROWS": (1, 2),
        "MIN_TABLE_BITS": (1,),
        "SLOTS_PER_ROW": (1,),
        "KEY_BLOCK_ROWS": (1, 2),
        "MAX_DENSE_SPAN": (0, 10**6),
        "LOOKUP_BLOCK_ROWS": (1, 2),
        "MAX_CLOSE_SPAN": (1, 2),
        "MIN_KEYS_PER_MISS": (1,),
        "MAX_ROWS_PER_LOOKUP": (0, 1),
        "MIN_LONG_RATIO": (1,),
        "SAMPLED_KEYS": (2, 3),
    },
    "readers.masks.packed_keys": {
        "CUT_SAMPLE_ROWS": (1, 2),
        "MIN_CUT_ROWS": (0, 1),
        "PACK_BLOCK_ROWS": (1, 2),
        "WORD_BLOCK_ROWS": (1, 2),
        "MIN_REPEATS": (1,),
    },
    "readers.masks.section_cache": {
        "MIN_CACHED_ROWS": (0,),
        "MAX_SECTIONS_PER_BUCKET": (1, 2),
        "MIN_ROWS_PER_CHANGE": (0, 1),
    },
    "readers.masks.section_keys": {
        "MAX_FEW_ROWS": (0,),
        "NUMBER_ROWS_FACTOR": (1,),
        "RANGE_ROWS": (1, 2, 5),
        "MAX_WHOLE_ROWS": (0, 3),
        "MAX_MERGED_SHARE": (0.1, 5),
        "MIN_DENSE_ROWS": (0,),
    },
    "readers.merges.sections": {
        "ROWS_PER_SAVED_CHANGE": (1, 10**6),
        "MAX_BLOCKS": (1, 2),
        "MIN_ROWS_PER_DEAD_ROW": (1, 10**6),
        "MERGED_RANGE_ROWS": (1, 2),
        "MAX_CACHED_BYTES": (0,),
        "MAX_SMALL_SECTION_ROWS": (0,),
        "PART_ROWS": (1, 3),
    },
    "readers.merges.version_masks": {"MAX_COUNTED_VERSIONS": (1,)},
}
WRITES: Mapping[str, Mapping[str, Sequence[Value]]] = {
    "writers.append.bucket_compaction": {"BATCH_ROWS": (1,)},
    "writers.append.column_files": {"BATCH_ROWS": (1, 2)},
    "writers.append.row_level": {"MAX_SEARCH_FILES": (1,), "MAX_SEARCH_ROWS": (1,)},
    "writers.append.writer": {"MIN_STREAM_BYTES": (1,)},
    "writers.buckets.cross_partition": {"REBUILD_RATIO": (1,)},
    "writers.commit.manifests": {
        "MAX_CHUNKS": (1,),
        "MAX_PRUNED_PARTITIONS": (1,),
        "MAX_SNAPSHOT_STEPS": (1,),
        "MIN_FILTERED_ENTRIES": (0,),
        "ROLLING_CHECK_ENTRIES": (1,),
    },
    "writers.commit.snapshot_metadata": {"MIN_NUMBER_GAP": (1,), "MAX_LOCKED_BYTES": (0,)},
    "writers.files.formats.row": {"PIECE_BYTES": (1, 100)},
    "writers.files.data_files": {"MIN_DESCRIBED_ROWS": (0,)},
    "writers.files.encoders": {"MIN_BLOCK_ROWS": (1,), "MAX_BLOCK_BYTES": (1,), "MAX_BLOCK_ROWS": (1, 2)},
    "writers.files.formats.orc": {"ORC_BATCH_ROWS": (1, 2)},
    "writers.files.formats.parquet": {
        "MAX_WHOLE_BOUND": (0, 1),
        "MIN_SAMPLE_ROWS": (0, 1, 2),
        "MIN_DICTIONARY_ROWS": (0,),
        "MAX_DISTINCT_SHARE": (0.0, 2.0),
        "SAMPLE_ROWS": (1, 2),
    },
    "writers.ingest.sources": {"MIN_GATHERED_ROWS": (1,), "MAX_PIECE_BYTES": (1,), "MAX_PIECE_ROWS": (1, 2)},
    "writers.keyed.key_lookup": {"MAX_RANGE_SHARE": (0.0, 0.5, 3.0)},
    "writers.keyed.levels": {"MIN_PACKED_KEYS": (0,), "MAX_CACHED_KEYS": (1,), "MIN_RUN_KEYS": (0, 1, 2)},
    "writers.keyed.postpone_bucket": {"MAX_REPLAYED_ROWS": (1, 2)},
    "writers.keyed.rewriter": {
        "MAX_CHUNKS": (0, 1, 2),
        "MAX_SPREAD": (0, 1, 1000),
        "MIN_BATCH_ROWS": (1,),
        "MAX_BATCH_ROWS": (1, 2),
        "RANGE_BYTES": (1,),
        "REFILLED": (1,),
        "SLICE_ROWS": (1, 2),
        "MAX_WHOLE_BYTES": (0,),
    },
    "writers.keyed.writer": {
        "MIN_AHEAD_BYTES": (1, 100),
        "BATCH_BYTES": (1, 100),
        "MAX_RUN_BYTES": (1, 200),
        "SLICE_ROWS": (1, 2, 3),
        "MAX_SMALL_BYTES": (0,),
    },
    "writers.operations.overwrite": {"MAX_KEY_ROWS": (1, 2)},
    "writers.operations.table_writer": {"MAX_DESCRIBED_BYTES": (0,), "MAX_WRITERS": (1,)},
    "writers.operations.update": {"MAX_LISTED_KEYS": (0, 1)},
    "writers.operations.write_session": {"MAX_REPLAY_ROWS": (1,)},
}
LOWERED: Mapping[str, Mapping[str, Sequence[Value]]] = {**PLANS, **READS, **WRITES}

UNTOUCHED: Mapping[str, Mapping[str, str]] = {
    "memory that a cache, or a copy of it on disk, may take": {
        "engine.plan.filter": "MAX_CACHED_LENGTH",
        "engine.plan.filter.sql": "MAX_SHORT_TEXT_LENGTH",
        "engine.plan.key_directory": "FILE_BYTES",
        "engine.plan.manifests": "MAX_STORED_BYTES",
        "engine.plan.metadata": "COLUMN_BYTES MAX_CACHED_ENTRIES _OPTIONS_BYTES _SNAPSHOT_BYTES",
        "engine.plan.planner": "PLAN_BYTES",
        "readers.masks.section_cache": "MAX_FRAME_BYTES SMALL_FRAME_BYTES",
        "readers.merges.sections": "MAX_CACHED_ROWS",
    },
    "remote stores, which their own tests serve": {
        "engine.plan.manifests": "MAX_AHEAD_BYTES MAX_NEWEST_MILLIS _TASK_BYTES",
        "readers.execution.section_reads": "MAX_GROUP_BYTES",
        "readers.execution.strategy": "MAX_FETCHED_BYTES MAX_SMALL_FILE_BYTES",
        "readers.files.formats.parquet": "FOOTER_BYTES",
        "readers.files.page_checksums": "FOOTER_GUESS_BYTES WINDOW_BYTES",
        "readers.files.source": "MAX_AHEAD_BYTES REQUEST_BYTES",
        "writers.history.commit_maintenance": "ANSWER_BYTES",
        "writers.operations.format_table": "MAX_FILE_BYTES",
    },
    "formats that these tables are not in": {
        "engine.plan.global_indexes": "MAX_ROW_ID MAX_SEARCHED_BYTES MIN_SKIPPED_BYTES MIN_SKIPPED_ROWS",
        "readers.execution.blob_columns": "INLINE_BYTES MAX_RESOLVED_BYTES REFERENCE_ROWS",
        "readers.files.formats.blob": "CHUNK_BYTES MAX_GAP_BYTES PAYLOAD_TAIL_BYTES",
        "readers.files.formats.text": "CHUNK_BYTES",
        "readers.files.formats.wheel_files": "MAX_BATCH_ROWS",
        "writers.files.blob_files": "MAX_PIECE_ROWS",
    },
    "vectors, times of rows and records of loads, which have tests of their own": {
        "readers.execution.row_search": "MAX_BLOCK_BYTES MAX_TEXT_BYTES",
        "writers.files.bucket_reader": "MIN_MILLIS",
        "writers.history.load_history": "MAX_RECORDED_FILES",
    },
    "removing files, and rows in the order of a curve": {
        "engine.plan.references": "MAX_FILTERED_PARTITIONS",
        "writers.append.sort_compaction": "CHUNK_ROWS SAMPLE_ROWS",
        "writers.history.orphan_files": "MAX_DELETIONS_AT_ONCE MAX_MANIFEST_BYTES_AT_ONCE",
    },
    "years, times and characters": {
        "engine.plan.filter.implied": "MAX_YEAR",
        "engine.plan.predicate": "MAX_CODE_POINT",
        "readers.casts.atomic": "MAX_ZONED_SECONDS",
        "readers.casts.java_strings": "MAX_PLAIN MAX_YEAR",
        "readers.casts.rules": "MAX_YEAR",
        "writers.history.tombstones": "MIN_ABANDONED_MILLIS",
        "writers.ingest.sources": "MAX_NANOS_MILLIS",
    },
    "text files to import, which their own tests read": {
        "writers.ingest.store_paths": "STREAM_BYTES",
        "writers.ingest.text_files": "BLOCK_BYTES READ_ROWS",
    },
    "limits of others": {
        "readers.files.excerpts": "MAX_HEADER_BYTES",
        "engine.plan.filter.sql_parsing": "MAX_RECURSION STACK_BYTES",
        "readers.merges.functions.sketches": "BITMAP_BYTES",
        "writers.buckets.dynamic": "MAX_BUCKET_NUMBER",
        "writers.commit.snapshot_metadata": "MAX_NUMBER_GAP",
        "writers.files.encoders": "MAX_DEPTHS",
        "writers.files.formats.orc": "STRIPE_BYTES",
        "writers.keyed.postpone_bucket": "MAX_WRITERS",
    },
}
"""Large numbers whose names look like thresholds and that are not lowered here: reason -> module -> names."""

for room in LOWERED:
    importlib.import_module(f"morrow.{room}")


def lowered(patch: pytest.MonkeyPatch, chance: random.Random, share: float) -> dict[str, Value]:
    """Lower a share of all thresholds, and return them with their values."""
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
    """Return the modules that hold a threshold: its own module, and modules that import it by name."""
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
    r"ROWS|BYTES|FEW|MAX_|MIN_|WORTH|SMALL|MANY|BLOCK|PIECE|OFTEN|SLICE|AT_ONCE|DENSE|SAMPLE|RUNS|SPREAD|STEPS|COUNTED"
)
"""Words in the names of thresholds."""
LARGE = 1000
"""Smaller thresholds are crossed by small tables or by tests of their module."""
ROOMS = ("engine/polars_threads.py", "engine/plan", "readers", "writers")


def sizes() -> Iterator[str]:
    """Yield the thresholds of modules that are large numbers."""
    for place in ROOMS:
        for path in sorted((ROOT / place).rglob("*.py")) if not place.endswith(".py") else [ROOT / place]:
            room = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
            names = [*filter(WORDS.search, _assigned(ast.parse(path.read_text())))]
            known = vars(importlib.import_module(f"morrow.{room}")) if names else {}
            yield from (
                f"{room}.{name}" for name in names if type(size := known[name]) in (int, float) and size >= LARGE
            )


def _assigned(tree: ast.Module) -> Iterator[str]:
    """Yield the names of constants of a module."""
    for each in (each for each in tree.body if isinstance(each, ast.Assign)):
        names = [name for target in each.targets for name in ast.walk(target) if isinstance(name, ast.Name)]
        yield from (name.id for name in names if name.id.isupper())
