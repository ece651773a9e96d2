"""Elements of HTML and SVG as text that is safe to join."""

from __future__ import annotations

import html

from morrow.engine.telling import printable, redacted

LEAST_WIDTH = 640
"""Pixels below which a wide drawing is not made smaller, but scrolled: its text could not be read."""


class Safe(str):
    """Markup: names and values in it are escaped. Other text is escaped where it meets markup."""

    __slots__ = ()

    def __add__(self, other: str) -> Safe:
        return Safe(str.__add__(self, text(other)))


def text(value: object) -> Safe:
    """Returns text as markup: escaped, without secrets and control characters; markup stays as it is."""
    if isinstance(value, Safe):
        return value
    return Safe(html.escape(printable(redacted(str(value)))))


def element(name: str, *content: object, **attributes: object) -> Safe:
    """Returns ``<name ...>content</name>``. Attributes that are None are left out.

    ``class_`` is ``class``; underscores in other names are hyphens.
    """
    pairs = ((key.rstrip("_").replace("_", "-"), value) for key, value in attributes.items() if value is not None)
    opened = "".join(f' {key}="{text(value)}"' for key, value in pairs)
    return Safe(f"<{name}{opened}>{''.join(map(text, content))}</{name}>")


def joined(*parts: object) -> Safe:
    """Returns markup and text, one after the other."""
    return Safe("".join(map(text, parts)))


def drawing(width: float, height: float, *shapes: object, label: str) -> Safe:
    """Returns SVG as wide as its place, between `LEAST_WIDTH` and `width`; `label` is for whoever does not see it."""
    return element(
        "svg",
        element("title", label),
        *shapes,
        viewBox=f"0 0 {_short(width)} {_short(height)}",
        role="img",
        style=f"width:100%;max-width:{_short(width)}px;min-width:{_short(min(width, LEAST_WIDTH))}px",
    )


def box(x: float, y: float, width: float, height: float, kind: str, told: str) -> Safe:
    """Returns a rectangle of the class `kind` with a text that shows under the pointer."""
    size = {"x": _short(x), "y": _short(y), "width": _short(max(width, 0.5)), "height": _short(height)}
    return element("rect", element("title", told), class_=kind, rx=2, **size)


def legend(*kinds: tuple[str, str]) -> Safe:
    """Returns a line that names what the colours of boxes mean: pairs of class and words."""
    swatch = {"width": 12, "height": 12, "style": "width:12px;display:inline-block;vertical-align:-1px"}
    marks = (
        joined(element("svg", element("rect", class_=kind, width=12, height=12, rx=2), **swatch), f" {told}  ")
        for kind, told in kinds
    )
    return element("p", *marks, class_="note")


def word(x: float, y: float, content: object, kind: str = "", anchor: str = "start") -> Safe:
    """Returns a text in a drawing."""
    return element("text", content, x=_short(x), y=_short(y), class_=kind or None, text_anchor=anchor)


def _short(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0")
