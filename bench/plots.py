"""Plots of RESULTS.md, bars and curves in plain SVG: small, readable in a diff, the same on every machine."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

Row = dict[str, Any]

BAR, GAP, LABEL, WIDTH = 14, 10, 420, 400
COLOURS = {"subject": "#c2410c", "baseline": "#64748b"}


def plot(title: str, rows: Sequence[Row]) -> str:
    """Draw two bars per row, Morrow and its baseline, on one linear axis. The longest bar fills the width."""
    compared = [row for row in rows if row["baseline_value"] is not None]
    longest = max(max(row["value"], row["baseline_value"]) for row in compared)
    height = 34 + len(compared) * (2 * BAR + GAP)
    body = [f'<text x="0" y="16" font-weight="bold">{escape(title)}</text>']
    for index, row in enumerate(compared):
        top = 28 + index * (2 * BAR + GAP)
        label = f"{row['what']} | {row['baseline']}"
        body.append(f'<text x="{LABEL - 8}" y="{top + BAR + 4}" text-anchor="end">{escape(label)}</text>')
        bars = (("subject", row["value"]), ("baseline", row["baseline_value"]))
        for offset, (kind, value) in enumerate(bars):
            width, y = max(1.0, value / longest * WIDTH), top + offset * BAR
            body.append(f'<rect x="{LABEL}" y="{y}" width="{width:.1f}" height="{BAR - 1}" fill="{COLOURS[kind]}"/>')
            text = escape(("Morrow " if kind == "subject" else "") + amount(value, row["unit"]))
            body.append(f'<text x="{LABEL + width + 5:.1f}" y="{y + BAR - 3}">{text}</text>')
    return _svg(LABEL + WIDTH + 110, height, body)


LEFT, TOP, DEEP, WIDE = 60, 40, 220, 640


def plot_curve(title: str, rows: Sequence[Row]) -> str:
    """Draw two lines, Morrow and its baseline: time from 0 upwards, over `at` on a logarithmic axis."""
    logs = [math.log(row["curve"]["at"]) for row in rows]
    across = [LEFT + (log - logs[0]) / (logs[-1] - logs[0]) * WIDE for log in logs]
    most = max(max(row["value"], row["baseline_value"] or 0) for row in rows)
    bottom = TOP + DEEP
    body = [
        f'<text x="0" y="16" font-weight="bold">{escape(title)}</text>',
        f'<line x1="{LEFT}" y1="{bottom}" x2="{LEFT + WIDE}" y2="{bottom}" stroke="black"/>',
        f'<text x="{LEFT + WIDE}" y="{bottom + 48}" text-anchor="end">{escape(rows[0]["curve"]["axis"])}</text>',
    ]
    for x, row in zip(across, rows, strict=True):
        body.append(f'<text x="{x:.1f}" y="{bottom + 32}" text-anchor="middle">{row["curve"]["at"]:g}</text>')
    lines = (("subject", "value", "Morrow", -8), ("baseline", "baseline_value", rows[0]["baseline"], 16))
    for kind, which, name, aside in lines[: 1 if rows[0]["baseline_value"] is None else 2]:
        points = [(x, bottom - row[which] / most * DEEP) for x, row in zip(across, rows, strict=True)]
        joined = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        body.append(f'<polyline points="{joined}" fill="none" stroke="{COLOURS[kind]}" stroke-width="2"/>')
        for (x, y), row in zip(points, rows, strict=True):
            text = escape(amount(row[which], row["unit"]))
            body.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{COLOURS[kind]}"/>')
            body.append(f'<text x="{x:.1f}" y="{y + aside:.1f}" text-anchor="middle">{text}</text>')
        x, y = points[-1]
        body.append(f'<text x="{x + 30:.1f}" y="{y + 4:.1f}" fill="{COLOURS[kind]}">{escape(name)}</text>')
    return _svg(LEFT + WIDE + 180, bottom + 58, body)


def _svg(width: int, height: int, body: Iterable[str]) -> str:
    size = f'width="{width}" height="{height}"'
    style = 'font-family="sans-serif" font-size="11"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>\n' + "\n".join(body) + "\n</svg>\n"


def amount(value: float | None, unit: str) -> str:
    if value is None:
        return ""
    if unit == "ms" and value >= 10_000:
        return f"{value / 1000:.1f} s"
    return f"{value:.0f} {unit}" if value >= 100 else f"{value:.3g} {unit}"
