"""The two tables that sum up: a row a set of other people's kernels (README.md), and a row a kind of projected kernel
(docs/validation/projections.md).

Mental model: what ``tools/validate.py --record`` and the tile level's tools recorded by half and region is taken over
all sizes, without the regions that the other pages show. Errors are percent of the measured time.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from docs_tables import EXTERNAL, TILE_ERRORS, table, tile_errors

#: Columns of the projected kernels: the GPUs whose generation has figures of its own.
GPUS = ("a100_80gb", "h100", "b200")


def external_summary() -> str:
    """A row a set of kernels that no description was fitted to, or several of the same kernels on several GPUs: errors
    over both halves."""
    entries = json.loads((EXTERNAL / "manifest.json").read_text("utf-8"))["sets"]
    found: dict[str, list[list[str]]] = {}
    for each in json.loads((EXTERNAL / "results.json").read_text("utf-8"))["summaries"]:
        if each["half"] == "both" and each["rows"]:
            error = f"{each['mape_percent']:.1f} % ({each['signed_percent']:+.1f})"
            cells = [_board(entries[each["set"]]["measured_on"]), str(each["rows"]), error]
            found.setdefault(entries[each["set"]]["title"], []).append(
                [*cells, "" if each["rank"] is None else f"{each['rank']:.2f}"]
            )
    rows = [[title, *map(", ".join, zip(*sets, strict=True))] for title, sets in found.items()]
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
    "projection summary": projection_summary,
}
