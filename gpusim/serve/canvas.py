"""Drawings as SVG that take their colours from the page: light, dark, and under a pointer or a key.

Mental model: Matplotlib lays out paths and texts in a coordinate system of pixels, its tickers choose round numbers; each thing
drawn has a class, and the page's style sheet says how it looks. Colours, fonts and styles that Matplotlib writes are taken out, for the pages
allow no inline style. A thing with a link is an ``<a>`` with a name that a screen reader says and a pointer shows.

A drawing takes about 12 ms, a fifth of one with Matplotlib's own axes. Drawing is not safe in several threads at once: one at a time.
"""

from __future__ import annotations

import io
import threading
from collections.abc import Sequence
from typing import Any, cast
from xml.etree import ElementTree

from gpusim.errors import ToolchainError

try:
    import matplotlib as mpl
    from matplotlib.artist import Artist
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.patches import Circle, PathPatch, Polygon, Rectangle
    from matplotlib.path import Path as Outline
    from matplotlib.text import Text
    from matplotlib.transforms import IdentityTransform
except ImportError as error:  # an extra: say how to get it
    raise ToolchainError("the dashboard needs matplotlib: pip install 'gpusim[serve]'") from error

_SVG, _XLINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
_DOTS_PER_INCH = 72  # a point is a pixel
_RC = {"svg.fonttype": "none", "svg.hashsalt": "gpusim", "path.simplify": True}
#: Attributes that say how a thing looks, which is the style sheet's business, and what only Matplotlib needs.
_LOOKS = ("style", "id", "clip-path", "target")
_MOST_LETTERS = 60
_drawing = threading.Lock()


class Canvas:
    """``width`` x ``height`` pixels, y upwards."""

    def __init__(self, width: float, height: float) -> None:
        self.width, self.height = width, height
        self._figure = Figure(figsize=(width / _DOTS_PER_INCH, height / _DOTS_PER_INCH), dpi=_DOTS_PER_INCH)
        self._figure.patch.set_visible(False)
        self._things: list[tuple[str, str, str]] = []

    def line(self, xs: Sequence[float], ys: Sequence[float], look: str, *, steps: bool = False) -> None:
        """A line through points, or stairs that keep each value until the next."""
        self._add(Line2D(xs, ys, drawstyle="steps-post" if steps else "default"), look)

    def lines(self, ends: Sequence[tuple[float, float, float, float]], look: str) -> None:
        """Separate straight lines as one path, each (x, y, x, y)."""
        vertices = [place for x0, y0, x1, y1 in ends for place in ((x0, y0), (x1, y1))]
        if vertices:
            self._add(PathPatch(Outline(vertices, [Outline.MOVETO, Outline.LINETO] * len(ends)), fill=False), look)

    def area(self, xs: Sequence[float], low: Sequence[float], high: Sequence[float], look: str) -> None:
        """What lies between two lines."""
        vertices = [*zip(xs, low, strict=True), *zip(reversed(xs), reversed(high), strict=True)]
        if vertices:
            self._add(PathPatch(Outline([*vertices, vertices[0]], closed=True)), look)

    def bar(self, x: float, y: float, width: float, height: float, look: str, name: str = "", link: str = "") -> None:
        """A rectangle from its lower left corner."""
        self._add(Rectangle((x, y), width, height), look, name, link)

    def dot(self, x: float, y: float, radius: float, look: str, name: str = "", link: str = "") -> None:
        """A disc."""
        self._add(Circle((x, y), radius), look, name, link)

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
        self._add(
            Polygon([(x + radius * across, y + radius * up) for across, up in corners], closed=True), look, name, link
        )

    def text(self, x: float, y: float, text: str, look: str, anchor: str = "start") -> None:
        """A text whose base line begins, or has its middle or end (``anchor``), at a place."""
        short = text if len(text) <= _MOST_LETTERS else f"{text[: _MOST_LETTERS - 1]}…"
        alignment = {"start": "left", "middle": "center", "end": "right"}[anchor]
        self._add(Text(x, y, _printable(short), ha=alignment, va="baseline", parse_math=False), look)

    def svg(self, title: str) -> str:
        """The drawing as an ``<svg>`` element that is called ``title``."""
        text = io.StringIO()
        with _drawing, mpl.rc_context(cast("Any", _RC)):
            self._figure.savefig(
                text, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None}
            )
        ElementTree.register_namespace("", _SVG)
        root = ElementTree.fromstring(text.getvalue())
        things = {group.get("id"): group for group in root.iter(f"{{{_SVG}}}g") if group.get("id")}
        linked = any(link for _, _, link in self._things)
        # A figure with links is a group of them; one without is a picture, of which only the name is read.
        made = ElementTree.Element(
            "svg", {"viewBox": f"0 0 {self.width:g} {self.height:g}", "class": "chart", "role": "group" if linked else "img",
                    "aria-label": title}
        )  # fmt: skip
        for number, (look, name, link) in enumerate(self._things):
            group = things.get(f"thing-{number}")
            shapes = [] if group is None else [_plain(each) for each in group.iter() if each.tag in _SHAPES]
            if not shapes:
                continue
            parent = made
            if link:
                parent = ElementTree.SubElement(made, "a", {"href": link, "aria-label": name or look, "class": "mark"})
            elif name:
                parent = ElementTree.SubElement(made, "g")
            if name:
                ElementTree.SubElement(parent, "title").text = name
            for shape in shapes:
                shape.set("class", look)
                parent.append(shape)
        return ElementTree.tostring(made, encoding="unicode")

    def _add(self, artist: Artist, look: str, name: str = "", link: str = "") -> None:
        artist.set_transform(IdentityTransform())
        artist.set_gid(f"thing-{len(self._things)}")
        self._things.append((look, _printable(name), link))
        self._figure.add_artist(artist)


_SHAPES = (f"{{{_SVG}}}path", f"{{{_SVG}}}text")


def _plain(shape: ElementTree.Element) -> ElementTree.Element:
    """A path or text as it stands on the page: geometry alone."""
    found = ElementTree.Element(shape.tag.rpartition("}")[2])
    for name, value in shape.attrib.items():
        if name not in _LOOKS and not name.startswith(f"{{{_XLINK}}}"):
            found.set(name, " ".join(value.split()))
    style = shape.get("style", "")
    for anchor in ("middle", "end"):
        if f"text-anchor: {anchor}" in style:
            found.set("text-anchor", anchor)
    if found.tag == "text":
        found.attrib.pop("transform", None)  # no text is turned
        found.text = "".join(shape.itertext())
    return found


def _printable(text: str) -> str:
    """What XML may hold: a name from a store may be any text."""
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)
