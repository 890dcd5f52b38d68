"""How long windows may be where parts take turns: one after the other, or those at once that never speak to each other.

Mental model: parts that run at once see nothing of each other within a window, so a window is no longer than the
shortest way between any two of them. Parts that take turns see in a window what those before them have sent in it; and
a part may stand ahead of another by some fixed *offset*. Then only what comes back counts: a window may be as long as
the shortest way round, of SM to L2 and back twice the way there. Longer windows are fewer: what a window touches is
fetched into the host's caches less often.

Threads share the parts of a *stage*: SMs and DRAM send each other nothing, so they run at once; then the L2 has its
turn, beside the dispatcher. That pays where the L2 has little to do; else all parts run at once in windows of half the
length.

With parts in a fixed order and offsets o, in window k each part does what comes before ``(k + 1) * window + o``. A
message from ``a`` to ``b``, sent no earlier than a's window begins, must not come before the end of what ``b`` has done
when it is handed over. With its route's latency L: ``o[b] - o[a] <= L`` where ``a`` has its turn before ``b``, and ``<=
L - window`` where not. The longest window for which some offsets satisfy all of these is found by halving, the offsets
by Bellman's and Ford's algorithm.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import count

from gpusim.engine.graph import MachineGraph
from gpusim.model.messages import TICKS_PER_CYCLE

#: Times as long as in turns that parts take at least for windows of half the length, since what a window touches is
#: fetched more often. Measured for streaming and for tiled products with other work on both cores: 1.1 to 1.3
#: (docs/validation/speed.md).
_SHORT_WINDOWS_COST = 1.1


@dataclass(frozen=True)
class Turns:
    """Windows of ``window_ticks`` for parts that take turns in the order of a graph's nodes; ``offset_ticks`` by name
    of a node, 0 or more: so far are its windows behind the machine's. Whole cycles all."""

    window_ticks: int
    offset_ticks: Mapping[str, int]

    @property
    def reach_ticks(self) -> int:
        """The longest that a part runs in a turn, the first one, in which it makes up for its offset."""
        return self.window_ticks + max(self.offset_ticks.values(), default=0)


def stages_of(graph: MachineGraph) -> dict[str, int]:
    """For each node, by name, the number of its stage: the first one in which no node before it has a route to it or
    from it."""
    stages: dict[str, int] = {}
    for node in graph.parts:
        near = {route.source for route in graph.routes if route.target == node.name}
        near |= {route.target for route in graph.routes if route.source == node.name}
        taken = {stages[name] for name in near if name in stages}
        stages[node.name] = next(stage for stage in count() if stage not in taken)
    return stages


def _longest_share_ns(times_ns: Iterable[int], threads: int) -> int:
    """When the last of ``threads`` ends that share turns, each taking the longest that is left."""
    busy = [0] * threads
    for time in sorted(times_ns, reverse=True):
        busy[busy.index(min(busy))] += time
    return max(busy)


def turns_pay(times_ns: Mapping[str, int], stages: Mapping[str, int], threads: int) -> bool:
    """Whether turns by ``stages`` are faster than shorter windows, in which all parts run at once and their turns take
    ``times_ns``, by part."""
    by_stage: dict[int, list[int]] = {}
    for name, time in times_ns.items():
        by_stage.setdefault(stages[name], []).append(time)
    in_turns = sum(_longest_share_ns(times, threads) for times in by_stage.values())
    return in_turns < _SHORT_WINDOWS_COST * _longest_share_ns(times_ns.values(), threads)


def turns_of(
    graph: MachineGraph, longest_cycles: int, unused: frozenset[str] = frozenset(), stages: Mapping[str, int] | None = None
) -> Turns:  # fmt: skip
    """The longest windows, at most ``longest_cycles``, of ``graph``'s nodes; no message of the kinds ``unused`` is ever
    sent. They take turns ``stages`` by stages, else in the graph's order."""
    order = stages or {node.name: place for place, node in enumerate(graph.parts)}
    routes = [
        (route.source, route.target, route.latency_ticks // TICKS_PER_CYCLE, order[route.source] < order[route.target])
        for route in graph.routes
        if route.message not in unused
    ]

    def offsets(window: int) -> dict[str, int] | None:
        """Offsets that allow windows of so many cycles, None if there are none."""
        found = dict.fromkeys(order, 0)
        for _ in range(len(order) + 1):
            settled = True
            for source, target, latency, seen in routes:
                bound = found[source] + latency - (0 if seen else window)
                if bound < found[target]:
                    found[target], settled = bound, False
            if settled:
                return found
        return None

    known, too_long = min(longest_cycles, graph.window_limit_cycles), longest_cycles + 1
    while too_long - known > 1:
        middle = (known + too_long) // 2
        if offsets(middle) is None:
            too_long = middle
        else:
            known = middle
    found = offsets(known) or {}
    first = min(found.values(), default=0)
    return Turns(known * TICKS_PER_CYCLE, {name: (offset - first) * TICKS_PER_CYCLE for name, offset in found.items()})
