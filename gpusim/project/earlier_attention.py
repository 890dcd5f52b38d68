"""Attention of training steps by kernels of before Hopper's own.

Mental model: FlashAttention-2, and FlashAttention in Triton before it, multiply with the instructions of Ampere
(mma.sync). An A100's kernels are such ones and were measured; on a GPU that has newer tensor cores the same kernel
takes an SM as many cycles as it takes one of an A100, so that its time goes by the SMs and their clock alone. What came
before FlashAttention-2 takes so many times as long as that. It is also what training falls back to where newer kernels
do not take a width of heads, which serving frameworks fill with kernels that have no backward pass.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from gpusim.errors import SpecError
from gpusim.gpus.load import load_gpu
from gpusim.gpus.spec import GpuSpec
from gpusim.tile.operators import AttentionOp
from gpusim.tile.projection import Projection

#: As many times as long as FlashAttention-2, forward and backward. Dao, FlashAttention-2 (2023), section 4.1, of
#: FlashAttention in Triton on an A100: forward 1.3 to 1.5 times, backward around twice.
TIMES: dict[str, tuple[float, float]] = {"fused": (1.0, 1.0), "flash-2": (1.0, 1.0), "flash-triton": (1.4, 2.0)}
#: Generation and capability -> widths of heads, above the first and up to the second, whose measured kernel is vLLM's
#: attention in Triton (gpusim/tile/attention.toml, blackwell.heads_192: 66 TFLOP/s of a B200), as FlashInfer has none.
#: Training has FlashAttention-2 there (a guess: Nemotron-4's recipes turn cuDNN's off, NVIDIA/dgxc-benchmarking,
#: nemotron/configure.sh).
_WITHOUT_OWN = {("blackwell", 10): (128, 192)}
#: The GPU on which FlashAttention-2 was measured. The same code reaches up to 335 TFLOP/s forward and backward on an
#: H100 (the same section), 1.64 times what up to 230 forward and 196 backward make on an A100; SMs and clocks say 1.72.
_MEASURED = "a100_80gb"
#: Generations whose measured kernels multiply with mma.sync themselves.
_SAME_INSTRUCTIONS = ("ampere", "ada")
#: The first that has what FlashAttention-2 needs.
_LEAST_CAPABILITY = (8, 0)


@dataclass(frozen=True)
class EarlierAttention:
    """``attention`` by ``kernel``, of :data:`TIMES` ("fused": the GPU's own of today, where training has it);
    ``backward``: its backward pass, in forward ones of as many operations."""

    attention: AttentionOp
    kernel: str
    backward: bool = False

    def taken_on(self, spec: GpuSpec) -> EarlierAttention | AttentionOp:
        """What a training step launches on ``spec``: the GPU's own kernel of today where it has one."""
        above, most = _WITHOUT_OWN.get((spec.generation, spec.capability[0]), (0, 0))
        return self if self.kernel != "fused" or above < self.attention.head_dim <= most else self.attention

    @property
    def times(self) -> float:
        """As long as FlashAttention-2 that it takes."""
        return TIMES[self.kernel][self.backward]

    @property
    def dtype(self) -> str:
        """Of its operands."""
        return self.attention.dtype


def project_earlier(
    spec: GpuSpec, op: EarlierAttention, project: Callable[[GpuSpec, AttentionOp], Projection]
) -> Projection:
    """``op`` on ``spec``; ``project``: attention by the kernels that were measured on a GPU. Raises SpecError where it
    does not run."""
    if tuple(spec.capability) < _LEAST_CAPABILITY:
        raise SpecError(
            f"{spec.name} has no FlashAttention-2, which needs an Ampere GPU or a later one: leave out --scores"
        )
    own = spec.generation in _SAME_INSTRUCTIONS
    at = spec if own else load_gpu(_MEASURED)
    found = project(at, op.attention)
    times = op.times * (1.0 if own else at.sm_count * at.clock_hz / (spec.sm_count * spec.clock_hz))
    reason = f"{op.times:g} times FlashAttention-2" + ("" if own else f", whose cycles an SM are those of {at.name}")
    return replace(
        found, gpu=spec.name, seconds=times * found.seconds, low_seconds=times * found.low_seconds, high_seconds=times * found.high_seconds,
        validated=found.validated and own and op.times == 1.0, reason=f"{reason}: {found.reason}",
    )  # fmt: skip
