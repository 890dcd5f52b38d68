"""A rank that comes last to collectives more often than chance has it.

Mental model: of each collective that several ranks were seen in, the rank with the shortest kernel came last, and the
others waited for it: the cost is the difference to the next shortest, which nobody would have waited if this rank had
come with it. If all ranks were alike, each would be last in a share of 1 / ranks; a binomial test, Holm-corrected over
ranks, says whether more is chance. Collectives that follow each other are not independent, so that a rank must also
cost LEAST_SHARE of the time that is spent in them.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from scipy.stats import binomtest

from gpusim.production.facts import Evidence, Fact
from gpusim.production.timing.collectives import Collectives

ALPHA = 0.01
#: Of the collectives' time, a guess at what is worth a look.
LEAST_SHARE = 0.01
LEAST_COLLECTIVES = 10
MOST_EXAMPLES = 8


@dataclass
class _Rank:
    seen: int = 0
    last: int = 0
    chance: float = 0.0
    cost_ns: int = 0
    duration_ns: int = 0
    examples: list[tuple[int, int, int]] = field(default_factory=list)


def straggler_facts(collectives: Collectives) -> list[Fact]:
    """Ranks that lag, those that cost most first. [] where fewer than two ranks were seen together."""
    ranks: dict[int, _Rank] = defaultdict(_Rank)
    together = 0
    for group in _joined(collectives):
        together += 1
        _count(group, ranks)
    if together < LEAST_COLLECTIVES:
        return []
    tests = {
        number: float(binomtest(rank.last, rank.seen, min(1.0, rank.chance / rank.seen), "greater").pvalue)
        for number, rank in ranks.items()
    }
    facts = []
    for place, number in enumerate(sorted(tests, key=lambda each: tests[each])):
        rank, p = ranks[number], min(1.0, tests[number] * (len(tests) - place))
        if p > ALPHA:
            break
        if rank.cost_ns < LEAST_SHARE * rank.duration_ns:
            continue
        facts.append(_fact(number, rank, p, len(tests), collectives.names))
    return sorted(facts, key=lambda fact: -fact.numbers["cost_ns"])


def _fact(number: int, rank: _Rank, p: float, ranks: int, names: dict[int, str]) -> Fact:
    share = rank.last / rank.seen
    summary = (
        f"rank {number} comes last to {rank.last} of {rank.seen} collectives ({100 * share:.0f} %; by chance {100 * rank.chance / rank.seen:.0f} %): "
        f"the others wait {rank.cost_ns / 1e6:.3f} ms for it alone"
    )
    numbers = {
        "collectives": rank.seen, "last": rank.last, "by_chance": rank.chance, "cost_ns": rank.cost_ns, "ranks": ranks,
        "longest_duration_ns": rank.duration_ns, "p": p,
    }  # fmt: skip
    evidence = [
        Evidence(
            f"{names[key >> 32]}, the {(key & 0xFFFFFFFF) + 1}. of its kind"[:400],
            begin,
            rank=number,
            value=float(cost),
        )
        for cost, begin, key in sorted(rank.examples, reverse=True)
    ]
    return Fact("straggler", summary, number, "", "", {k: float(v) for k, v in numbers.items()}, evidence)


def _joined(collectives: Collectives) -> Iterator[np.ndarray]:
    """The records of each collective that several ranks were seen in."""
    waiting: np.ndarray | None = None
    for batch in collectives.records.batches():
        whole = batch if waiting is None else np.concatenate([waiting, batch])
        starts = np.flatnonzero(np.concatenate([[True], whole["key"][1:] != whole["key"][:-1]]))
        for begin, end in zip(starts[:-1].tolist(), starts[1:].tolist()):
            if end - begin > 1:
                yield whole[begin:end]
        waiting = whole[starts[-1] :]
    if waiting is not None and len(waiting) > 1:
        yield waiting


def _count(group: np.ndarray, ranks: dict[int, _Rank]) -> None:
    if len(set(group["tie"].tolist())) != len(group):  # a rank twice: files of the same rank
        return
    order = np.argsort(group["duration"], kind="stable")
    durations = group["duration"][order]
    for each in group:
        rank = ranks[int(each["tie"])]
        rank.seen, rank.chance = rank.seen + 1, rank.chance + 1 / len(group)
        rank.duration_ns += int(durations[-1])
    cost = int(durations[1] - durations[0])
    if cost:  # of equal durations, nobody was last
        one = group[order[0]]
        rank = ranks[int(one["tie"])]
        rank.last, rank.cost_ns = rank.last + 1, rank.cost_ns + cost
        heapq.heappush(rank.examples, (cost, int(one["begin"]), int(one["key"])))
        if len(rank.examples) > MOST_EXAMPLES:
            heapq.heappop(rank.examples)
