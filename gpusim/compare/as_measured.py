"""Launches as a measuring method finds them, and what it would report: simulation in the state in which it brings the
caches.

Mental model: a method (:mod:`gpusim.silicon.methods`) repeats the same launches, and brings the caches into the same
state before each repeat; one repeat in that state is simulated, and what the method's clock reads besides the launches
is added.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from gpusim.engine.gpu import simulate, summed
from gpusim.engine.result import Result
from gpusim.gpus.spec import GpuSpec
from gpusim.silicon.methods import ALONE, FLUSHED, OVERWRITTEN, MeasuringMethod
from gpusim.trace.record import Trace


@dataclass(frozen=True)
class Reported:
    """``time_us``: what ``method`` would report of the launches of ``result``, of which ``besides_us`` are not
    theirs."""

    method: MeasuringMethod
    result: Result
    besides_us: float

    @property
    def time_us(self) -> float:
        """Microseconds, at the clock of the description."""
        return self.result.time_us + self.besides_us

    @property
    def text(self) -> str:
        """One line."""
        besides = f", {self.besides_us:.1f} of them for {self.method.added}" if self.method.added else ""
        return f"{self.method.name} would report {self.time_us:.2f} us{besides} ({self.method.reports})"

    @property
    def document(self) -> dict[str, Any]:
        """As JSON holds it."""
        return {
            "method": self.method.name,
            "time_us": self.time_us,
            "besides_us": self.besides_us,
            "state": self.method.state,
        }


def simulate_as(
    method: MeasuringMethod,
    launches: Sequence[Trace],
    spec: GpuSpec,
    *,
    before: Sequence[Trace] = (),
    sample: bool = False,
    say: Callable[[str], None] = lambda line: None,
) -> Reported:
    """What ``method`` would report of ``launches``, which it times together. ``before``: launches that prepare their
    data, once; what they leave in L2 is seen only by a method that sweeps nothing. ``sample`` and ``say``, and what is
    raised, as in :func:`gpusim.simulate`."""
    timed = list(launches)
    if method.state == ALONE:
        results = [simulate(trace, spec, sample=sample, say=say) for trace in timed]
        result = summed(spec, [result.launches[0] for result in results], sum(result.windows for result in results))
    elif method.state == OVERWRITTEN:
        result = simulate(timed, spec, code=timed, sample=sample, say=say, overwritten_bytes=spec.l2.total_bytes)
    elif method.state == FLUSHED:
        result = simulate(timed, spec, code=timed, sample=sample, say=say, flush=True)
    else:
        twice = simulate([*timed, *timed], spec, warm=tuple(before), sample=sample, say=say)
        result = summed(spec, list(twice.launches[-len(timed) :]), twice.windows)
    return Reported(method, result, method.besides_us(result.clock_hz, len(timed), spec.generation))
