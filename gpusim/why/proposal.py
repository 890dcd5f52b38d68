"""What a rule of remedies proposes, and from which share on it speaks.

Mental model: a proposal is a change in a developer's words together with the counterfactual that measures it: the
trace, the program, the launch or the machine as it would be after the change, all else as it is. What a counterfactual
leaves out (registers that the change costs, loop overhead that it saves) is not in its figure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from gpusim.gpus.spec import GpuSpec
from gpusim.trace.record import Trace
from gpusim.why.counterfactuals import COUNTERFACTUALS, Counterfactual
from gpusim.why.evidence import Evidence

#: Iterations whose loads an unrolled loop has in flight together, and elements that a thread takes in place of one.
UNROLL = 4
#: A rule speaks of what takes this share of the warp-cycles, or of the time, at least.
LEAST_PERCENT = 5.0


@dataclass(frozen=True)
class Proposal:
    """A change worth simulating. ``problem`` at ``place`` (``file:line`` or empty), ``advice`` against it, and ``how``
    it is simulated; ``weight``: percent of the time or of the warp-cycles that it is about, to try the weightiest
    first. ``trace`` and ``gpu`` make the changed launches and machine; ``cycles`` makes of a changed launch's cycles
    those that count; ``warm_code``: the machine code is in the instruction caches. ``at_most``: the change removes the
    whole cost, which no rewriting does, so that its figure is a limit."""

    rule: str
    weight: float
    place: str
    problem: str
    advice: str
    how: str
    trace: Callable[[Trace], Trace] = lambda trace: trace
    gpu: Callable[[GpuSpec], GpuSpec] = lambda spec: spec
    cycles: Callable[[int, Trace, Trace], int] = lambda cycles, _old, _new: cycles
    warm_code: bool = False
    at_most: bool = False


@dataclass(frozen=True)
class Rule:
    """``looks_at``: the stall reason or limiter; ``find`` gives proposals for a kernel."""

    name: str
    looks_at: str
    find: Callable[[Evidence], Iterator[Proposal]]


def counterfactual(unit: str) -> Counterfactual:
    """The one that makes ``unit`` free."""
    return next(one for one in COUNTERFACTUALS if one.unit == unit)
