"""What a command line calls SOURCE: a trace file, a kernel of the suite as NAME[:axis=value,...], or a case in a file
of the user's own as FILE.py:FUNCTION[:parameter=value,...].

Mental model: a source gives launches to time, each with the name, shape and index by which its result is found again
(in the store, in another run, among measurements), and launches that only warm the caches before them. A trace file
knows no shape: it goes by its function's name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gpusim.cases.names import is_path
from gpusim.cases.run_case import run_case
from gpusim.cases.suite import complete_shape, parse_request, shape_text
from gpusim.engine.result import Result
from gpusim.errors import UsageError
from gpusim.gpus.spec import GpuSpec
from gpusim.store.hashes import trace_hash
from gpusim.store.launch import SimulatedLaunch, launch_record
from gpusim.theory.bounds import lower_bounds
from gpusim.trace.record import Trace


@dataclass(frozen=True)
class NamedTrace:
    """A launch to time: ``kernel`` and ``shape`` as :class:`gpusim.silicon.row.SiliconRow` has them, and its index
    among the timed launches of its source that are called so."""

    trace: Trace
    kernel: str
    shape: str = ""
    launch: int = 0


@dataclass(frozen=True)
class Source:
    """``timed`` launches in order, and the ``warm`` ones that come before them. ``unchecked``: why nobody knows whether
    the kernel computed the right result, empty where its check has said so. ``work``: what the timed launches do, as
    the case counts it (``bytes_read``, ``flops`` ...)."""

    timed: tuple[NamedTrace, ...]
    warm: tuple[Trace, ...] = ()
    unchecked: str = ""
    work: Mapping[str, float] = field(default_factory=dict)


def open_source(
    text: str, spec: GpuSpec, *, small: bool = False, instruction_limit: int | None = None, sample: bool = False
) -> Source:
    """The launches of ``text``; a kernel of the suite is captured for ``spec``, from its ``small`` shape if asked to,
    and its check is run; ``instruction_limit`` as in :func:`gpusim.capturing.capture`, for each launch of it, as is
    ``sample``. Raises WrongResultError where the check finds the result wrong, and as making and capturing do."""
    path = Path(text)
    if path.is_file():
        if path.suffix == ".py":
            raise UsageError(f"{text} is a Python file: name a function in it that makes a launch, {text}:FUNCTION")
        trace = Trace.load(path)
        return Source((NamedTrace(trace, trace.launch.kernel),), unchecked="a trace carries no result")
    name, shape = parse_request(text)
    if path.is_dir():
        raise UsageError(f"{text} is a folder; name its trace files one by one")
    if is_path(name):
        raise UsageError(f"there is no trace file {text}")
    whole = shape_text(complete_shape(name, shape, spec, small=small))
    ran = run_case(name, shape, spec, small=small, instruction_limit=instruction_limit, sample=sample)
    timed = [launch.trace for launch in ran.launches if launch.timed]
    return Source(
        tuple(NamedTrace(trace, name, whole, index) for index, trace in enumerate(timed)),
        tuple(launch.trace for launch in ran.launches if not launch.timed),
        ran.why_unchecked,
        ran.work,
    )


def refuse_mistakes(texts: Sequence[str], spec: GpuSpec, *, small: bool = False) -> None:
    """Raise for what :func:`open_source` would refuse by its name or shape, before any of ``texts`` costs time."""
    for text in texts:
        if not Path(text).exists():
            name, shape = parse_request(text)
            if is_path(name):
                raise UsageError(f"there is no trace file {text}")
            complete_shape(name, shape, spec, small=small)


def least_cycles(traces: Sequence[Trace], index: int, spec: GpuSpec, *, warmed: bool) -> dict[str, float]:
    """Lower bounds by unit of launch ``index`` of ``traces``; only a first launch that nothing has ``warmed`` must
    read DRAM."""
    return lower_bounds(traces[index], spec, cold=index == 0 and not warmed).cycles


def launch_records(
    result: Result, named: Sequence[NamedTrace], bounds: Sequence[dict[str, float]] | None = None
) -> list[SimulatedLaunch]:
    """What a store keeps of ``result``, the simulation of ``named`` in this order. Launches of equal names are
    numbered on. ``bounds``: lower bounds by unit, launch by launch."""
    bounds = [{}] * len(named) if bounds is None else bounds
    seen: dict[tuple[str, str], int] = {}
    records = []
    for launch, what, least in zip(result.launches, named, bounds, strict=True):
        key = (what.kernel, what.shape)
        number = seen[key] = seen.get(key, -1) + 1
        records.append(
            launch_record(
                launch,
                result.spec,
                kernel=what.kernel,
                shape=what.shape,
                launch=number,
                trace_hash=trace_hash(what.trace),
                least_cycles=least,
            )
        )
    return records
