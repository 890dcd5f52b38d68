"""A kernel that is slower on one GPU than on all others.

Mental model: rows of the same kernel and shape on at least three GPUs are laid side by side. A GPU is told where (1)
its quartiles are each above those of every other GPU by more than the sketch's error and MIN_RATIO, and (2) a rank test
(Mann-Whitney's, on the sketches' bins with ties) of its launches against those of all others rejects chance at ALPHA,
Holm-corrected over all kernels and GPUs. Launches of one run depend on each other, so that (1), which more launches do
not make easier, is asked first. Kernels of collectives are left out: they last as long as others let them wait.

Sources: Mann and Whitney 1947; the normal approximation with its correction for ties, as scipy.stats.mannwhitneyu's
asymptotic method has it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable

import msgspec
from scipy.stats import norm

from gpusim.production.facts import Evidence, Fact
from gpusim.production.imports.assembly import is_communication
from gpusim.production.launches import Launch, LaunchTotal, summed
from gpusim.record.sketch import merged, quantile_ns

ALPHA = 0.01
#: A guess at what is worth a look; the sketch's own error is 1 % on each side.
MIN_RATIO = 1.05
LEAST_GPUS, LEAST_LAUNCHES = 3, 8
QUARTILES = (0.25, 0.5, 0.75)
MOST_FACTS = 100
Place = tuple[int, str]


def slower_facts(totals: Iterable[LaunchTotal]) -> list[Fact]:
    """Those that cost most first."""
    by_kernel: dict[Launch, dict[Place, LaunchTotal]] = defaultdict(dict)
    for total in summed(_without_phase(totals)).values():
        bare = msgspec.structs.replace(total.what, rank=-1, device="")
        by_kernel[bare][total.what.rank, total.what.device] = total
    tested, candidates = 0, []
    for launch, places in by_kernel.items():
        places = {place: total for place, total in places.items() if total.timed >= LEAST_LAUNCHES}
        if len(places) < LEAST_GPUS or launch.collective is not None or is_communication(launch.kernel):
            continue
        tested += len(places)
        quartiles = {place: [quantile_ns(t.bins, q) or 0.0 for q in QUARTILES] for place, t in places.items()}
        for place, own in quartiles.items():
            rest = [max(other[i] for at, other in quartiles.items() if at != place) for i in range(len(QUARTILES))]
            if all(mine > MIN_RATIO * most for mine, most in zip(own, rest)):
                candidates.append((_p_greater(places, place), launch, place, places, quartiles))
    candidates.sort(key=lambda each: each[0])
    facts = []
    for i, (p, launch, place, places, quartiles) in enumerate(candidates):
        if (corrected := p * (tested - i)) > ALPHA:
            break
        facts.append(_fact(corrected, launch, place, places, quartiles))
    return sorted(facts, key=lambda fact: -fact.numbers["cost_ns"])[:MOST_FACTS]


def _without_phase(totals: Iterable[LaunchTotal]) -> Iterable[LaunchTotal]:
    for total in totals:
        if total.timed and total.what.kind == "kernel":
            what = msgspec.structs.replace(total.what, phase="", operator="", shapes="", dtypes="", stream_kind="")
            yield msgspec.structs.replace(total, what=what)


def _p_greater(places: dict[Place, LaunchTotal], place: Place) -> float:
    """Of the launches on ``place`` being no slower than those elsewhere."""
    own, rest = places[place].bins, {}
    for at, total in places.items():
        if at != place:
            rest = merged(rest, total.bins)
    n, m = sum(own.values()), sum(rest.values())
    below, u, ties = 0, 0.0, 0
    for index in sorted({*own, *rest}):
        here, there = own.get(index, 0), rest.get(index, 0)
        u += here * (below + there / 2)
        below += there
        ties += (here + there) ** 3 - (here + there)
    both = n + m
    deviation = math.sqrt(n * m / 12 * (both + 1 - ties / (both * (both - 1))))
    if not deviation:
        return 1.0
    return float(norm.sf((u - n * m / 2 - 0.5) / deviation))


def _fact(
    p: float, launch: Launch, place: Place, places: dict[Place, LaunchTotal], quartiles: dict[Place, list[float]]
) -> Fact:
    rank, device = place
    total, own = places[place], quartiles[place][1]
    others = sorted(each[1] for at, each in quartiles.items() if at != place)
    middle = others[len(others) // 2]
    numbers = {
        "median_ns": own, "others_median_ns": middle, "ratio": own / middle if middle else 0.0, "gpus": len(places),
        "launches": total.timed, "cost_ns": max(0.0, (own - middle) * total.timed), "p": p,
    }  # fmt: skip
    shape = "x".join(map(str, launch.grid)) if launch.grid else "?"
    summary = (
        f"{launch.kernel[:120]} (grid {shape}) takes {own / 1e3:.1f} us on rank {rank}, GPU {device}, "
        f"{middle / 1e3:.1f} us on the {len(places) - 1} others ({numbers['ratio']:.2f} times)"
    )
    order = sorted(quartiles, key=lambda at: -quartiles[at][1])[:32]
    evidence = [Evidence(f"median on rank {at[0]}, GPU {at[1]}", rank=at[0], value=quartiles[at][1]) for at in order]
    return Fact("slower", summary, rank, device, launch.kernel, {k: float(v) for k, v in numbers.items()}, evidence)
