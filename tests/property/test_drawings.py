"""The dashboard's drawings: what is left out of a long line cannot be seen, and any name is a text."""

from __future__ import annotations

from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("matplotlib", reason="the dashboard needs gpusim[serve]")
from gpusim.serve.canvas import Canvas
from gpusim.serve.thinning import thin_band, thin_line


def _columns(xs, ys) -> dict[int, tuple[float, float, float, float]]:
    """Half-pixel column -> first, last, least and greatest value."""
    found: dict[int, list[float]] = {}
    for x, y in zip(xs, ys, strict=True):
        found.setdefault(int(np.floor(2 * x)), []).append(y)
    return {column: (each[0], each[-1], min(each), max(each)) for column, each in found.items()}


@given(st.integers(1, 3000), st.integers(1, 60), st.integers(0, 2**32 - 1))
def test_a_thinned_line_covers_the_pixels_of_the_whole_one(count: int, width: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    xs, ys = np.sort(random.uniform(0, width, count)).tolist(), random.normal(size=count).tolist()
    thin = thin_line(xs, ys)
    assert _columns(*thin) == _columns(xs, ys)
    assert len(thin[0]) <= min(count, 4 * len(_columns(xs, ys)) + 3)
    above = [y + 1 for y in ys]
    x, low, high = thin_band(xs, ys, above)
    whole, up = _columns(xs, ys), _columns(xs, above)
    assert {c: each[2] for c, each in _columns(x, low).items()} == {c: each[2] for c, each in whole.items()}
    assert {c: each[3] for c, each in _columns(x, high).items()} == {c: each[3] for c, each in up.items()}


@given(st.text(), st.text(), st.text())
def test_any_name_is_a_text_of_the_drawing(name: str, look: str, link: str) -> None:
    canvas = Canvas(880, 300)
    canvas.shape(10, 20, 7, ((-1, -1), (1, -1), (0, 1)), "slower", name, f"/x?{link.encode('utf-8', 'replace').hex()}")
    canvas.dot(5, 5, 2, "spot", name)
    canvas.text(1, 2, name, "tick", "end")
    root = ElementTree.fromstring(canvas.svg(name))
    shown = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in name)
    assert root.get("aria-label") == shown
    assert [each.text or "" for each in root.iter("title")] == ([shown, shown] if name else [])
    assert {each.tag for each in root.iter()} <= {"svg", "a", "g", "title", "path", "text"}


def test_a_drawing_has_its_lines_where_they_are() -> None:
    canvas = Canvas(100, 50)
    canvas.line([0, 10, 20], [5, 5, 7.123], "line", steps=True)
    canvas.lines([(0, 0, 1, 1), (2, 2, 3, 3)], "grid")
    canvas.bar(1, 2, 3, 4, "slower")
    canvas.line([], [], "line")
    root = ElementTree.fromstring(canvas.svg("x"))
    assert [each.get("d") for each in root] == [
        "M0 45L10 45L10 45L20 45L20 42.88", "M0 50L1 49M2 48L3 47", "M1 48L4 48L4 44L1 44z",
    ]  # fmt: skip
