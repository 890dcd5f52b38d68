"""Latencies and rates of single instructions are what others measured: within one cycle or 3 %.

``tools/microbenchmarks.py`` prints the table. A figure that the model misses says why (``gap``), and must be missed
still: a gap that closes leaves the list.
"""

from __future__ import annotations

import pytest

from tools.microbenchmarks import FIGURES, Figure, measure, verdict

#: Of the figures that count these every day, one a pipe; the others with -m nightly.
EVERYDAY = {"ffma latency", "dfma latency", "shared load, indexed", "FP32 flop", "mma m16n8k16 f16"}
COUNTED = [figure for figure in FIGURES if not figure.doubt]


def marked(figure: Figure):
    marks = [] if figure.gpu == "h100" and figure.name in EVERYDAY else [pytest.mark.nightly]
    return pytest.param(figure, id=f"{figure.gpu}-{figure.name}".replace(" ", "_"), marks=marks)


@pytest.mark.parametrize("figure", [marked(figure) for figure in COUNTED])
def test_a_published_figure_is_met_or_is_a_known_gap(figure: Figure) -> None:
    ((_, value),) = measure((figure,))
    expected = "known gap" if figure.gap else "met"
    assert verdict(figure, value).startswith(expected), f"{value:.2f} against {figure.published:.2f}"


def test_figures_name_their_source_once() -> None:
    names = [(figure.gpu, figure.name) for figure in FIGURES]
    assert len(set(names)) == len(names)
    assert all(figure.source and figure.published > 0 for figure in FIGURES)
