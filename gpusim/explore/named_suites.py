"""Suites by name on a command line: a pinned suite or a suite file stands for the workloads in it.

Mental model: wherever KERNEL[:axis=value,...] is taken, the name of a pinned suite or a file of ``gpusim suite make``
may stand instead. A suite file names the GPU that its workloads were chosen on; they are run on whichever GPU the
command asks for, so axes that describe the machine are left to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gpusim.cases.names import kernel_names
from gpusim.cases.networks import pinned_suites
from gpusim.cases.suite import MACHINE_AXES, parse_request, shape_text, split_workload
from gpusim.explore.choose import load_suite


def expand_suites(texts: Sequence[str]) -> list[str]:
    """``texts`` with each suite replaced by its workloads, each once, in order. Raises UsageError for a file that is no
    suite."""
    pinned = pinned_suites() if any(":" not in text for text in texts) else {}
    found: list[str] = []
    for text in texts:
        if text.endswith(".json") and Path(text).is_file():
            found += [portable(choice.workload) for choice in load_suite(Path(text))]
        elif text in pinned and text not in kernel_names():
            found += [named(kernel, dict(shape)) for kernel, shape in pinned[text]]
        else:
            found.append(text)
    return list(dict.fromkeys(found))


def portable(workload: str) -> str:
    """``kernel:axis=value,... @ gpu`` as a request for any GPU."""
    kernel, shape, _ = split_workload(workload)
    axes = parse_request(f"{kernel}:{shape}")[1] if shape else {}
    return named(kernel, {axis: value for axis, value in axes.items() if axis not in MACHINE_AXES})


def named(kernel: str, shape: dict) -> str:
    """The request for ``kernel`` at ``shape``."""
    return f"{kernel}:{shape_text(shape)}" if shape else kernel
