"""The start of a Python process of Spark in the tests: a child of `tests.support.spark_python` does its work.

Python runs this first in each process that has this folder in PYTHONPATH. The process passes its arguments,
environment and open files on, waits for the child, and ends with its exit code. If it is killed, so is the child.
"""

import os
import sys

if (path := os.environ.get("MORROW_TESTS_PYTHON")) and sys.orig_argv[1:2] == ["-m"] and "pyspark" in sys.orig_argv[2]:
    import json
    import socket

    server = socket.socket(socket.AF_UNIX)
    server.connect(path)
    told = json.dumps([sys.orig_argv[2:], dict(os.environ), os.getcwd()]).encode()  # noqa: PTH109  # pathlib takes long
    socket.send_fds(server, [len(told).to_bytes(4, "big")], [0, 1, 2])
    server.sendall(told)
    nothing = os.open(os.devnull, os.O_RDWR)
    for own in (0, 1, 2):  # so that pipes end with the child
        os.dup2(nothing, own)
    code = server.recv(1)
    os._exit(code[0] if code else 1)
