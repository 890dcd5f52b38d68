"""A collective: what is exchanged, among how many GPUs, how much."""

from __future__ import annotations

from dataclasses import dataclass

from gpusim.errors import SpecError

KINDS = ("all_reduce", "all_gather", "reduce_scatter", "alltoall", "broadcast", "send_recv")
#: Those whose messages are simulated one by one (:mod:`gpusim.collective.messages`).
SIMULATED = ("nccl", "custom")
LIBRARIES = (*SIMULATED, "copied")
#: Buffers of vLLM's custom all-reduce (csrc/custom_all_reduce.cuh): beyond, NCCL is called.
CUSTOM_MOST_BYTES = 8 << 20
#: Of TensorRT-LLM's before 2025, of two GPUs and of more (allreducePlugin.cpp, selectImplementation).
_COPIED_PAIR_BYTES, _COPIED_BYTES = 16_000_000, 8_000_000
_LARGEST_BYTES = 1 << 44


def most_bytes(library: str, gpus: int) -> int:
    """Of a message that frameworks' kernels sum over ``gpus``; NCCL sums what is larger."""
    if library == "copied":
        return _COPIED_PAIR_BYTES if gpus == 2 else _COPIED_BYTES
    return CUSTOM_MOST_BYTES


@dataclass(frozen=True)
class Collective:
    """``message_bytes`` as nccl-tests counts them: of all_gather and reduce_scatter the whole gathered buffer, of the
    others the buffer of one GPU. ``library``: "nccl", "custom" for the one-shot and two-shot all-reduce kernels of
    serving frameworks, or "copied" for TensorRT-LLM's before 2025, which sum what was copied to where all GPUs reach it
    by a few blocks. ``apart``: how many GPUs of the machine it is from one of them to the next: 1, where they fill node
    after node; where each stands for a group that shares a layer, as many as that has, so that those whose groups fill
    a node are in as many nodes."""

    kind: str
    gpus: int
    message_bytes: int
    dtype: str = "bf16"
    library: str = "nccl"
    apart: int = 1

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise SpecError(f"a collective's kind is {self.kind!r}: known are {', '.join(KINDS)}")
        if self.library not in LIBRARIES:
            raise SpecError(f"a collective's library is {self.library!r}: known are {', '.join(LIBRARIES)}")
        if self.library != "nccl" and self.kind != "all_reduce":
            raise SpecError(f"custom kernels of frameworks do all_reduce, not {self.kind}")
        if not 2 <= self.gpus <= 1 << 20:
            raise SpecError(f"a collective has {self.gpus} GPUs, not between 2 and {1 << 20}")
        if not 1 <= self.apart <= 1 << 20:
            raise SpecError(f"a collective's GPUs are {self.apart} apart, not between 1 and {1 << 20}")
        if not 1 <= self.message_bytes <= _LARGEST_BYTES:
            raise SpecError(
                f"a collective's message has {self.message_bytes} bytes, not between 1 and {_LARGEST_BYTES}"
            )

    def in_a_node(self, gpus: int) -> int:
        """Its GPUs that a node of so many ``gpus`` has at most."""
        return min(self.gpus, max(1, gpus // self.apart))

    @property
    def wire_bytes(self) -> float:
        """That one GPU sends at least, but for sums in the switch."""
        share = (self.gpus - 1) / self.gpus
        if self.kind == "all_reduce":
            return 2.0 * share * self.message_bytes
        return self.message_bytes * (1.0 if self.kind in ("broadcast", "send_recv") else share)
