"""Test processes that are killed or write at the same time, forked from one with all imports.

Importing takes half a second of CPU, which is most of a process's work. The server that forks does not read or write
itself, so the threads of Polars, Arrow and obstore, which a fork does not copy, start in the children.
"""

from __future__ import annotations

import multiprocessing

PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["tests.support.preloaded"])
