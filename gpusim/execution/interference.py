"""What a computation and collectives on one GPU take from each other while both run.

Mental model: a collective's kernel has channels, each on an SM that the computation lacks, and moves bytes in DRAM
beside those that it sends. Both go at a share of their own speed while both run. Which share, a function of these
figures says (:mod:`gpusim.collective.overlap`), or what is handed in for it: products whose shape is known are
simulated with the collective on the same machine (:mod:`gpusim.tile.beside`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gpusim.collective.node import Node as Links
from gpusim.collective.overlap import rates_together
from gpusim.collective.project import Timing
from gpusim.collective.shape import Collective
from gpusim.execution.trace import Node
from gpusim.gpus.spec import GpuSpec

#: Bytes that pass DRAM for each that a GPU sends: its own part is read, a part that comes is written and read again to
#: be summed or sent on.
DRAM_BYTES_A_SENT = 3.0
#: A channel is a block of so many threads, and takes a message of so many bytes a thread before another channel is used
#: (NCCL 2.19, src/graph/tuning.cc: threadThresholds; enqueue.cc).
_THREADS, _THREAD_BYTES = {"LL": 512, "LL128": 640, "Simple": 512}, {"LL": 8, "LL128": 8, "Simple": 64}
#: Blocks of vLLM's custom all-reduce (csrc/custom_all_reduce.cuh: block_limit), of 512 threads that take 16 bytes each.
_CUSTOM_BLOCKS, _CUSTOM_BLOCK_BYTES = 36, 512 * 16


@dataclass(frozen=True)
class Beside:
    """A collective as a computation meets it: ``channels`` SMs, ``dram_bytes_per_second`` that it moves alone."""

    channels: int
    dram_bytes_per_second: float


Rates = Callable[[Node, Beside], tuple[float, float]]


def beside_of(links: Links, sms: int, collective: Collective, timing: Timing) -> Beside:
    """Of ``collective`` by the algorithm of ``timing``."""
    message = collective.message_bytes
    if timing.algorithm in ("one-shot", "two-shot"):
        channels = min(_CUSTOM_BLOCKS, -(-message // _CUSTOM_BLOCK_BYTES))
    else:
        protocol = timing.protocol or "Simple"
        each = _THREADS[protocol] * _THREAD_BYTES[protocol]
        # Of LL in a ring each GPU's part counts.
        each *= collective.gpus if protocol == "LL" and timing.algorithm == "ring" else 1
        channels = min(links.channels, max(1, message // each))
    return Beside(min(max(1, channels), sms - 1), DRAM_BYTES_A_SENT * timing.sent_bytes / timing.seconds)


def rates_by_figures(spec: GpuSpec) -> Rates:
    """Of computations of which only time and bytes are known."""
    dram = spec.dram.stream_bytes_per_ns * 1e9

    def rates(node: Node, beside: Beside) -> tuple[float, float]:
        alone = min(dram, node.moved_bytes / node.seconds) if node.seconds else 0.0
        return rates_together(alone, beside.dram_bytes_per_second, spec.sm_count, min(beside.channels, spec.sm_count - 1), dram)  # fmt: skip

    return rates
