"""Elements of HTML and SVG as text that is safe to join."""

from __future__ import annotations

import html

from morrow.engine.telling import printable, redacted

WHOLE = 100.0
"""The width of a drawing, in percents of itself."""
LEAST = 0.15
"""The least width of a box: it can be seen."""


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


def drawing(height: float, *shapes: object, label: str) -> Safe:
    """Returns SVG as wide as its place and `height` pixels high; `label` is for whoever does not see it.

    Places and widths of shapes are percents of its width, heights are pixels: text keeps its size on narrow screens.
    """
    return element("svg", element("title", label), *shapes, role="img", style=f"width:100%;height:{_short(height)}px")


def box(x: float, y: float, width: float, height: float, kind: str, told: str) -> Safe:
    """Returns a rectangle of the class `kind` with a text that shows under the pointer."""
    size = {"x": percent(x), "y": _short(y), "width": percent(max(width, LEAST)), "height": _short(height)}
    return element("rect", element("title", told), class_=kind, rx=2, **size)


def legend(*kinds: tuple[str, str]) -> Safe:
    """Returns a line that names what the colours of boxes mean: pairs of class and words."""
    swatch = {"width": 12, "height": 12, "style": "width:12px;display:inline-block;vertical-align:-1px"}
    marks = (
        joined(element("svg", element("rect", class_=kind, width=12, height=12, rx=2), **swatch), f" {told}  ")
        for kind, told in kinds
    )
    return element("p", *marks, class_="note")


def word(x: float, y: float, content: object, kind: str = "", anchor: str = "start", dx: float = 0) -> Safe:
    """Returns a text in a drawing, `dx` pixels beside its place."""
    place = {"x": percent(x), "y": _short(y), "dx": _short(dx) if dx else None}
    return element("text", content, class_=kind or None, text_anchor=anchor, **place)


def percent(number: float) -> str:
    return f"{number:.2f}%".replace(".00%", "%")


def _short(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0")
