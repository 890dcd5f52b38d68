"""What to search around: the shapes that real networks launch, by kernel.

Mental model: ``llama3_8b:phase=decode,batch=8`` names a forward pass as ``gpusim workloads show`` does; its launches
are points of the kernels' shape spaces, beside which a search draws.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

from gpusim.cases.networks import network_launches
from gpusim.cases.suite import find_kernel, parse_request
from gpusim.errors import UsageError
from gpusim.io.sibling import load_sibling

#: Parts of a step that are numbers, and those that are names.
NUMBERS, NAMES = ("batch", "sequence", "tensor_parallel"), ("phase", "precision")


def shapes_around(texts: Sequence[str], growth: float) -> dict[str, list[dict[str, Any]]]:
    """Kernel -> its different shapes in the passes that ``texts`` name, those whose work is at most ``growth`` times
    the kernel's small shape's. Raises UsageError for a pass that does not exist or of which nothing is that small."""
    load_sibling("workloads", "the workloads")
    work = importlib.import_module("gpusim.workloads.strategies").work
    found: dict[str, list[dict[str, Any]]] = {}
    for text in texts:
        works = []
        for launch in network_launches(parse_request(text)[0], **_step(text)):
            shape = dict(launch.shape)
            works.append(work(shape, find_kernel(launch.kernel).small))
            if works[-1] <= growth and shape not in found.setdefault(launch.kernel, []):
                found[launch.kernel].append(shape)
        if min(works) > growth:
            raise UsageError(f"{text}: no launch is within --growth {growth:g}; the smallest needs {min(works):.0f}")
    return {kernel: shapes for kernel, shapes in found.items() if shapes}


def _step(text: str) -> dict[str, Any]:
    step: dict[str, Any] = {}
    for name, value in parse_request(text)[1].items():
        name = name.replace("-", "_")
        if name not in (*NUMBERS, *NAMES):
            raise UsageError(f"{text}: a pass has no {name}; write {', '.join((*NAMES, *NUMBERS))}")
        try:
            step[name] = int(value) if name in NUMBERS else value
        except ValueError:
            raise UsageError(f"{text}: {name}={value} is no whole number") from None
    return step
