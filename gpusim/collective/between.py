"""Sums and gathers over several nodes, as NCCL makes and reckons them.

Mental model: a ring goes through all GPUs, node after node, a step each, and passes all bytes over every card; a tree
goes up and down within each node and from node to node, few steps, at about half of a ring's bandwidth a byte; where
two nodes' switches sum, what is summed passes once each way. Of a step each protocol takes what NCCL's tables say
(:mod:`gpusim.collective.tuning`), of a byte what the node's cards do. The quickest is taken. Measured on eight H100s a
node (NVIDIA/nccl-tests, issue 309): 8 bytes over two nodes 24.9 us (25.2), over four 34.6 (35.2); over four nodes 4 MiB
151 us (152), 64 MiB 579 (576).
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from gpusim.collective.figures import Figures
from gpusim.collective.node import CARD_SHARE, Node
from gpusim.collective.shape import Collective
from gpusim.collective.timing import Timing
from gpusim.collective.tuning import (
    BASE_US,
    NETWORK_US,
    NVLINK_US,
    PCIE_US,
    PLATEAU,
    PLATEAU_ELSE,
    POSTING_US,
    PROTOCOLS,
    SWITCH_HOP_US,
    TREE_LL128_SHARE,
    TREE_SHARE,
    tree_correction,
)

_LL, _LL128, _SIMPLE = range(len(PROTOCOLS))
#: Of a tree's LL, the hop from node to node that a node's own latency replaces.
_LL_HOP_US = NETWORK_US["tree"][_LL]
#: LL over the network: 2 to 6 GB/s of bus bandwidth from 64 to 256 KiB on five clusters of H100 and H200
#: (traces/library/collectives/published_tests.csv), a quarter of NCCL's own llMaxBws.
_LL_BYTES_PER_SECOND = 5e9
#: LL128 over the network: 110 us for 256 KiB on 16 nodes of A100s and 82 us for 1 MiB on four of H100s are its latency;
#: at 4 MiB both are Simple's (published_tests_later.csv), and on two nodes none of eight tables has it, though NCCL's
#: figures would have it taken further. Why is not known.
_LL128_MOST_BYTES = 1 << 20


#: Sums in the switch are taken for more GPUs of a node: four GB200 and GB300 reach 657 to 685 GB/s, as rings do, eight
#: 838 to 892 (traces/library/collectives/published_tests_later.csv).
_LEAST_SUMMED = 4


def summed_between(
    node: Node, generation: str, figures: Figures, collective: Collective, members: int, nodes: int, within: float
) -> Timing:
    """Of ``members`` GPUs in each of ``nodes``, which within a node takes ``within`` seconds, which runs at once."""
    found = list(_rings(node, generation, collective, members, nodes, within))
    if collective.kind == "all_reduce":
        found += _trees(node, figures, collective, members, nodes, within)
        if nodes == 2 and sums_in_switch(node, members):
            found.append(_in_two_switches(node, figures, collective, members))
    return min(found, key=lambda timing: timing.seconds)


def _hop_us(node: Node, place: int, us: float) -> float:
    """From node to node: NCCL's ``us``, and what this network takes beyond the one that its tables are of; Simple waits
    for it twice (a flush)."""
    return us + (2 if place == _SIMPLE else 1) * (node.network_latency_us - _LL_HOP_US)


def _rings(
    node: Node, generation: str, collective: Collective, members: int, nodes: int, within: float
) -> Iterator[Timing]:
    passes = 2 if collective.kind == "all_reduce" else 1
    steps, hops = passes * (members * nodes - 1), passes * (nodes - 1)
    cards = members * node.network_bytes_per_second
    inside = PCIE_US if node.over_pcie else NVLINK_US
    # Where each GPU is alone in its node nothing hides a hop.
    outside = NETWORK_US["tree" if members == 1 else "ring"]
    for place in (_LL, _SIMPLE):
        step_us = max(inside["ring"][place], POSTING_US[place])
        us = (steps - hops) * step_us + hops * _hop_us(node, place, outside[place]) + BASE_US["ring"][place]
        if place == _SIMPLE and passes == 2:
            us *= PLATEAU.get(generation, PLATEAU_ELSE)
        rate = _LL_BYTES_PER_SECOND if place == _LL else cards
        seconds = max(within, 1e-6 * us + collective.wire_bytes / rate)
        yield Timing(seconds, "ring", PROTOCOLS[place], collective.wire_bytes)


def _trees(
    node: Node, figures: Figures, collective: Collective, members: int, nodes: int, within: float
) -> Iterator[Timing]:
    inside = PCIE_US if node.over_pcie else NVLINK_US
    # Between two nodes what a node's own links pass bounds it, as all bytes go up and down there.
    bus = members * node.network_bytes_per_second / CARD_SHARE
    if nodes == 2 and members > 1:
        bus = min(bus, node.link_bytes_per_second * node.ring_share * figures.share_simple)
    keeps = not node.over_pcie and nodes > 2 and collective.message_bytes <= _LL128_MOST_BYTES
    for place in (_LL, *([_LL128] if keeps else []), _SIMPLE):
        hop_us = _hop_us(node, place, NETWORK_US["tree"][place])
        us = BASE_US["tree"][place] + 2 * ((members - 1) * inside["tree"][place] + _levels(nodes) * hop_us)
        rate = 0.5 * TREE_SHARE * bus * tree_correction(place, collective.message_bytes)
        rate *= TREE_LL128_SHARE if place == _LL128 else 1.0
        data = collective.wire_bytes / _LL_BYTES_PER_SECOND if place == _LL else collective.message_bytes / rate
        yield Timing(max(within, 1e-6 * us + data), "tree", PROTOCOLS[place], collective.wire_bytes)


def _in_two_switches(node: Node, figures: Figures, collective: Collective, members: int) -> Timing:
    """Each switch sums its node's parts, which pass between the nodes once each way. That sizes in the middle reach as
    little as other trees do is a guess."""
    inside = collective.message_bytes * (members + 1) / members / (node.link_bytes_per_second * figures.switch_share)
    across = card_bytes(collective, members, True) / node.network_bytes_per_second
    data = max(inside, across) / tree_correction(_SIMPLE, collective.message_bytes)
    us = figures.switch_base_us + 2 * _hop_us(node, _SIMPLE, SWITCH_HOP_US)
    return Timing(1e-6 * us + data, "NVLS tree", "Simple", collective.wire_bytes)


def sums_in_switch(node: Node, gpus: int) -> bool:
    """Whether the switch of a node adds up what so many of its GPUs have: NCCL takes it for more than four."""
    return node.switch_sums and gpus > _LEAST_SUMMED


def _levels(nodes: int) -> int:
    return math.ceil(math.log2(nodes))


def card_bytes(collective: Collective, members: int, once: bool) -> float:
    """That each of the ``members`` cards of a node sends: their share of what passes from node to node of a ring, or of
    the message, which passes ``once`` each way between two nodes that have summed it."""
    return (collective.message_bytes if once else collective.wire_bytes) / members
