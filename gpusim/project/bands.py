"""How far whole models are from published measurements: the least width of their intervals.

Mental model: operators' intervals add up to a step's, as if the software between them were the one whose kernels were
measured. It is not: other versions, engines tuned for other sizes, work of the host. ``errors.json`` (written by
``tools/model_error.py --record``) keeps the factor that holds four of five published times of whole models, by phase,
tokens and, where eight rows or more are of one generation, by generation. No interval is narrower. What clients of a
named framework see (requests, servers) has factors of its own, by framework, by whether the network has experts, and by
whether the GPU's generation is one whose products were measured (and, with rows enough, of that generation alone):
those hold four of five rows of a half of the published ones (``tools/framework_error.py --final --record``,
``tools/serving_error.py --record``).
"""

from __future__ import annotations

import functools
import json
from pathlib import Path

from gpusim.project.part import Interval
from gpusim.tile.bands import gemm_band

_FILE = Path(__file__).with_name("errors.json")
#: Rows of one generation that are enough for a factor of its own, and most tokens of a short prompt.
LEAST_ROWS, SHORT_TOKENS = 8, 512


def region_of(phase: str, tokens: int) -> str:
    """The cell of a step of ``phase`` ("request": decode and mixed too) over ``tokens`` tokens."""
    if phase == "prefill":
        return "short prompts" if tokens <= SHORT_TOKENS else "prompts"
    return "training" if phase == "train" else "generation"


@functools.cache
def factor_of(generation: str, region: str) -> float:
    """That holds four of five published times; of a generation without rows enough, of all; of a region without any, of
    generation's."""
    regions = json.loads(_FILE.read_text(encoding="utf-8"))["regions"]
    cell = regions.get(region, regions["generation"])
    return cell["generations"].get(generation, cell)["factor"]


def products_measured(generation: str) -> bool:
    """Whether the intervals of products on GPUs of ``generation`` come from rows of such GPUs."""
    return gemm_band(generation, "bf16", 1).validated


def cell_of(framework: str, experts: bool, generation: str) -> str:
    """The cell of what clients of ``framework`` see of a network with or without experts on a GPU of ``generation``."""
    whose = "measured" if products_measured(generation) else "other"
    return f"{framework}, {'experts' if experts else 'dense'}, {whose} GPUs"


@functools.cache
def served_factor(framework: str, experts: bool, generation: str) -> float:
    """That holds four of five published times of requests and servers of such a cell, of ``generation`` alone where its
    rows are enough."""
    cell = json.loads(_FILE.read_text(encoding="utf-8"))["served"][cell_of(framework, experts, generation)]
    return cell.get("generations", {}).get(generation, cell)["factor"]


def widened(interval: Interval, factor: float) -> Interval:
    """``interval``, at least from its time over to its time times ``factor``."""
    low, high = interval.seconds / factor, interval.seconds * factor
    return Interval(
        interval.seconds, min(interval.low_seconds, low), max(interval.high_seconds, high), interval.validated
    )
