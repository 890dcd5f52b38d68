"""A claim about a case: what its launches need at the least, what they are predicted to take, and what its trials and
references say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpusim.cases.requests import parse_request
from gpusim.cases.run_case import check_result
from gpusim.cases.suite import make_case
from gpusim.cases.user_kernels import case_function, guarded
from gpusim.claims.bound import unit_bounds
from gpusim.claims.finding import ClaimFinding
from gpusim.claims.references import compare_with_case, compare_with_function
from gpusim.claims.trials import Trials, try_case
from gpusim.claims.verdict import JudgedClaim, judge_claim
from gpusim.engine.gpu import simulate
from gpusim.errors import UsageError
from gpusim.gpus.spec import GpuSpec
from gpusim.launch.instruction_limit import DEFAULT_INSTRUCTION_LIMIT
from gpusim.trace.record import Trace


@dataclass(frozen=True)
class Claim:
    """``request`` is claimed to take ``time_us`` on ``spec``; ``warm``: its data may be in L2 when it begins, as in a
    loop that times it; else L2 was swept. ``reference``: FILE.py:FUNCTION; ``against``: another case; ``tolerance``:
    relative, None for the result's type's own."""

    request: str
    time_us: float
    spec: GpuSpec
    small: bool = False
    warm: bool = True
    reference: str = ""
    against: str = ""
    tolerance: float | None = None
    seed: int = 0
    limit: int = DEFAULT_INSTRUCTION_LIMIT


def check_claim(claim: Claim) -> JudgedClaim:
    """The verdict on ``claim``. Raises UsageError for a reference that does not fit, and what making and capturing the
    case raise."""
    name, _ = parse_request(claim.request)
    function = _reference(claim.reference) if claim.reference else None
    trials = try_case(
        _maker(claim.request, claim),
        claim.spec,
        claim.limit,
        lambda case: check_result(case, name, claim.spec),
        seed=claim.seed,
    )
    findings = [*trials.findings, *_referred(claim, trials, function)]
    checked = claim.reference or claim.against or ("the case's own check" if trials.is_checked else "")
    return judge_traces(
        claim.time_us, claim.spec, trials.first.timed, trials.first.untimed, findings, warm=claim.warm, checked=checked
    )


def judge_traces(
    time_us: float, spec: GpuSpec, timed: Sequence[Trace], before: Sequence[Trace], findings: Sequence[ClaimFinding], *,
    warm: bool, checked: str = "",
) -> JudgedClaim:  # fmt: skip
    """The verdict on a claim of launches that are known by their traces; ``before``: launches that are not timed."""
    bounds = unit_bounds(timed, spec, warm=warm or bool(before))
    result = simulate(list(timed), spec, warm=[*before, *(timed if warm else ())])
    return judge_claim(time_us, bounds, result.time_us, result.interval, findings, checked)


def _maker(request: str, claim: Claim) -> Callable[[], Any]:
    name, shape = parse_request(request)
    return lambda: make_case(name, shape, claim.spec, small=claim.small)


def _referred(claim: Claim, trials: Trials, function: Callable[..., Any] | None) -> list[ClaimFinding]:
    """What the references say, of other contents than the case's own where there are any."""
    call = trials.changed or trials.as_given
    found: list[ClaimFinding] = []
    if function is not None:
        found += compare_with_function(function, call, trials.arrays, claim.tolerance)
    if claim.against:
        if Path(claim.against).suffix == ".trace":
            raise UsageError(
                f"{claim.against}: a trace computes nothing; name a kernel of the suite or FILE.py:FUNCTION"
            )
        found += compare_with_case(
            _maker(claim.against, claim), claim.spec, claim.limit, call, trials.arrays, claim.tolerance
        )
    return found


def _reference(reference: str) -> Callable[..., Any]:
    """The function that ``reference`` names; an error in it names it."""
    function = case_function(reference)
    return lambda *arguments: guarded(reference, lambda: function(*arguments))
