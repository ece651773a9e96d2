"""A whole page: style for light and dark, narrow and wide; nothing is loaded from anywhere."""

from __future__ import annotations

from collections.abc import Iterable

from morrow.html.elements import Safe, element, joined, text

STYLE = """
:root { color-scheme: light dark; --back: #fff; --card: #f6f7f9; --ink: #1c2330; --dim: #667085; --line: #dfe3ea;
  --append: #3b82c4; --compact: #9a6fb8; --fall: #d0743c; --dead: #c2185b; --tag: #2e8b57; --warn: #c9a227; }
@media (prefers-color-scheme: dark) { :root { --back: #14181f; --card: #1c222c; --ink: #e3e7ee; --dim: #8f9bb0;
  --line: #313a48; --append: #5ba3e0; --compact: #b592d1; --fall: #e08e5a; --dead: #f06292; --tag: #52b788;
  --warn: #e3c567; } }
* { box-sizing: border-box }
body { margin: 0 auto; max-width: 1080px; padding: 16px; background: var(--back); color: var(--ink);
  font: 14px/1.5 system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; }
h1 { font-size: 22px; margin: 8px 0; overflow-wrap: anywhere } h2 { font-size: 16px; margin: 0 0 8px }
h3 { font-size: 13px; margin: 14px 0 4px; overflow-wrap: anywhere } h3 small { font-weight: 400; margin-left: 8px }
small, .note, .dim { color: var(--dim) } svg text { font-size: 12px; fill: var(--ink) } svg { display: block }
svg .dim { fill: var(--dim) } svg text.tag { fill: var(--tag) }
section { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 14px 16px;
  margin: 14px 0; overflow-x: auto }
.two { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(440px, 100%), 1fr)); gap: 0 14px }
table { border-collapse: collapse; margin: 6px 0 } th, td { padding: 3px 10px 3px 0; text-align: left;
  vertical-align: top; overflow-wrap: anywhere; border-bottom: 1px solid var(--line) } .n { text-align: right }
th { font-weight: 600; white-space: nowrap }
code { background: var(--back); border-radius: 4px; padding: 1px 4px; overflow-wrap: anywhere }
p { margin: 4px 0 } .error { color: var(--dead) } .warning { color: var(--warn) } .well { color: var(--tag) }
rect.append { fill: var(--append) } rect.compact { fill: var(--compact) } rect.fall { fill: var(--fall) }
rect.dead { fill: var(--dead) } line.tag { stroke: var(--tag); stroke-dasharray: 2 3 }
line.branch { stroke: var(--compact); stroke-width: 3 }
rect.level0 { fill: var(--fall) } rect.level1, rect.level2 { fill: var(--warn) }
rect.level3, rect.level4 { fill: var(--compact) } rect.level5, rect.level6 { fill: var(--append) }
rect { stroke: var(--card); stroke-width: .5 }
.run, .share { display: grid; gap: 8px; align-items: center; margin: 0 0 5px; font-size: 12px }
.run { grid-template-columns: 76px 64px 1fr }
.share { grid-template-columns: minmax(84px, 32%) 1fr minmax(96px, 30%) }
.name { overflow: hidden; text-overflow: ellipsis; white-space: nowrap }
"""


def section(title: str, *content: object) -> Safe:
    """Returns a titled part of the page."""
    return element("section", element("h2", title), *content)


def page(title: str, content: Iterable[object]) -> str:
    """Returns a complete HTML document."""
    head = joined(
        Safe('<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'),
        # No script runs and nothing is fetched, whatever a name in the table may be.
        Safe("<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"),
        element("title", title),
        Safe(f"<style>{STYLE}</style>"),
    )
    return f'<!DOCTYPE html><html lang="en"><head>{head}</head><body>{joined(*content)}</body></html>\n'


def framed(document: str, height: int) -> str:
    """Returns a page for a place inside of another one, such as a cell of a notebook, whose style stays its own."""
    return f'<iframe srcdoc="{text(document)}" style="width:100%;height:{height}px;border:0" sandbox=""></iframe>'
