"""Processes of tests that are killed, or that write at once: forked from one in which all has been imported.

Importing costs a process half a second of CPU, most of what it does. The server that forks reads and writes nothing
itself: the threads of Polars, Arrow and obstore, which a fork does not copy, start in the children.
"""

from __future__ import annotations

import multiprocessing

PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["tests.support.preloaded"])
