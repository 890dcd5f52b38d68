"""Records what it costs to simulate the kernels that networks launch: traces/recorded/simulation_cost.json.

Mental model: seconds grow with the warp instructions of a launch, these with powers of its axes. For each kernel the
seconds at its default shape are measured on this machine, everything compiled; the powers follow from counts of warp
instructions of that shape and of those in which one axis is twice as large, which are the same on any machine.

    python tools/record_simulation_cost.py            # all kernels of the networks, some minutes
    python tools/record_simulation_cost.py rmsnorm    # these alone, the others as they were
"""

from __future__ import annotations

import json
import math
import sys
import time
from pathlib import Path
from typing import Any

from gpusim.cases.networks import network_launches, networks
from gpusim.cases.source import open_source
from gpusim.cases.suite import capture_case, complete_shape, make_case, shape_text
from gpusim.engine.gpu import simulate
from gpusim.errors import LaunchError, UsageError
from gpusim.gpus.load import load_gpu
from gpusim.io.whole_file import write_whole

OUTPUT = Path(__file__).parents[1] / "traces/recorded/simulation_cost.json"
GPU = "h200"
#: More of these is not more work by any power worth recording: they choose among ways of doing it.
LEFT_OUT = frozenset({"tile", "block_threads"})


def axes_of_networks() -> dict[str, set[str]]:
    """Kernel -> its whole-number axes that the networks set."""
    found: dict[str, set[str]] = {}
    for network in networks():
        for phase in ("prefill", "decode"):
            for precision in ("float16", "float32", "int8", "w4a16"):
                try:
                    launches = network_launches(network.name, phase=phase, precision=precision)
                except UsageError:
                    continue
                for launch in launches:
                    axes = {a for a, v in launch.shape.items() if isinstance(v, int) and not isinstance(v, bool)}
                    found.setdefault(launch.kernel, set()).update(axes - LEFT_OUT)
    return found


def warp_instructions(kernel: str, shape: dict[str, Any]) -> int:
    gpu = load_gpu(GPU)
    return sum(each.trace.warp_instructions for each in capture_case(make_case(kernel, shape, gpu), gpu) if each.timed)


def power(kernel: str, shape: dict[str, Any], whole: int, axis: str) -> float:
    """By which power of ``axis`` the warp instructions, ``whole`` of ``shape``, grow as it doubles, or have grown since
    half of it where the kernel refuses the double; 1 where it refuses both."""
    for value in (2 * shape[axis], shape[axis] // 2):
        try:
            other = warp_instructions(kernel, {**shape, axis: value}) if value else whole
        except (UsageError, LaunchError):
            continue
        return round(math.log(other / whole) / math.log(value / shape[axis]), 2) if value else 1.0
    return 1.0


def cost(kernel: str, axes: set[str]) -> dict[str, Any]:
    gpu = load_gpu(GPU)
    default = complete_shape(kernel, {}, gpu)
    whole = warp_instructions(kernel, default)  # and everything is compiled
    powers = {axis: power(kernel, default, whole, axis) for axis in default if axis in axes}
    warm = open_source(kernel, gpu, small=True)
    simulate([each.trace for each in warm.timed], gpu, warm=warm.warm)
    start = time.process_time()
    source = open_source(f"{kernel}:{shape_text(default)}", gpu)
    simulate([each.trace for each in source.timed], gpu, warm=source.warm)
    seconds = time.process_time() - start
    return {"shape": {axis: default[axis] for axis in powers}, "seconds": round(seconds, 4), "powers": powers}


def main(kernels: list[str]) -> None:
    known = json.loads(OUTPUT.read_text()) if OUTPUT.is_file() else {}
    for kernel, axes in sorted(axes_of_networks().items()):
        if not kernels or kernel in kernels:
            known[kernel] = cost(kernel, axes)
            print(kernel, known[kernel], file=sys.stderr, flush=True)
    write_whole(OUTPUT, (json.dumps(dict(sorted(known.items())), indent=1) + "\n").encode())


if __name__ == "__main__":
    main(sys.argv[1:])
