"""Which algorithm and protocol NCCL takes for a message: by its own reckoning, which is not how long they last.

Mental model: NCCL adds a latency and the bytes over a bandwidth for each algorithm (ring, tree) and protocol (LL,
LL128, Simple), and takes the least. Its tables are those of ``src/graph/tuning.cc`` (NCCL 2.19 to 2.28): base
latencies, latencies of a step over NVLink, limits of bandwidth by protocol. Within one node.
"""

from __future__ import annotations

from gpusim.collective.node import Node
from gpusim.collective.shape import Collective

PROTOCOLS = ("LL", "LL128", "Simple")
#: Microseconds (tuning.cc, baseLat).
_BASE_US = {"ring": (6.6, 14.0, 8.4), "tree": (6.8, 14.0, 8.4)}
#: Of a step over NVLink (hwLatencies).
_STEP_US = {"ring": (0.6, 1.9, 3.4), "tree": (0.6, 1.25, 4.0)}
#: GB/s that LL reaches in one node (llMaxBws), by generation; LL128 by channel of a ring, and of a tree.
_LL_GB_PER_SECOND = {"volta": 39.0, "ampere": 87.7, "hopper": 141.0, "blackwell": 282.0}
_RING_LL128_CHANNEL = {"volta": 20.0, "ampere": 20.0, "hopper": 36.7, "blackwell": 73.4}
_TREE_CHANNEL = {"volta": 26.5, "ampere": 24.0, "hopper": 38.7, "blackwell": 77.4}


def choices_us(node: Node, generation: str, collective: Collective) -> dict[tuple[str, str], float]:
    """What NCCL reckons for each algorithm and protocol that the collective has, in microseconds."""
    known = generation if generation in _LL_GB_PER_SECOND else "ampere"
    gpus, ring = collective.gpus, node.ring_gb_per_second
    steps = {
        "all_reduce": 2 * (gpus - 1),
        "all_gather": gpus - 1,
        "reduce_scatter": gpus - 1,
        "broadcast": gpus - 1,
    }.get(collective.kind, 1)
    # Bytes that pass each link, as a share of the message.
    ratio = gpus / steps if collective.kind in ("all_reduce", "all_gather", "reduce_scatter") else 1.0
    rates = (
        min(_LL_GB_PER_SECOND[known], ring * 0.5),
        min(ring * 0.92, node.channels * _RING_LL128_CHANNEL[known]),
        ring,
    )
    found = {
        ("ring", protocol): _BASE_US["ring"][place]
        + steps * _STEP_US["ring"][place]
        + collective.message_bytes / (1e3 * rates[place] * ratio)
        for place, protocol in enumerate(PROTOCOLS)
    }
    if collective.kind == "all_reduce":
        tree = min(ring * 0.92, node.channels * _TREE_CHANNEL[known])
        rates = (tree / 3.8, tree * 7 / 9, tree)
        for place, protocol in enumerate(PROTOCOLS):
            latency = _BASE_US["tree"][place] + 2 * (gpus - 1) * _STEP_US["tree"][place]
            found["tree", protocol] = latency + collective.message_bytes / (1e3 * rates[place] * 0.5)
    return found


def chosen(node: Node, generation: str, collective: Collective) -> tuple[str, str]:
    """Algorithm and protocol."""
    reckoned = choices_us(node, generation, collective)
    return min(reckoned, key=lambda choice: reckoned[choice])


def why_chosen(node: Node, generation: str, collective: Collective, algorithm: str) -> str:
    """In words, why ``algorithm`` is taken."""
    if algorithm == "peers":
        return "sends and receives between all pairs: NCCL has no other"
    if algorithm in ("one-shot", "two-shot"):
        return "by the message's size, as the frameworks' kernels do"
    if collective.gpus > collective.in_a_node(node.gpus):
        return "between nodes: the faster of LL and Simple; two nodes whose switch sums take a tree from 128 MiB on"
    reckoned = sorted(choices_us(node, generation, collective).items(), key=lambda each: each[1])
    (name, protocol), us = reckoned[0]
    (other, others), more = reckoned[1]
    words = f"NCCL reckons {us:.4g} us for {name} {protocol}, {more:.4g} for {other} {others}"
    return f"faster than {name} {protocol}, which NCCL would take without it" if algorithm == "NVLS" else words
