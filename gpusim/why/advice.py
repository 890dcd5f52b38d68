"""Remedies with their estimated saving: each proposal of the rules simulated, and what it saves said in a sentence.

Mental model: ask the rules, re-simulate the run with each proposal's change, weightiest first, and keep those that save
time. The saving is of the whole run. Savings of two remedies do not add up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gpusim.engine.gpu import simulate
from gpusim.engine.result import Result
from gpusim.errors import DeadlockError, LaunchError
from gpusim.trace.record import Trace
from gpusim.why.evidence import evidence, identity
from gpusim.why.proposal import Proposal
from gpusim.why.remedies import proposals

#: A remedy that saves less is not worth a line.
LEAST_SAVED_PERCENT = 2.0
#: Proposals that are simulated where the caller does not say how many.
MOST_PROPOSALS = 8
#: Warp instructions that :func:`quick_advice` simulates in all: a second or two on two cores.
QUICK_WARP_INSTRUCTIONS = 4_000_000
QUICK_PROPOSALS = 4


@dataclass(frozen=True)
class Remedy:
    """A change that saves ``saved_percent`` of the run's time, by a simulation that took ``cycles``."""

    rule: str
    place: str
    problem: str
    advice: str
    how: str
    cycles: int
    saved_percent: float
    at_most: bool

    @property
    def sentence(self) -> str:
        """``one load in flight at softmax.py:76: unroll by 4: about -30 %``."""
        about = "at most" if self.at_most else "about"
        return f"{_said(self.problem, self.place, self.advice)}: {about} -{self.saved_percent:.2g} %"


@dataclass(frozen=True)
class Advice:
    """``remedies`` by falling saving; ``tried`` proposals were simulated, ``untried`` ones were not, the weightiest
    first: as sentences without a figure."""

    remedies: tuple[Remedy, ...]
    tried: int
    untried: tuple[str, ...]


def advise(
    traces: Sequence[Trace],
    result: Result,
    *,
    warm: Sequence[Trace] = (),
    sample: bool = False,
    most: int = MOST_PROPOSALS,
    progress: Callable[[str], None] = lambda line: None,
) -> Advice:
    """Remedies for ``result``, which is ``simulate(traces, result.spec, warm=warm, sample=sample)``: what would make
    the kernel that takes longest faster, each simulated (``most`` of them at most). Raises as
    :func:`gpusim.engine.gpu.simulate`."""
    own = evidence(result, traces)
    every = proposals(own)
    tried = every[:most]
    remedies = []
    for number, proposal in enumerate(tried, 1):
        remedy = _try(proposal, traces, identity(own.traces[0]), result, warm, sample)
        if remedy is not None:
            progress(f"[{number:>2}/{len(tried)}] {remedy.problem}: {remedy.cycles} cycles")
            if remedy.saved_percent >= LEAST_SAVED_PERCENT:
                remedies.append(remedy)
    remedies.sort(key=lambda remedy: -remedy.saved_percent)
    return Advice(tuple(remedies), len(tried), tuple(_said(p.problem, p.place, p.advice) for p in every[most:]))


def quick_advice(traces: Sequence[Trace], result: Result, *, warm: Sequence[Trace] = ()) -> Advice:
    """:func:`advise` with as many proposals as cost little. How many depends on the run's warp instructions alone, so
    that the same run always gets the same answer; none are tried where one alone would cost too much."""
    instructions = max(1, int(result.counters["smsp__inst_executed.sum"]))
    most = min(QUICK_PROPOSALS, QUICK_WARP_INSTRUCTIONS // instructions)
    return advise(traces, result, warm=warm, most=most)


def _said(problem: str, place: str, advice: str) -> str:
    return f"{problem}{' at ' if place else ''}{place}: {advice}"


def _try(
    proposal: Proposal,
    traces: Sequence[Trace],
    kernel: tuple[str, str],
    result: Result,
    warm: Sequence[Trace],
    sample: bool,
) -> Remedy | None:
    changed = [proposal.trace(trace) if identity(trace) == kernel else trace for trace in traces]
    spec = proposal.gpu(result.spec)
    code = [trace for trace in traces if identity(trace) == kernel][:1] if proposal.warm_code else ()
    try:
        launches = simulate(changed, spec, warm=warm, code=code, sample=sample).launches
    except (LaunchError, DeadlockError):
        return None  # the changed launch does not fit the machine
    cycles = sum(
        proposal.cycles(launch.cycles, old, new) for launch, old, new in zip(launches, traces, changed, strict=True)
    )
    saved = 100.0 * (result.cycles - cycles) / result.cycles
    return Remedy(
        proposal.rule, proposal.place, proposal.problem, proposal.advice, proposal.how, cycles, saved, proposal.at_most
    )
