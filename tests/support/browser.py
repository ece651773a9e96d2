"""A headless Chromium, driven over a pipe by its DevTools protocol, to check a page's look and its requests."""

from __future__ import annotations

import json
import os
import select
import shutil
import struct
import subprocess
import sys
import time
import zlib
from base64 import b64decode
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

SETTING = "MORROW_BROWSER"
"""The environment variable with the path of a browser that is not on the PATH."""
NAMES = ("chromium", "google-chrome", "chromium-browser", "chrome")
BROWSER = os.environ.get(SETTING) or next(filter(None, map(shutil.which, NAMES)), None)
SECONDS = 60

needs_browser = pytest.mark.skipif(
    BROWSER is None, reason=f"no browser: chromium or google-chrome, or its path in {SETTING}"
)

SIZES = """(() => {
  const edge = document.documentElement.clientWidth + 1, inside = e => {
    for (let up = e.parentElement; up && up !== document.body; up = up.parentElement)
      if (getComputedStyle(up).overflowX !== 'visible') return true;
    return false;
  };
  const out = [...document.body.querySelectorAll('*')].filter(
    e => e.getBoundingClientRect().right > edge && !inside(e)).map(e => e.outerHTML.slice(0, 80));
  return {width: document.documentElement.scrollWidth, out, text: document.body.innerText};
})()"""


PIPES = """
import fcntl, os, sys
reads, writes = (fcntl.fcntl(int(each), fcntl.F_DUPFD, 10) for each in sys.argv[1:3])
os.dup2(reads, 3)
os.dup2(writes, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
"""A script that becomes the browser, with two pipes at the descriptors 3 and 4, as the browser expects."""


@dataclass(frozen=True)
class Look:
    """A page in a window: its width in pixels, elements that overflow it, its text, the colour of its upper left
    corner, the addresses that it requested, and its console output.
    """

    width: int
    out: list[str]
    text: str
    corner: tuple[int, int, int]
    requests: list[str]
    console: list[str]


class Browser:
    """A browser process with its files in the folder `profile`; `look` opens a page in it."""

    def __init__(self, profile: Path) -> None:
        assert BROWSER is not None
        read_here, self._out = os.pipe()
        self._in, write_here = os.pipe()
        flags = ("--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", f"--user-data-dir={profile}")
        self._process = subprocess.Popen(
            [sys.executable, "-Sc", PIPES, str(read_here), str(write_here), BROWSER, *flags],
            pass_fds=(read_here, write_here),
            stderr=subprocess.DEVNULL,
        )
        os.close(read_here)
        os.close(write_here)
        self._calls = 0
        self._read = b""
        self._told: list[dict[str, Any]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        os.close(self._out)  # the browser ends when its pipe is closed
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._in)

    def look(self, page: Path, width: int, *, dark: bool, picture: Path | None = None) -> Look:
        """Open a file in a window of `width` pixels and describe the page; write a PNG to `picture` if it is given."""
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self._told.clear()
        for domain in ("Page", "Network", "Log", "Runtime"):
            self._call(f"{domain}.enable", session)
        metrics = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": False}
        self._call("Emulation.setDeviceMetricsOverride", session, **metrics)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._call("Emulation.setEmulatedMedia", session, features=[scheme])
        self._call("Page.navigate", session, url=page.as_uri())
        self._until(lambda said: said.get("method") == "Page.loadEventFired")
        seen = self._call("Runtime.evaluate", session, expression=SIZES, returnByValue=True)["result"]["value"]
        shot = b64decode(self._call("Page.captureScreenshot", session, captureBeyondViewport=True)["data"])
        if picture is not None:
            picture.write_bytes(shot)
        told = [(said.get("method"), said.get("params", {})) for said in self._told]
        self._call("Target.closeTarget", targetId=target)
        return Look(
            **seen,
            corner=_first_pixel(shot),
            requests=[of["request"]["url"] for method, of in told if method == "Network.requestWillBeSent"],
            console=[str(of) for method, of in told if method in ("Log.entryAdded", "Runtime.consoleAPICalled")],
        )

    def _call(self, method: str, session: str | None = None, **params: Any) -> dict[str, Any]:
        self._calls += 1
        call = {"id": self._calls, "method": method, "params": params} | ({"sessionId": session} if session else {})
        os.write(self._out, json.dumps(call).encode() + b"\0")
        answer = self._until(lambda said: said.get("id") == self._calls)
        assert "error" not in answer, answer
        result: dict[str, Any] = answer["result"]
        return result

    def _until(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        for said in self._messages():
            self._told.append(said)
            if wanted(said):
                return said
        raise AssertionError("the browser has ended")

    def _messages(self) -> Iterator[dict[str, Any]]:
        end = time.monotonic() + SECONDS
        while True:
            while b"\0" in self._read:
                message, _, self._read = self._read.partition(b"\0")
                yield json.loads(message)
            ready = select.select([self._in], [], [], max(0.0, end - time.monotonic()))[0]
            assert ready, f"the browser said nothing for {SECONDS} seconds"
            more = os.read(self._in, 1 << 20)
            if not more:
                return
            self._read += more


def _first_pixel(png: bytes) -> tuple[int, int, int]:
    """Read the upper left pixel of a PNG whose first row is unfiltered or filtered by the left pixel."""
    found, at = b"", 8
    while at < len(png):
        (length,) = struct.unpack(">I", png[at : at + 4])
        if png[at + 4 : at + 8] == b"IDAT":
            found += png[at + 8 : at + 8 + length]
        at += 12 + length
    row = zlib.decompressobj().decompress(found, 4)
    return row[1], row[2], row[3]
