"""What a .ncu-rep holds, printed as JSON by a process of its own: ``python -m gpusim.silicon.imports.ncu_report_process
FILE``.

Mental model: NVIDIA's module is C++ that ends its process on some damaged files (a failed check of Protocol Buffers),
so it never runs in the process that asks. Printed is a list of profiles, as :mod:`gpusim.silicon.imports.profile` has
them; what Python can report of a file that cannot be read goes to stderr as one line, with exit code 1.
"""

from __future__ import annotations

import dataclasses
import importlib
import json
import sys
from typing import Any

from gpusim.io.memory_limit import limited_memory
from gpusim.silicon.imports.ncu_csv import DEVICE_NAME
from gpusim.silicon.imports.numbers import base_factor
from gpusim.silicon.imports.profile import Profile

interface: Any = importlib.import_module("ncu_report")  # it has no types
MAX_LAUNCHES = 1_000_000
_GRID = tuple(f"launch__grid_dim_{axis}" for axis in "xyz")
_BLOCK = tuple(f"launch__block_dim_{axis}" for axis in "xyz")


def profiles_of(path: str) -> list[Profile]:
    """Every launch in the report at ``path``. Raises what the module raises, ValueError for too many."""
    report = interface.load_report(path)  # pyright: ignore[reportCallIssue] - its stub wants a second argument
    profiles = []
    for i in range(report.num_ranges()):
        actions = report.range_by_idx(i)
        for j in range(actions.num_actions()):
            action = actions.action_by_idx(j)
            if action.workload_type() != interface.IAction.WorkloadType_KERNEL:
                continue  # a graph or a range: many kernels under one name
            profiles.append(_profile(action))
            if len(profiles) > MAX_LAUNCHES:
                raise ValueError(f"more than {MAX_LAUNCHES} launches are refused")
    return profiles


def _profile(action: Any) -> Profile:
    profile = Profile(str(action.name()))
    for name in action.metric_names():
        metric = action.metric_by_name(name)
        if metric is None:
            continue
        value = metric.value()
        if name == DEVICE_NAME and isinstance(value, str):
            profile.device_name = value
        elif isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < float("inf"):
            profile.metrics[name] = float(value) * base_factor(metric.unit() or "")
    profile.grid, profile.block = _dimensions(profile, _GRID), _dimensions(profile, _BLOCK)
    return profile


def _dimensions(profile: Profile, names: tuple[str, ...]) -> tuple[int, int, int] | None:
    found = tuple(int(profile.metrics[name]) for name in names if name in profile.metrics)
    return (found[0], found[1], found[2]) if len(found) == 3 else None


def main(path: str) -> int:
    """Print the profiles; the exit code."""
    try:
        with limited_memory():
            found = profiles_of(path)
        text = json.dumps([dataclasses.asdict(profile) for profile in found])
    except Exception as error:  # the module raises what its C++ raised
        print(" ".join(str(error).split())[:300], file=sys.stderr)
        return 1
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
