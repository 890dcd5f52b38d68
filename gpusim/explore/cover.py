"""From a workload's name to its coverage: capture, simulate, observe.

Mental model: :func:`cover` is what every search and command does with one shape: all its timed launches run on one
machine, after its preparation has warmed the caches, and each is observed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gpusim.cases.run_case import run_case
from gpusim.cases.suite import CaseTrace, complete_shape, shape_text
from gpusim.engine.gpu import simulate
from gpusim.engine.result import Result
from gpusim.explore.coverage import Coverage
from gpusim.explore.observe import observe
from gpusim.gpus.spec import GpuSpec
from gpusim.trace.record import Trace


@dataclass(frozen=True)
class Covered:
    """A workload that ran: its complete name, the timed traces, the simulation and what it covers; ``checked``: whether
    a check has found its result right."""

    workload: str
    traces: tuple[Trace, ...]
    warm: tuple[Trace, ...]
    result: Result
    coverage: Coverage
    checked: bool = False


def workload_name(kernel: str, shape: Mapping[str, Any], gpu: GpuSpec) -> str:
    """``kernel:axis=value,... @ gpu`` with every axis, so that the name alone runs it again."""
    return f"{kernel}:{shape_text(complete_shape(kernel, dict(shape), gpu))} @ {gpu.name}"


def cover(kernel: str, shape: Mapping[str, Any], gpu: GpuSpec, *, threads: int | None = None) -> Covered:
    """Run ``kernel`` of the suite at ``shape`` (axes left out keep their defaults) and observe its timed launches.

    ``threads`` as in :func:`gpusim.engine.gpu.simulate`. Raises what capture and simulation raise, and
    WrongResultError where the case's check finds its result wrong.
    """
    full = complete_shape(kernel, dict(shape), gpu)
    ran = run_case(kernel, full, gpu)
    covered = cover_captured(workload_name(kernel, full, gpu), ran.launches, gpu, threads=threads)
    return replace(covered, checked=ran.checked)


def cover_captured(name: str, launches: Sequence[CaseTrace], gpu: GpuSpec, *, threads: int | None = None) -> Covered:
    """The same for launches that have been captured already, under the workload's ``name``."""
    timed = tuple(launch.trace for launch in launches if launch.timed)
    warm = tuple(launch.trace for launch in launches if not launch.timed)
    result = simulate(timed, gpu, warm=warm, threads=threads)
    observed = (
        Coverage.of(observe(trace, launch, gpu), name, int(launch.counters["smsp__inst_executed.sum"]))
        for trace, launch in zip(timed, result.launches, strict=True)
    )
    return Covered(name, timed, warm, result, Coverage().merge(*observed))
