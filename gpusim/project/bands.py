"""How far whole models are from published measurements: the least width of their intervals.

Mental model: operators' intervals add up to a step's, as if the software between them were the one whose kernels were measured. It is not: other versions, engines tuned for other sizes,
work of the host. ``errors.json`` (written by ``tools/model_error.py --record``) keeps the factor that holds four of five published times of whole models, by phase, tokens and,
where eight rows or more are of one generation, by generation. No interval is narrower.
"""

from __future__ import annotations

import functools
import json
from pathlib import Path

from gpusim.project.part import Interval

_FILE = Path(__file__).with_name("errors.json")
#: Rows of one generation that are enough for a factor of its own, and most tokens of a short prompt.
LEAST_ROWS, SHORT_TOKENS = 8, 512


def region_of(phase: str, tokens: int) -> str:
    """The cell of a step of ``phase`` ("request": decode and mixed too) over ``tokens`` tokens; "serve": of all requests."""
    if phase == "serve":
        return "serving"
    if phase == "prefill":
        return "short prompts" if tokens <= SHORT_TOKENS else "prompts"
    return "training" if phase == "train" else "generation"


@functools.cache
def factor_of(generation: str, region: str) -> float:
    """That holds four of five published times; of a generation without rows enough, of all; of a region without any, of generation's."""
    regions = json.loads(_FILE.read_text(encoding="utf-8"))["regions"]
    cell = regions.get(region, regions["generation"])
    return cell["generations"].get(generation, cell)["factor"]


def widened(interval: Interval, factor: float) -> Interval:
    """``interval``, at least from its time over to its time times ``factor``."""
    low, high = interval.seconds / factor, interval.seconds * factor
    return Interval(
        interval.seconds, min(interval.low_seconds, low), max(interval.high_seconds, high), interval.validated
    )
