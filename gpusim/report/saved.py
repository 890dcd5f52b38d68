"""A run kept as JSON: everything that a report shows, computed once, readable without gpusim.

Mental model: ``gpusim simulate --save`` writes a document, ``gpusim report`` renders one. The document is
plain data of a given shape (:class:`Document`); reading one checks its version, size and shape, since a file may
come from anywhere.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gpusim import __version__
from gpusim.engine.result import LaunchResult, Result
from gpusim.engine.utilisation import traffic
from gpusim.errors import ResultFileError
from gpusim.io.document import read_document
from gpusim.io.records import as_record
from gpusim.io.shown import shown
from gpusim.io.whole_file import write_whole
from gpusim.report.attribution import by_instruction, by_line
from gpusim.report.document import Document
from gpusim.report.roofline import roofline
from gpusim.report.summary import share_document, summary_document
from gpusim.report.timeline import sample_rates
from gpusim.why.explain import Explanation

RESULT_VERSION = 1
MOST_BYTES = 256 << 20
#: Points of a curve over time that are kept.
MOST_POINTS = 400


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
    as_record(Document, document, str(path), ResultFileError)
    for name in ("by_line", "by_instruction"):
        for i, share in enumerate(document[name]):
            for key, value in share.items():
                if key not in ("file", "code") and type(value) is not int:
                    raise ResultFileError(f"{path}: {name}[{i}].{key} should be a whole number, not {shown(value)}")
    for launch in document["launches"]:
        if len({len(values) for values in launch.get("over_time", {}).values()}) > 1:
            raise ResultFileError(f"{path}: the curves of launch {launch['kernel']!r} differ in length")
    return document


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
