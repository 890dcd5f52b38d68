"""simulate(): traces in, cycles out.

Mental model: a :class:`~gpusim.engine.machine.Machine` of one GPU is built, its caches are warmed as asked for, the
launches run on it one after another, and the sum over them is the result.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from gpusim.engine.chain import at_once
from gpusim.engine.graph import gpu_graph
from gpusim.engine.launch import Observation, Progress, known_instructions
from gpusim.engine.machine import Machine
from gpusim.engine.result import LaunchResult, Result
from gpusim.engine.sampled.iterations import leave_out_iterations
from gpusim.engine.sampled.plan import SAMPLE_INSTRUCTIONS, plan_iterations
from gpusim.engine.sampled.resident import is_resident, leave_out_rest
from gpusim.engine.sampling import behind_sampled, is_worth_sampling, left_out
from gpusim.errors import LaunchError, UsageError
from gpusim.gpus.load import load_gpu
from gpusim.gpus.spec import GpuSpec
from gpusim.io.progress import task
from gpusim.large_pages import large_pages
from gpusim.model.stall_reasons import STALL_NAMES
from gpusim.trace.record import Trace

#: Fewer busy SMs than this are not worth a second thread.
_SMS_WORTH_A_THREAD = 8
#: Fewer warp instructions than this, a tenth of a second, are simulated before clearing large pages for all SMs has
#: paid.
_INSTRUCTIONS_WORTH_LARGE_PAGES = 500_000


def simulate(
    traces: Trace | Sequence[Trace],
    gpu: str | GpuSpec = "h200",
    *,
    warm: Trace | Iterable[Trace] = (),
    code: Trace | Iterable[Trace] = (),
    window_cycles: int | None = None,
    threads: int | None = None,
    order_seed: int | None = None,
    samples: bool = False,
    sample: bool = False,
    sample_instructions: int = SAMPLE_INSTRUCTIONS,
    flush: bool = False,
    overwritten_bytes: int | None = None,
    progress: Progress | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> Result:
    """Predict what the launches of ``traces`` cost, one after another on one machine.

    ``warm``: launches whose footprint the caches (L1 too) hold beforehand; they take no time. ``code``: launches that
    ran before, of which only their machine code is left, in the instruction caches: all data have been swept out since.
    ``flush``: by the writes of a buffer larger than the L2, whose last lines are yet to be written back, as Triton's
    do_bench sweeps it. ``overwritten_bytes``: by a write of so many bytes before each repeat of the launches, which in
    the L2 of so many bytes leaves a share of their lines (:meth:`gpusim.engine.device.Device.overwrite_data`), as
    NVBench's cold measurement does.
    ``window_cycles``: length of the engine's windows, at most :func:`window_limit_cycles`; ``threads``:
    SM groups run in parallel (default: the cores, fewer for small grids); ``order_seed``: visit parts and
    SMs in a shuffled order. None of the three changes the result. ``samples``: keep readings over time (see
    :mod:`gpusim.engine.samples`). ``sample``: leave out the middle of large launches and extrapolate
    (:mod:`gpusim.engine.sampling`; each launch's ``sampling`` says what was done), the rest of a last launch whose
    blocks are all resident (:mod:`gpusim.engine.sampled.resident`), and iterations of loops of launches that were
    captured from a few blocks (:mod:`gpusim.engine.sampled.iterations`), where simulating them takes more than about
    ``sample_instructions`` warp instructions. ``progress(done, blocks)`` is called now and then. Launches that depend
    programmatically on the one before (``Launch.dependent``) overlap with it (:mod:`gpusim.engine.chain`), without
    ``samples`` of them; ``say`` is told why where they do not. Raises UsageError, LaunchError, UnknownGpuError,
    SpecError, TraceFormatError and DeadlockError.
    """
    launches = [traces] if isinstance(traces, Trace | str | os.PathLike) else list(traces)
    strange = [each for each in launches if not isinstance(each, Trace)]
    if strange:
        raise UsageError(f"simulate() takes traces, not {str(strange[0])[:60]!r}: gpusim.Trace.load(path) opens a file")
    if not launches:
        raise UsageError("simulate() needs at least one trace")
    before = [warm] if isinstance(warm, Trace) else list(warm)
    if overwritten_bytes is not None and (flush or overwritten_bytes < 0):
        raise UsageError(f"overwritten_bytes = {overwritten_bytes}: give 0 or more, and flush=True or this, not both")
    ran = [code] if isinstance(code, Trace) else list(code)
    spec = load_gpu(gpu) if isinstance(gpu, str) else gpu
    for trace in (*before, *ran, *launches):
        check_architecture(trace, spec)
    wanted = Observation(samples, sample, progress)
    every = (*ran, *launches)

    def why_apart(trace: Trace) -> str:
        apart = sample and (known_instructions(trace) > sample_instructions or is_worth_sampling(trace, spec))
        return f"{trace.launch.kernel} is sampled" if apart else ""

    with large_pages(_is_long(every)):
        made = Machine(gpu_graph(spec), _thread_count(threads, launches, spec), window_cycles, order_seed)
    with made as machine:
        device = machine.devices[0]
        results = []
        weights = [known_instructions(trace) for trace in every] if len(every) > 1 else [1]
        with task("simulating", len(every), "launches", weights=weights) as shown:
            for done, trace in enumerate(ran, 1):
                machine.launch(trace)
                shown.to(done)
            if flush:
                device.flush_data()
            elif overwritten_bytes is not None:
                device.overwrite_data(launches, overwritten_bytes)
            elif ran:
                device.sweep_data()
            if before:
                device.warm(before, launches[0])
            groups = at_once(launches, say, why_apart)
            chained = {group[0]: group for group in groups if len(group) > 1}
            for i, trace in enumerate(launches):
                keep_l1 = bool(before) and i == 0
                if i < len(results):  # of a chain that has run
                    continue
                if i in chained:
                    chain = [launches[k] for k in chained[i]]
                    grids = machine.launch_chain(chain, keep_l1=keep_l1, wanted=Observation(progress=progress)).grids
                    results += [grid.result for grid in grids]
                    shown.to(len(ran) + len(results))
                    continue
                behind = bool(before) or i > 0
                plan = plan_iterations(trace, spec, sample_instructions, behind) if sample else None
                if plan is None and sample and not samples and i + 1 == len(launches) and is_resident(trace, spec):
                    result = leave_out_rest(trace, machine, keep_l1, wanted)
                elif plan is None:
                    result = machine.launch(trace, keep_l1=keep_l1, wanted=wanted)
                else:
                    result = leave_out_iterations(plan, machine, warmed=behind)
                if trace.regular is not None and result.sampling is not None:
                    sampling = replace(result.sampling, run_blocks=len(trace.regular.held))
                    result = replace(result, sampling=sampling)
                if result.sampling and any(left_out(earlier.sampling) for earlier in results):
                    result = replace(result, sampling=behind_sampled(result.sampling, result.cycles))
                results.append(result)
                shown.to(len(ran) + len(results))
                if left_out(result.sampling) and i + 1 < len(launches):
                    # As the blocks left out would have left the L2; of a launch without all iterations as the simulated
                    # part did.
                    device.warm([plan.part() if plan else trace], launches[i + 1])
    return summed(spec, results, machine.windows)


def check_architecture(trace: Trace, spec: GpuSpec) -> None:
    """Refuse a trace whose machine code would not run there: it runs on its own compute capability and on later minor
    versions of it."""
    (major, minor), runs = trace.launch.capability, spec.capability
    if major != runs[0] or minor > runs[1]:
        have, want = (".".join(map(str, c)) for c in (trace.launch.capability, spec.capability))
        raise LaunchError(
            f"{trace.launch.kernel}: the trace holds machine code for compute capability {have}, "
            f"{spec.name} runs {want}; simulate it on a GPU of its own ({trace.launch.gpu or have}), or capture it for {spec.name}"
        )


def _is_long(traces: Iterable[Trace]) -> bool:
    """Whether the launches take so long that large pages are worth their clearing."""
    instructions = 0
    for trace in traces:
        known = known_instructions(trace)
        instructions += known or _INSTRUCTIONS_WORTH_LARGE_PAGES  # read as it runs: many, as a rule
        if instructions >= _INSTRUCTIONS_WORTH_LARGE_PAGES:
            return True
    return False


def window_limit_cycles(spec: GpuSpec) -> int:
    """Longest window that is exact: the least latency of any message between parts, in whole cycles."""
    return gpu_graph(spec).window_limit_cycles


def _thread_count(threads: int | None, launches: list[Trace], spec: GpuSpec) -> int:
    if threads is not None:
        if threads < 1:
            raise UsageError(f"threads = {threads}; give 1 or more")
        return min(threads, spec.sm_count)
    busy = min(spec.sm_count, max(trace.launch.blocks for trace in launches))
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(cores, busy // _SMS_WORTH_A_THREAD))


#: Counters that are no sums over launches.
_NOT_SUMMED = ("pct", "launch__occupancy_limit", ".max")


def summed(spec: GpuSpec, launches: list[LaunchResult], windows: int) -> Result:
    """Launches on one machine as one run; ``windows`` of the engine that it took."""
    counters: dict[str, float] = {}
    for launch in launches:
        for name, value in launch.counters.items():
            if any(part in name for part in _NOT_SUMMED) and name in counters:
                counters[name] = max(counters[name], value)
            else:
                counters[name] = counters.get(name, 0) + value
    cycles = sum(launch.cycles for launch in launches)
    counters["sm__cycles_elapsed.max"] = cycles
    return Result(
        gpu=spec.name,
        kernel=launches[-1].kernel,
        cycles=cycles,
        clock_hz=spec.clock_hz,
        counters=counters,
        stalls={name: sum(launch.stalls[name] for launch in launches) for name in STALL_NAMES},
        launches=tuple(launches),
        spec=spec,
        windows=windows,
    )
