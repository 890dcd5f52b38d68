"""Drawings as SVG that take their colours from the page: light, dark, and under a pointer or a key.

Mental model: each thing drawn is geometry in a coordinate system of pixels with a class, and the page's style sheet
says how it looks, for the pages allow no inline style. A thing with a link is an ``<a>`` with a name that a screen
reader says and a pointer shows.

Matplotlib's tickers choose round numbers (:mod:`gpusim.serve.scales`); the elements are written here. As a figure of
Matplotlib's, whose SVG had to be read again to take its styles out, a drawing took twice the processor time of all else
that a page needs (tools/watch_scale.py pages).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from xml.sax.saxutils import escape, quoteattr

_MOST_LETTERS = 60
_ANCHORS = {"start": "", "middle": ' text-anchor="middle"', "end": ' text-anchor="end"'}


class Canvas:
    """``width`` x ``height`` pixels, y upwards."""

    def __init__(self, width: float, height: float) -> None:
        self.width, self.height = width, height
        self._things: list[str] = []
        self._linked = False

    def line(self, xs: Sequence[float], ys: Sequence[float], look: str, *, steps: bool = False) -> None:
        """A line through points, or stairs that keep each value until the next."""
        places = list(zip(xs, ys, strict=True))
        if steps:
            places = [*places[:1], *(corner for (_, y), (x, up) in pairwise(places) for corner in ((x, y), (x, up)))]
        self._path(self._through(places), look)

    def lines(self, ends: Sequence[tuple[float, float, float, float]], look: str) -> None:
        """Separate straight lines as one path, each (x, y, x, y)."""
        self._path("".join(self._through([(x0, y0), (x1, y1)]) for x0, y0, x1, y1 in ends), look)

    def area(self, xs: Sequence[float], low: Sequence[float], high: Sequence[float], look: str) -> None:
        """What lies between two lines."""
        around = [*zip(xs, low, strict=True), *zip(reversed(xs), reversed(high), strict=True)]
        self._path(self._through(around, closed=True), look)

    def bar(self, x: float, y: float, width: float, height: float, look: str, name: str = "", link: str = "") -> None:
        """A rectangle from its lower left corner."""
        corners = [(x, y), (x + width, y), (x + width, y + height), (x, y + height)]
        self._path(self._through(corners, closed=True), look, name, link)

    def dot(self, x: float, y: float, radius: float, look: str, name: str = "", link: str = "") -> None:
        """A disc."""
        half = f"a{_short(radius)} {_short(radius)} 0 1 0 "
        outline = f"M{_short(x - radius)} {self._down(y)}{half}{_short(2 * radius)} 0{half}{_short(-2 * radius)} 0z"
        self._path(outline, look, name, link)

    def shape(
        self,
        x: float,
        y: float,
        radius: float,
        corners: Sequence[tuple[float, float]],
        look: str,
        name: str = "",
        link: str = "",
    ) -> None:
        """What ``corners``, in units of ``radius`` around (``x``, ``y``), enclose."""
        places = [(x + radius * across, y + radius * up) for across, up in corners]
        self._path(self._through(places, closed=True), look, name, link)

    def text(self, x: float, y: float, text: str, look: str, anchor: str = "start") -> None:
        """A text whose base line begins, or has its middle or end (``anchor``), at a place."""
        short = text if len(text) <= _MOST_LETTERS else f"{text[: _MOST_LETTERS - 1]}…"
        place = f'x="{_short(x)}" y="{self._down(y)}"{_ANCHORS[anchor]}'
        self._things.append(f"<text {place} class={quoteattr(look)}>{escape(_printable(short))}</text>")

    def svg(self, title: str) -> str:
        """The drawing as an ``<svg>`` element that is called ``title``."""
        # A figure with links is a group of them; one without is a picture, of which only the name is read.
        role = "group" if self._linked else "img"
        head = f'<svg viewBox="0 0 {self.width:g} {self.height:g}" class="chart" role="{role}"'
        return f"{head} aria-label={quoteattr(_printable(title))}>{''.join(self._things)}</svg>"

    def _path(self, outline: str, look: str, name: str = "", link: str = "") -> None:
        if not outline:
            return
        drawn, name = f'<path d="{outline}" class={quoteattr(look)}/>', _printable(name)
        if name:
            drawn = f"<title>{escape(name)}</title>{drawn}"
        if link:
            self._linked = True
            drawn = f'<a href={quoteattr(link)} aria-label={quoteattr(name or look)} class="mark">{drawn}</a>'
        elif name:
            drawn = f"<g>{drawn}</g>"
        self._things.append(drawn)

    def _through(self, places: Sequence[tuple[float, float]], *, closed: bool = False) -> str:
        """The outline that goes through ``places``."""
        if not places:
            return ""
        middle = "L".join(f"{_short(x)} {self._down(y)}" for x, y in places)
        return f"M{middle}{'z' if closed else ''}"

    def _down(self, y: float) -> str:
        """SVG's y grows downwards."""
        return _short(self.height - y)


def _short(pixels: float) -> str:
    """To a hundredth of a pixel."""
    return f"{pixels:.2f}".rstrip("0").rstrip(".")


def _printable(text: str) -> str:
    """What XML may hold: a name from a store may be any text."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)
