"""A run kept as JSON: everything that a report shows, computed once, readable without gpusim.

Mental model: ``gpusim simulate --save`` writes a document, ``gpusim report`` renders one. The document is
plain data of a given shape (:data:`SHAPE`); reading one checks its version, size and shape, since a file may
come from anywhere.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gpusim import __version__
from gpusim.engine.result import LaunchResult, Result
from gpusim.errors import ResultFileError
from gpusim.io.document import read_document
from gpusim.io.whole_file import write_whole
from gpusim.model.stall_reasons import STALL_NAMES
from gpusim.report.attribution import by_instruction, by_line
from gpusim.report.roofline import roofline
from gpusim.report.summary import share_document, summary_document
from gpusim.report.timeline import sample_rates
from gpusim.report.utilisation import traffic
from gpusim.why.explain import Explanation

RESULT_VERSION = 1
MOST_BYTES = 256 << 20
#: Points of a curve over time that are kept.
MOST_POINTS = 400

_SHARE = {"launch": int, "file": str, "line": int, "code": str, "issues": int, "warp_cycles": int}
_FINDING = {"made_free": str, "how": str, "cycles": int, "saves_cycles": int, "saves_percent": float}
_OVER_TIME = {name: [float] for name in ("cycle", "dram_read_gb_per_s", "dram_write_gb_per_s", "l2_gb_per_s")}
_OVER_TIME |= {f"warps.{name}": [float] for name in STALL_NAMES}
#: What a document holds at least: a type, a dict of names, ``[shape]`` for a list, ``{"*": shape}`` for any names;
#: names that end in ``?`` may be absent. ``float`` takes whole numbers too.
SHAPE = {
    "gpusim_result": int, "gpusim_version": str, "gpu": str, "gpu_title": str, "kernel": str, "cycles": int,
    "time_us": float, "clock_hz": float, "warp_instructions": int, "stalls": {"*": int}, "counters": {"*": float},
    "units": [{"unit": str, "busy_percent": float, "metric": str}], "traffic": dict, "least_cycles": {"*": float},
    "by_line": [_SHARE], "by_instruction": [{**_SHARE, "address": int}],
    "why?": {"sentence": str, "made_free": [_FINDING]},
    "roofline": {
        "operations": {"*": int}, "roofs": {"*": float}, "slopes": {"*": float},
        "points": [{"level": str, "operations_per_byte": float, "g_operations_per_s": float}],
    },
    "launches": [
        {
            "kernel": str, "cycles": int, "grid": [int], "block": [int], "registers_per_thread": int,
            "shared_bytes": int, "blocks_per_sm": int, "occupancy_limiter": str, "over_time?": _OVER_TIME,
        }
    ],
}  # fmt: skip


def result_document(result: Result, least: dict[str, float], explanation: Explanation | None = None) -> dict[str, Any]:
    """The document of a run that was simulated with ``samples=True``."""
    base = summary_document(result, least=least, explanation=explanation)
    return {
        "gpusim_result": RESULT_VERSION,
        "gpusim_version": __version__,
        "gpu_title": result.spec.title,
        "clock_hz": result.clock_hz,
        **base,
        "least_cycles": least,
        "by_line": [share_document(share) for share in by_line(result.launches)],
        "by_instruction": [share_document(share) for share in by_instruction(result.launches)],
        "roofline": roofline(result.launches, result.spec, traffic(result.launches)),
        "launches": [_launch(launch, 1e9 / result.clock_hz) for launch in result.launches],
    }


def save_result(document: dict[str, Any], path: Path) -> None:
    """Write a document, whole or not at all."""
    write_whole(path, (json.dumps(document, allow_nan=False) + "\n").encode())


def load_result(path: Path) -> dict[str, Any]:
    """Read a document; raises ResultFileError, naming file and place, where it is not one."""
    document = read_document(
        path,
        "gpusim_result",
        RESULT_VERSION,
        most_bytes=MOST_BYTES,
        what="result",
        made_by=f"gpusim simulate --save {path.name}",
        error=ResultFileError,
    )
    _check(path, "", SHAPE, document)
    for launch in document["launches"]:
        if len({len(values) for values in launch.get("over_time", {}).values()}) > 1:
            raise ResultFileError(f"{path}: the curves of launch {launch['kernel']!r} differ in length")
    if document["cycles"] < 1 or document["clock_hz"] <= 0:
        raise ResultFileError(f"{path}: cycles and clock_hz must be positive")
    return document


def _check(path: Path, place: str, shape: Any, value: Any) -> None:
    def refuse(wanted: str) -> None:
        raise ResultFileError(f"{path}: {place or 'the document'} should be {wanted}, not {type(value).__name__}")

    if isinstance(shape, dict):
        if not isinstance(value, dict):
            refuse("an object")
        if "*" in shape:
            for name, part in value.items():
                _check(path, f"{place}.{name}", shape["*"], part)
            return
        for name, part in shape.items():
            key = name.removesuffix("?")
            if key in value:
                _check(path, f"{place}.{key}".lstrip("."), part, value[key])
            elif key == name:
                raise ResultFileError(f"{path}: {place or 'the document'} lacks {key!r}")
    elif isinstance(shape, list):
        if not isinstance(value, list):
            refuse("a list")
        for index, part in enumerate(value):
            _check(path, f"{place}[{index}]", shape[0], part)
    elif shape is float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            refuse("a number")
    elif not isinstance(value, shape) or isinstance(value, bool):
        refuse({int: "a whole number", str: "a text", dict: "an object"}[shape])


def _launch(launch: LaunchResult, ns_per_cycle: float) -> dict[str, Any]:
    facts = launch.launch
    document = {
        "kernel": launch.kernel,
        "cycles": launch.cycles,
        "grid": list(facts.grid),
        "block": list(facts.block),
        "registers_per_thread": facts.registers_per_thread,
        "shared_bytes": facts.shared_bytes,
        "blocks_per_sm": launch.blocks_per_sm,
        "occupancy_limiter": launch.occupancy_limiter,
    }
    if launch.samples is not None and len(launch.samples) > 1:
        document["over_time"] = _thinned(sample_rates(launch, ns_per_cycle), launch.cycles)
    return document


def _thinned(rates: dict[str, np.ndarray], end: int) -> dict[str, Sequence[float]]:
    """At most MOST_POINTS stretches: neighbours are averaged, weighted by their lengths."""
    starts = rates["cycle"]
    lengths = np.diff(np.append(starts, end))
    groups = np.array_split(np.arange(len(starts)), min(len(starts), MOST_POINTS))
    thinned = {"cycle": [float(starts[group[0]]) for group in groups]}
    for name, values in rates.items():
        if name != "cycle":
            weights = [lengths[group] if lengths[group].any() else None for group in groups]
            means = [np.average(values[g], weights=w) for g, w in zip(groups, weights, strict=True)]
            thinned[name] = [round(float(mean), 3) for mean in means]
    return thinned
