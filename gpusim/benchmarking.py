"""How long a piece of Python that launches kernels takes on a described GPU: :func:`bench`, for those who know Triton's
do_bench.

Mental model: the function is called once, with every launch that it writes (``kernel[grid, block](*args)``) run by the
emulator, in order, on NumPy arrays; what they cost is simulated afterwards on one machine, as a benchmark would find
it: the machine code in the instruction caches, the data swept out of the L2 by a buffer that was zeroed and is not yet
written back. A prediction has no noise, so once is enough.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, overload

from gpusim.capturing import capture
from gpusim.cases.case_forms import as_case
from gpusim.engine.gpu import simulate
from gpusim.engine.result import Result
from gpusim.errors import UsageError
from gpusim.frontend.registry import launching
from gpusim.gpus.load import load_gpu
from gpusim.gpus.spec import GpuSpec
from gpusim.launch.memory import DeviceMemory
from gpusim.trace.record import Trace

#: How do_bench sums up its repetitions; of a prediction all are the same. The last is ours.
RETURN_MODES = ("min", "max", "mean", "median", "all", "interval")


@dataclass(frozen=True)
class Benched:
    """A call that was captured and simulated: what it ``returned``, its launches' ``traces``, and what they cost."""

    returned: Any
    traces: tuple[Trace, ...]
    result: Result


def run_and_simulate(work: Callable[[], Any], gpu: str | GpuSpec = "h200", *, sample: bool = False) -> Benched:
    """Call ``work`` with its launches on the emulator, then simulate them from an L2 that another buffer fills.

    ``work`` may launch kernels itself, or return launches as a case does: ``(kernel, grid, block, args)``. ``sample``
    as in :func:`gpusim.simulate`. Raises UsageError if it does neither, what ``work`` raises, and what
    :func:`gpusim.capture` and :func:`gpusim.simulate` raise.
    """
    spec = load_gpu(gpu) if isinstance(gpu, str) else gpu
    memory, traces = DeviceMemory(), []

    def take(kernel: Any, grid: Any, block: Any, args: tuple, shared_bytes: int) -> None:
        traces.append(capture(kernel, grid, block, args, gpu=spec, shared_bytes=shared_bytes, memory=memory))

    with launching(take):
        returned = work()
    name = getattr(work.func if isinstance(work, partial) else work, "__name__", type(work).__name__)
    if not traces:
        if returned is None:
            raise UsageError(
                f"{'the function' if name == '<lambda>' else name} launched no kernel: write kernel[grid, block](*args) in it, or return (kernel, grid, block, args)"
            )
        for one in as_case(name, returned).launches:
            take(one.kernel, one.grid, one.block, one.args, one.shared_bytes)
    return Benched(returned, tuple(traces), simulate(traces, spec, code=traces, sample=sample, flush=True))


@overload
def bench(
    fn: Callable[[], Any],
    warmup: int = ...,
    rep: int = ...,
    *,
    quantiles: None = ...,
    return_mode: Literal["min", "max", "mean", "median"] = ...,
    gpu: str | GpuSpec = ...,
    sample: bool = ...,
) -> float: ...
@overload
def bench(
    fn: Callable[[], Any],
    warmup: int = ...,
    rep: int = ...,
    *,
    quantiles: Sequence[float] | None = ...,
    return_mode: str = ...,
    gpu: str | GpuSpec = ...,
    sample: bool = ...,
) -> float | list[float]: ...
def bench(
    fn: Callable[[], Any],
    warmup: int = 25,
    rep: int = 100,
    *,
    quantiles: Sequence[float] | None = None,
    return_mode: str = "mean",
    gpu: str | GpuSpec = "h200",
    sample: bool = False,
) -> float | list[float]:
    """Milliseconds that the launches of ``fn()`` take together on ``gpu``, as ``triton.testing.do_bench`` measures
    them.

    ``fn`` takes no arguments and launches kernels on NumPy arrays, or returns ``(kernel, grid, block, args)``; it is
    called once. As with do_bench, the first of the launches finds its machine code in the instruction caches, and an L2
    full of the lines of a buffer that was zeroed to sweep it: they have yet to be written back, which takes some of
    DRAM's bandwidth. What the two events read besides, about 4 us (:data:`gpusim.silicon.methods.UNHELD_EVENTS_US`), is
    left out: it is none of the launches'. ``warmup`` and ``rep`` (milliseconds to spend) are taken so that calls
    written for do_bench stay as they are: a prediction is the same every time. ``quantiles``: a list of as many equal
    figures (one alone: the figure);
    ``return_mode``: "min", "max", "mean" or "median" give the figure, "all" a list of it; "interval", which do_bench
    has not, the list of the low end of its prediction interval (:mod:`gpusim.uncertainty`), the figure, and the high
    end. ``sample`` as in :func:`gpusim.simulate`: for large launches.

    Raises UsageError if no kernel was launched or for an unknown mode, and what :func:`gpusim.capture` and
    :func:`gpusim.simulate` raise. Source: triton/testing.py, ``do_bench``.
    """
    if return_mode not in RETURN_MODES:
        raise UsageError(f"return_mode = {return_mode!r}; give one of {', '.join(RETURN_MODES)}")
    if warmup < 0 or rep < 0:
        raise UsageError(f"warmup = {warmup}, rep = {rep}: milliseconds are not negative")
    if quantiles is not None and not all(0 <= each <= 1 for each in quantiles):
        raise UsageError(f"quantiles = {list(quantiles)!r}; give shares between 0 and 1")
    result = run_and_simulate(fn, gpu, sample=sample).result
    time_ms = result.time_us / 1e3
    if return_mode == "interval":
        return [result.interval.low_us / 1e3, time_ms, result.interval.high_us / 1e3]
    if quantiles is not None:
        return [time_ms] * len(quantiles) if len(quantiles) > 1 else time_ms
    return [time_ms] if return_mode == "all" else time_ms
