"""Data files as lazy frames: one module per file format behind one function, `scan`."""

from __future__ import annotations

from morrow.readers.files.registry import FileReader, check_place, scan, verify
from morrow.readers.files.source import Chunk, FileSource, translate_errors

__all__ = ["Chunk", "FileReader", "FileSource", "check_place", "scan", "translate_errors", "verify"]
