"""A collective, projected: the algorithm is chosen as the library chooses, its steps and bytes are timed on the node's
links.

Mental model: a ring passes parts of the message from GPU to GPU, a step each; time is what happens once, the steps, and
the bytes over the links at the share of their rate that a protocol leaves, with what each GPU copies within itself.
Sums in the switch send each byte once. Between nodes the slower of links and network cards counts, and nodes that a
piece passes one after another add a latency each.
"""

from __future__ import annotations

from gpusim.collective.bands import collective_band
from gpusim.collective.between import summed_between, sums_in_switch
from gpusim.collective.choice import chosen
from gpusim.collective.figures import Figures, figures_of
from gpusim.collective.node import Node, node_of
from gpusim.collective.shape import Collective, most_bytes
from gpusim.collective.timing import Timing
from gpusim.gpus.spec import GpuSpec
from gpusim.tile.projection import Projection

#: vLLM's custom all-reduce (csrc/custom_all_reduce.cuh): one shot for two GPUs, for four below 512 KiB, for eight below
#: 256 KiB.
_ONE_SHOT_BYTES = {2: 1 << 62, 4: 512 << 10}
_ONE_SHOT_ELSE_BYTES = 256 << 10
#: GPUs that vLLM's custom all-reduce sums over PCIe at most
#: (vllm/distributed/device_communicators/custom_all_reduce.py: "not supported on more than two PCIe-only GPUs");
#: TensorRT-LLM's choice by itself is NCCL wherever there is no NVLink
#: (cpp/tensorrt_llm/plugins/ncclPlugin/allreducePlugin.cpp, selectImplementation), and of two GPUs vLLM's is taken for
#: both.
_PCIE_GPUS = 2
#: TensorRT-LLM's kernels before 2025 have at most 24 blocks of 1,024 threads (customAllReduceKernels.h), whose loads of
#: 16 bytes in flight bound what is read of other GPUs, whichever the links. SGLang's copy of them with 36 blocks of 512
#: takes on H100s, without CUDA graphs, of 32 KiB to 1 MiB, in ms (sgl-project/sglang, pull request 2904, "custom
#: allreduce"): two GPUs 0.0045 to 0.0199, four 0.0048 to 0.0311, eight 0.0078 to 0.0338, which is 68 GB/s beside a
#: start; a third more is in flight here. That an A100's take as long is a guess.
_COPIED_US, _COPIED_GPU_US, _COPIED_BYTES_PER_SECOND = 2.6, 0.6, 68e9 * (24 * 1024) / (36 * 512)
#: Before it a kernel waits for all GPUs, and the message is copied to where they reach it (allreducePlugin.cpp of then:
#: invokeMultiGpuBarrier, cudaMemcpyAsync, customAllReduce): microseconds of a small copy, bytes a second within L2 (a
#: guess), and what a GPU idles between two launches without a graph, as it was set before what draws tokens was told
#: apart (gap_seconds of gpusim/project/frameworks.py, 1.2 us since; what sums take with that was not measured again).
_COPY_US, _COPY_BYTES_PER_SECOND, _GAP_US = 2.2, 1.2e12, 2.1
#: All-to-all: from this size of a peer's part on copies are pipelined over more channels, with their start.
_LATE_PART_BYTES = 32 << 10


def project_collective(spec: GpuSpec, collective: Collective, node: Node | None = None) -> Projection:
    """Time of ``collective`` among GPUs like ``spec``, as called from a CUDA graph or one after the other. ``node``:
    links other than the file's (:func:`gpusim.collective.links.linked`)."""
    node, figures = node or node_of(spec), figures_of(spec.generation)
    timing = time_of(node, spec.generation, figures, collective)
    band = collective_band(spec.generation, collective, node)
    bus = collective.wire_bytes / timing.seconds
    protocol = f", {timing.protocol}" if timing.protocol else ""
    return Projection(
        operator=f"{collective.kind} of {collective.message_bytes:,} bytes, {collective.gpus} GPUs, {timing.algorithm}{protocol}", gpu=spec.name, seconds=timing.seconds,
        low_seconds=timing.seconds / band.factor, high_seconds=timing.seconds * band.factor, validated=band.validated, reason=band.reason,
        limiter="links" if bus > 0.4 * node.link_bytes_per_second else "latency", dtype=collective.dtype, link_bytes=timing.sent_bytes,
    )  # fmt: skip


def time_of(node: Node, generation: str, figures: Figures, collective: Collective) -> Timing:
    """With given figures."""
    nodes = -(-collective.gpus // collective.in_a_node(node.gpus))
    if nodes > 1:
        return _between_nodes(node, generation, figures, collective, nodes)
    if (
        collective.library != "nccl"
        and collective.message_bytes <= most_bytes(collective.library, collective.gpus)
        and _reaches_peers(node, collective)
    ):
        return _custom(node, figures, collective) if collective.library == "custom" else _copied(collective)
    if collective.kind in ("alltoall", "send_recv"):
        return _peers(node, figures, collective)
    found = _ring_or_tree(node, generation, figures, collective)
    if collective.kind == "all_reduce" and sums_in_switch(node, collective.gpus):
        summed = _in_switch(node, figures, collective)
        return min((found, summed), key=lambda timing: timing.seconds)
    return found


def _reaches_peers(node: Node, collective: Collective) -> bool:
    """Whether frameworks take kernels of their own, which read other GPUs' memory, or call NCCL: over PCIe they do it
    between two GPUs at most, and not where GPUs do not reach each other (vLLM asks each pair, _can_p2p)."""
    return node.peer_access and (not node.over_pcie or collective.gpus <= _PCIE_GPUS)


def _ring_or_tree(node: Node, generation: str, figures: Figures, collective: Collective) -> Timing:
    algorithm, protocol = chosen(node, generation, collective)
    name = protocol.lower()
    gpus, message = collective.gpus, collective.message_bytes
    steps = {"all_reduce": 2 * (gpus - 1)}.get(collective.kind, gpus - 1)
    if algorithm == "tree":
        # Up and down a chain within the node: as many steps, all bytes on each link.
        sent = 2.0 * message * (gpus - 1) / gpus
    else:
        sent = collective.wire_bytes
    copied = getattr(figures, f"copy_{collective.kind}", figures.copy_all_gather) * message / gpus
    rate = node.link_bytes_per_second * node.ring_share * getattr(figures, f"share_{name}")
    microseconds = getattr(figures, f"base_{name}_us") + steps * getattr(figures, f"step_{name}_us")
    return Timing(1e-6 * microseconds + (sent + copied) / rate, algorithm, protocol, sent)


def _peers(node: Node, figures: Figures, collective: Collective) -> Timing:
    gpus, message = collective.gpus, collective.message_bytes
    part = message if collective.kind == "send_recv" else message / gpus
    base = peers_base_us(figures, part)
    peers = 1 if collective.kind == "send_recv" else gpus - 1
    copied = 0.0 if collective.kind == "send_recv" else figures.peers_copy * message / gpus
    seconds = 1e-6 * (base + peers * figures.peers_step_us) + (part * peers + copied) / (
        node.link_bytes_per_second * figures.peers_share
    )
    return Timing(seconds, "peers", "Simple", float(part * peers))


def peers_base_us(figures: Figures, part_bytes: float) -> float:
    """What sends and receives of so many bytes a peer take at their start. Between small and large messages the later
    start is paid as it is filled."""
    late = min(1.0, part_bytes / _LATE_PART_BYTES)
    return figures.peers_base_us + (figures.peers_late_us - figures.peers_base_us) * late


def _in_switch(node: Node, figures: Figures, collective: Collective) -> Timing:
    """NVLS: each GPU reads its part, summed by the switch, and writes it to all through the switch: the message once
    each way."""
    message, gpus = collective.message_bytes, collective.gpus
    sent = message * (gpus + 1) / gpus
    copied = figures.switch_copy * message / gpus
    return Timing(
        1e-6 * figures.switch_base_us + (sent + copied) / (node.link_bytes_per_second * figures.switch_share),
        "NVLS",
        "Simple",
        sent,
    )


def _custom(node: Node, figures: Figures, collective: Collective) -> Timing:
    gpus, message = collective.gpus, collective.message_bytes
    if message < _ONE_SHOT_BYTES.get(gpus, _ONE_SHOT_ELSE_BYTES):
        read = float(message * (gpus - 1))
        base = figures.one_shot_us + figures.one_shot_peer_us * (gpus - 1)
        return Timing(1e-6 * base + read / (node.link_bytes_per_second * figures.one_shot_share), "one-shot", "", read)
    base = figures.two_shot_us + figures.two_shot_peer_us * (gpus - 1)
    sent = collective.wire_bytes
    return Timing(1e-6 * base + sent / (node.link_bytes_per_second * figures.two_shot_share), "two-shot", "", sent)


def _copied(collective: Collective) -> Timing:
    """Beside computation (:mod:`gpusim.collective.overlap`) these are taken as today's kernels."""
    sent = collective.wire_bytes
    base_us = 2 * (_COPIED_US + _COPIED_GPU_US * collective.gpus) + _COPY_US + 2 * _GAP_US
    seconds = 1e-6 * base_us + collective.message_bytes / _COPY_BYTES_PER_SECOND + sent / _COPIED_BYTES_PER_SECOND
    return Timing(seconds, "one-shot" if collective.gpus == 2 else "two-shot", "", sent)


def _between_nodes(node: Node, generation: str, figures: Figures, collective: Collective, nodes: int) -> Timing:
    """Within nodes and between them at once, in pieces, each GPU's through its own network card: the slower counts, and
    what the first piece takes to the other nodes."""
    members = collective.in_a_node(node.gpus)
    inside = Collective(collective.kind, members, collective.message_bytes, collective.dtype) if members > 1 else None
    within = time_of(node, generation, figures, inside).seconds if inside else 0.0
    if collective.kind in ("alltoall", "send_recv"):
        away = (
            collective.message_bytes * (1.0 - members / collective.gpus)
            if collective.kind == "alltoall"
            else collective.message_bytes
        )
        across = away / node.network_bytes_per_second + 1e-6 * node.network_latency_us
        return Timing(max(within, across), "peers", "Simple", collective.wire_bytes)
    return summed_between(node, generation, figures, collective, members, nodes, within)
