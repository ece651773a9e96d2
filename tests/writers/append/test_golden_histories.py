"""Histories of Java's append tables written over again: the same rows leave the same files behind.

Each write and compaction of a golden table is repeated by Morrow on top of a copy of its schema, and the entries of
every snapshot are compared: kinds, places, row counts, sequence numbers, levels, sources, statistics.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from shutil import copytree
from typing import Any

import polars as pl
import pytest

from morrow.engine.format.data_file_meta import DataFileMeta
from morrow.engine.format.entry_frames import entries_of
from morrow.engine.format.manifest import decode_manifest, decode_manifest_list
from morrow.engine.io.local import LocalStore
from morrow.engine.plan.metadata import TableMetadata
from morrow.writers.append.small_files import compact_append
from morrow.writers.append.writer import AppendWriter
from morrow.writers.buckets import router_for
from morrow.writers.commit import TableCommit
from morrow.writers.messages import CommitMessage
from morrow.writers.restored import restored
from morrow.writers.target import WriteTarget
from tests.support.golden import jsonl
from tests.support.golden_values import polars_column
