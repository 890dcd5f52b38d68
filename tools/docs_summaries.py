"""The tables that sum up: other people's kernels by what bounds them and by the GPU's generation (README.md) and by set
(docs/validation/external-sets.md), and a row a kind of projected kernel (docs/validation/projections.md).

Mental model: what ``tools/record_residuals.py``, ``tools/validate.py --record`` and the tile level's tools recorded by
half and region is taken over all sizes, without the regions that the other pages show. Errors are percent of the
measured time.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from itertools import groupby
from statistics import fmean, median
from typing import Any

from docs_tables import EXTERNAL, TILE_ERRORS, table, tile_errors
from validation.residuals import Residual, load_residuals
from validation.sets import FINAL

from gpusim.gpus.load import load_gpu
from gpusim.uncertainty.limiters import TENSOR, Limiter

#: Columns of the projected kernels: the GPUs whose generation has figures of its own.
GPUS = ("a100_80gb", "h100", "b200")

#: What bounds a launch, in words, in the order of the table: classes of ``gpusim.uncertainty.limiters``.
BOUND_BY = {
    Limiter.PIPE: "bound by arithmetic or issue",
    Limiter.SHARED: "bound by shared memory",
    Limiter.L1: "bound by L1",
    Limiter.L2: "bound by L2",
    Limiter.DRAM: "bound by DRAM bandwidth",
    Limiter.LATENCY: "bound by latency",
    TENSOR: "products on tensor cores",
}
#: Least rows that a line of the table stands for.
FEWEST_ROWS = 10


def external_summary() -> str:
    """Errors over all rows of kernels that no description was fitted to, a line what bounds the launch and a line a
    compute capability: their mean, their median, how many are small, and the mean of the halves that were looked at last.
    Classes of fewer than :data:`FEWEST_ROWS` rows are in the first line alone."""
    sets = json.loads((EXTERNAL / "manifest.json").read_text("utf-8"))["sets"]
    residuals = [each for each in load_residuals() if each.source in sets]
    bound = [(words, [row for row in residuals if _class(row) == name]) for name, words in BOUND_BY.items()]
    chips: dict[tuple[int, int, str], list[Residual]] = {}
    for gpu, rows in groupby(sorted(residuals, key=_gpu), key=_gpu):
        chips.setdefault(_chip(gpu), []).extend(rows)
    made = [(f"on {words} ({major}.{minor})", rows) for (major, minor, words), rows in sorted(chips.items())]
    lines = [
        _errors(words, rows) for words, rows in [("**all**", residuals), *bound, *made] if len(rows) >= FEWEST_ROWS
    ]
    head = ["kernels that others wrote and measured", "sets", "rows", "mean error (signed)", "median", "within 10 %", "within 20 %", "half looked at last"]  # fmt: skip
    return table(head, lines, frozenset(range(1, len(head))))


def _class(row: Residual) -> str:
    return TENSOR if row.tensor else row.limiter


def _gpu(row: Residual) -> str:
    return row.gpu


def _chip(gpu: str) -> tuple[int, int, str]:
    """Compute capability and generation of a description."""
    spec = load_gpu(gpu)
    return *spec.capability, spec.generation.capitalize()


def _errors(words: str, rows: list[Residual]) -> list[str]:
    percents = [100 * (row.time_ratio - 1) for row in rows]
    sizes = [abs(each) for each in percents]
    last = [abs(100 * (row.time_ratio - 1)) for row in rows if row.half == FINAL]
    within = (f"{100 * sum(each <= most for each in sizes) / len(sizes):.0f} %" for most in (10, 20))
    return [
        words,
        str(len({row.source for row in rows})),
        str(len(rows)),
        f"{fmean(sizes):.1f} % ({fmean(percents):+.1f})",
        f"{median(sizes):.1f} %",
        *within,
        f"{fmean(last):.1f} %" if last else "",
    ]


def external_titles() -> str:
    """A row a set of kernels that no description was fitted to: errors over both halves."""
    entries = json.loads((EXTERNAL / "manifest.json").read_text("utf-8"))["sets"]
    both = {
        each["set"]: each
        for each in json.loads((EXTERNAL / "results.json").read_text("utf-8"))["summaries"]
        if each["half"] == "both" and each["rows"]
    }
    rows = [
        [
            entry["title"],
            _board(entry["measured_on"]),
            str(both[name]["rows"]),
            f"{both[name]['mape_percent']:.1f} % ({both[name]['signed_percent']:+.1f})",
            "" if both[name]["rank"] is None else f"{both[name]['rank']:.2f}",
        ]
        for name, entry in entries.items()
        if name in both
    ]
    return table(["kernels that others wrote and measured", "GPU", "rows", "mean error (signed)", "rank correlation"], rows, frozenset((2, 3, 4)))  # fmt: skip


def _board(measured_on: str) -> str:
    """The board alone: without its power, its place and its date."""
    return measured_on.split(" (")[0].split(",")[0].removeprefix("GeForce ")


def projection_summary() -> str:
    """A row a kind of kernel: mean errors by GPU over all sizes, and with figures that no row of the GPU's generation
    set."""
    products, attention, operators, borrowed = map(tile_errors, TILE_ERRORS)
    kinds = {"gemm": products, **attention, **operators}
    rows = []
    for kind, kept in kinds.items():
        own = {each["gpu"]: each for each in kept.get("regions", ()) if "all" in (each.get("region"), each.get("m"))} if kind != "about" else {}  # fmt: skip
        held = [each for each in borrowed["errors"] if each["operator"] == kind]
        if own or held:
            percents = [f"{own[gpu]['mean_error_percent']:.1f} %" if gpu in own else "" for gpu in GPUS]
            rows.append([f"`{kind}`", *percents, _range(held)])
    return table(["kernels", *(f"`{gpu}`" for gpu in GPUS), "held out"], rows, frozenset((1, 2, 3, 4)))


def _range(errors: list[dict[str, Any]]) -> str:
    """The least and the largest mean error."""
    percents = sorted(each["mean_error_percent"] for each in errors)
    if len(percents) < 2:
        return "".join(f"{each:.1f} %" for each in percents)
    return f"{percents[0]:.1f} to {percents[-1]:.1f} %"


SUMMARIES: Mapping[str, Callable[[], str]] = {
    "external summary": external_summary,
    "external titles": external_titles,
    "projection summary": projection_summary,
}
