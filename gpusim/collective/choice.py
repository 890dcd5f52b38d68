"""Which algorithm and protocol NCCL takes for a message: by its own reckoning, which is not how long they last.

Mental model: NCCL adds a latency and the bytes over a bandwidth for each algorithm (ring, tree) and protocol (LL,
LL128, Simple), and takes the least. Its tables: :mod:`gpusim.collective.tuning`. Within one node.
"""

from __future__ import annotations

from gpusim.collective.node import Node
from gpusim.collective.shape import Collective
from gpusim.collective.tuning import (
    BASE_US,
    LL_GB_PER_SECOND,
    NVLINK_US,
    PCIE_US,
    PROTOCOLS,
    RING_LL128_CHANNEL,
    RING_SHARES,
    TREE_CHANNEL,
    TREE_LL128_NODE_SHARE,
    TREE_LL_SHARE,
    TREE_SHARE,
)


def choices_us(node: Node, generation: str, collective: Collective) -> dict[tuple[str, str], float]:
    """What NCCL reckons for each algorithm and protocol that the collective has, in microseconds."""
    known = generation if generation in LL_GB_PER_SECOND else "ampere"
    step_us = PCIE_US if node.over_pcie else NVLINK_US
    # LL128 needs links that keep 128 bytes together: NVLink's.
    places = [place for place, name in enumerate(PROTOCOLS) if name != "LL128" or not node.over_pcie]
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
        min(LL_GB_PER_SECOND[known], ring * RING_SHARES[0]),
        min(ring * RING_SHARES[1], node.channels * RING_LL128_CHANNEL[known]),
        ring,
    )
    found = {
        ("ring", PROTOCOLS[place]): BASE_US["ring"][place]
        + steps * step_us["ring"][place]
        + collective.message_bytes / (1e3 * rates[place] * ratio)
        for place in places
    }
    if collective.kind == "all_reduce":
        tree = min(ring * TREE_SHARE, node.channels * TREE_CHANNEL[known])
        rates = (tree * TREE_LL_SHARE, tree * TREE_LL128_NODE_SHARE, tree)
        for place in places:
            latency = BASE_US["tree"][place] + 2 * (gpus - 1) * step_us["tree"][place]
            found["tree", PROTOCOLS[place]] = latency + collective.message_bytes / (1e3 * rates[place] * 0.5)
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
        return "between nodes: the quickest of NCCL's algorithms and protocols, by its own latencies"
    reckoned = sorted(choices_us(node, generation, collective).items(), key=lambda each: each[1])
    (name, protocol), us = reckoned[0]
    (other, others), more = reckoned[1]
    words = f"NCCL reckons {us:.4g} us for {name} {protocol}, {more:.4g} for {other} {others}"
    return f"faster than {name} {protocol}, which NCCL would take without it" if algorithm == "NVLS" else words
