"""A history: one figure of one launch over commits, simulated or measured, with everything that identifies each point.

Mental model: points stand in the order of their commits. What may move a value beside the kernel itself (compiler, GPU
description, gpusim's version; of a measurement also driver, host, device and the state of its clock) is the *method*,
and is kept beside each value, so that a change of it is never blamed on a commit.
"""

from __future__ import annotations

from dataclasses import dataclass, field

#: What a value was got with: a difference in one of these is a change of method. In the order in which a cause is
#: named.
METHOD = ("toolchain", "gpu_hash", "model", "gpusim", "driver", "host", "device", "clock", "timer")


@dataclass(frozen=True)
class Point:
    """``value``: NaN where nothing was got; ``method``: names of :data:`METHOD` to what they were, of those that are
    known;
    ``cubin``: hash of the machine code, "" where unknown."""

    commit: str
    value: float
    method: dict[str, str] = field(default_factory=dict)
    cubin: str = ""


@dataclass(frozen=True)
class History:
    """``points``, oldest first. ``measured``: its values have noise. ``unit``: of its values, "" where unknown.
    ``groups``: names of what it belongs to (a kernel, a GPU): one change may move all of a group a little."""

    name: str
    points: tuple[Point, ...]
    measured: bool = False
    unit: str = ""
    groups: tuple[str, ...] = ()


def method_change(before: Point, after: Point) -> tuple[str, ...]:
    """Names of what differs in the method of two points; what only one of them names is no difference."""
    known = (name for name in METHOD if name in before.method and name in after.method)
    return tuple(name for name in known if before.method[name] != after.method[name])
